//! Claude Code: every row of the table of its failures.

use serde_json::json;

use crate::claude::{INIT, lines, result, says};
use crate::support::Run;

/// What `assistant.error` says, the status, the finer word, `terminal_reason`, the text; then our verdict.
type Row = (&'static str, Option<u16>, &'static str, &'static str, &'static str, &'static str);

#[test]
fn every_row_of_the_failure_table() {
    let rows: &[Row] = &[
        ("unknown", Some(400), "", "api_error", "API Error: 400 tools.0: bad", "validation/invalid_request"),
        (
            "authentication_failed",
            Some(401),
            "",
            "api_error",
            "Invalid API key · Fix external API key",
            "authentication/invalid_credentials",
        ),
        (
            "authentication_failed",
            Some(401),
            "",
            "api_error",
            "Not logged in · Please run /login",
            "authentication/not_logged_in",
        ),
        (
            "authentication_failed",
            None,
            "",
            "api_error",
            "Not logged in · Please run /login",
            "authentication/not_logged_in",
        ),
        (
            "authentication_failed",
            Some(403),
            "",
            "api_error",
            "Failed to authenticate. API Error: 403 no",
            "authentication/forbidden",
        ),
        (
            "model_not_found",
            Some(404),
            "",
            "api_error",
            "There's an issue with the selected model (x).",
            "not_found/model_not_found",
        ),
        (
            "invalid_request",
            Some(413),
            "",
            "image_error",
            "Request too large (max 32MB).",
            "validation/request_too_large",
        ),
        (
            "rate_limit",
            Some(429),
            "",
            "api_error",
            "API Error: Request rejected (429) · slow down",
            "rate_limit/rate_limited",
        ),
        (
            "rate_limit",
            Some(429),
            "usage_limit_reached",
            "api_error",
            "You've hit your 5-hour limit",
            "quota/usage_limit",
        ),
        (
            "server_error",
            Some(500),
            "",
            "api_error",
            "API Error: 500 Internal server error.",
            "server/server_error",
        ),
        (
            "server_error",
            Some(529),
            "",
            "api_error",
            "API Error: Repeated 529 Overloaded errors",
            "server/overloaded",
        ),
        ("overloaded", None, "", "api_error", "Overloaded", "server/overloaded"),
        ("billing_error", Some(400), "", "api_error", "Credit balance is too low", "quota/billing"),
        (
            "invalid_request",
            Some(400),
            "",
            "prompt_too_long",
            "Prompt is too long",
            "validation/context_overflow",
        ),
        (
            "server_error",
            None,
            "connection_failed",
            "api_error",
            "API Error: Connection refused (ECONNREFUSED)",
            "network/connection_failed",
        ),
        (
            "server_error",
            None,
            "connection_failed",
            "api_error",
            "Connection to the API was lost (ECONNRESET)",
            "network/connection_lost",
        ),
        ("server_error", None, "", "api_error", "Request timed out", "timeout/timed_out"),
        ("server_error", None, "", "api_error", "Something odd", "server/server_error"),
        (
            "oauth_org_not_allowed",
            Some(403),
            "",
            "api_error",
            "Your organization does not allow this",
            "authentication/forbidden",
        ),
        ("account_on_hold", None, "", "api_error", "Your account is on hold", "authentication/forbidden"),
        (
            "cloud_credential_error",
            None,
            "",
            "api_error",
            "Could not load credentials",
            "authentication/invalid_credentials",
        ),
        (
            "max_output_tokens",
            None,
            "",
            "api_error",
            "API Error: the response exceeded the maximum",
            "validation/max_output",
        ),
        // 2.1.197 said `completed` and had fewer fields.
        (
            "server_error",
            Some(500),
            "",
            "completed",
            "API Error: 500 Internal server error.",
            "server/server_error",
        ),
    ];
    for (error, status, api_error, reason, text, verdict) in rows {
        let api_error = Some(*api_error).filter(|word| !word.is_empty());
        let assistant = json!({
            "type": "assistant", "error": error, "api_error_status": status, "api_error": api_error,
            "message": {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": text}]},
        });
        let end = result(json!({
            "is_error": true, "result": text, "api_error_status": status, "api_error": api_error,
            "terminal_reason": reason, "stop_reason": "stop_sequence",
        }));
        let output = lines(&[INIT, &assistant.to_string(), &end]);
        let summary = Run::of("claude", &output).exit(1).summary();
        let failure = &summary["failure"];
        let found =
            format!("{}/{}", failure["category"].as_str().unwrap(), failure["code"].as_str().unwrap());
        assert_eq!(found, *verdict, "{error} {status:?} {text}");
        assert_eq!(failure["message"], *text);
        assert_eq!((&summary["all_text"], &summary["outcome"]), (&json!(""), &json!("failed")), "{text}");
    }
}

#[test]
fn failures_that_the_result_alone_tells() {
    for (fields, outcome, verdict) in [
        (
            json!({"subtype": "error_max_turns", "errors": ["Reached maximum number of turns (2)"]}),
            "failed",
            "max_turns",
        ),
        (
            json!({"subtype": "error_max_budget_usd", "errors": ["Reached maximum budget ($1)"]}),
            "failed",
            "budget",
        ),
        (
            json!({"stop_reason": "refusal", "result": "API Error: safeguards flagged this"}),
            "failed",
            "refused",
        ),
        (json!({"subtype": "error_during_execution", "errors": ["something broke"]}), "failed", "unknown"),
        (
            json!({"subtype": "error_during_execution", "terminal_reason": "aborted_streaming"}),
            "cancelled",
            "",
        ),
        (json!({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}), "cancelled", ""),
        (
            json!({"subtype": "error_during_execution", "terminal_reason": null, "errors": ["No conversation found with session ID: x"]}),
            "failed",
            "session_not_found",
        ),
    ] {
        let mut fields = fields;
        fields["is_error"] = json!(true);
        let summary = Run::of("claude", &result(fields.clone())).exit(1).summary();
        assert_eq!(summary["outcome"], outcome, "{fields}");
        assert_eq!(summary["failure"]["code"].as_str().unwrap_or_default(), verdict, "{fields}");
    }
}

#[test]
fn an_aborted_turn_is_cancelled_also_where_it_is_called_a_success() {
    for reason in ["aborted_streaming", "aborted_tools"] {
        let fields =
            json!({"is_error": false, "subtype": "success", "terminal_reason": reason, "result": "half"});
        let summary = Run::of("claude", &result(fields)).summary();
        assert_eq!(summary["outcome"], "cancelled", "{reason}");
    }
}

#[test]
fn what_only_stderr_tells() {
    for (stderr, verdict) in [
        ("error: unknown option '--x'", "flag_rejected"),
        ("Error: Invalid session ID. Must be a valid UUID.", "invalid_request"),
        ("Error: Session ID a is already in use.", "invalid_request"),
        (
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
            "bad_config",
        ),
    ] {
        let summary = Run::of("claude", "").exit(1).stderr(stderr).summary();
        assert_eq!((&summary["outcome"], &summary["failure"]["code"]), (&json!("failed"), &json!(verdict)));
    }
    let all_is_well = lines(&[INIT, &says("m", "hi"), &result(json!({"result": "hi"}))]);
    let noisy = Run::of("claude", &all_is_well).stderr("Could not parse message into JSON: {").summary();
    assert_eq!(noisy["outcome"], "completed");
}

#[test]
fn text_mode_prints_errors_where_the_answer_would_be() {
    let run = Run::of("claude", "API Error: 529 Overloaded\n").exit(1).summary();
    assert_eq!((&run["text"], &run["outcome"]), (&json!(""), &json!("failed")));
    let run = Run::of("claude", "an answer\nof two lines\n").summary();
    assert_eq!((&run["text"], &run["outcome"]), (&json!("an answer\nof two lines"), &json!("completed")));
}
