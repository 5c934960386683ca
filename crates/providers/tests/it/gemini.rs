//! Gemini CLI: its failures as a table, and the traps that no recording shows.

mod failures;

use bowline_protocol::kinds::{ToolStatus, UserOrigin};
use bowline_protocol::{Exit, Kind};
use bowline_providers::decode::{Cause, End};
use serde_json::{Value, json};

use crate::fixtures;
use crate::support::{Run, text};

const INIT: &str = r#"{"type":"init","timestamp":"t","session_id":"s1","model":"auto"}"#;
const ECHO: &str = r#"{"type":"message","timestamp":"t","role":"user","content":"hi"}"#;

fn delta(text: &str) -> String {
    json!({"type": "message", "timestamp": "t", "role": "assistant", "content": text, "delta": true})
        .to_string()
}

fn lines(lines: &[&str]) -> String {
    [&[INIT, ECHO], lines].concat().join("\n") + "\n"
}

/// The failure of a run as `category/code`.
fn failure(summary: &Value) -> String {
    let word = |key: &str| summary["failure"][key].as_str().unwrap_or("none").to_owned();
    format!("{}/{}", word("category"), word("code"))
}

#[test]
fn retries_on_standard_error() {
    let stderr = "\
Attempt 1 failed: You exceeded your current quota. Please retry in 2s.
Suggested retry after 2s.. Retrying after 5522ms...
Attempt 2 failed: short. Retrying after 10ms...
Attempt 3 failed with status 500. Retrying with backoff... _ApiError: {\"error\":{\"code\":500,\"message\":\"An internal error has occurred.\"}}
    at somewhere (file.js:1:2)
Attempt 4 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request
Attempt 5 failed with 429 error (no Retry-After header). Retrying with backoff... Error: x
Attempt 6 failed: no more. Max attempts reached
Suggested Retrying is only a word here
";
    let run = Run::of("gemini", INIT).stderr(stderr);
    let found: Vec<(Option<u32>, Option<u64>, &str, String)> = run
        .events()
        .into_iter()
        .filter_map(|event| if let Kind::Retrying(retrying) = event.kind { Some(retrying) } else { None })
        .map(|retrying| {
            (
                retrying.attempt,
                retrying.delay_ms.map(|delay| delay.0),
                retrying.category.as_str(),
                retrying.message,
            )
        })
        .collect();
    let expect = [
        (
            Some(2),
            Some(5522),
            "rate_limit",
            "You exceeded your current quota. Please retry in 2s.\nSuggested retry after 2s",
        ),
        (Some(3), Some(10), "unknown", "short"),
        (Some(4), None, "server", "An internal error has occurred."),
        (Some(5), None, "network", "Error: exception TypeError: fetch failed sending request"),
        (Some(6), None, "rate_limit", "Error: x"),
    ];
    assert_eq!(
        found,
        expect.map(|(attempt, delay, category, message)| (attempt, delay, category, message.to_owned()))
    );
}

#[test]
fn a_run_that_was_killed_while_it_retried_failed_for_what_it_retried() {
    let stderr = "Ripgrep is not available.\nAttempt 1 failed: You exceeded your current quota. Please retry in 2s.\n\
        Suggested retry after 2s.. Retrying after 5522ms...\n";
    let retried = |end: End| Run { end, ..Run::of("gemini", INIT).stderr(stderr) }.summary();
    for (exit, cause) in [
        (Exit::Signal(9), Cause::TimedOut),
        (Exit::Signal(9), Cause::Exited),
        (Exit::Signal(15), Cause::Exited),
        (Exit::Code(124), Cause::Exited),
        (Exit::Code(137), Cause::Exited),
        (Exit::Code(143), Cause::Exited),
    ] {
        let summary = retried(End { exit: Some(exit), cause });
        assert_eq!(failure(&summary), "rate_limit/gave_up_waiting", "{exit:?}");
        assert_eq!(summary["failure"]["retry_after_ms"], 2000, "{exit:?}");
    }
    let stopped = retried(End { exit: Some(Exit::Signal(2)), cause: Cause::Exited });
    assert_eq!(stopped["outcome"], "cancelled");
}

#[test]
fn tools_end_in_four_ways() {
    let call = |id: &str, name: &str| {
        json!({"type": "tool_use", "tool_name": name, "tool_id": id, "parameters": {"file_path": "/x/a"}})
            .to_string()
    };
    let result = |id: &str, status: &str, class: &str| {
        json!({"type": "tool_result", "tool_id": id, "status": status, "output": "o",
            "error": {"type": class, "message": "why not"}})
        .to_string()
    };
    let stdout = lines(&[
        &call("a", "write_file"),
        &call("a", "write_file"),
        &call("b", "run_shell_command"),
        &call("c", "no_such_tool"),
        &call("d", "read_file"),
        &call("e", "replace"),
        &json!({"type": "tool_result", "tool_id": "a", "status": "success"}).to_string(),
        &result("c", "error", "tool_not_registered"),
        &result("b", "error", "tool_not_registered"),
        &result("d", "error", "file_not_found"),
        &result("e", "error", "policy_violation"),
    ]);
    let run = Run::of("gemini", &stdout);
    let found: Vec<(String, ToolStatus)> = run
        .events()
        .into_iter()
        .filter_map(|event| {
            if let Kind::ToolFinished(tool) = event.kind {
                Some((tool.id.as_str().to_owned(), tool.status))
            } else {
                None
            }
        })
        .collect();
    let expect = [
        ("a", ToolStatus::Completed),
        ("c", ToolStatus::Failed),
        ("b", ToolStatus::Denied),
        ("d", ToolStatus::Failed),
        ("e", ToolStatus::Denied),
    ];
    assert_eq!(found, expect.map(|(id, status)| (id.to_owned(), status)));
    let summary = run.summary();
    assert_eq!(summary["tools"], 5, "the repeated call counts once");
    assert_eq!(summary["events"]["files_touched"], 1);
}

#[test]
fn thoughts_are_not_the_answer_and_the_echo_is_not_said() {
    let stdout = lines(&[
        &delta("[Thought: I consider it]"),
        &delta("The answer "),
        &delta("is [Thought: 42]."),
        r#"{"type":"result","status":"success"}"#,
    ]);
    let run = Run::of("gemini", &stdout);
    assert_eq!(run.text(), "The answer is [Thought: 42].");
    let mut thought = String::new();
    let mut origin = None;
    for event in run.events() {
        if let Kind::ThinkingDelta(delta) = &event.kind {
            thought.push_str(&delta.text);
        }
        if let Kind::UserMessage(message) = &event.kind {
            origin = Some(message.origin);
        }
    }
    assert_eq!(thought, "I consider it");
    assert_eq!(origin, Some(UserOrigin::Replayed));
    assert_eq!(
        text("gemini", r#"{"session_id":"s","response":"[Thought: true]Hello","stats":{"models":{}}}"#),
        "Hello"
    );
}

#[test]
fn a_thought_may_stand_before_plain_text_and_in_pieces() {
    for (stdout, thought, answer) in [
        ("[Thought: true]Hello\nyou", "", "Hello\nyou"),
        (
            "[Thought: I see]\n\nHello [Thought: no]\n[Thought: nor this]\n",
            "I see",
            "Hello [Thought: no]\n[Thought: nor this]",
        ),
        ("[Thought: I see\n[a] and\n b] Hello", "I see\n[a] and\n b", "Hello"),
        ("[Thomas]: x\n", "", "[Thomas]: x"),
        ("[Tho\nught: x]", "", "[Tho\nught: x]"),
        (&lines(&[&delta("[Tho"), &delta("ught: I see"), &delta("]Hel"), &delta("lo")]), "I see", "Hello"),
        (&lines(&[&delta("[Tho")]), "", "[Tho"),
    ] {
        let run = Run::of("gemini", stdout);
        assert_eq!(run.text(), answer, "{stdout}");
        let thoughts = run.events().into_iter().filter_map(|event| {
            if let Kind::ThinkingDelta(delta) = event.kind { Some(delta.text) } else { None }
        });
        assert_eq!(thoughts.collect::<String>(), thought, "{stdout}");
    }
}

#[test]
fn the_forms_of_the_adapter_protocol_work() {
    assert_eq!(text("gemini", "{\"content\": \"Hello!\"}"), "Hello!");
    assert_eq!(text("gemini", "{\n  \"content\": \"Hello!\"\n}\n"), "Hello!");
    assert_eq!(text("gemini", "plain words\n"), "plain words");
    let roles =
        "{\"role\":\"user\",\"content\":\"Hello\"}\n{\"role\":\"assistant\",\"content\":\"Hi there!\"}\n";
    let summary = Run::of("gemini", roles).summary();
    assert_eq!(
        (summary["text"].as_str(), summary["outcome"].as_str()),
        (Some("Hi there!"), Some("completed"))
    );
    let content = "{\"type\":\"content\",\"content\":\"a\"}\n{\"type\":\"content\",\"content\":\"b\"}\n{\"type\":\"turn.completed\"}\n";
    assert_eq!(text("gemini", content), "ab");
    let failed = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"429\"}}\n";
    let summary = Run::of("gemini", failed).exit(1).summary();
    assert_eq!(summary["events"]["turn_ended"], 1, "the exit code does not end it again");
}

#[test]
fn careless_lines_lose_nothing() {
    let stdout = [
        r#"{"type":"message","role":"assistant","content":"a","content":"A","delta":true}"#,
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"b\u{1}\",\"delta\":true}",
        r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"c"}],"delta":true,"timestamp":7}"#,
        r#"{"type":"result","status":"success","stats":7}"#,
    ];
    let run_lines = lines(&stdout);
    assert_eq!(Run::of("gemini", &run_lines).text(), "Ab\u{1}c");
    let odd = lines(&[r#"{"type":"telemetry","x":1}"#, "Loaded cached credentials."]);
    let run = Run::of("gemini", &odd);
    assert_eq!(run.unrecognized(), [r#"{"type":"telemetry","x":1}"#, "Loaded cached credentials."]);
}

#[test]
fn a_document_may_carry_an_error_and_warnings() {
    let document = json!({"session_id": "s", "response": "half", "warnings": ["Loop detected, stopping execution"],
        "error": {"type": "INVALID_STREAM", "message": "The model returned an empty text response."}});
    let pretty = serde_json::to_string_pretty(&document).expect("JSON");
    let summary = Run::of("gemini", &pretty).summary();
    assert_eq!(failure(&summary), "server/server_error");
    assert_eq!((summary["text"].as_str(), summary["events"]["notice"].as_u64()), (Some("half"), Some(1)));
    let empty = "{\n  \"session_id\": \"s\",\n  \"response\": \"\",\n  \"stats\": {}\n}";
    assert_eq!(Run::of("gemini", empty).outcome(), "completed", "an empty answer is an answer");
}

#[test]
fn recordings_do_not_depend_on_how_they_are_cut() {
    for capture in
        fixtures::all().iter().filter(|capture| capture.cli == "gemini" && capture.dialect.is_none())
    {
        assert_eq!(capture.drafts(7), capture.drafts(usize::MAX), "{}", capture.name());
    }
}
