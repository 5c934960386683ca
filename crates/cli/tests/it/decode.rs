//! The command that turns output into events and views: `bowline decode`.

use std::io::Read as _;
use std::process::Stdio;

use bowline_providers::{dialects, views};
use serde_json::json;

use crate::support::{bowline, object, run, show};

const STREAM: &str = r#"{"type":"turn.started","id":"turn_123"}
{"type":"content","content":"Hello! "}
Loading...
{"type":"content","content":"How can I help?"}
{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":8}}
"#;

#[test]
fn events_by_default() {
    insta::assert_snapshot!(show(&["decode", "--dialect", "stream-json", "--now", "2026-11-15T08:00:00.123Z"], STREAM), @r#"
exit 0
--- stdout
{"v":1,"seq":1,"at":"2026-11-15T08:00:00.123Z","session":"decode","turn":1,"source":"agent","raw":{"file":"stdout","start":0,"end":39},"kind":{"type":"turn_started","origin":"prompt","native_turn":"turn_123"}}
{"v":1,"seq":2,"at":"2026-11-15T08:00:00.123Z","session":"decode","turn":1,"source":"agent","raw":{"file":"stdout","start":40,"end":78},"kind":{"type":"text_delta","message":"m1","block":0,"text":"Hello! "}}
{"v":1,"seq":3,"at":"2026-11-15T08:00:00.123Z","session":"decode","turn":1,"source":"bowline","raw":{"file":"stdout","start":79,"end":89},"kind":{"type":"unrecognized","reason":"noise","head":{"text":"Loading...","bytes":10}}}
{"v":1,"seq":4,"at":"2026-11-15T08:00:00.123Z","session":"decode","turn":1,"source":"agent","raw":{"file":"stdout","start":90,"end":136},"kind":{"type":"text_delta","message":"m1","block":0,"text":"How can I help?"}}
{"v":1,"seq":5,"at":"2026-11-15T08:00:00.123Z","session":"decode","turn":1,"source":"agent","raw":{"file":"stdout","start":137,"end":208},"kind":{"type":"usage_reported","usage":{"input":10,"output":8,"cache_read":0,"cache_write":0},"basis":"cumulative","source":"reported"}}
{"v":1,"seq":6,"at":"2026-11-15T08:00:00.123Z","session":"decode","turn":1,"source":"bowline","raw":{"file":"stdout","start":137,"end":208},"kind":{"type":"message_finished","message":"m1","phase":"final"}}
{"v":1,"seq":7,"at":"2026-11-15T08:00:00.123Z","session":"decode","turn":1,"source":"bowline","raw":{"file":"stdout","start":137,"end":208},"kind":{"type":"turn_ended","outcome":"completed","usage":{"input":10,"output":8,"cache_read":0,"cache_write":0}}}
{"v":1,"seq":8,"at":"2026-11-15T08:00:00.123Z","session":"decode","turn":1,"source":"bowline","kind":{"type":"session_ended","reason":"exited"}}
--- stderr
"#);
}

#[test]
fn a_summary_has_every_key_in_order() {
    insta::assert_snapshot!(show(&["decode", "--dialect", "stream-json", "--view", "summary"], STREAM), @r#"
exit 0
--- stdout
{"text":"Hello! How can I help?","all_text":"Hello! How can I help?","outcome":"completed","native_session":null,"model":null,"usage":{"input":10,"output":8,"cache_read":0,"cache_write":0,"total":18,"source":"reported"},"cost_usd":null,"failure":null,"events":{"message_finished":1,"session_ended":1,"text_delta":2,"turn_ended":1,"turn_started":1,"unrecognized":1,"usage_reported":1},"tools":0,"unrecognized":1,"novel":0}
--- stderr
"#);
}

#[test]
fn text_is_the_answer_and_nothing_else() {
    let output = run(&["decode", "--dialect", "stream-json", "--view", "text"], STREAM);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello! How can I help?\n");
    assert!(output.stderr.is_empty());
}

#[test]
fn every_dialect_goes_with_every_view() {
    for dialect in dialects::ALL {
        for view in views::ALL {
            let output = run(&["decode", "--dialect", dialect.name, "--view", view.name], STREAM);
            assert_eq!(output.status.code(), Some(0), "{} as {}", dialect.name, view.name);
            if view.name != "text" {
                for line in String::from_utf8_lossy(&output.stdout).lines() {
                    assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{}: {line}", view.name);
                }
            }
        }
    }
}

#[test]
fn a_provider_and_its_format_name_the_dialect() {
    let roles = "{\"role\":\"user\",\"content\":\"Hello\"}\n{\"role\":\"assistant\",\"content\":\"Hi\"}\n";
    let summary = object(&["decode", "--provider", "ax-glm", "--view", "summary"], roles);
    assert_eq!((&summary["text"], &summary["outcome"]), (&json!("Hi"), &json!("completed")));
    let text = object(&["decode", "--provider", "qwen", "--view", "summary"], "plain\n");
    assert_eq!(text["text"], "plain");
    let format = object(
        &["decode", "--provider", "gemini_cli", "--format", "json", "--view", "generate"],
        "{\"response\":\"x\"}",
    );
    assert_eq!((&format["content"], &format["provider"]), (&json!("x"), &json!("gemini")));
}

#[test]
fn the_end_of_the_process_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let stderr = folder.path().join("stderr.txt");
    std::fs::write(&stderr, "\u{1b}[31mError: 401 Unauthorized\u{1b}[0m\n").expect("written");
    let stderr = stderr.to_str().expect("a path");
    let base = ["decode", "--dialect", "text", "--view", "summary"];
    for (more, outcome, code) in [
        (&["--exit-code", "0"][..], "completed", None),
        (&["--exit-code", "1", "--stderr", stderr], "failed", Some("invalid_credentials")),
        (&["--signal", "TERM"], "failed", Some("killed")),
        (&["--signal", "sigint"], "cancelled", None),
        (&["--exit-code", "-9"], "failed", Some("killed")),
        (&["--exit-code=-2"], "cancelled", None),
    ] {
        let summary = object(&[&base[..], more].concat(), "partial");
        assert_eq!(summary["outcome"], outcome, "{more:?}");
        assert_eq!(summary["failure"]["code"].as_str(), code, "{more:?}");
        assert_eq!(summary["text"], "partial", "{more:?}");
    }
}

#[test]
fn a_file_is_as_good_as_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.jsonl");
    std::fs::write(&file, STREAM).expect("written");
    let args = ["decode", "--dialect", "stream-json", "--view", "text", file.to_str().expect("a path")];
    assert_eq!(run(&args, "").stdout, b"Hello! How can I help?\n");
    assert_eq!(run(&["decode", "--dialect", "text", "--view", "text", "-"], "x").stdout, b"x\n");
}

#[test]
fn events_come_while_the_input_is_still_open() {
    use std::io::Write as _;
    let args = ["decode", "--dialect", "simple", "--view", "simple"];
    let mut child = bowline(&args).stdin(Stdio::piped()).spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"{\"type\":\"text\",\"delta\":\"a\"}\n").expect("written");
    let mut first = [0; 28];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("the event comes before the end");
    assert_eq!(&first, b"{\"type\":\"text\",\"delta\":\"a\"}\n");
    drop(stdin);
    assert!(child.wait().expect("the command ends").success());
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let line = "{\"type\":\"text\",\"delta\":\"a\"}\n";
    let mut child = bowline(&["decode", "--dialect", "simple"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        use std::io::Write as _;
        // Ends with a broken pipe as soon as the command is gone.
        for _ in 0..100_000 {
            if stdin.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
    });
    let output = child.wait_with_output().expect("the command ends");
    writer.join().expect("the writer ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_reader_of_help_that_has_enough_is_no_error() {
    let mut child = bowline(&["--help"]).spawn().expect("the command starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("the command ends").code(), Some(0));
}
