//! grok-cli: the failures that the facts name, and the traps.

use bowline_providers::decode::{Cause, End};
use serde_json::json;

use crate::support::Run;

fn said(text: &str) -> String {
    format!(
        "{}\n{}\n",
        json!({"role": "user", "content": "hi"}),
        json!({"role": "assistant", "content": text})
    )
}

#[test]
fn errors_in_the_assistants_mouth_are_failures() {
    let table = [
        (
            "Grok API error: 401 Incorrect API key provided: sk-fake.",
            "authentication",
            "invalid_credentials",
            None,
        ),
        (
            "Grok API error: 429 Rate limit reached. Please try again in 2s.",
            "rate_limit",
            "rate_limited",
            Some(2000),
        ),
        ("Grok API error: 429 You exceeded your current quota", "quota", "quota_exhausted", None),
        (
            "Grok API error: 400 This model's maximum context length is 8192 tokens.",
            "validation",
            "context_overflow",
            None,
        ),
        ("Grok API error: 404 The model `x` does not exist", "not_found", "model_not_found", None),
        ("Grok API error: 500 The server had an error", "server", "server_error", None),
        ("Grok API error: Connection error.", "network", "connection_failed", None),
        ("No response from Grok", "unknown", "unknown", None),
    ];
    for (error, category, code, retry_after) in table {
        let summary =
            Run::of("grok-cli", &said(&format!("Sorry, I encountered an error: {error}"))).summary();
        let failure = &summary["failure"];
        assert_eq!(
            (&failure["category"], &failure["code"], &failure["retry_after_ms"]),
            (&json!(category), &json!(code), &json!(retry_after)),
            "{error}"
        );
        assert_eq!((&summary["outcome"], &summary["all_text"]), (&json!("failed"), &json!("")));
        assert_eq!(failure["message"], error.trim_start_matches("Grok API error: "));
    }
}

#[test]
fn a_model_may_be_sorry() {
    let tool = json!({"role": "tool", "tool_call_id": "t", "content": "ENOENT"});
    let sorry =
        json!({"role": "assistant", "content": "Sorry, I encountered an error: the file is not there."});
    let output = format!("{}{tool}\n{sorry}\n", said("I look."));
    let run = Run::of("grok-cli", &output);
    assert_eq!(run.outcome(), "completed");
    assert!(run.text().ends_with("the file is not there."));
}

#[test]
fn a_signal_is_answered_with_a_line_and_exit_code_0() {
    for before in ["", "{\"role\":\"user\",\"content\":\"hi\"}\n"] {
        let output = format!("{before}\nGracefully shutting down...\n");
        let run = Run::of("grok-cli", &output);
        assert_eq!((run.outcome().as_str(), run.text().as_str()), ("cancelled", ""));
        assert!(run.unrecognized().is_empty());
        // Our own deadline is no wish of the user's.
        let late = Run { end: End { cause: Cause::TimedOut, ..run.end }, ..run };
        assert_eq!(late.summary()["failure"]["category"], "timeout");
    }
}

#[test]
fn words_of_the_program_are_no_answer() {
    let crash = said("Error: Cannot find module 'x'");
    let summary = Run::of("grok-cli", &crash).exit(1).summary();
    assert_eq!((&summary["text"], &summary["failure"]["code"]), (&json!(""), &json!("not_installed")));
    assert_eq!(Run::of("grok-cli", &crash).text(), "Error: Cannot find module 'x'");
    let rounds = said("Maximum tool execution rounds reached. Stopping to prevent infinite loops.");
    assert_eq!(Run::of("grok-cli", &rounds).summary()["failure"]["code"], "max_turns");
    let filler = "{\"role\":\"assistant\",\"content\":\"Using tools to help you...\",\"tool_calls\":[{\"id\":\"t\",\"function\":{\"name\":\"bash\",\"arguments\":\"{}\"}}]}\n";
    let summary = Run::of("grok-cli", filler).summary();
    assert_eq!((&summary["text"], &summary["tools"]), (&json!(""), &json!(1)));
}

#[test]
fn the_rest_of_the_table() {
    let nobody = Run::of("grok-cli", "")
        .exit(1)
        .stderr("❌ Error: API key required. Set GROK_API_KEY environment variable.\n")
        .summary();
    assert_eq!(nobody["failure"]["code"], "not_logged_in");
    let noise = format!("banner\n{}", said("ok"));
    let run = Run::of("grok-cli", &noise);
    assert_eq!((run.text().as_str(), run.unrecognized()), ("ok", vec!["banner".to_owned()]));
}
