//! Pages of help in the layouts that no recording has, and pages that are none.

use proptest::prelude::*;

use super::*;
use crate::probe::{Answer, Version};

/// Writes the options of a page, each in one line.
fn flags(text: &str) -> Vec<String> {
    let one = |flag: &HelpFlag| {
        let names: Vec<&str> = flag.names().collect();
        let value = flag.value.as_ref().map(|it| {
            let dots = if it.many { "..." } else { "" };
            if it.optional { format!(" [{}{dots}]", it.name) } else { format!(" <{}{dots}>", it.name) }
        });
        let choices = Some(flag.choices.join("|")).filter(|it| !it.is_empty()).map(|it| format!(" {{{it}}}"));
        let default = flag.default.as_ref().map(|it| format!(" ={it}"));
        let rest: String = [value, choices, default].into_iter().flatten().collect();
        format!("{}{rest}: {}", names.join(","), flag.description)
    };
    Help::parse(text).flags.iter().map(one).collect()
}

#[test]
fn cobra() {
    let text = "A tool.\n\nUsage:\n  tool [flags]\n  tool [command]\n\nAvailable Commands:\n  run         Run it\n  \
                completion  Generate the autocompletion script\n\nFlags:\n      --config string     config file (default \
                \"~/.tool.yaml\")\n  -h, --help              help for tool\n  -p, --port int          port to listen on \
                (default 8080)\n      --tag stringArray   a tag\n\nGlobal Flags:\n  -v, --verbose   say \
                more\n\nUse \"tool [command] --help\" for more information about a command.\n";
    assert_eq!(
        flags(text),
        [
            "--config <string> =~/.tool.yaml: config file",
            "--help,-h: help for tool",
            "--port,-p <int> =8080: port to listen on",
            "--tag <stringArray>: a tag",
            "--verbose,-v: say more",
        ]
    );
    let help = Help::parse(text);
    assert_eq!(help.usage, ["tool [flags]", "tool [command]"]);
    let names: Vec<&str> = help.subcommands.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["run", "completion"]);
}

#[test]
fn argparse() {
    let text = "usage: tool [-h] [--mode {fast,slow}]\n            [--name NAME]\n\noptional arguments:\n  -h, --help            \
                show this help message\n                        and exit\n  --mode {fast,slow}    how (default: fast)\n  \
                -n NAME, --name NAME  --name of the thing,\n                        --not-an-option at all\n  --files FILE \
                [FILE ...]\n                        what to read\n";
    assert_eq!(
        flags(text),
        [
            "--help,-h: show this help message and exit",
            "--mode <fast,slow> {fast|slow} =fast: how",
            "--name,-n <NAME>: --name of the thing, --not-an-option at all",
            "--files <FILE...>: what to read",
        ]
    );
    assert_eq!(Help::parse(text).usage, ["tool [-h] [--mode {fast,slow}]", "[--name NAME]"]);
}

#[test]
fn forms_of_names_and_values() {
    for (line, expected) in [
        ("--[no-]color  colours", "--color,--no-color: colours"),
        ("--model=<x>  the model", "--model <x>: the model"),
        ("--color[=<WHEN>]  when", "--color [WHEN]: when"),
        ("-v, --verbose...  more", "--verbose,-v: more"),
        ("-q | --quiet  less", "--quiet,-q: less"),
        ("-h  --help  this", "--help,-h: this"),
        ("-o=FILE  where to", "-o <FILE>: where to"),
        ("--env <K=V>...  variables", "--env <K=V...>: variables"),
        ("--\u{1b}[1mbold\u{1b}[0m  shown bold", "--bold: shown bold"),
        ("--x\tbehind a tab", "--x: behind a tab"),
        (
            "--level <l>  how much (one, two, three)",
            "--level <l> {one|two|three}: how much (one, two, three)",
        ),
        ("--switch  on or off: yes or no", "--switch: on or off: yes or no"),
        ("--old <x>  [deprecated: use --new] gone soon", "--old <x>: [deprecated: use --new] gone soon"),
        ("--list <x>  names (default: \"a, b\")", "--list <x> =a, b: names"),
    ] {
        assert_eq!(flags(&format!("Options:\n  {line}\n")), [expected], "{line}");
    }
    let help = Help::parse("Options:\n  --old <x>  [deprecated: use --new] gone soon\n");
    assert_eq!(help.flags[0].deprecated.as_deref(), Some("use --new"));
}

#[test]
fn what_looks_like_an_option_and_is_none() {
    for text in [
        "",
        "Examples:\n  --model x\n",
        "Environment variables:\n  --weird  no\n",
        "error: unexpected argument '--help' found\n",
        "Options:\n  --  the end of options\n",
        "- a list\n- of things\n",
    ] {
        assert_eq!(flags(text), [] as [String; 0], "{text}");
    }
    // Without a heading, and at the margin.
    assert_eq!(
        flags("tool, a tool\n\n-m, --model NAME  which\n-q  quiet\n"),
        ["--model,-m <NAME>: which", "-q: quiet"]
    );
}

#[test]
fn nothing_makes_it_panic() {
    let odd = [
        "Options:\n  --[no-",
        "Options:\n  --x <",
        "Options:\n  --x [[[",
        "Options:\n  -",
        "Usage:",
        "usage:\n é",
        "Options:\n  --é <ü…>  (default: (",
        "Commands:\n  |",
        "Commands:\n  a|b,c  [aliases: ]",
        "Options:\n  --x  ]",
        "Options:\n  --x  [choices: ]",
    ];
    for text in odd {
        let _ = Help::parse(text);
    }
    let long = format!("Options:\n  --x  {}\n", "é".repeat(LONGEST));
    assert_eq!(Help::parse(&long).flags.len(), 1);
}

proptest! {
    #[test]
    fn whatever_is_printed_is_read(
        text in "(Usage: |Options:|Commands:|Possible values:|  |      |-|--|\\[no-\\]|<|>|\\[|\\]|\\(|\\)|\\{|\\}|,|\\||=|\\.\\.\\.|\n|\t|\"|default: |choices: |deprecated|v|1|\\.|é|a ){0,60}",
    ) {
        for flag in Help::parse(&text).flags {
            prop_assert!(flag.names().next().is_some(), "{flag:?}");
            prop_assert!(flag.names().all(|name| name.starts_with('-') && !name.contains([' ', ','])), "{flag:?}");
        }
        let answer = Answer { stdout: text.clone(), stderr: text, code: Some(0) };
        if let Some(version) = Version::find(&answer) {
            prop_assert_eq!(Version::parse(&version.to_string()), Some(version));
        }
    }
}
