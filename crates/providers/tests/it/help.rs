//! The recorded pages of help, read: every option of every program, and whole values of those that matter.

use std::fs;
use std::path::{Path, PathBuf};

use bowline_providers::probe::help::{Help, HelpFlag, Subcommand, ValueForm};
use bowline_providers::probe::{Answer, Finding, Page, Version, check};
use bowline_providers::{catalogue, probe};

use crate::fixtures::index;

/// The recorded pages of one program, by case.
struct Recorded {
    provider: String,
    /// The program and its version: a folder of the fixtures.
    program: String,
    cases: Vec<String>,
}

/// Reads from the index which pages of help are recorded: cases that are called `help` or end with `-help`.
fn recordings() -> Vec<Recorded> {
    let mut all: Vec<Recorded> = Vec::new();
    for capture in index().into_iter().filter(|it| it.class == "probe") {
        let program = format!("{}/{}", capture.cli, capture.version);
        if capture.case != "help" && !capture.case.ends_with("-help") {
            continue;
        }
        match all.last_mut().filter(|last| last.program == program) {
            Some(last) => last.cases.push(capture.case),
            None => all.push(Recorded { provider: capture.provider, program, cases: vec![capture.case] }),
        }
    }
    all
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Reads what a program printed in a recorded case.
fn answer(program: &str, case: &str) -> Answer {
    let dir = fixtures().join(program).join(case);
    let read = |name: &str| {
        fs::read_to_string(dir.join(name)).unwrap_or_else(|error| panic!("{program}/{case}/{name}: {error}"))
    };
    let code = read("exit_code").trim().parse().expect("an exit code");
    Answer { stdout: read("stdout.raw"), stderr: read("stderr.raw"), code: Some(code) }
}

/// Returns the arguments of a recorded case, without the program. There are two forms of `argv.txt`.
fn args(program: &str, case: &str) -> Vec<String> {
    let text = fs::read_to_string(fixtures().join(program).join(case).join("argv.txt")).expect("arguments");
    let lines = text.lines().filter(|line| !line.starts_with("cwd "));
    let bare =
        |line: &str| line.strip_prefix("arg ").map_or(line, |quoted| quoted.trim_matches('"')).to_owned();
    lines.skip(1).map(bare).collect()
}

fn page(program: &str, case: &str) -> Page {
    Page::read(&args(program, case), &answer(program, case))
}

#[test]
fn every_recorded_page_is_read() {
    let mut settings = insta::Settings::new();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("../snapshots/help");
    for Recorded { program, cases, .. } in recordings() {
        for case in cases {
            let help = page(&program, &case).help;
            let name = format!("{}_{case}", program.replace('/', "_"));
            settings.bind(|| insta::assert_snapshot!(name, in_lines(&help)));
        }
    }
}

/// Writes a page as lines that can be compared by eye with the original.
fn in_lines(help: &Help) -> String {
    let mut text = String::new();
    for usage in &help.usage {
        text += &format!("usage: {usage}\n");
    }
    for flag in &help.flags {
        let names: Vec<&str> = flag.names().collect();
        text += &names.join(" ");
        if let Some(ValueForm { name, optional, many }) = &flag.value {
            let (open, close) = if *optional { ('[', ']') } else { ('<', '>') };
            text += &format!(" {open}{name}{close}{}", if *many { "..." } else { "" });
        }
        if !flag.choices.is_empty() {
            text += &format!(" one of {}", flag.choices.join(" | "));
        }
        text += &flag.default.as_ref().map(|default| format!(" default {default}")).unwrap_or_default();
        text += &flag.deprecated.as_ref().map(|why| format!(" DEPRECATED {why}")).unwrap_or_default();
        text += &format!("\n    {}\n", flag.description);
    }
    for Subcommand { name, aliases, description } in &help.subcommands {
        text += &format!("command {name} {}: {description}\n", aliases.join(" "));
    }
    text
}

/// Returns an option of a recorded page.
fn recorded(program: &str, case: &str, name: &str) -> HelpFlag {
    let help = page(program, case).help;
    help.flag(name).unwrap_or_else(|| panic!("{program}/{case} lists {name}")).clone()
}

fn value(name: &str) -> Option<ValueForm> {
    Some(ValueForm { name: name.into(), optional: false, many: false })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn an_option_is_read_whole() {
    let many = |name: &str| value(name).map(|it| ValueForm { many: true, ..it });
    let optional = |name: &str| value(name).map(|it| ValueForm { optional: true, ..it });
    let flag = |long: &str, description: &str| HelpFlag {
        long: Some(long.into()),
        description: description.into(),
        ..HelpFlag::default()
    };
    for (program, case, name, expected) in [
        // commander, with the description in the next line and with a wrapped list of choices.
        (
            "claude/2.1.325",
            "help",
            "--allowed-tools",
            HelpFlag {
                aliases: words("--allowed-tools"),
                value: many("tools"),
                ..flag(
                    "--allowedTools",
                    "Comma or space-separated list of tool names to allow (e.g. \"Bash(git *) Edit\")",
                )
            },
        ),
        (
            "claude/2.1.325",
            "help",
            "--permission-prompts",
            HelpFlag {
                value: value("target"),
                choices: words("host none"),
                default: Some("host".into()),
                ..flag(
                    "--permission-prompts",
                    "Who answers permission prompts with --print: \"host\" (the SDK host or --permission-prompt-tool) or \
                     \"none\" (nobody: anything that would prompt is denied automatically; the permission mode still \
                     decides everything else)",
                )
            },
        ),
        (
            "claude/2.1.325",
            "help",
            "-r",
            HelpFlag {
                short: Some("-r".into()),
                value: optional("value"),
                ..flag(
                    "--resume",
                    "Resume a conversation by session ID or name, or open interactive picker with optional search term",
                )
            },
        ),
        (
            "grok/0.0.34",
            "help",
            "--max-tool-rounds",
            HelpFlag {
                value: value("rounds"),
                default: Some("400".into()),
                ..flag("--max-tool-rounds", "maximum number of tool execution rounds")
            },
        ),
        // clap, with paragraphs and both forms of choices.
        (
            "codex/0.166.0",
            "exec-help",
            "--color",
            HelpFlag {
                value: value("COLOR"),
                choices: words("always never auto"),
                default: Some("auto".into()),
                ..flag("--color", "Specifies color settings for use in the output")
            },
        ),
        (
            "codex/0.166.0",
            "exec-help",
            "-i",
            HelpFlag {
                short: Some("-i".into()),
                value: many("FILE"),
                ..flag("--image", "Optional image(s) to attach to the initial prompt")
            },
        ),
        (
            "codex/0.166.0",
            "help",
            "-a",
            HelpFlag {
                short: Some("-a".into()),
                value: value("APPROVAL_POLICY"),
                choices: words("on-request never"),
                ..flag(
                    "--ask-for-approval",
                    "Configure when the model requires human approval before executing a command",
                )
            },
        ),
        ("codex/0.166.0", "exec-help", "--json", flag("--json", "Print events to stdout as JSONL")),
        (
            "copilot/1.0.102",
            "help",
            "--allow-tool",
            HelpFlag {
                value: optional("tools").map(|it| ValueForm { many: true, ..it }),
                ..flag("--allow-tool", "Tools the CLI has permission to use; will not prompt for permission")
            },
        ),
        (
            "copilot/1.0.102",
            "help",
            "-C",
            HelpFlag {
                long: None,
                short: Some("-C".into()),
                value: value("directory"),
                ..flag("", "Change working directory before doing anything else")
            },
        ),
        // yargs, wide and narrow.
        (
            "gemini/0.61.0",
            "help",
            "-o",
            HelpFlag {
                short: Some("-o".into()),
                value: value("string"),
                choices: words("text json stream-json"),
                ..flag("--output-format", "The format of the CLI output.")
            },
        ),
        (
            "gemini/0.61.0",
            "help",
            "--experimental-acp",
            HelpFlag {
                deprecated: Some("use --acp instead".into()),
                ..flag("--experimental-acp", "Starts the agent in ACP mode")
            },
        ),
        (
            "qwen/0.24.4",
            "help",
            "--add-dir",
            HelpFlag {
                aliases: words("--add-dir"),
                value: many("array"),
                ..flag(
                    "--include-directories",
                    "Additional directories to include in the workspace (comma-separated or multiple \
                     --include-directories)",
                )
            },
        ),
        (
            "opencode/1.18.33",
            "run-help",
            "--format",
            HelpFlag {
                value: value("string"),
                choices: words("default json"),
                default: Some("default".into()),
                ..flag("--format", "format: default (formatted) or json (raw JSON events)")
            },
        ),
        (
            "opencode/1.18.33",
            "run-help",
            "--fork",
            flag("--fork", "fork the session before continuing (requires --continue or --session)"),
        ),
        // By hand.
        (
            "pi/0.87.1",
            "help",
            "-xt",
            HelpFlag {
                short: Some("-xt".into()),
                value: value("tools"),
                ..flag(
                    "--exclude-tools",
                    "Comma-separated denylist of tool names to disable Applies to built-in, extension, and custom tools",
                )
            },
        ),
        (
            "pi/0.87.1",
            "help",
            "--thinking",
            HelpFlag {
                value: value("level"),
                choices: words("off minimal low medium high xhigh max"),
                ..flag("--thinking", "Set thinking level: off, minimal, low, medium, high, xhigh, max")
            },
        ),
    ] {
        assert_eq!(recorded(program, case, name), expected, "{program} {case} {name}");
    }
}

#[test]
fn the_version_is_found_in_every_recording() {
    let recorded: Vec<_> = index().into_iter().filter(|it| it.case == "version").collect();
    assert!(recorded.len() > 10, "the index has the recordings");
    for capture in recorded {
        let program = format!("{}/{}", capture.cli, capture.version);
        // It reports this version, though npm calls it 0.0.34.
        let version = if program == "grok/0.0.34" { "1.0.1" } else { &capture.version };
        let found = Version::find(&answer(&program, "version")).map(|version| version.to_string());
        assert_eq!(found.as_deref(), Some(version), "{program}");
    }
}

/// Returns what differs between a provider's manifest and its recorded pages.
fn findings(Recorded { provider, program, cases }: &Recorded) -> Vec<Finding> {
    let pages: Vec<Page> = cases.iter().map(|case| page(program, case)).collect();
    let manifest = catalogue::by_name(provider).expect("a provider");
    for asked in &manifest.probe.pages {
        assert!(pages.iter().any(|page| page.args == *asked), "{provider}: no recording of {asked:?}");
    }
    check(manifest, &pages, Version::find(&answer(program, "version")).as_ref())
}

#[test]
fn what_the_manifests_rely_on_is_in_the_recorded_help() {
    for recorded in recordings() {
        let findings = findings(&recorded);
        let serious = findings.iter().filter(|finding| finding.is_serious()).map(ToString::to_string);
        assert_eq!(serious.collect::<Vec<_>>(), [] as [String; 0], "{}", recorded.provider);
    }
}

#[test]
fn every_provider_with_recordings_is_checked_against_them() {
    let checked: Vec<String> = recordings().into_iter().map(|it| it.provider).collect();
    let asked = catalogue::built_in().filter(|manifest| !manifest.probe.pages.is_empty());
    for manifest in asked {
        assert!(checked.contains(&manifest.name), "{} has pages and no recording", manifest.name);
        assert!(!probe::uses::of(manifest).is_empty(), "{}", manifest.name);
    }
    for manifest in catalogue::built_in() {
        assert!(manifest.install.hint().is_some(), "{} does not say how it is installed", manifest.name);
    }
}

#[test]
fn nothing_is_called_unlisted_that_is_listed() {
    for Recorded { provider, program, cases } in recordings() {
        let manifest = catalogue::by_name(&provider).expect("a provider");
        let uses = probe::uses::of(manifest);
        for unlisted in &manifest.probe.unlisted {
            let used = |it: &probe::uses::ManifestUse| matches!(&it.what, probe::uses::CommandPart::Flag { name, .. } if *name == unlisted.flag);
            assert!(uses.iter().any(used), "{provider}: nothing uses {}", unlisted.flag);
            let listed =
                cases.iter().find_map(|case| page(&program, case).help.flag(&unlisted.flag).cloned());
            match listed {
                Some(_) if unlisted.values.is_empty() => panic!("{provider}: help lists {}", unlisted.flag),
                Some(flag) => {
                    assert!(unlisted.values.iter().all(|value| !flag.choices.contains(value)), "{provider}")
                }
                None => {
                    assert!(unlisted.values.is_empty(), "{provider}: help does not list {}", unlisted.flag)
                }
            }
        }
    }
}

/// Compares a provider's manifest with the help of an older version of its program.
fn drift(provider: &str, version: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pages/{provider}_{version}.txt"));
    let answer =
        Answer { stdout: fs::read_to_string(path).expect("a page"), stderr: String::new(), code: Some(0) };
    let manifest = catalogue::by_name(provider).expect("a provider");
    let pages = [Page::read(&manifest.probe.pages[0], &answer)];
    let version = Version::parse(version).expect("a version");
    check(manifest, &pages, Some(&version)).iter().map(ToString::to_string).collect()
}

#[test]
fn what_older_versions_lack_is_found() {
    assert_eq!(drift("claude", "2.1.197"), [] as [&str; 0]);
    assert_eq!(
        drift("qwen", "0.15.10"),
        ["`--fork-session` is not in its help (the manifest relies on it in run.flags.fork)"]
    );
    assert_eq!(
        drift("pi", "0.73.1"),
        [
            "`--exclude-tools` is not in its help (the manifest relies on it in formats.rpc.run.flags.deny_tool, \
             run.flags.deny_tool)",
            "`--no-approve` is not in its help (the manifest relies on it in formats.rpc.repository, \
             formats.rpc.run.flags.isolate, repository, run.flags.isolate)",
            "`--thinking` does not accept `max`, only off, minimal, low, medium, high, xhigh (the manifest relies on it in \
             formats.rpc.run.flags.effort, run.flags.effort)",
        ]
    );
}

#[test]
fn what_is_on_its_way_out_is_told_and_breaks_nothing() {
    let gemini = recordings().into_iter().find(|it| it.provider == "gemini").expect("it is recorded");
    let told: Vec<String> = findings(&gemini).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["`--allowed-tools` is deprecated: Use Policy Engine instead See \
          https://geminicli.com/docs/core/policy-engine (the manifest relies on it in run.flags.allow_tool)"]
    );
}
