//! Errors and stop reasons of ACP agents.

use super::*;

#[test]
fn errors_of_a_prompt() {
    let claude = |kind: &str, text: &str| json!({"code": -32603, "message": format!("Internal error: {text}"), "data": {"errorKind": kind}});
    let codex = |info: Value, text: &str| json!({"code": -32603, "message": "Internal error", "data": {"message": text, "codexErrorInfo": info}});
    let rows = [
        (json!({"code": -32000, "message": "Authentication required"}), "authentication/not_logged_in"),
        (
            json!({"code": -32000, "message": "Authentication required", "data": {"details": "token expired"}}),
            "authentication/invalid_credentials",
        ),
        (
            json!({"code": -32002, "message": "Resource not found", "data": {"sessionId": "x"}}),
            "not_found/session_not_found",
        ),
        (
            json!({"code": -32002, "message": "Resource not found", "data": {"uri": "/x"}}),
            "not_found/not_found",
        ),
        (
            json!({"code": -32602, "message": "Invalid params", "data": {"prompt": "missing"}}),
            "validation/invalid_request",
        ),
        (
            json!({"code": 401, "message": "{\"error\":{\"code\":401,\"message\":\"no\",\"status\":\"UNAUTHENTICATED\"}}"}),
            "authentication/invalid_credentials",
        ),
        (json!({"code": 403, "message": "no"}), "authentication/forbidden"),
        (json!({"code": 429, "message": "Resource has been exhausted"}), "rate_limit/rate_limited"),
        (json!({"code": "429", "message": "slow down"}), "rate_limit/rate_limited"),
        (
            json!({"code": 429, "message": "You exceeded your current quota. Please retry in 2s."}),
            "rate_limit/rate_limited",
        ),
        (json!({"code": 429, "message": "You exceeded your current quota."}), "quota/quota_exhausted"),
        (
            json!({"code": 429, "message": json!({"error": {"code": 429, "message": "You exceeded your current quota.",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}]}}).to_string()}),
            "rate_limit/rate_limited",
        ),
        (json!({"code": 500, "message": "boom"}), "server/server_error"),
        (json!({"code": 503, "message": "boom"}), "server/server_error"),
        (
            claude("authentication_failed", "Failed to authenticate. API Error: 403 no"),
            "authentication/forbidden",
        ),
        (claude("billing_error", "Credit balance is too low"), "quota/billing"),
        (claude("rate_limit", "API Error: Request rejected (429) · slow down"), "rate_limit/rate_limited"),
        (claude("overloaded", "API Error: Repeated 529 Overloaded errors"), "server/overloaded"),
        (claude("invalid_request", "Prompt is too long"), "validation/context_overflow"),
        (
            claude("model_not_found", "There's an issue with the selected model (x)"),
            "not_found/model_not_found",
        ),
        (claude("server_error", "API Error: 500 boom"), "server/server_error"),
        (claude("max_output_tokens", "too long an answer"), "validation/max_output"),
        (
            codex(json!("usageLimitExceeded"), "Quota exceeded. Check your plan and billing details."),
            "quota/quota_exhausted",
        ),
        (codex(json!("contextWindowExceeded"), "no room"), "validation/context_overflow"),
        (codex(json!("serverOverloaded"), "Selected model is at capacity."), "server/overloaded"),
        (codex(json!("internalServerError"), "boom"), "server/server_error"),
        (codex(json!("modelNotFound"), "no such thing"), "not_found/model_not_found"),
        (
            codex(json!({"httpConnectionFailed": {"httpStatusCode": 401}}), "unexpected status"),
            "authentication/invalid_credentials",
        ),
        (
            codex(json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}), "exceeded retry limit"),
            "rate_limit/rate_limited",
        ),
        (
            codex(json!({"responseStreamDisconnected": {"httpStatusCode": null}}), "it broke"),
            "network/connection_lost",
        ),
        (
            codex(json!("other"), "unexpected status 401 Unauthorized: no"),
            "authentication/invalid_credentials",
        ),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"details": "401 Incorrect API key provided"}}),
            "authentication/invalid_credentials",
        ),
        (
            json!({"code": -32603, "message": "Internal error: no", "data": {"errorName": "ProviderAuthError"}}),
            "authentication/invalid_credentials",
        ),
        (
            json!({"code": -32603, "message": "Internal error", "data": "read ECONNRESET"}),
            "network/connection_lost",
        ),
        (json!({"code": -32603, "message": "Internal error"}), "server/server_error"),
        (json!({}), "unknown/unknown"),
    ];
    for (error, expect) in rows {
        let talk = Talk::prompted().agent(json!({"id": 3, "error": error}));
        assert_eq!(talk.verdicts(), [format!("failed {expect}")], "{error}");
    }
}

#[test]
fn stop_reasons() {
    let rows = [
        ("end_turn", Outcome::Completed, Some(StopReason::EndTurn)),
        ("max_tokens", Outcome::Completed, Some(StopReason::MaxTokens)),
        ("max_turn_requests", Outcome::Completed, Some(StopReason::MaxTurns)),
        ("refusal", Outcome::Completed, Some(StopReason::Refusal)),
        ("cancelled", Outcome::Cancelled, Some(StopReason::Cancelled)),
        ("of_the_future", Outcome::Completed, None),
    ];
    for (reason, outcome, stop) in rows {
        let ended = ends(&Talk::prompted().says("a").stops(3, reason).events());
        assert_eq!(
            ended.iter().map(|end| (end.outcome, end.stop)).collect::<Vec<_>>(),
            [(outcome, stop)],
            "{reason}"
        );
    }
}

#[test]
fn codex_ends_failures_as_success_and_we_do_not() {
    assert_eq!(
        verdicts(&recorded("codex/0.166.0/acp-agentclientprotocol")),
        [
            "completed",
            "completed",
            "completed",
            "completed",
            "completed",
            "completed",
            "failed authentication/not_logged_in",
            "failed quota/quota_exhausted",
            "failed rate_limit/rate_limited",
            "failed server/overloaded",
            "failed validation/context_overflow",
            "cancelled",
        ]
    );
}
