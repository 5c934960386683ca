//! Programs that are not careful: empty answers, results that differ from what was said, odd values, late words.

use serde_json::json;

use crate::support::{Run, text};

#[test]
fn an_empty_answer_is_an_answer_in_every_dialect() {
    for (dialect, output) in [
        ("text", "\n"),
        ("json", r#"{"content":"","usage":{"input_tokens":5,"output_tokens":7}}"#),
        ("role-lines", r#"{"role":"assistant","content":"","usage":{"input_tokens":5,"output_tokens":7}}"#),
        ("stream-json", r#"{"role":"assistant","content":"","usage":{"input_tokens":5,"output_tokens":7}}"#),
        (
            "stream-json",
            "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}",
        ),
        ("stream-json", r#"{"type":"result","result":"","usage":{"input_tokens":5,"output_tokens":7}}"#),
        (
            "pi-events",
            r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"stop","usage":{"input":5,"output":7}}}"#,
        ),
        ("simple", "{\"type\":\"done\",\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}"),
        (
            "executable-generate",
            r#"{"content":"","tokens_used":12,"input_tokens":5,"output_tokens":7,"finish_reason":"stop"}"#,
        ),
        ("executable-stream", r#"{"content":"","delta":"","done":true,"tokens_used":12}"#),
    ] {
        let summary = Run::of(dialect, output).summary();
        assert_eq!(
            (&summary["text"], &summary["outcome"]),
            (&json!(""), &json!("completed")),
            "{dialect}: {output}"
        );
        let total = if dialect == "text" { 0 } else { 12 };
        assert_eq!(summary["usage"]["total"], total, "{dialect}: {output}");
    }
    assert_eq!(
        Run::of("pi-events", "{\"type\":\"agent_start\"}\n{\"type\":\"agent_end\"}").outcome(),
        "completed"
    );
}

#[test]
fn a_failed_turn_keeps_what_it_used_and_cost() {
    let output = "{\"type\":\"system\",\"session_id\":\"s\"}\n{\"type\":\"result\",\"is_error\":true,\"result\":\"API Error: 529 overloaded\",\"total_cost_usd\":0.5,\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}\n";
    let summary = Run::of("stream-json", output).exit(1).summary();
    assert_eq!((&summary["usage"]["total"], &summary["cost_usd"]), (&json!(12), &json!(0.5)));
}

#[test]
fn a_result_that_says_more_is_not_lost() {
    let said = |text: &str| {
        format!(r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
    };
    let result = |text: &str| format!(r#"{{"type":"result","is_error":false,"result":"{text}"}}"#);
    for (spoken, whole, expect) in [
        ("Hel", "Hello", "Hello"),
        ("I will look.", "The answer is 42, at length.", "I will look.\nThe answer is 42, at length."),
        ("Hello there", "Hello", "Hello there"),
    ] {
        assert_eq!(text("stream-json", &format!("{}\n{}\n", said(spoken), result(whole))), expect);
    }
}

#[test]
fn the_cost_of_a_session_is_not_added_up() {
    let turn = |text: &str, cost: f64| {
        format!(
            "{{\"type\":\"content\",\"content\":\"{text}\"}}\n{{\"type\":\"result\",\"result\":\"{text}\",\"total_cost_usd\":{cost},\"usage\":{{\"input_tokens\":1,\"output_tokens\":1}}}}\n"
        )
    };
    let summary = Run::of("stream-json", &[turn("A", 0.1), turn("B", 0.3)].concat()).summary();
    assert!((summary["cost_usd"].as_f64().expect("a cost") - 0.3).abs() < 1e-9);
    assert_eq!(summary["usage"]["total"], 4);
}

#[test]
fn forms_may_be_mixed_and_messages_stay_apart() {
    let output = "{\"type\":\"content\",\"content\":\"A\"}\n{\"role\":\"assistant\",\"content\":\"B\"}\n{\"type\":\"content\",\"content\":\"C\"}\n{\"type\":\"turn.completed\"}\n";
    assert_eq!(text("stream-json", output), "A\nB\nC");
}

#[test]
fn blocks_of_one_message_join_with_nothing() {
    let line = |id: &str, text: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    };
    let output =
        [line("a", "Hel"), line("a", "lo"), line("b", "!"), r#"{"type":"result","result":"!"}"#.into()]
            .join("\n");
    assert_eq!(text("stream-json", &output), "Hello\n!");
}

#[test]
fn arguments_for_the_host_are_never_cut() {
    let content = "y".repeat(40_000);
    let arguments = json!({"path": "a", "content": content}).to_string();
    let answer = json!({"content": "", "finish_reason": "tool_use", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "write", "arguments": arguments}}]});
    let answer = answer.to_string();
    let run = Run::of("executable-generate", &answer);
    let view = run.lines("generate").remove(0);
    let given: serde_json::Value =
        serde_json::from_str(view["tool_calls"][0]["function"]["arguments"].as_str().expect("text"))
            .expect("JSON");
    assert_eq!(given["content"].as_str().map(str::len), Some(40_000));
    assert_eq!(run.lines("simple")[0]["arguments"]["content"].as_str().map(str::len), Some(40_000));
}

#[test]
fn a_log_line_is_no_answer_and_an_unknown_object_is_no_success() {
    assert_eq!(text("json", "{\"content\":\"hi\"}\n{\"level\":\"info\",\"message\":\"done\"}\n"), "hi");
    for (dialect, output) in [("json", r#"{"foo":"bar"}"#), ("executable-generate", r#"{"foo":1}"#)] {
        let summary = Run::of(dialect, output).summary();
        assert_eq!(summary["failure"]["code"], "format_changed", "{dialect}");
        assert_eq!(summary["unrecognized"], 1, "{dialect}");
    }
    assert_eq!(text("json", r#"[{"type":"system"},{"type":"result","result":"the answer"}]"#), "the answer");
}

#[test]
fn an_error_after_the_turn_is_no_turn() {
    let output = "{\"type\":\"content\",\"content\":\"A\"}\n{\"type\":\"turn.completed\"}\n{\"type\":\"error\",\"message\":\"cleanup failed\"}\n";
    let run = Run::of("stream-json", output).exit(1);
    assert_eq!((run.outcome().as_str(), run.text().as_str()), ("completed", "A"));
}

#[test]
fn an_aborted_message_is_cancelled_with_or_without_more_words() {
    let aborted = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"par"}],"stopReason":"aborted"}}"#;
    for exit in [0, 1] {
        let run = Run::of("pi-events", aborted).exit(exit);
        assert_eq!((run.outcome().as_str(), run.text().as_str()), ("cancelled", "par"));
        assert_eq!(run.lines("pi").last().expect("an end")["reason"], "aborted");
    }
}

#[test]
fn text_and_model_are_found_where_they_are() {
    let output = r#"{"type":"message_end","message":{"role":"assistant","content":"Hello","model":"gpt"}}"#;
    let summary = Run::of("pi-events", output).summary();
    assert_eq!((&summary["text"], &summary["model"]), (&json!("Hello"), &json!("gpt")));
    let item = r#"{"type":"item.completed","item":{"type":"agent_message","text":null,"agent_message":{"text":"B"}}}"#;
    assert_eq!(text("stream-json", item), "B");
    let older = r#"{"type":"item.completed","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"C"}]}}"#;
    assert_eq!(text("stream-json", older), "C");
}

#[test]
fn an_unknown_role_is_kept_whole() {
    let line = r#"{"role":"model","content":"hi"}"#;
    assert_eq!(Run::of("stream-json", line).unrecognized(), [line]);
}

#[test]
fn an_odd_value_costs_its_field_and_not_the_line() {
    let deep = "[".repeat(300) + &"]".repeat(300);
    for line in [
        r#"{"role":"assistant","content":"hi","usage":{"input_tokens":1e400,"output_tokens":2}}"#.to_owned(),
        format!(r#"{{"role":"assistant","content":"hi","tool_calls":{deep}}}"#),
    ] {
        assert_eq!(text("role-lines", &line), "hi");
    }
}

#[test]
fn a_long_echo_of_the_prompt_is_counted_whole() {
    let prompt = "é".repeat(100_000);
    let output = format!(
        "{{\"role\":\"user\",\"content\":\"{prompt}\"}}\n{{\"role\":\"assistant\",\"content\":\"ok\"}}\n"
    );
    let run = Run::of("role-lines", &output);
    assert_eq!(run.summary()["usage"]["input"], 25_000);
    let user = run
        .lines("events")
        .into_iter()
        .find(|event| event["kind"]["type"] == "user_message")
        .expect("a message");
    assert_eq!(user["kind"]["bytes"], 200_000);
}

#[test]
fn the_reason_of_a_failure_may_stand_on_standard_output() {
    let error = "Error: 429 Too Many Requests, retry after 30 seconds\n";
    for dialect in ["text", "stream-json", "simple"] {
        let summary = Run::of(dialect, error).exit(1).summary();
        assert_eq!(summary["failure"]["category"], "rate_limit", "{dialect}");
        assert_eq!(summary["failure"]["retry_after_ms"], 30_000, "{dialect}");
    }
}

#[test]
fn notices_about_standard_input_are_no_reason() {
    let stderr = "Reading additional input from stdin...\n";
    assert_eq!(
        Run::of("stream-json", "").exit(1).stderr(stderr).summary()["failure"]["message"],
        "exit code 1"
    );
}

#[test]
fn a_long_text_is_quoted_from_where_it_tells_the_reason() {
    let stderr = format!("{}Error: 429 Too Many Requests\nbye\n", "banner line\n".repeat(120));
    let summary = Run::of("text", "").exit(1).stderr(&stderr).summary();
    assert_eq!(summary["failure"]["message"], "Error: 429 Too Many Requests\nbye");
}

#[test]
fn a_refused_argument_is_told_as_such_whatever_numbers_it_holds() {
    let run = Run::of("text", "").exit(2).stderr("error: unexpected argument '--max-tokens=400' found");
    let summary = run.summary();
    assert_eq!(summary["failure"]["code"], "flag_rejected");
    assert!(summary["failure"]["hint"].as_str().is_some_and(|hint| hint.contains("certify")));
}

#[test]
fn errors_of_a_result_are_read_wherever_they_stand() {
    let output = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (2)"]}"#;
    let summary = Run::of("stream-json", output).exit(1).summary();
    assert_eq!(summary["failure"]["code"], "max_turns");
}

#[test]
fn what_only_looks_like_an_event_stream_is_kept() {
    let run =
        Run::of("simple", "event: connection error 429\nretry\nid\n{\"type\":\"text\",\"delta\":\"Hel\"}\n");
    assert_eq!(run.unrecognized(), ["event: connection error 429", "retry", "id"]);
    assert_eq!(run.text(), "Hel");
}

#[test]
fn a_rate_limit_that_is_reached_is_no_quota_and_a_plan_limit_is() {
    let failure =
        |text: &str| Run::of("text", "").exit(1).stderr(text).summary()["failure"]["category"].clone();
    assert_eq!(failure("429 Rate limit reached. Please try again in 2s."), "rate_limit");
    assert_eq!(failure("Limit reached · resets 3pm"), "quota");
}

#[test]
fn an_answer_is_no_evidence_against_a_program_that_was_killed() {
    let answer = "I fixed it: 429 Too Many Requests is handled, and the invalid api key too.";
    let claude = format!(
        "{{\"type\":\"assistant\",\"message\":{{\"id\":\"a\",\"model\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"{answer}\"}}]}}}}\n{{\"type\":\"result\",\"contextWindow\""
    );
    let roles = format!("{{\"role\":\"assistant\",\"content\":\"{answer}\"}}\n");
    for (dialect, output) in [("claude", &claude), ("grok-cli", &roles), ("role-lines", &roles)] {
        let killed = Run::of(dialect, output).signal(9).summary();
        assert_eq!(killed["failure"]["code"], "killed", "{dialect}");
        let failed = Run::of(dialect, output).exit(1).summary();
        assert_eq!(failed["failure"]["category"], "unknown", "{dialect}");
    }
}

#[test]
fn a_spent_balance_is_a_quota_in_every_shape() {
    let result = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":400,"result":"Credit balance is too low"}"#;
    let summary = Run::of("claude", result).exit(1).summary();
    assert_eq!(
        (&summary["failure"]["category"], &summary["failure"]["code"]),
        (&json!("quota"), &json!("billing"))
    );
}

#[test]
fn a_transcript_is_no_evidence_either() {
    let banner = "OpenAI Codex v0.166.0\n--------\nworkdir: /x\nmodel: m\nsession id: 0\n--------\n";
    let stderr =
        format!("{banner}user\nplease fix the 401 unauthorized bug\nexec\nHTTP 429 rate limit exceeded\n");
    let summary = Run::of("codex-exec", "").exit(1).stderr(&stderr).summary();
    assert_eq!(summary["failure"]["category"], "unknown");
}

#[test]
fn a_document_that_is_cut_short_is_truncated() {
    let document = "{\n  \"session_id\": \"s\",\n  \"response\": \"Hello\",\n";
    let summary = Run::of("gemini", document).summary();
    assert_eq!((&summary["outcome"], &summary["unrecognized"]), (&json!("truncated"), &json!(1)));
}

#[test]
fn text_that_was_taken_back_is_not_counted() {
    let summary = Run::of("claude", "API Error: 500 internal server error\n").exit(1).summary();
    assert_eq!((&summary["text"], &summary["usage"]), (&json!(""), &json!(null)));
}
