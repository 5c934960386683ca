//! Suggestions for command names of other programs: `ls` means `bowline sessions`.

use clap::CommandFactory as _;

use crate::args::Args;
use crate::error::CommandError;

/// Words that people try, and the command line that does it. By spelling, `ls` would be `classify`.
const MEANT: &[(&[&str], &str)] = &[
    (
        &["ls", "list", "ps", "session", "history", "log", "logs", "show", "jobs", "running", "top"],
        "bowline sessions",
    ),
    (&["resume", "continue", "reply", "again"], "bowline run --resume ID \"PROMPT\""),
    (
        &["chat", "exec", "ask", "prompt", "do", "go", "query", "say", "generate", "agent"],
        "bowline run \"PROMPT\"",
    ),
    (&["kill", "cancel", "abort", "end", "terminate", "halt"], "bowline stop"),
    (&["watch", "follow", "tail", "join"], "bowline attach"),
    (&["allow", "accept"], "bowline approve"),
    (&["reject", "refuse"], "bowline deny"),
    (&["steer", "queue", "tell"], "bowline send"),
    (&["check", "health", "info", "diagnose", "verify", "whoami", "account", "env"], "bowline doctor"),
    (
        &["login", "logout", "signin", "auth", "authenticate", "install", "update", "upgrade", "add"],
        "bowline doctor",
    ),
    (&["agents", "backends", "clis", "tools", "plugins"], "bowline providers"),
    (&["quota", "usage", "limit", "rate-limit"], "bowline limits"),
    (&["cost", "costs", "price", "pricing", "spend", "spending"], "bowline prices"),
    (&["get", "settings", "configure", "conf", "preferences", "options", "unset"], "bowline config"),
    (&["setup", "new", "create"], "bowline init"),
    (&["choose", "pick", "explain", "why", "router"], "bowline route --explain"),
    (&["parse", "read", "convert", "replay"], "bowline decode"),
    (&["mock", "fake", "serve", "server"], "bowline simulate"),
    (&["test", "conformance"], "bowline certify"),
    (&["try", "example", "tour", "tutorial"], "bowline demo"),
    (&["completion", "complete", "shell"], "bowline completions"),
    (&["manual", "docs", "doc"], "bowline man"),
];

/// Words of that list that the agent's own program does; our command only prints how.
const BY_THE_AGENT: &[&str] =
    &["login", "logout", "signin", "auth", "authenticate", "install", "update", "upgrade"];

/// Adds a suggestion for an unknown command.
pub(crate) fn command(error: CommandError, word: &str) -> CommandError {
    let plain = word.trim().to_lowercase();
    if let Some((_, instead)) = MEANT.iter().find(|(words, _)| words.contains(&plain.as_str())) {
        let error = error.hint(format!("did you mean `{instead}`?"));
        return match BY_THE_AGENT.contains(&plain.as_str()) {
            true => error.hint("each agent has its own command for that; `bowline doctor` prints it"),
            false => error,
        };
    }
    // Several words are a prompt.
    if word.trim().contains(char::is_whitespace) {
        return error.hint("did you mean `bowline run \"PROMPT\"`?");
    }
    if let Ok(manifest) = bowline::roster::Roster::from_env().find(&plain) {
        return error.hint(format!("did you mean `bowline run --provider {} \"PROMPT\"`?", manifest.name));
    }
    let commands = Args::command();
    let names = commands.get_subcommands().filter(|it| !it.is_hide_set()).map(clap::Command::get_name);
    match bowline::closest_name(&plain, names.chain(["help"])) {
        Some(name) => error.hint(format!("did you mean `bowline {name}`?")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_stands_once_and_is_no_command_and_what_is_meant_is_one() {
        let commands = Args::command();
        let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
        let mut seen = Vec::new();
        for (words, instead) in MEANT {
            let command = instead.split(' ').nth(1).expect("a command");
            assert!(names.contains(&command), "{instead}");
            for word in *words {
                assert!(!names.contains(word), "`{word}` is a command");
                assert!(!seen.contains(word), "`{word}` stands twice");
                seen.push(word);
            }
        }
        assert!(BY_THE_AGENT.iter().all(|word| seen.contains(word)));
    }
}
