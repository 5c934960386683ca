//! The example of `docs/live-sessions.md` prints what the page shows.

use super::session::LiveWorld;
use crate::support::in_shell;
use crate::world::wait_until;

const PAGE: &str = include_str!("../../../../../docs/live-sessions.md");

/// Returns the commands of the page, each with the output that it shows.
fn examples() -> Vec<(&'static str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    let block =
        PAGE.split("```console\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    for line in block.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command, String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("the example begins with a command: {line}"),
        }
    }
    all
}

/// Puts the ids of the page in the place of those of this run.
fn plain(text: &str) -> String {
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    let word = |word: &str| match word.trim_end_matches(is_separator) {
        id if id.starts_with("s-") && id.len() == 29 => word.replace(id, "s-20261115-083000123-000g40zz"),
        id if id.len() > 1 && id.starts_with('p') && id[1..].bytes().all(|byte| byte.is_ascii_digit()) => {
            word.replace(id, "p42")
        }
        _ => word.to_owned(),
    };
    text.split_inclusive(is_separator).map(word).collect()
}

/// Waits until the session rests, waits for a person or is over, so that each command finds what the page shows.
fn settled(live: &LiveWorld) {
    wait_until("a session that waits", || {
        let status = live.end(&["status", "fix", "--json"]);
        status.status.code() != Some(0) || {
            let status = status.json();
            match status["state"].as_str() {
                Some("waiting_for_approval" | "completed" | "failed") => true,
                Some("idle") => status["queue"].is_null(),
                _ => false,
            }
        }
    });
}

#[test]
fn the_example_of_the_page_prints_what_the_page_shows() {
    let live = LiveWorld::new();
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_bowline")).parent().expect("a folder");
    let own = live.call(&["version"]).command();
    let examples = examples();
    assert!(examples.len() >= 10, "{examples:?}");
    for (command, expect) in examples {
        settled(&live);
        let mut shell = in_shell(&format!("PATH={}:$PATH; {command}", bin.display()));
        shell.env_clear().current_dir(live.path("work"));
        shell.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = shell.stdin(std::process::Stdio::null()).output().expect("a shell");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let work = format!("{}/", live.path("work").display());
        let text = String::from_utf8_lossy(&output.stdout).replace(&work, "/tmp/work/");
        assert_eq!(plain(&text), expect, "{command}");
    }
    live.end(&["stop", "--all"]).exits(0);
}
