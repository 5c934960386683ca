//! Checks whether standard error begins with the program's own error about an option that we passed.
//!
//! This is the proof behind [`crate::footprint::Footprint::UsageError`], so it is narrow. A phrase such as "unknown option"
//! somewhere on standard error proves nothing: a tool that the agent ran may have printed it. Two conditions have to hold:
//!
//! - the error comes first, or right behind the usage text that some argument parsers print before it;
//! - the option that it names is one of those that we passed.
//!
//! A program that reads its prompt from standard input and only then rejects our option looks the same. No argument parser in
//! our captures does that: they all exit before they read anything. Not accepted: "`--a` requires `--b`", which tools print as
//! well, and a page of help without an error.
//!
//! One program in our captures prints only such a page when it rejects an option. The page is no proof, even if it lacks the
//! option: yargs, the parser of that program, prints the page also when a command fails that has long begun, and a version that
//! is lenient about options has read the prompt by then. Only a rejection that names the option distinguishes the two.

/// How many bytes of standard error are kept: the usage text of a parser, and the error behind it.
pub(crate) const HEAD: usize = 4096;

/// How argument parsers begin an error about an unknown option, in lower case.
const UNKNOWN: [&str; 11] = [
    "unknown option",
    "unknown argument",
    "unknown flag",
    "unexpected argument",
    "unrecognized option",
    "unrecognized argument",
    "no such option",
    "invalid option",
    "flag provided but not defined",
    // These two report the value of a known option, and name the option behind it.
    "invalid value",
    "option",
];

/// Returns whether a program rejects one of these options at the beginning of standard error.
pub(crate) fn rejects_ours(head: &[u8], program: &str, options: &[String]) -> bool {
    // The cut at `HEAD` may split a character.
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(first) = lines.next() else { return false };
    let is_ours = |line: &str| names_ours(line, program, options);
    // argparse prints its usage text first, and the error behind it.
    is_ours(first) || (starts_with(first, "usage:") && lines.any(is_ours))
}

/// Returns whether a line is an error about one of these options.
fn names_ours(line: &str, program: &str, options: &[String]) -> bool {
    let complaint = without_prefix(line, program);
    let Some(phrase) = UNKNOWN.into_iter().find(|phrase| starts_with(complaint, phrase)) else {
        return false;
    };
    // The plural of yargs: "Unknown arguments: a, b".
    let rest = complaint[phrase.len()..].trim_start_matches('s');
    match phrase {
        "invalid value" => rest.split_once(" for ").is_some_and(|(_, named)| all_ours(named, options)),
        "option" => rest.contains(" is invalid") && all_ours(rest, options),
        _ => all_ours(rest, options),
    }
}

/// Removes a prefix of an error: the name of the program, and "error".
fn without_prefix<'a>(line: &'a str, program: &str) -> &'a str {
    let name = program.rsplit('/').next().unwrap_or(program);
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(": ")
        && (before.eq_ignore_ascii_case("error") || before == name)
    {
        rest = after.trim_start();
    }
    rest
}

/// Returns whether every name in an error is an option of ours: one in quotes, or a list with commas.
fn all_ours(named: &str, options: &[String]) -> bool {
    let named = named.trim_start_matches([':', ' ']);
    let quoted = named.strip_prefix(['\'', '"', '`']).and_then(|rest| rest.split(['\'', '"', '`']).next());
    match quoted {
        Some(name) => is_option(name, options),
        None => named.split(", ").all(|name| is_option(name, options)),
    }
}

/// Returns whether a name, which may have a placeholder or other words behind it, is an option of ours.
fn is_option(name: &str, options: &[String]) -> bool {
    let name = name.split([' ', '=']).next().unwrap_or_default();
    if name.starts_with('-') {
        return options.iter().any(|option| option == name);
    }
    // yargs names options without dashes, and once more in camel case: "output-format, outputFormat".
    let plain = |name: &str| name.replace('-', "").to_lowercase();
    !name.is_empty() && options.iter().any(|option| plain(option) == plain(name))
}

fn starts_with(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stderr: &str, expect: bool) {
        let options = ["-p", "--output-format", "--verbose", "-a", "--color", "--bare"].map(str::to_owned);
        let got = rejects_ours(stderr.as_bytes(), "/usr/bin/agent", &options);
        assert_eq!(got, expect, "{stderr}");
    }

    /// The wording of commander, yargs, clap, cobra, Go's `flag`, argparse and click.
    #[test]
    fn a_parser_that_names_an_option_of_ours_first_is_believed() {
        for stderr in [
            "error: unknown option '--verbose'\n(Did you mean --version?)\n",
            "\nerror: option '--output-format <format>' argument 'xml' is invalid. Allowed choices are text, json.\n",
            "Unknown arguments: output-format, outputFormat\nUsage: agent [options]\n",
            "Unknown argument: bare\n",
            "error: unexpected argument '-a' found\n\n  tip: to pass '-a' as a value, use '-- -a'\n",
            "error: unexpected argument '--color' found",
            "error: invalid value 'xml' for '--output-format <FORMAT>'\n  [possible values: text, json]\n",
            "Error: unknown flag: --verbose\n",
            "flag provided but not defined: -a\nUsage of agent:\n",
            "usage: agent [-h] [--model MODEL]\nagent: error: unrecognized arguments: --bare --color auto\n",
            "Usage: agent [OPTIONS]\nTry 'agent --help' for help.\n\nError: No such option: --bare\n",
        ] {
            check(stderr, true);
        }
    }

    #[test]
    fn anything_else_proves_nothing() {
        for stderr in [
            "",
            "error: unknown option",
            "error: unknown option 'foo'",
            "error: unknown option '--x'",
            "Unknown arguments: output-format, such-flag",
            "Unknown argument: ",
            "error: unexpected argument 'app-server' found",
            // Other output comes first, so the program had begun.
            "Loaded 3 tools\nerror: unknown option '--verbose'",
            // The wording of a tool.
            "npm error: --foo requires --force",
            "rg: unrecognized option '--color'",
            "the tool failed: unknown option '--verbose'",
            "Error: When using --print, --output-format=stream-json requires --verbose",
            // A page of help without an error, which yargs prints also when a command fails that has begun.
            "agent run [message..]\n\nOptions:\n  -h, --help  show help\n",
            "option '--color' is deprecated",
            "error: invalid value '--color'",
        ] {
            check(stderr, false);
        }
    }
}
