//! A run whose standard output is a pipe: whose reader prints to our terminal, goes away, or takes nothing.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::pty::{Shown, shown};
use crate::route::{answering, routed, run};
use crate::world::{Call, Ended, World, wait_until};

/// Checks that every line of the answer is a row of its own, and so is everything else.
#[track_caller]
fn check(shown: &Shown, answer: &[&str]) {
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for line in answer {
        assert_eq!(shown.rows.iter().filter(|row| row == line).count(), 1, "`{line}`: {:#?}", shown.rows);
    }
    for row in shown.rows.iter().filter(|row| !answer.contains(&row.as_str())) {
        assert!(!answer.iter().any(|line| row.contains(line)), "`{row}` is glued: {:#?}", shown.rows);
        assert!(!row.contains(['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']), "`{row}` still spins");
    }
    assert!(shown.rows.iter().any(|row| row.contains("s-20")), "the footer: {:#?}", shown.rows);
}

#[test]
fn a_reader_that_prints_to_the_same_terminal_finds_its_lines_whole() {
    for (line, rounds) in [(r#""$0" "$@" | cat"#, 8), (r#""$0" "$@" | tee /dev/null"#, 4)] {
        for _ in 0..rounds {
            let world = World::new();
            let script = ["sleep 250ms", "say The answer is forty-two."];
            check(&shown(&world.practice(&script), line, 80), &["The answer is forty-two."]);
        }
    }
}

#[test]
fn a_slow_stream_with_tools_keeps_its_lines_whole() {
    let world = World::new();
    std::fs::write(world.path("work/notes.md"), "one\n").expect("a file");
    let script = [
        "say I look first.",
        "sleep 300ms",
        "tool read notes.md",
        "sleep 300ms",
        "say \"First line.\\nSecond line.\\n\\nLast line.\"",
        "sleep 300ms",
    ];
    for line in [r#""$0" "$@" | cat"#, r#""$0" "$@" | while read -r x; do sleep 0.05; echo "$x"; done"#] {
        let shown = shown(&world.practice(&script), line, 80);
        check(&shown, &["First line.", "Second line.", "Last line."]);
    }
}

#[test]
fn a_reader_that_goes_away_stops_the_agent_and_fails_the_run() {
    for format in ["human", "text", "jsonl", "json"] {
        let world = World::new();
        // It prints at once in some formats, at its end in others.
        let script = ["say one", "sleep 400ms", "tool write new.txt hello", "say two"];
        let call = world.practice(&script).with(&["--permission", "edit", "-o", format]);
        let (running, stdout) = call.start_unread();
        let mut stdout = BufReader::new(stdout);
        if format == "jsonl" {
            stdout.read_line(&mut String::new()).expect("a line");
        }
        drop(stdout);
        let ended = running.end().exits(141);
        assert!(
            ended.stderr.starts_with("error: the reader of standard output closed it; the agent "),
            "{ended:?}"
        );
        let stopped = ended.stderr.contains("the agent was stopped\n");
        let over = ended.stderr.contains("the agent had ended (completed)\n");
        assert!(stopped != over && (stopped || format != "jsonl"), "{format}: {}", ended.stderr);
        let session = world.journals_begun().pop().expect("a journal");
        let name = session.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(ended.stderr.contains(&format!("session {name}")), "{}", ended.stderr);
        if stopped {
            assert!(!world.path("work/new.txt").exists(), "the agent went on");
            world.journal().check().ended("cancelled");
        }
        world.nobody_is_left();
    }
}

/// Closes the output of a command before it has printed anything, and returns how it ended.
fn unread(call: Call<'_>) -> Ended {
    let (running, stdout) = call.start_unread();
    drop(stdout);
    running.end().exits(141)
}

#[test]
fn a_reader_that_goes_away_stops_several_agents() {
    // The first one is done at once; the other one would go on.
    let goes_on = format!("sleep 60; touch went-on.txt; {}", answering());
    let world = routed(&[("first", answering()), ("second", goes_on)], "");
    for format in ["human", "text", "jsonl", "json"] {
        let ended = unread(run(&world, &["--provider", "first,second", "-o", format]));
        let expected =
            "error: the reader of standard output closed it; the agents that still ran were stopped\n";
        assert!(ended.stderr.contains(expected), "{format}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches("hint: session s-").count(), 2, "{format}: {}", ended.stderr);
        assert!(!world.path("work/went-on.txt").exists());
    }
    world.nobody_is_left();
}

#[test]
fn a_reader_of_a_provider_that_goes_away_stops_the_agent() {
    for word in ["generate", "stream"] {
        let world = World::new();
        let request =
            serde_json::json!({"prompt": "practice: say one\npractice: sleep 400ms\npractice: say two"});
        let call = world.bowline(&["provide", "practice", word]).env("PRACTICE_PACE", "0");
        let ended = unread(call.input(request.to_string()));
        assert!(
            ended.stderr.starts_with("error: the reader of standard output closed it; the agent "),
            "{word}: {}",
            ended.stderr
        );
        world.nobody_is_left();
    }
}

#[test]
fn a_reader_of_the_demo_that_goes_away_stops_it() {
    let world = World::new();
    let ended = unread(world.bowline(&["demo", "--fast"]));
    assert!(ended.stderr.starts_with("error: the reader of standard output closed it"), "{}", ended.stderr);
    // It closes the pipe while the agent works.
    let world = World::new();
    let (running, stdout) = world.bowline(&["demo"]).start_unread();
    let mut stdout = BufReader::new(stdout);
    stdout.read_line(&mut String::new()).expect("a line");
    wait_until("the journal", || !world.journals_begun().is_empty());
    drop(stdout);
    let ended = running.end().exits(141);
    assert!(ended.stderr.contains("error: the reader of standard output closed it; the agent "), "{ended:?}");
    world.nobody_is_left();
}

#[test]
fn a_device_that_takes_nothing_is_a_clear_error() {
    let world = World::new();
    let mut command = world.practice(&["say one"]).command();
    command.stdout(std::fs::File::options().write(true).open("/dev/full").expect("a device"));
    let output = command.stderr(Stdio::piped()).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.starts_with("error: could not write to standard output\ncaused by: No space left"),
        "{stderr}"
    );
    assert!(stderr.contains("hint: the agent ") && stderr.contains("hint: session s-"), "{stderr}");
}

#[test]
fn a_table_may_be_cut() {
    let world = World::new();
    let (running, stdout) = world.bowline(&["providers"]).start_unread();
    drop(stdout);
    let ended = running.end().exits(0);
    assert_eq!(ended.stderr, "");
}

#[test]
fn json_on_a_terminal_stays_json_and_shows_what_is_hidden() {
    let world = World::new();
    let hidden = "say a\u{9b}2J\u{202e}b\u{200b}c\u{2028}d";
    let jsonl = shown(&world.practice(&[hidden]).with(&["-o", "jsonl"]), r#""$0" "$@""#, 80).bytes;
    let file = world.practice(&[hidden]).with(&["-o", "json"]).end().exits(0).json();
    let deltas = jsonl.lines().filter(|line| line.contains(r#""type":"text_delta""#));
    let text: String = deltas
        .map(|line| serde_json::from_str::<serde_json::Value>(line.trim_end()).expect("JSON"))
        .map(|event| event["kind"]["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(text, file["text"], "the same text");
    let raw = |text: &str| text.contains(['\u{9b}', '\u{202e}', '\u{200b}', '\u{2028}']);
    assert!(!raw(&jsonl) && jsonl.contains(r"\u202e"), "{jsonl}");
    let human = shown(&world.practice(&[hidden]), r#""$0" "$@""#, 80).bytes;
    assert!(!raw(&human) && human.contains(r"\u{202e}"), "{human}");
}

/// Secrets that no name gives away: inside an address, and copied into another variable.
#[test]
fn secrets_are_masked_by_their_values() {
    let world = World::new();
    let words = "say proxy http://me:hunter2-hunter2@proxy:3128 and p@ss/word! and sk-made-up-1234567890 end";
    let call = world
        .practice(&[words])
        .env("HTTP_PROXY", "http://me:hunter2-hunter2@proxy:3128")
        .env("SOME_API_KEY", "sk-made-up-1234567890")
        .with(&["--env", "OTHER=sk-made-up-1234567890", "--env", "DB=pg://u:p%40ss%2Fword%21@db/x"]);
    let shown = call.command().args(["--dry-run", "-o", "json"]).output().expect("it runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    call.end().exits(0);
    let journal = world.journal();
    let files = [
        String::from_utf8_lossy(&journal.raw("stdout")).into_owned(),
        journal.events.iter().map(ToString::to_string).collect::<String>(),
        shown,
    ];
    for text in files {
        for secret in ["hunter2", "p@ss/word!", "p%40ss", "sk-made-up"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains(" end"), "the rest stays: {text}");
    }
}
