//! Failures of `codex exec`, and retries.

use super::*;

#[test]
fn every_row_of_the_table_of_failures() {
    let rows = [
        (r#"{"error": {"message": "Bad.", "type": "invalid_request_error"}}"#, "validation/invalid_request"),
        (r#"{"error": {"message": "Bad.", "code": "model_not_found"}}"#, "not_found/model_not_found"),
        (r#"{"error": {"message": "What a 500 day."}}"#, "validation/invalid_request"),
        (
            "unexpected status 401 Unauthorized: No., url: http://h/v1, request id: r",
            "authentication/invalid_credentials",
        ),
        ("unexpected status 403 Forbidden: No., url: http://h/v1, request id: r", "authentication/forbidden"),
        ("unexpected status 404 Not Found: gone 429, url: http://h/v1", "not_found/not_found"),
        ("The requested model 'nope' does not exist.", "not_found/model_not_found"),
        (
            "exceeded retry limit, last status: 429 Too Many Requests, request id: r",
            "rate_limit/rate_limited",
        ),
        (
            "exceeded retry limit, last status: 503 Service Unavailable, request id: 429",
            "server/server_error",
        ),
        ("Quota exceeded. Check your plan and billing details.", "quota/quota_exhausted"),
        (
            "You’ve hit your usage limit. Upgrade to Pro or try again at May 18th, 2033 3:33 AM.",
            "quota/usage_limit",
        ),
        ("We’re currently experiencing high demand, which may cause temporary errors.", "server/overloaded"),
        ("Selected model is at capacity. Please try a different model.", "server/overloaded"),
        (
            "stream disconnected before completion: We’re currently experiencing high demand, which may cause temporary errors.",
            "server/overloaded",
        ),
        (
            "stream disconnected before completion: stream closed before response.completed",
            "network/connection_lost",
        ),
        ("unexpected status 502 Bad Gateway: <html>401</html>, url: http://h/v1", "server/server_error"),
        (
            "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.",
            "validation/context_overflow",
        ),
        ("rate limit exceeded: Rate limit reached. Please try again in 0.5s.", "rate_limit/rate_limited"),
        (
            "stream disconnected before completion: An error occurred while processing your request.",
            "network/connection_lost",
        ),
        ("Invalid prompt: we've limited access to this content", "validation/invalid_request"),
        ("Incomplete response returned, reason: max_output_tokens", "validation/max_output"),
        (
            "stream disconnected before completion: stream closed before response.completed",
            "network/connection_lost",
        ),
        ("stream disconnected before completion: idle timeout waiting for SSE", "timeout/timed_out"),
        ("Connection failed: error sending request", "network/connection_failed"),
        ("Missing environment variable: `FAKE_KEY`.", "authentication/not_logged_in"),
    ];
    for (message, expected) in rows {
        let output = begun(&[error(message), json!({"type":"turn.failed","error":{"message":message}})]);
        let summary = Run::of("codex-exec", &output).exit(1).summary();
        assert_eq!(
            (summary["outcome"].as_str(), failure(&summary).as_str()),
            (Some("failed"), expected),
            "{message}"
        );
        assert_eq!(count(&summary, "turn_ended"), 1, "{message}");
        // Cut off after the first of the two lines, it is the same failure.
        let cut = begun(&[error(message)]);
        assert_eq!(failure(&Run::of("codex-exec", &cut).exit(1).summary()), expected, "{message}");
    }
}

#[test]
fn times_stand_in_the_words() {
    let run = |message: &str| {
        let output = begun(&[json!({"type":"turn.failed","error":{"message":message}})]);
        Run::of("codex-exec", &output).exit(1).summary()
    };
    let limit = run("You’ve hit your usage limit. Upgrade to Pro or try again at May 18th, 2033 3:33 AM.");
    assert_eq!(limit["failure"]["resets_at"], "2033-05-18T03:33:00Z");
    let rate = run("rate limit exceeded: Rate limit reached. Please try again in 0.5s.");
    assert_eq!(rate["failure"]["retry_after_ms"], 500);
}

#[test]
fn what_stops_codex_before_it_begins_stands_on_standard_error() {
    let log = "2026-11-15T07:44:15.080464Z ERROR codex_core::session: Failed to create session: 401\n";
    let rows = [
        (
            1,
            "Not inside a trusted directory and --skip-git-repo-check was not specified.",
            "configuration/untrusted_folder",
        ),
        (
            1,
            "Error loading config.toml:\n/h/config.toml:1:11: invalid basic string\n  |\n1 | model = \"x\n",
            "configuration/bad_config",
        ),
        (1, "Error: Model provider `x` not found", "not_found/not_found"),
        (
            1,
            "Error: thread/resume: thread/resume failed: no rollout found for thread id 0 (code -32600)",
            "not_found/session_not_found",
        ),
        (1, "Error: No such file or directory (os error 2)", "not_found/not_found"),
        (1, "Output schema file x is not valid JSON: key must be a string", "validation/invalid_request"),
        (1, "No prompt provided via stdin.", "validation/invalid_request"),
        (
            1,
            "Failed to read prompt from stdin: input is not valid UTF-8 (invalid byte at offset 10).",
            "validation/invalid_request",
        ),
        (
            1,
            "Error: thread/resume: thread/resume failed: thread 0 already has an active writer (code -32600)",
            "validation/invalid_request",
        ),
        (
            1,
            "Error: thread/start: required MCP servers failed to initialize: broken: No such file",
            "configuration/bad_config",
        ),
        (
            2,
            "error: unexpected argument '--full-auto' found\n\nUsage: codex exec [OPTIONS] [PROMPT]",
            "configuration/flag_rejected",
        ),
        (
            101,
            "thread 'main' panicked at library/std/src/io/stdio.rs:1165:9:\nfailed printing to stdout: Broken pipe (os error 32) 429",
            "unknown/crashed",
        ),
    ];
    for (exit, words, expected) in rows {
        for shape in ["", "{\"type\":\"thread.started\",\"thread_id\":\"t1\"}\n"] {
            let stderr = format!("Reading additional input from stdin...\n{log}{words}\n");
            let summary = Run::of("codex-exec", shape).exit(exit).stderr(&stderr).summary();
            assert_eq!(
                (summary["outcome"].as_str(), failure(&summary).as_str()),
                (Some("failed"), expected),
                "{words}"
            );
            let message = summary["failure"]["message"].as_str().expect("a message");
            assert!(message.starts_with(words.lines().next().expect("a line")), "{message}");
            assert_eq!(summary["unrecognized"], 0, "{words}");
        }
    }
    let large = "Error: turn/start: Input exceeds the maximum length of 1048576 characters. (code -32602), data: {\"input_error_code\":\"input_too_large\"}\n";
    let summary = Run::of("codex-exec", &exec(&[json!({"type":"thread.started","thread_id":"t1"})]))
        .exit(1)
        .stderr(large)
        .summary();
    assert_eq!(failure(&summary), "validation/request_too_large");
}

#[test]
fn an_interrupt_is_told_from_a_failure_by_nothing() {
    let quiet = "Reading additional input from stdin...\n2026-11-15T07:52:40.5Z ERROR codex_core::session: failed to record rollout items\n";
    let output = begun(&[said("item_0", "Half.")]);
    let run = Run::of("codex-exec", &output).exit(1).stderr(quiet).summary();
    assert_eq!((run["outcome"].as_str(), run["text"].as_str()), (Some("failed"), Some("Half.")));
    assert_eq!(failure(&run), "unknown/unknown", "what it logged says nothing about its end");
    // Before the turn it is the same.
    assert_eq!(Run::of("codex-exec", "").exit(1).stderr(quiet).outcome(), "failed");
    // A signal is told by the system.
    assert_eq!(Run::of("codex-exec", &output).signal(2).outcome(), "cancelled");
    let killed = Run::of("codex-exec", &output).signal(15).stderr(quiet).summary();
    assert_eq!(
        (failure(&killed).as_str(), killed["failure"]["message"].as_str()),
        ("timeout/killed", Some("ended by signal 15"))
    );
}

#[test]
fn our_deadline_in_a_retry_has_the_category_of_the_retry() {
    let notice = "Reconnecting... waiting for network (Connection failed: error sending request)";
    let run = |rest: &[Value]| {
        let output = begun(rest);
        let mut run = Run::of("codex-exec", &output);
        run.end = End { exit: Some(Exit::Signal(9)), cause: Cause::TimedOut };
        failure(&run.summary())
    };
    assert_eq!(run(&[error(notice), error(notice)]), "network/gave_up_waiting");
    assert_eq!(run(&[error(notice), said("item_0", "Back.")]), "timeout/timed_out");
    assert_eq!(run(&[]), "timeout/timed_out");
}

#[test]
fn a_retry_that_repeats_its_messages_says_them_once() {
    let again = error(
        "Reconnecting... 1/1 (stream disconnected before completion: stream closed before response.completed)",
    );
    let thought =
        |id: &str| json!({"type":"item.completed","item":{"id":id,"type":"reasoning","text":"Hm."}});
    let output = begun(&[
        thought("item_0"),
        said("item_1", "Partial answer."),
        again.clone(),
        thought("item_2"),
        said("item_3", "Partial answer."),
        error("stream disconnected before completion: stream closed before response.completed"),
        json!({"type":"turn.failed","error":{"message":"stream disconnected before completion: stream closed before response.completed"}}),
    ]);
    let run = Run::of("codex-exec", &output).exit(1).summary();
    assert_eq!(
        (run["text"].as_str(), run["all_text"].as_str()),
        (Some("Partial answer."), Some("Partial answer."))
    );
    assert_eq!(
        (failure(&run).as_str(), count(&run, "thinking_delta"), count(&run, "retrying")),
        ("network/connection_lost", 1, 1)
    );

    // The same words without a retry between them, or in another request, are said twice.
    let tool = |step: &str| json!({"type":step,"item":{"id":"item_9","type":"command_execution","command":"ls","aggregated_output":"","status":"completed"}});
    let twice = begun(&[said("item_0", "Checking."), said("item_1", "Checking."), done()]);
    assert_eq!(Run::of("codex-exec", &twice).summary()["all_text"], "Checking.\nChecking.");
    let later = begun(&[
        said("item_0", "Checking."),
        tool("item.started"),
        tool("item.completed"),
        again.clone(),
        said("item_1", "Checking."),
        done(),
    ]);
    assert_eq!(Run::of("codex-exec", &later).summary()["all_text"], "Checking.\nChecking.");
    let other =
        begun(&[said("item_0", "One."), again, said("item_1", "Two."), said("item_2", "One."), done()]);
    assert_eq!(Run::of("codex-exec", &other).summary()["all_text"], "One.\nTwo.\nOne.");
}
