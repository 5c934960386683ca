//! The examples of the CLI provider for pi: protocols A and B, as JSON lines and as server-sent events.

use serde_json::json;

use crate::support::{Run, text};

/// Protocol A, with the elided parts filled in as the program prints them.
const PROTOCOL_A: &str = r#"{"type":"session","id":"abc123","cwd":"/path/to/project"}
{"type":"message_start","message":{"role":"assistant","content":[]}}
{"type":"message_update","message":{"role":"assistant","content":[{"type":"text","text":"Hello"}]},"assistantMessageEvent":{"type":"text_delta","delta":"Hello","contentIndex":0}}
{"type":"tool_execution_start","toolCallId":"call_1","toolName":"Read","args":{"path":"file.txt"}}
{"type":"tool_execution_update","toolCallId":"call_1","toolName":"Read","partialResult":{"content":[{"type":"text","text":"..."}]}}
{"type":"tool_execution_end","toolCallId":"call_1","toolName":"Read","result":{"content":[{"type":"text","text":"...done"}]},"isError":false}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Hello"}]}}
"#;

const PROTOCOL_B: &str = r#"{"type":"text","delta":"Hello"}
{"type":"thinking","delta":"Let me think..."}
{"type":"tool_call","id":"call_1","name":"bash","arguments":{"command":"ls"}}
{"type":"tool_result","id":"call_1","content":"file1.txt\nfile2.txt"}
{"type":"done"}
"#;

/// The same lines as a stream of server-sent events.
fn as_events(lines: &str) -> String {
    lines.lines().map(|line| format!("event: message\ndata: {line}\n\n")).collect()
}

#[test]
fn protocol_a() {
    for output in [PROTOCOL_A.to_owned(), as_events(PROTOCOL_A)] {
        let run = Run::of("pi-events", &output);
        let summary = run.summary();
        assert_eq!(summary["text"], "Hello", "the end of the message does not double it");
        assert_eq!(summary["outcome"], "completed");
        assert_eq!(summary["native_session"], "abc123");
        assert_eq!(summary["tools"], 1);
        assert_eq!(summary["unrecognized"], 0);
        assert_eq!(
            run.kinds(),
            [
                "session_started",
                "turn_started",
                "text_delta",
                "tool_started",
                "tool_updated",
                "tool_finished",
                "message_finished",
                "usage_reported",
                "turn_ended",
                "session_ended"
            ]
        );
    }
}

#[test]
fn protocol_b() {
    for output in [PROTOCOL_B.to_owned(), as_events(PROTOCOL_B), PROTOCOL_B.replace('\n', "\r\n")] {
        let run = Run::of("simple", &output);
        let summary = run.summary();
        assert_eq!((&summary["text"], &summary["outcome"]), (&json!("Hello"), &json!("completed")));
        assert_eq!((&summary["tools"], &summary["unrecognized"]), (&json!(1), &json!(0)));
    }
}

#[test]
fn the_first_line_tells_the_protocol() {
    let session = "{\"type\":\"session\",\"id\":\"abc123\"}\n";
    let banner = "starting up\n{\"type\":\"hello\"}\n";
    let wordy = format!("{banner}{session}{PROTOCOL_B}");
    let both = [PROTOCOL_A, PROTOCOL_B].map(|lines| [lines.to_owned(), as_events(lines)]);
    for output in both.concat() {
        let summary = Run::of("external-events", &output).summary();
        assert_eq!(
            (&summary["text"], &summary["outcome"]),
            (&json!("Hello"), &json!("completed")),
            "{output}"
        );
        assert_eq!((&summary["tools"], &summary["unrecognized"]), (&json!(1), &json!(0)), "{output}");
    }
    // What stands in neither protocol, or in both, decides nothing.
    let summary = Run::of("external-events", &wordy).summary();
    assert_eq!((&summary["text"], &summary["native_session"]), (&json!("Hello"), &json!("abc123")));
    assert_eq!(summary["unrecognized"], 2);
    let failed = "{\"type\":\"error\",\"error\":\"429 too many requests\"}\n";
    assert_eq!(Run::of("external-events", failed).summary()["failure"]["category"], "rate_limit");
    // A line of one protocol in the middle of the other is kept as not understood, never as text.
    let mixed = PROTOCOL_A.replace(
        "{\"type\":\"message_end\"",
        "{\"type\":\"text\",\"delta\":\"x\"}\n{\"type\":\"message_end\"",
    );
    let summary = Run::of("external-events", &mixed).summary();
    assert_eq!((&summary["text"], &summary["unrecognized"]), (&json!("Hello"), &json!(1)));
}

#[test]
fn exit_code_zero_ends_protocol_a_without_a_last_message() {
    let cut: String = PROTOCOL_A.lines().take(3).map(|line| format!("{line}\n")).collect();
    let run = Run::of("external-events", &cut);
    assert_eq!((run.outcome().as_str(), run.text().as_str()), ("completed", "Hello"));
    assert_eq!(run.lines("pi").last().expect("an end")["type"], "done");
    assert_eq!(Run::of("external-events", &cut).exit(3).outcome(), "failed");
    // pi itself always says how a turn ended.
    assert_eq!(Run::of("pi-events", &cut).outcome(), "truncated");
}

#[test]
fn protocol_b_comes_back_as_it_went_in() {
    let expect: Vec<serde_json::Value> =
        PROTOCOL_B.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(Run::of("simple", PROTOCOL_B).lines("simple"), expect);
}

#[test]
fn a_message_that_was_never_streamed_is_not_lost() {
    let output = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Whole"}],"stopReason":"stop"}}"#;
    assert_eq!(text("pi-events", output), "Whole");
}

#[test]
fn a_message_that_stops_for_a_tool_is_not_the_end() {
    let calls = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"I look"},{"type":"toolCall","id":"c"}],"stopReason":"toolUse"}}"#;
    assert_eq!(Run::of("pi-events", calls).outcome(), "truncated");
    let answers = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Found"}],"stopReason":"length","usage":{"input":5,"output":3,"cacheRead":2,"cacheWrite":1,"totalTokens":11,"cost":{"total":0.5}}}}"#;
    let both = format!("{calls}\n{answers}\n");
    let run = Run::of("pi-events", &both);
    let summary = run.summary();
    assert_eq!((&summary["text"], &summary["outcome"]), (&json!("I look\nFound"), &json!("completed")));
    assert_eq!(summary["usage"]["total"], 11);
    assert_eq!(summary["cost_usd"], 0.5);
    assert_eq!(run.lines("pi").last().expect("done")["reason"], "length");
}

#[test]
fn a_message_that_turns_out_longer_and_other_replaces_its_pieces() {
    let lines = r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"Helo","contentIndex":0}}
{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"!","contentIndex":1}}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Hello"},{"type":"text","text":"!"}]}}
"#;
    let run = Run::of("pi-events", lines);
    assert_eq!(run.text(), "Hello!");
    assert!(run.kinds().contains(&"text_retracted".to_owned()));
}

#[test]
fn an_error_counts_unless_a_retry_overcomes_it() {
    let failed = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"429: too many requests"}}"#;
    let retry = r#"{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":2000,"errorMessage":"429: too many requests"}"#;
    let answered = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"ok"}],"stopReason":"stop"}}"#;
    let run = Run::of("pi-events", failed);
    assert_eq!(run.summary()["failure"]["category"], "rate_limit");
    let ended = format!("{failed}\n{{\"type\":\"agent_end\",\"willRetry\":false}}\n");
    let run = Run::of("pi-events", &ended);
    assert_eq!(run.summary()["failure"]["category"], "rate_limit");
    let all = format!("{failed}\n{retry}\n{answered}\n{{\"type\":\"agent_end\"}}\n");
    let run = Run::of("pi-events", &all);
    assert_eq!((run.outcome().as_str(), run.text().as_str()), ("completed", "ok"));
    assert!(run.kinds().contains(&"retrying".to_owned()));
}

#[test]
fn a_non_zero_exit_code_is_an_error() {
    for (dialect, output) in [("pi-events", PROTOCOL_A), ("simple", PROTOCOL_B)] {
        let run = Run::of(dialect, output).exit(1).stderr("rate_limit hit");
        assert_eq!(run.outcome(), "failed", "{dialect}");
        let last = run.lines("pi").pop().expect("an end");
        assert_eq!((&last["type"], &last["reason"]), (&json!("error"), &json!("error")));
        assert_eq!(last["error"]["errorMessage"], "rate_limit hit");
    }
}

#[test]
fn an_exit_code_alone_is_told_in_the_words_of_the_specification() {
    let last = Run::of("external-events", PROTOCOL_B).exit(3).lines("pi").pop().expect("an end");
    assert_eq!(last["error"]["errorMessage"], "CLI exited with code 3");
}

#[test]
fn the_pi_view_is_the_whole_sequence() {
    let lines = Run::of("simple", PROTOCOL_B).lines("pi");
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(
        types,
        [
            "start",
            "text_start",
            "text_delta",
            "text_end",
            "thinking_start",
            "thinking_delta",
            "thinking_end",
            "done"
        ]
        .map(str::to_owned),
    );
    let done = lines.last().expect("an end");
    assert_eq!(done["reason"], "stop", "never toolUse for a tool that the program ran");
    assert_eq!(done["message"]["api"], "external-cli");
    assert_eq!(done["message"]["content"][0], json!({"type": "text", "text": "Hello"}));
    assert_eq!(done["message"]["content"][1]["thinking"], "Let me think...");
    // The protocol's own shape has the message so far in every record.
    let partials = Run::of("simple", PROTOCOL_B).lines("pi-partials");
    assert_eq!(partials.len(), lines.len());
    assert!(partials[..partials.len() - 1].iter().all(|line| line["partial"]["role"] == "assistant"));
    assert_eq!(partials[2]["partial"]["content"][0], json!({"type": "text", "text": "Hello"}));
}

#[test]
fn events_may_span_lines_and_lack_the_last_blank_one() {
    let output = ": comment\r\nid: 1\r\nretry: 5\r\ndata: {\"type\":\"text\",\r\ndata:\"delta\":\"Hi\"}\r\n\r\ndata: {\"type\":\"text\",\"delta\":\"!\"}\n\ndata: [DONE]\n\ndata: {\"type\":\"text\",\"delta\":\"?\"}";
    let run = Run::of("simple", output);
    assert_eq!((run.text().as_str(), run.unrecognized().len()), ("Hi!?", 0));
}
