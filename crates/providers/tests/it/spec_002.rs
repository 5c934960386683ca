//! The examples of the CLI provider protocol: `generate` and `stream`.

use serde_json::json;

use crate::support::Run;

const GENERATE: &str = r#"{
  "content": "2 + 2 = 4.",
  "tokens_used": 41,
  "input_tokens": 32,
  "output_tokens": 9,
  "model": "llama3.2:latest",
  "latency": 4364650667,
  "finish_reason": "stop",
  "error": "",
  "provider": "ollama"
}"#;

const STREAM: &str = r#"{"content":"2","delta":"2","done":false,"tokens_used":0,"error":"","timestamp":"2025-01-07T10:30:00Z"}
{"content":"2 +","delta":" +","done":false,"tokens_used":0,"error":"","timestamp":"2025-01-07T10:30:00Z"}
{"content":"2 + 2","delta":" 2","done":false,"tokens_used":0,"error":"","timestamp":"2025-01-07T10:30:00Z"}
{"content":"2 + 2 = 4.","delta":" = 4.","done":true,"tokens_used":41,"error":"","timestamp":"2025-01-07T10:30:00Z"}
"#;

#[test]
fn generate() {
    let run = Run::of("executable-generate", GENERATE);
    let summary = run.summary();
    assert_eq!((&summary["text"], &summary["outcome"]), (&json!("2 + 2 = 4."), &json!("completed")));
    assert_eq!(summary["model"], "llama3.2:latest");
    assert_eq!(summary["usage"]["total"], 41);
    let view = &run.lines("generate")[0];
    for field in
        ["content", "tokens_used", "input_tokens", "output_tokens", "model", "finish_reason", "error"]
    {
        let given: serde_json::Value = serde_json::from_str(GENERATE).expect("JSON");
        assert_eq!(view[field], given[field], "{field}");
    }
}

#[test]
fn stream() {
    let run = Run::of("executable-stream", STREAM);
    let summary = run.summary();
    assert_eq!((&summary["text"], &summary["outcome"]), (&json!("2 + 2 = 4."), &json!("completed")));
    assert_eq!((&summary["usage"]["total"], &summary["usage"]["source"]), (&json!(41), &json!("estimated")));
    let chunks = run.lines("chunks");
    let given: Vec<serde_json::Value> =
        STREAM.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (chunk, given) in chunks.iter().zip(&given) {
        assert_eq!((&chunk["content"], &chunk["delta"]), (&given["content"], &given["delta"]));
    }
    let last = chunks.last().expect("a last chunk");
    assert_eq!((&last["done"], &last["tokens_used"], &last["error"]), (&json!(true), &json!(41), &json!("")));
}

#[test]
fn no_error_may_be_written_in_three_ways() {
    for error in ["", r#","error":null"#, r#","error":"""#] {
        let answer = format!("{{\"content\":\"x\"{error}}}");
        assert_eq!(Run::of("executable-generate", &answer).outcome(), "completed", "{answer}");
        let chunk = format!("{{\"content\":\"x\",\"delta\":\"x\",\"done\":true{error}}}");
        assert_eq!(Run::of("executable-stream", &chunk).outcome(), "completed", "{chunk}");
    }
}

#[test]
fn an_error_fails_whatever_the_exit_code() {
    for (dialect, output) in [
        ("executable-generate", r#"{"content":"","error":"model not found"}"#),
        (
            "executable-stream",
            "{\"content\":\"ab\",\"delta\":\"ab\",\"done\":false}\n{\"content\":\"ab\",\"delta\":\"\",\"done\":true,\"error\":\"model not found\"}\n",
        ),
    ] {
        let summary = Run::of(dialect, output).summary();
        assert_eq!(summary["outcome"], "failed", "{dialect}");
        assert_eq!(summary["failure"]["category"], "not_found");
    }
    let summary =
        Run::of("executable-generate", "").exit(1).stderr("provider failed: connect ECONNREFUSED").summary();
    assert_eq!(summary["failure"]["category"], "network");
}

#[test]
fn delta_counts_where_content_disagrees() {
    let output = "{\"content\":\"A\",\"delta\":\"a\",\"done\":false}\n{\"content\":\"Ab\",\"delta\":\"b\",\"done\":true}\n";
    let run = Run::of("executable-stream", output);
    assert_eq!(run.text(), "ab");
    assert_eq!(run.summary()["events"]["notice"], 1, "one warning, not one for each chunk");
}

#[test]
fn content_alone_is_enough() {
    let output = "{\"content\":\"2\",\"done\":false}\n{\"content\":\"2 +\",\"done\":false}\n{\"content\":\"2 +\",\"done\":true}\n";
    let run = Run::of("executable-stream", output);
    assert_eq!((run.text().as_str(), run.outcome().as_str()), ("2 +", "completed"));
}

#[test]
fn a_stream_without_its_last_chunk_is_truncated() {
    let output = "{\"content\":\"2\",\"delta\":\"2\",\"done\":false}\n";
    let summary = Run::of("executable-stream", output).summary();
    assert_eq!((&summary["outcome"], &summary["text"]), (&json!("truncated"), &json!("2")));
    assert_eq!(summary["failure"]["code"], "truncated");
}

#[test]
fn finish_reasons_both_ways() {
    for (given, expect) in
        [("stop", "stop"), ("length", "length"), ("tool_use", "tool_use"), ("error", "error")]
    {
        let tools = if given == "tool_use" {
            r#","tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}]"#
        } else {
            ""
        };
        let answer = format!("{{\"content\":\"x\",\"finish_reason\":\"{given}\"{tools}}}");
        let view = Run::of("executable-generate", &answer).lines("generate").remove(0);
        assert_eq!(view["finish_reason"], expect);
    }
}

#[test]
fn the_last_chunk_may_say_what_an_answer_says() {
    let output = r#"{"content":"x","delta":"x","done":false}
{"content":"x","delta":"","done":true,"tokens_used":7,"input_tokens":3,"output_tokens":4,"finish_reason":"tool_use","model":"m","tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}]}
"#;
    let run = Run::of("executable-stream", output);
    let summary = run.summary();
    assert_eq!((&summary["usage"]["input"], &summary["usage"]["source"]), (&json!(3), &json!("reported")));
    let view = run.lines("generate").remove(0);
    assert_eq!(
        (&view["finish_reason"], &view["tool_calls"][0]["function"]["name"]),
        (&json!("tool_use"), &json!("add"))
    );
}

#[test]
fn noise_around_the_answer_is_noise() {
    let run = Run::of("executable-generate", "pulling model\n{\"content\":\"x\"}\nbye\n");
    assert_eq!((run.text().as_str(), run.outcome().as_str()), ("x", "completed"));
    assert_eq!(run.unrecognized(), ["pulling model", "bye"]);
}
