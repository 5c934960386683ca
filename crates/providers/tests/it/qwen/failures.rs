//! Failures of Qwen Code, and text that only looks like one.

use super::*;

#[test]
fn errors_of_the_api_are_not_text_in_any_shape() {
    let table = [
        ("401 Incorrect API key provided: sk-fake.", "authentication/invalid_credentials", None),
        ("403 Forbidden", "authentication/forbidden", None),
        (
            "404 The model `nope` does not exist or you do not have access to it.",
            "not_found/model_not_found",
            None,
        ),
        ("400 This model's maximum context length is 8192 tokens.", "validation/context_overflow", None),
        ("400 Bad things.", "validation/invalid_request", None),
        ("429 Rate limit reached. Please try again in 2s.", "rate_limit/rate_limited", Some(2000)),
        ("429 You exceeded your current quota", "quota/quota_exhausted", None),
        ("500 The server had an error while processing your request.", "server/server_error", None),
        ("503 overloaded", "server/overloaded", None),
        ("Connection error. (cause: fetch failed)", "network/connection_failed", None),
        ("terminated", "network/connection_lost", None),
        ("Upstream overloaded", "rate_limit/overloaded", Some(1000)),
    ];
    for (reason, expect, retry_after) in table {
        let message = format!("[API Error: {reason}]");
        let whole = [init(), said("a", &message, 0), error(&message)];
        let pieces = [
            init(),
            start("a"),
            block(&json!({"type": "text", "text": ""})),
            piece(&message),
            stop(),
            said("a", &message, 0),
            message_stop(),
            error(&message),
        ];
        // 0.15.10: a success, exit code 0.
        let old = [init(), said("a", &message, 0), success(&message)];
        let only = [init(), success(&message)];
        let array = Value::Array(whole.to_vec()).to_string();
        for (stdout, exit) in [
            (lines(&whole), 1),
            (lines(&pieces), 1),
            (lines(&old), 0),
            (lines(&only), 0),
            (array, 1),
            (message.clone(), 1),
        ] {
            let summary = Run::of("qwen", &stdout).exit(exit).summary();
            assert_eq!(failure(&summary), expect, "{stdout}");
            assert_eq!(summary["all_text"], "", "{stdout}");
            assert_eq!(summary["failure"]["message"], message, "{stdout}");
            assert_eq!(summary["failure"]["retry_after_ms"].as_u64(), retry_after, "{stdout}");
            assert_eq!(summary["events"]["turn_ended"], 1, "{stdout}");
        }
        // The text format has it on standard error only.
        let stderr =
            format!("Ripgrep not available: spawn rg ENOENT. Falling back to built-in grep.\n{message}\n");
        let summary = Run::of("qwen", "").exit(1).stderr(&stderr).summary();
        assert_eq!(failure(&summary), expect, "{stderr}");
        assert_eq!(summary["failure"]["message"], message);
    }
}

#[test]
fn exit_codes_without_a_result() {
    for (code, outcome, expect) in [
        (1, "failed", "unknown/unknown"),
        (41, "failed", "authentication/not_logged_in"),
        (44, "failed", "configuration/bad_config"),
        (52, "failed", "configuration/bad_config"),
        (53, "failed", "validation/max_turns"),
        (54, "failed", "unknown/tool_execution"),
        (55, "failed", "configuration/budget"),
        (130, "cancelled", "none/none"),
        (0, "truncated", "unknown/truncated"),
    ] {
        let stdout = lines(&[init(), said("a", "half", 3)]);
        let summary = Run::of("qwen", &stdout).exit(code).stderr("Ripgrep not available: x.\n").summary();
        assert_eq!(summary["outcome"], outcome, "{code}");
        assert_eq!(failure(&summary), expect, "{code}");
        assert_eq!(summary["text"], "half");
        assert_eq!(summary["usage"]["source"], "reported", "{code}: the call's own numbers");
    }
    let cancelled = "Ripgrep not available: x.\nOperation cancelled.\n";
    assert_eq!(Run::of("qwen", &lines(&[init()])).signal(15).stderr(cancelled).outcome(), "cancelled");
    let killed =
        Run::of("qwen", &lines(&[init()])).signal(15).stderr("Ripgrep not available: x.\n").summary();
    assert_eq!(failure(&killed), "timeout/killed");
    assert_eq!(killed["failure"]["message"], "ended by signal 15");
    // What stands on standard error in every run, or was overcome, is not why it ended.
    let noise = "Ripgrep not available: spawn /x/rg ENOENT. Falling back to built-in grep.\n\
        Retrying in 60s (attempt 1/10): [API Error: 429 Slow down.]\n";
    let stdout = lines(&[init(), said("a", "half", 3)]);
    for (code, expect) in [(137, "timeout/killed"), (143, "timeout/killed"), (1, "unknown/unknown")] {
        let run = Run::of("qwen", &stdout).exit(code).stderr(noise).summary();
        assert_eq!(failure(&run), expect, "{code}");
        assert_eq!(run["failure"]["message"], format!("exit code {code}"));
    }
    // Nothing came of the retry.
    let run = Run::of("qwen", &lines(&[init()])).exit(137).stderr(noise).summary();
    assert_eq!(failure(&run), "rate_limit/gave_up_waiting");
}

#[test]
fn other_failures() {
    for (stderr, exit, expect) in [
        ("No saved session found with ID x.", 1, "not_found/session_not_found"),
        (
            "Unknown arguments: such-flag\nUsage: qwen [options]\n\n  --x  on a 429\n  -h, --help  Show help",
            1,
            "configuration/flag_rejected",
        ),
        ("Reached max session turns for this session.", 53, "validation/max_turns"),
        ("No auth type is selected.", 1, "authentication/not_logged_in"),
    ] {
        assert_eq!(failure(&Run::of("qwen", "").exit(exit).stderr(stderr).summary()), expect, "{stderr}");
    }
    for (subtype, expect) in [
        ("error_max_turns", "validation/max_turns"),
        ("error_max_structured_output_retries", "validation/invalid_request"),
        ("error_during_execution", "unknown/unknown"),
    ] {
        let result =
            json!({"type": "result", "subtype": subtype, "is_error": true, "error": {"message": "so it is"}});
        assert_eq!(
            failure(&Run::of("qwen", &lines(&[init(), result])).exit(1).summary()),
            expect,
            "{subtype}"
        );
    }
    let noauth = lines(&[error("No auth type is selected.")]);
    let summary = Run::of("qwen", &noauth).exit(1).summary();
    assert_eq!(failure(&summary), "authentication/not_logged_in");
    assert_eq!(summary["events"]["turn_ended"], 1);
}

#[test]
fn the_result_says_what_is_an_error_however_many_tokens_were_used() {
    let message = "[API Error: 401 Incorrect API key provided: sk-fake.]";
    let mut old = init();
    old["qwen_code_version"] = json!("0.15.10");
    let open = || [init(), start("a"), block(&json!({"type": "text", "text": ""}))];
    let behind = format!("half\n{message}");
    let nested = "[API Error: 401 it said [API Error: no]]";
    let cases = [
        // (lines, exit code, text, message)
        (vec![init(), said("a", message, 7), error(message)], 1, "", message),
        (vec![init(), said("a", &behind, 7), error(message)], 1, "half", message),
        (vec![init(), said("a", nested, 7), error(nested)], 1, "", nested),
        (vec![init(), said("a", message, 7), success(message)], 0, "", message),
        (vec![old.clone(), said("a", message, 7), success(message)], 0, "", message),
        (vec![old.clone(), said("a", &behind, 7), success(&behind)], 0, "half", message),
        (vec![old, success(&behind)], 0, "half", message),
        // In pieces: alone, set off by a line end, in one piece with the text, with and without the whole.
        ([&open()[..], &[piece(&format!("\n{message}")), error(message)]].concat(), 1, "", message),
        (
            [&open()[..], &[piece("half"), piece(&format!("\n{message}")), error(message)]].concat(),
            1,
            "half",
            message,
        ),
        (
            [&open()[..], &[piece(&behind), stop(), message_stop(), error(message)]].concat(),
            1,
            "half",
            message,
        ),
        (
            [&open()[..], &[piece(&behind), stop(), said("a", &behind, 7), message_stop(), error(message)]]
                .concat(),
            1,
            "half",
            message,
        ),
        // The model's own words, and then another reason.
        (vec![init(), said("a", &behind, 7), error("No more.")], 1, behind.as_str(), "No more."),
        // No result: standard error repeats it.
        (vec![init(), said("a", &behind, 7)], 1, "half", message),
    ];
    for (run, exit, text, reason) in cases {
        let stdout = lines(&run);
        let stderr = format!("Ripgrep not available: x.\n{message}\n");
        let summary = Run::of("qwen", &stdout).exit(exit).stderr(&stderr).summary();
        assert_eq!(summary["outcome"], "failed", "{stdout}");
        assert_eq!(summary["text"], text, "{stdout}");
        assert_eq!(summary["all_text"], text, "{stdout}");
        assert_eq!(summary["failure"]["message"], reason, "{stdout}");
        assert_eq!(summary["events"]["turn_ended"], 1, "{stdout}");
        let messages = u64::from(!text.is_empty());
        assert_eq!(summary["events"]["message_finished"].as_u64().unwrap_or(0), messages, "{stdout}");
    }
}

#[test]
fn a_model_that_speaks_of_errors_is_heard() {
    let quoted = "It prints\n[API Error: 401 no]";
    let whole = lines(&[init(), said("a", quoted, 7), success(quoted)]);
    let pieces = lines(&[
        init(),
        start("a"),
        block(&json!({"type": "text", "text": ""})),
        piece("It prints\n"),
        piece("[API Error: 401 no]"),
        stop(),
        said("a", quoted, 7),
        message_stop(),
        success(quoted),
    ]);
    for stdout in [whole, pieces] {
        let summary = Run::of("qwen", &stdout).summary();
        assert_eq!(
            (summary["text"].as_str(), summary["outcome"].as_str()),
            (Some(quoted), Some("completed")),
            "{stdout}"
        );
    }
    // Before a tool call, a text has no numbers of its own either.
    let tool = json!({"type": "assistant", "message": {"id": "b", "content": [{"type": "tool_use", "id": "t", "name": "edit", "input": {}}],
        "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let before = lines(&[
        init(),
        said("a", "[API Error: x] I fix it.", 0),
        tool,
        said("c", "Done.", 2),
        success("Done."),
    ]);
    let summary = Run::of("qwen", &before).summary();
    assert_eq!(summary["all_text"], "[API Error: x] I fix it.\nDone.");
    assert_eq!(summary["text"], "Done.", "as the program's own result has it");
}
