//! opencode: the failures that the facts name, and the traps.

use bowline_protocol::kinds::{ToolFinished, ToolStatus};
use bowline_protocol::{Event, Kind};
use serde_json::{Value, json};

use crate::support::Run;

fn line(type_name: &str, part: &Value) -> String {
    let mut part = part.clone();
    let fields = [("sessionID", json!("ses_1")), ("messageID", json!("msg_1"))];
    for (key, value) in fields {
        if part.get(key).is_none() {
            part[key] = value;
        }
    }
    json!({"type": type_name, "timestamp": 1, "sessionID": "ses_1", "part": part}).to_string() + "\n"
}

fn finish(reason: &str) -> String {
    let tokens =
        json!({"total": 18, "input": 8, "output": 7, "reasoning": 0, "cache": {"write": 0, "read": 3}});
    line(
        "step_finish",
        &json!({"id": "f", "type": "step-finish", "reason": reason, "tokens": tokens, "cost": 0.5}),
    )
}

fn start() -> String {
    line("step_start", &json!({"id": "s", "type": "step-start"}))
}

fn text(id: &str, text: &str) -> String {
    line("text", &json!({"id": id, "type": "text", "text": text}))
}

fn error(name: &str, data: &Value) -> String {
    json!({"type": "error", "timestamp": 1, "sessionID": "ses_1", "error": {"name": name, "data": data}})
        .to_string()
        + "\n"
}

#[test]
fn every_error_event_is_a_failure() {
    let limited = json!({"message": "Slow down.", "statusCode": 429, "isRetryable": true, "responseHeaders": {"retry-after": "7"}});
    let table = [
        (
            "APIError",
            json!({"message": "Incorrect API key provided", "statusCode": 401}),
            "authentication",
            "invalid_credentials",
            None,
        ),
        ("APIError", limited, "rate_limit", "rate_limited", Some(7000)),
        (
            "APIError",
            json!({"message": "Slow.", "statusCode": 429, "responseHeaders": {"retry-after-ms": "1500", "retry-after": "2"}}),
            "rate_limit",
            "rate_limited",
            Some(1500),
        ),
        (
            "APIError",
            json!({"message": "You exceeded your current quota", "statusCode": 429}),
            "quota",
            "quota_exhausted",
            None,
        ),
        (
            "APIError",
            json!({"message": "No.", "statusCode": 429, "responseBody": "{\"error\": {\"code\": \"insufficient_quota\"}}"}),
            "quota",
            "quota_exhausted",
            None,
        ),
        (
            "APIError",
            json!({"message": "The server had an error", "statusCode": 500}),
            "server",
            "server_error",
            None,
        ),
        (
            "APIError",
            json!({"message": "Cannot connect to API: Unable to connect."}),
            "network",
            "connection_failed",
            None,
        ),
        ("ContextOverflowError", json!({"message": "Too much."}), "validation", "context_overflow", None),
        ("MessageOutputLengthError", json!({}), "validation", "max_output", None),
        (
            "ProviderAuthError",
            json!({"message": "No.", "providerID": "x"}),
            "authentication",
            "invalid_credentials",
            None,
        ),
        (
            "UnknownError",
            json!({"message": "Unexpected server error. Check server logs for details.", "ref": "err_1"}),
            "unknown",
            "unknown",
            None,
        ),
    ];
    for (name, data, category, code, retry_after) in table {
        // Some are printed twice.
        for times in [1, 2] {
            let summary = Run::of("opencode", &error(name, &data).repeat(times)).exit(1).summary();
            let failure = &summary["failure"];
            assert_eq!(
                (&failure["category"], &failure["code"], &failure["retry_after_ms"]),
                (&json!(category), &json!(code), &json!(retry_after)),
                "{name} {data}"
            );
            assert_eq!(
                (&summary["outcome"], &summary["events"]["turn_ended"]),
                (&json!("failed"), &json!(1))
            );
            assert_eq!(
                (&summary["events"]["notice"], &summary["native_session"]),
                (&json!(1), &json!("ses_1"))
            );
        }
    }
}

#[test]
fn the_log_explains_what_the_program_calls_unknown() {
    let output =
        error("UnknownError", &json!({"message": "Unexpected server error. Check server logs for details."}));
    for (log, category, code) in [
        (
            "ERROR 2026-11-15 service=server error=ProviderModelNotFoundError: fake/nope",
            "not_found",
            "model_not_found",
        ),
        ("ERROR service=session error=AI_LoadAPIKeyError: key is missing", "authentication", "not_logged_in"),
    ] {
        let summary = Run::of("opencode", &output).stderr(log).exit(1).summary();
        assert_eq!(
            (&summary["failure"]["category"], &summary["failure"]["code"]),
            (&json!(category), &json!(code))
        );
    }
}

#[test]
fn an_error_that_was_overcome_is_none() {
    let output = [
        error("ContextOverflowError", &json!({"message": "Too much."})),
        start(),
        text("p", "ok"),
        finish("stop"),
    ]
    .concat();
    let summary = Run::of("opencode", &output).summary();
    assert_eq!((&summary["outcome"], &summary["text"]), (&json!("completed"), &json!("ok")));
    assert_eq!(Run::of("opencode", &output).exit(1).outcome(), "failed");
    let aborted = error("MessageAbortedError", &json!({"message": "The operation was aborted."}));
    assert_eq!(Run::of("opencode", &aborted).exit(1).outcome(), "cancelled");
}

#[test]
fn a_step_that_begins_again_is_a_retry() {
    let output = [start(), start(), start(), text("p", "ok"), finish("stop")].concat();
    let summary = Run::of("opencode", &output).summary();
    assert_eq!((&summary["events"]["retrying"], &summary["text"]), (&json!(2), &json!("ok")));
    assert_eq!((&summary["usage"]["input"], &summary["cost_usd"]), (&json!(8), &json!(0.5)));
}

#[test]
fn steps_that_share_a_message_are_messages_of_their_own() {
    let output =
        [start(), text("a", "First. "), finish("tool-calls"), start(), text("b", "Second."), finish("stop")]
            .concat();
    let summary = Run::of("opencode", &output).summary();
    assert_eq!((&summary["text"], &summary["events"]["retrying"]), (&json!("Second."), &Value::Null));
    assert_eq!(summary["all_text"], "First. \nSecond.");
    assert_eq!((&summary["usage"]["input"], &summary["usage"]["cache_read"]), (&json!(16), &json!(6)));
}

#[test]
fn a_part_that_is_printed_again_is_not_said_again() {
    let output = [
        start(),
        text("a", "Hel"),
        text("a", "Hello"),
        text("a", "Hello"),
        text("b", " you"),
        finish("stop"),
    ]
    .concat();
    assert_eq!(Run::of("opencode", &output).text(), "Hello you");
    let output = [start(), text("a", "Hello"), text("a", "Other"), finish("stop")].concat();
    assert_eq!(Run::of("opencode", &output).text(), "Other");
}

#[test]
fn what_nobody_could_allow_is_refused() {
    let refused = json!({"id": "t", "type": "tool", "tool": "bash", "callID": "c1", "state": {"status": "error",
        "input": {"command": "touch x"}, "error": "The user rejected permission to use this specific tool call."}});
    let output = [start(), line("tool_use", &refused), finish("tool-calls")].concat();
    let stderr = "\u{1b}[93m\u{1b}[1m!\u{1b}[0m permission requested: bash (touch x); auto-rejecting\n";
    let run = Run::of("opencode", &output).stderr(stderr);
    let kinds = run.kinds();
    assert!(kinds.contains(&"approval_asked".to_owned()) && kinds.contains(&"approval_decided".to_owned()));
    assert_eq!(finished(&run)[0].status, ToolStatus::Denied);
    assert_eq!(run.outcome(), "completed");
}

fn finished(run: &Run<'_>) -> Vec<ToolFinished> {
    let finished =
        |event: Event| if let Kind::ToolFinished(finished) = event.kind { Some(finished) } else { None };
    run.events().into_iter().filter_map(finished).collect()
}

#[test]
fn tools_tell_their_exit_codes_and_plans() {
    let shell = json!({"id": "t", "type": "tool", "tool": "bash", "callID": "c1", "state": {"status": "completed",
        "input": {"command": "false"}, "output": "", "metadata": {"exit": 1}}});
    let todo = json!({"id": "u", "type": "tool", "tool": "todowrite", "callID": "c2", "state": {"status": "completed",
        "input": {"todos": [{"content": "a", "status": "in_progress"}]}, "output": "", "metadata": {}}});
    let output = [
        start(),
        line("tool_use", &shell),
        line("tool_use", &shell),
        line("tool_use", &todo),
        finish("stop"),
    ]
    .concat();
    let run = Run::of("opencode", &output);
    let finished = finished(&run);
    assert_eq!(
        (finished.len(), finished[0].exit_code, finished[0].status),
        (2, Some(1), ToolStatus::Completed)
    );
    assert!(run.kinds().contains(&"plan_updated".to_owned()));
}

#[test]
fn the_rest_of_the_table() {
    let missing = Run::of("opencode", "")
        .exit(1)
        .stderr("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found\n")
        .summary();
    assert_eq!(missing["failure"]["code"], "session_not_found");
    let cut = [start(), text("a", "I will ")].concat();
    assert_eq!(Run::of("opencode", &cut).signal(2).outcome(), "cancelled");
    assert_eq!(Run::of("opencode", &cut).signal(15).summary()["failure"]["code"], "killed");
    let run = Run::of("opencode", "Hello\n").stderr("\u{1b}[0m\n> build · fake-model\n\u{1b}[0m\n");
    assert_eq!((run.text().as_str(), &run.summary()["model"]), ("Hello", &json!("fake-model")));
    let odd = "{\"type\":\"text\",\"sessionID\":5,\"part\":{\"id\":[],\"text\":\"a\",\"time\":\"now\"}}\n{\"type\":\"new\"}\n{\"type\":\"done\",\"reason\":\"idle\",\"rejected\":[]}\n";
    let run = Run::of("opencode", odd);
    assert_eq!((run.text().as_str(), run.unrecognized().len()), ("a", 1));
}
