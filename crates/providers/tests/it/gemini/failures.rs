//! Failures of Gemini CLI: exit codes, results, standard error.

use super::*;

#[test]
fn exit_codes() {
    // Without a result and without a word that tells more.
    let table = [
        (1, "failed", "unknown/unknown", None),
        (41, "failed", "authentication/not_logged_in", None),
        (42, "failed", "validation/invalid_request", None),
        (44, "failed", "configuration/bad_config", None),
        (52, "failed", "configuration/bad_config", None),
        (53, "failed", "validation/max_turns", None),
        (54, "failed", "unknown/tool_execution", None),
        (55, "failed", "configuration/untrusted_folder", None),
        (130, "cancelled", "none/none", None),
        (144, "failed", "validation/invalid_request", None),
        (145, "failed", "authentication/invalid_credentials", None),
        (147, "failed", "authentication/forbidden", None),
        (148, "failed", "not_found/not_found", None),
        (152, "failed", "timeout/timed_out", None),
        (157, "failed", "validation/request_too_large", None),
        (173, "failed", "rate_limit/rate_limited", Some(1000)),
        (244, "failed", "server/server_error", None),
        (246, "failed", "server/server_error", None),
        (247, "failed", "server/server_error", None),
        (248, "failed", "server/server_error", None),
    ];
    for (code, outcome, expect, retry_after) in table {
        for stdout in ["", &lines(&[])] {
            let run = Run::of("gemini", stdout)
                .exit(code)
                .stderr("Ripgrep is not available. Falling back.\nsomething\n");
            let summary = run.summary();
            assert_eq!(summary["outcome"], outcome, "{code}");
            assert_eq!(failure(&summary), expect, "{code}");
            assert_eq!(summary["failure"]["retry_after_ms"].as_u64(), retry_after, "{code}");
            if outcome == "failed" {
                assert_eq!(summary["failure"]["message"], "something", "noise is no reason");
            }
        }
    }
}

#[test]
fn words_on_standard_error() {
    for (code, stderr, expect) in [
        (41, "Please set an Auth method in your settings.json", "authentication/not_logged_in"),
        (41, "Invalid auth method selected.", "authentication/not_logged_in"),
        (42, "No input provided via stdin.", "validation/invalid_request"),
        (42, "Error resuming session: Invalid session identifier \"x\".", "not_found/session_not_found"),
        (42, "Error starting session: Session ID \"x\" already exists.", "validation/invalid_request"),
        (
            55,
            "\u{1b}[31mGemini CLI is not running in a trusted directory.\u{1b}[0m",
            "configuration/untrusted_folder",
        ),
        (1, "Unknown argument: no-such-flag", "configuration/flag_rejected"),
        (
            1,
            "[API Error: {\"error\":{\"code\":404,\"message\":\"models/x is not found\"}}]",
            "not_found/model_not_found",
        ),
        (53, "Reached max session turns for this session.", "validation/max_turns"),
    ] {
        let summary = Run::of("gemini", "").exit(code).stderr(stderr).summary();
        assert_eq!(failure(&summary), expect, "{stderr}");
    }
}

/// A result line with an error of the API.
fn api_error(body: &Value) -> String {
    let message = format!("[API Error: {body}]");
    json!({"type": "result", "status": "error", "error": {"type": "unknown", "message": message}}).to_string()
}

#[test]
fn errors_of_the_api() {
    let info = |reason: &str| json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason});
    let retry =
        |delay: &str| json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
    let quota = |id: &str| json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]});
    let exceeded = "You exceeded your current quota, please check your plan and billing details.";
    let table = [
        (
            400,
            "API key not valid.",
            vec![info("API_KEY_INVALID")],
            "authentication/invalid_credentials",
            None,
        ),
        (400, "Something is off.", vec![], "validation/invalid_request", None),
        (400, "The input token count (9) exceeds the maximum", vec![], "validation/context_overflow", None),
        (
            401,
            "Request had invalid authentication credentials.",
            vec![],
            "authentication/invalid_credentials",
            None,
        ),
        (403, "Permission denied on resource.", vec![], "authentication/forbidden", None),
        (404, "models/x is not found for API version v1", vec![], "not_found/model_not_found", None),
        (429, exceeded, vec![retry("2s")], "rate_limit/rate_limited", Some(2000)),
        (
            429,
            exceeded,
            vec![quota("RequestsPerMinutePerProject"), retry("34.07s")],
            "rate_limit/rate_limited",
            Some(34_070),
        ),
        (
            429,
            exceeded,
            vec![quota("RequestsPerDayPerProject"), retry("2s")],
            "quota/usage_limit",
            Some(2000),
        ),
        (
            429,
            "Resource has been exhausted (e.g. check quota).",
            vec![retry("2s")],
            "rate_limit/rate_limited",
            Some(2000),
        ),
        (429, exceeded, vec![retry("3600s")], "quota/quota_exhausted", Some(3_600_000)),
        (429, exceeded, vec![], "quota/quota_exhausted", None),
        (429, "Slow down.", vec![], "rate_limit/rate_limited", Some(1000)),
        (429, "x", vec![info("RATE_LIMIT_EXCEEDED")], "rate_limit/rate_limited", Some(1000)),
        (429, "x", vec![info("QUOTA_EXHAUSTED")], "quota/quota_exhausted", None),
        (500, "An internal error has occurred.", vec![], "server/server_error", None),
        (503, "The model is overloaded.", vec![], "server/overloaded", None),
    ];
    for (code, message, details, expect, retry_after) in table {
        let line = api_error(&json!({"error": {"code": code, "message": message, "details": details}}));
        let summary = Run::of("gemini", &lines(&[&line])).exit(code % 256).summary();
        assert_eq!(failure(&summary), expect, "{line}");
        assert_eq!(summary["failure"]["message"], message, "{line}");
        assert_eq!(summary["failure"]["retry_after_ms"].as_u64(), retry_after, "{line}");
        assert_eq!(summary["text"], "");
    }
}

#[test]
fn results_that_failed() {
    let result = |class: &str, message: &str| {
        json!({"type": "result", "status": "error", "error": {"type": class, "message": message}}).to_string()
    };
    for (class, message, exit, outcome, expect) in [
        ("unknown", "[API Error: terminated]", 1, "failed", "network/connection_lost"),
        (
            "unknown",
            "[API Error: You have exhausted your daily quota on this model.]",
            173,
            "failed",
            "quota/usage_limit",
        ),
        ("unknown", "[API Error: it did not work]", 244, "failed", "server/server_error"),
        ("unknown", "[API Error: it did not work]", 1, "failed", "unknown/unknown"),
        ("FatalTurnLimitedError", "Reached the end.", 53, "failed", "validation/max_turns"),
        ("FatalCancellationError", "Operation cancelled.", 130, "cancelled", "none/none"),
        ("FatalToolExecutionError", "Error executing tool x", 54, "failed", "unknown/tool_execution"),
        ("ModelNotFoundError", "x", 1, "failed", "not_found/model_not_found"),
        ("TerminalQuotaError", "x", 173, "failed", "quota/quota_exhausted"),
    ] {
        let summary = Run::of("gemini", &lines(&[&result(class, message)])).exit(exit).summary();
        assert_eq!(summary["outcome"], outcome, "{class}: {message}");
        assert_eq!(failure(&summary), expect, "{class}: {message}");
        assert_eq!(summary["events"]["turn_ended"], 1);
    }
}

#[test]
fn standard_error_names_the_class_that_the_result_calls_unknown() {
    let on_stderr = |class: &str, words: &str| {
        format!(
            "Ripgrep is not available.\nError when talking to Gemini API Full report available at: /tmp/x.json {class}: {words}\n    at f (x.js:1:2) {{\n  status: 1\n}}\n"
        )
    };
    let capacity = "You have exhausted your capacity on this model. Your quota will reset after 8h44m7s.";
    let entity = "Requested entity was not found.";
    let capacity_now = "No capacity available for model x on the server";
    for (class, words, exit, expect, resets_at) in [
        ("ModelNotFoundError", entity, 1, "not_found/model_not_found", None),
        ("TerminalQuotaError", capacity, 173, "quota/quota_exhausted", Some("2026-11-15T16:44:07Z")),
        ("TerminalQuotaError", capacity_now, 173, "quota/quota_exhausted", None),
        ("RetryableQuotaError", capacity_now, 173, "rate_limit/rate_limited", None),
        ("_ApiError", "it did not work", 244, "server/server_error", None),
    ] {
        let stderr = on_stderr(class, words);
        let result = json!({"type": "result", "status": "error", "error": {"type": "unknown", "message": format!("[API Error: {words}]")}});
        let object =
            json!({"session_id": "s9", "error": {"type": "Error", "message": words, "code": exit + 256}});
        let document = format!("{stderr}{}\n", serde_json::to_string_pretty(&object).expect("JSON"));
        for (stdout, stderr, message) in [
            (lines(&[&result.to_string()]), &stderr, format!("[API Error: {words}]")),
            (String::new(), &document, words.to_owned()),
        ] {
            let summary = Run::of("gemini", &stdout).exit(exit).stderr(stderr).summary();
            assert_eq!(failure(&summary), expect, "{class}: {words}");
            assert_eq!(summary["failure"]["message"], message, "{class}: {words}");
            assert_eq!(summary["failure"]["resets_at"].as_str(), resets_at, "{class}: {words}");
        }
    }
    // The class of a limit, and a server that is away: the status tells them apart.
    let stderr = on_stderr("RetryableQuotaError", "The service is currently unavailable.")
        .replace("status: 1", "status: 503");
    let result = r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: The service is currently unavailable.]"}}"#;
    let summary = Run::of("gemini", &lines(&[result])).exit(247).stderr(&stderr).summary();
    assert_eq!(failure(&summary), "server/server_error");
    // What was retried before is not what ended the run.
    let stderr = "Attempt 1 failed. Retrying with backoff... RetryableQuotaError: x\n";
    let result = r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: terminated]"}}"#;
    let summary = Run::of("gemini", &lines(&[result])).exit(1).stderr(stderr).summary();
    assert_eq!(failure(&summary), "network/connection_lost");
}

#[test]
fn a_failure_that_was_told_is_the_verdict_however_the_run_ended() {
    let result = r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: terminated]"}}"#;
    let stdout = lines(&[result]);
    for end in [
        End { exit: Some(Exit::Signal(9)), cause: Cause::TimedOut },
        End { exit: Some(Exit::Signal(15)), cause: Cause::Cancelled },
        End { exit: Some(Exit::Signal(2)), cause: Cause::Exited },
        End { exit: Some(Exit::Code(0)), cause: Cause::Exited },
    ] {
        let run = Run { end, ..Run::of("gemini", &stdout) };
        assert_eq!(failure(&run.summary()), "network/connection_lost", "{end:?}");
    }
}

#[test]
fn a_result_without_a_reason_takes_it_from_the_line_before() {
    for (message, expect) in [
        ("The model response was blocked due to safety settings.", "validation/refused"),
        ("The model returned an empty response with no text or thoughts.", "server/server_error"),
        (
            "Invalid stream: The model returned an empty response or malformed tool call.",
            "server/server_error",
        ),
    ] {
        let error = json!({"type": "error", "severity": "error", "message": message}).to_string();
        let run_lines = lines(&[&error, r#"{"type":"result","status":"error","stats":{}}"#]);
        let summary = Run::of("gemini", &run_lines).summary();
        assert_eq!(failure(&summary), expect, "{message}");
        // The text format leaves only this on standard error, and exit code 0.
        let summary = Run::of("gemini", "").stderr(&format!("[ERROR] {message}\n")).summary();
        assert_eq!(failure(&summary), expect, "{message}");
    }
}

#[test]
fn what_cuts_an_answer_short() {
    let error = |severity: &str, message: &str| {
        json!({"type": "error", "severity": severity, "message": message}).to_string()
    };
    let success = r#"{"type":"result","status":"success","stats":{"input_tokens":1,"output_tokens":1}}"#;
    let looped = lines(&[&delta("a"), &error("warning", "Loop detected, stopping execution"), success]);
    let events = Run::of("gemini", &looped).events();
    let notice = events
        .iter()
        .find_map(|event| if let Kind::Notice(notice) = &event.kind { Some(notice) } else { None });
    assert_eq!(notice.and_then(|notice| notice.code.as_deref()), Some("loop_detected"));
    let turns = lines(&[&delta("a"), &error("error", "Maximum session turns exceeded"), success]);
    let run = Run::of("gemini", &turns);
    assert_eq!(run.outcome(), "completed");
    let stop = run
        .events()
        .into_iter()
        .find_map(|event| if let Kind::TurnEnded(ended) = event.kind { ended.stop } else { None });
    assert_eq!(stop, Some(bowline_protocol::kinds::StopReason::MaxTurns));
}

#[test]
fn the_end_without_a_result() {
    let cut = lines(&[&delta("half")]);
    assert_eq!(Run::of("gemini", &cut).outcome(), "truncated", "exit 0 after a signal");
    assert_eq!(Run::of("gemini", &cut).signal(2).outcome(), "cancelled");
    let killed = Run::of("gemini", &cut).signal(15).stderr("Ripgrep is not available.\n").summary();
    assert_eq!(failure(&killed), "timeout/killed");
    assert_eq!(killed["failure"]["message"], "ended by signal 15");
    let mut stopped = Run::of("gemini", &cut);
    stopped.end = End { exit: Some(Exit::Code(0)), cause: Cause::Cancelled };
    assert_eq!(stopped.outcome(), "cancelled");
    stopped.end.cause = Cause::TimedOut;
    assert_eq!(failure(&stopped.summary()), "timeout/timed_out");
}

#[test]
fn the_error_object_at_the_end_of_standard_error() {
    let stderr = "Warning: x\nError: {\n    at y (file.js:1:2) {\n  kind: 'x'\n}\n";
    let object = |code: &str| {
        format!(
            "{{\n  \"session_id\": \"s9\",\n  \"error\": {{\n    \"type\": \"Error\",\n    \"message\": \"went wrong\",\n    \"code\": {code}\n  }}\n}}\n"
        )
    };
    for (code, expect) in [
        ("401", "authentication/invalid_credentials"),
        ("41", "authentication/not_logged_in"),
        ("500", "server/server_error"),
        ("\"no_such_code\"", "unknown/unknown"),
    ] {
        for mark in ["", "[ERROR] "] {
            let stderr = format!("{stderr}{mark}{}", object(code));
            let summary = Run::of("gemini", "").exit(1).stderr(&stderr).summary();
            assert_eq!(failure(&summary), expect, "{code}");
            assert_eq!(summary["failure"]["message"], "went wrong");
            assert_eq!(summary["native_session"], "s9");
            let stopped = Run::of("gemini", "").exit(130).stderr(&stderr).summary();
            assert_eq!(
                (&stopped["outcome"], &stopped["native_session"]),
                (&json!("cancelled"), &json!("s9"))
            );
        }
    }
}
