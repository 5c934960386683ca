//! Qwen Code: its failures as a table, and the traps that no recording shows.

use bowline_protocol::kinds::ToolStatus;
use bowline_protocol::{Decider, Decision, Event, Exit, Kind, SessionId, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::dialect::Shape;
use bowline_providers::dialects;
use bowline_providers::moment::Moment;
use serde_json::{Value, json};

use crate::fixtures;
use crate::support::{Run, text};

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s1", "model": "fake", "cwd": "/x", "tools": ["edit"],
        "mcp_servers": [{"name": "one", "status": "connected"}], "permission_mode": "auto", "qwen_code_version": "0.24.4"})
}

fn said(id: &str, text: &str, output_tokens: u64) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": id, "role": "assistant", "model": "fake",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": output_tokens, "output_tokens": output_tokens}}})
}

fn success(text: &str) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "duration_ms": 9, "result": text,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 4, "total_tokens": 15}})
}

fn error(message: &str) -> Value {
    json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "duration_ms": 9,
        "usage": {"input_tokens": 0, "output_tokens": 0}, "error": {"message": message}})
}

fn event(event: &Value) -> Value {
    json!({"type": "stream_event", "parent_tool_use_id": null, "event": event})
}

fn start(id: &str) -> Value {
    event(
        &json!({"type": "message_start", "message": {"id": id, "role": "assistant", "model": "fake", "content": []}}),
    )
}

fn block(block: &Value) -> Value {
    event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
}

fn piece(text: &str) -> Value {
    event(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}))
}

fn stop() -> Value {
    event(&json!({"type": "content_block_stop", "index": 0}))
}

fn message_stop() -> Value {
    event(&json!({"type": "message_stop"}))
}

fn retry(keep: bool) -> Value {
    json!({"type": "system", "subtype": "retry", "data": {"reason": "retry", "discardedToolCalls": 0, "preserveText": keep}})
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| line.to_string() + "\n").collect()
}

/// The failure of a run as `category/code`.
fn failure(summary: &Value) -> String {
    let word = |key: &str| summary["failure"][key].as_str().unwrap_or("none").to_owned();
    format!("{}/{}", word("category"), word("code"))
}

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

#[test]
fn retries_do_not_double_the_text() {
    let text_block = block(&json!({"type": "text", "text": ""}));
    let begin = [init(), start("a"), text_block];
    let finish = |whole: &str| [stop(), said("a", whole, 3), message_stop(), success(whole)];
    let all = |middle: &[Value], whole: &str| lines(&[&begin, middle, &finish(whole)].concat());
    for (middle, whole, expect) in [
        (
            vec![piece("first half "), retry(true), piece("first half "), piece("and more")],
            "first half first half and more",
            "first half and more",
        ),
        (
            vec![piece("first half "), retry(true), piece("first "), retry(true), piece("first half end")],
            "first half first first half end",
            "first half end",
        ),
        (vec![piece("one "), retry(true), piece("two")], "one two", "one two"),
        (vec![piece("wrong "), retry(false), piece("right")], "wrong right", "right"),
        (
            vec![piece("first half "), retry(false), piece("first half "), retry(false), piece("all")],
            "first half first half all",
            "all",
        ),
    ] {
        let stdout = all(&middle, whole);
        assert_eq!(text("qwen", &stdout), expect, "{whole}");
    }
    let whole = lines(&[
        init(),
        retry(true),
        retry(true),
        said("a", "half half half ", 0),
        success("half half half "),
    ]);
    assert_eq!(text("qwen", &whole), "half ");
    let failed = "half half [API Error: terminated]";
    let stdout = lines(&[init(), retry(false), said("a", failed, 0), error("[API Error: terminated]")]);
    let summary = Run::of("qwen", &stdout).exit(1).summary();
    assert_eq!(
        (summary["text"].as_str(), failure(&summary).as_str()),
        (Some("half "), "network/connection_lost")
    );
}

#[test]
fn a_retry_takes_back_messages_that_came_whole() {
    let said = |id: &str, text: &str| {
        json!({"type": "assistant", "message": {"id": id, "role": "assistant",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1}}})
    };
    let done = json!({"type": "result", "subtype": "success", "is_error": false, "result": "whole answer"});
    for id in ["a", "b"] {
        let stdout =
            lines(&[init(), said("a", "half an"), retry(false), said(id, "whole answer"), done.clone()]);
        let run = Run::of("qwen", &stdout);
        assert_eq!((run.text().as_str(), run.outcome().as_str()), ("whole answer", "completed"), "{id}");
    }
    // Where the program says that the text stays, it does.
    let stdout = lines(&[init(), said("a", "one"), retry(true), said("b", "two"), done.clone()]);
    assert!(Run::of("qwen", &stdout).text().starts_with("one"), "kept");
    // What stands before a tool's result belongs to a request that was answered.
    let result = json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}});
    let stdout = lines(&[
        init(),
        said("a", "first"),
        result,
        said("b", "half"),
        retry(false),
        said("c", "last"),
        done,
    ]);
    let text = Run::of("qwen", &stdout).text();
    assert!(text.contains("first") && text.contains("last") && !text.contains("half"), "{text}");
}

#[test]
fn a_version_that_prints_text_whatever_it_is_asked_for_has_answered() {
    // The adapter protocol's own example.
    let text = "The answer is 42.\n\nIt follows from the question.\n";
    let decode = |output: &str, exit: i32| {
        let mut run = Run::of("qwen", output).exit(exit);
        run.shape = Shape::Lines;
        (run.outcome(), run.text())
    };
    assert_eq!(decode(text, 0), ("completed".into(), text.trim().into()));
    assert_eq!(decode(text, 1).0, "failed");
    // Noise before the first line of JSON stays noise.
    let noisy = format!(
        "warming up\n{}",
        lines(&[init(), json!({"type": "result", "subtype": "success", "is_error": false, "result": "hi"})])
    );
    assert_eq!(decode(&noisy, 0), ("completed".into(), "hi".into()));
    // What is longer than can be held is not taken for an answer.
    let long = "x\n".repeat(800_000);
    assert_eq!(decode(&long, 0).0, "failed");
}

#[test]
fn retries_are_told_once_and_name_what_is_retried_at_the_deadline() {
    let stderr = "Retrying in 60s (attempt 1/10): [API Error: 429 Rate limit reached. Please try again in 2s.]\nRetrying provider attempt (0 buffered tool call(s) discarded).\n";
    let told = json!({"type": "system", "subtype": "retry", "data": {"reason": "retry", "attempt": 1, "maxRetries": 10,
        "delayMs": 60000, "discardedToolCalls": 0, "preserveText": false}});
    for stdout in [lines(&[init(), told]), String::new()] {
        let mut run = Run::of("qwen", &stdout).signal(9).stderr(stderr);
        run.end.cause = Cause::TimedOut;
        let summary = run.summary();
        assert_eq!(failure(&summary), "rate_limit/gave_up_waiting");
        assert_eq!(summary["failure"]["retry_after_ms"], 2000);
        let retries: Vec<_> = run
            .events()
            .into_iter()
            .filter_map(|event| if let Kind::Retrying(retrying) = event.kind { Some(retrying) } else { None })
            .collect();
        assert_eq!(retries.len(), 1);
        let numbers = (retries[0].attempt, retries[0].max_attempts, retries[0].delay_ms.map(|delay| delay.0));
        assert_eq!(numbers, (Some(1), Some(10), Some(60_000)));
    }
}

#[test]
fn the_index_of_a_block_restarts() {
    let thought = |text: &str| {
        event(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": text}}),
        )
    };
    let stdout = lines(&[
        init(),
        start("a"),
        block(&json!({"type": "thinking", "thinking": "", "signature": ""})),
        thought("hm "),
        thought("hm"),
        stop(),
        json!({"type": "assistant", "message": {"id": "a", "content": [{"type": "thinking", "thinking": "hm hm"}]}}),
        block(&json!({"type": "text", "text": ""})),
        piece("4"),
        piece("2"),
        stop(),
        said("b", "42, then", 9),
        message_stop(),
        success("42, then"),
    ]);
    let run = Run::of("qwen", &stdout);
    let part = |event: Event| {
        if let Kind::TextDelta(delta) = event.kind {
            Some((delta.block, delta.text))
        } else if let Kind::ThinkingDelta(delta) = event.kind {
            Some((delta.block, delta.text))
        } else {
            None
        }
    };
    let blocks: Vec<(u32, String)> = run.events().into_iter().filter_map(part).collect();
    let expect = [(0, "hm "), (0, "hm"), (1, "4"), (1, "2"), (1, ", then")];
    assert_eq!(blocks, expect.map(|(block, text)| (block, text.to_owned())), "what the whole adds is said");
    assert_eq!(run.text(), "42, then");
    assert_eq!(run.summary()["events"]["message_finished"], 1);
}

#[test]
fn usage_is_of_the_call_and_then_of_the_session() {
    let first = lines(&[init(), said("a", "one", 3), success("one")]);
    let usage = |stdout: &str| {
        let usage = &Run::of("qwen", stdout).summary()["usage"];
        ["input", "output", "cache_read", "cache_write"].map(|key| usage[key].as_u64().expect("a count"))
    };
    assert_eq!(usage(&first), [6, 5, 4, 0], "the call is part of the session");
    let more = json!({"type": "result", "subtype": "success", "is_error": false, "result": "two",
        "usage": {"input_tokens": 30, "output_tokens": 9, "cache_read_input_tokens": 10, "total_tokens": 39}});
    let both = first + &lines(&[init(), said("b", "two", 3), more]);
    assert_eq!(usage(&both), [20, 9, 10, 0], "cumulative");
    let cut = lines(&[init(), said("a", "one", 3), said("b", "two", 4)]);
    assert_eq!(usage(&cut), [7, 7, 0, 0], "without a result the calls are added");
}

#[test]
fn results_say_what_was_not_said() {
    assert_eq!(text("qwen", &lines(&[init(), success("only here")])), "only here");
    let structured = json!({"type": "result", "subtype": "success", "is_error": false, "result": "{\"a\":1}",
        "structured_result": {"a": 1}, "usage": {}});
    assert_eq!(
        text("qwen", &lines(&[init(), said("a", "I submit it.", 2), structured])),
        "I submit it.\n{\"a\":1}"
    );
}

#[test]
fn sub_agents_speak_for_themselves() {
    let call = json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": "a", "content": [
        {"type": "tool_use", "id": "t1", "name": "task", "input": {"prompt": "look"}}]}});
    let sub = |content: Value| json!({"type": "assistant", "parent_tool_use_id": "t1", "message": {"id": "s", "content": [content]}});
    let inner =
        sub(json!({"type": "tool_use", "id": "t2", "name": "read_file", "input": {"file_path": "/x"}}));
    let words = sub(json!({"type": "text", "text": "I looked."}));
    let order = json!({"type": "user", "parent_tool_use_id": "t1", "message": {"role": "user", "content": [{"type": "text", "text": "look"}]}});
    let failed = json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "duration_ms": 0,
        "duration_api_ms": 0, "num_turns": 2, "usage": {"input_tokens": 0, "output_tokens": 0}, "error": {"message": "sub-agent broke"}});
    let done = |id: &str| json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "is_error": false, "content": "ok"}]}});
    let stdout = lines(&[
        init(),
        call,
        order,
        inner,
        done("t2"),
        words,
        failed,
        done("t1"),
        said("b", "Done.", 4),
        success("Done."),
    ]);
    let run = Run::of("qwen", &stdout);
    let summary = run.summary();
    assert_eq!((summary["text"].as_str(), summary["outcome"].as_str()), (Some("Done."), Some("completed")));
    assert_eq!(summary["all_text"], "I looked.\nDone.");
    assert_eq!(summary["events"]["turn_ended"], 1, "the sub-agent's failure is not the turn's");
    let parents: Vec<Option<String>> = run
        .events()
        .iter()
        .filter_map(|event| {
            if let Kind::ToolStarted(tool) = &event.kind {
                Some(tool.parent.as_ref().map(|id| id.as_str().to_owned()))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(parents, [None, Some("t1".to_owned())]);
}

#[test]
fn tools_in_pieces_and_refused() {
    let call = json!({"type": "tool_use", "id": "t1", "name": "write_file", "input": {"file_path": "/x/a"}});
    let stdout = lines(&[
        init(),
        start("a"),
        block(&json!({"type": "tool_use", "id": "t1", "name": "write_file", "input": {}})),
        event(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"file_path\":\"/x/a\"}"}}),
        ),
        stop(),
        json!({"type": "assistant", "message": {"id": "a", "content": [call], "stop_reason": "tool_use"}}),
        message_stop(),
        event(
            &json!({"type": "tool_progress", "tool_use_id": "t1", "content": {"type": "mcp_tool_progress", "message": "at it"}}),
        ),
        json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true,
            "content": "Qwen Code requires permission to use \"write_file\", but that permission was declined."}]}}),
        success("x"),
    ]);
    let run = Run::of("qwen", &stdout);
    let events = run.events();
    let started: Vec<_> = events
        .iter()
        .filter_map(|event| if let Kind::ToolStarted(tool) = &event.kind { Some(tool) } else { None })
        .collect();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].input.as_ref().map(|input| input.as_str()), Some("{\"file_path\":\"/x/a\"}"));
    let status = events
        .iter()
        .find_map(|event| if let Kind::ToolFinished(tool) = &event.kind { Some(tool.status) } else { None });
    assert_eq!(status, Some(ToolStatus::Denied));
    let counts = &run.summary()["events"];
    assert_eq!((counts["tool_updated"].as_u64(), counts["files_touched"].as_u64()), (Some(1), None));
}

/// Plays a wire: `Ok` is what the program prints, `Err` what it is sent.
fn wire(steps: &[Result<Value, Value>], end: &End) -> Vec<Event> {
    let now = Moment::utc("2026-11-15T08:00:00Z".parse::<Timestamp>().expect("a time"));
    let mut decoder = Decoder::new(dialects::by_name("qwen").expect("it is on the list"));
    let mut drafts = Vec::new();
    for step in steps {
        match step {
            Ok(line) => decoder.stdout((line.to_string() + "\n").as_bytes(), &now, &mut drafts),
            Err(line) => decoder.sent(&line.to_string(), 0, &now, &mut drafts),
        }
    }
    decoder.finish(end, &now, &mut drafts);
    let mut stamp = Stamp::new(SessionId::from("s"));
    drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect()
}

#[test]
fn approvals_are_asked_and_decided_once() {
    let ask = |id: &str| {
        json!({"type": "control_request", "request_id": id, "request": {"subtype": "can_use_tool", "tool_name": "run_shell_command",
            "tool_use_id": "t1", "input": {"command": "rm x"}, "permission_suggestions": [{"type": "allow", "label": "Yes"}], "blocked_path": null}})
    };
    let answer = |id: &str, behavior: &str| json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": {"behavior": behavior}}});
    let withdrawn = json!({"type": "control_cancel_request", "request_id": "r3"});
    let events = wire(
        &[
            Ok(init()),
            Ok(ask("r1")),
            Err(answer("r1", "allow")),
            Err(answer("r1", "deny")),
            Ok(ask("r2")),
            Err(answer("r2", "deny")),
            Ok(ask("r3")),
            Ok(withdrawn),
            Ok(ask("r4")),
        ],
        &End { exit: Some(Exit::Code(0)), cause: Cause::Exited },
    );
    let decided: Vec<(String, Decision, Decider)> = events
        .iter()
        .filter_map(|event| {
            if let Kind::ApprovalDecided(decided) = &event.kind {
                Some((decided.id.as_str().to_owned(), decided.decision, decided.by))
            } else {
                None
            }
        })
        .collect();
    let expect = [
        ("r1", Decision::Allow, Decider::Host),
        ("r2", Decision::Deny, Decider::Host),
        ("r3", Decision::Deny, Decider::Withdrawn),
        ("r4", Decision::Deny, Decider::ClientLost),
    ];
    assert_eq!(decided, expect.map(|(id, decision, by)| (id.to_owned(), decision, by)));
    let asked = events
        .iter()
        .find_map(|event| if let Kind::ApprovalAsked(asked) = &event.kind { Some(asked) } else { None });
    assert_eq!(asked.map(|asked| asked.summary.as_str()), Some("run_shell_command: rm x"));
}

#[test]
fn an_interrupt_is_a_cancellation_whatever_the_words() {
    let request =
        |id: &str, request: Value| json!({"type": "control_request", "request_id": id, "request": request});
    let response = |id: &str, response: Value| json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}});
    let events = wire(
        &[
            Err(request("c1", json!({"subtype": "set_model", "model": "other"}))),
            Ok(response("c1", json!({}))),
            Ok(init()),
            Err(request("c2", json!({"subtype": "interrupt"}))),
            Ok(response("c2", json!({}))),
            Ok(error("request aborted")),
            Ok(init()),
            Ok(error("request aborted")),
        ],
        &End { exit: Some(Exit::Code(0)), cause: Cause::Exited },
    );
    let outcomes: Vec<&str> = events
        .iter()
        .filter_map(|event| {
            if let Kind::TurnEnded(ended) = &event.kind {
                Some(if ended.failure.is_some() { "failed" } else { "not" })
            } else {
                None
            }
        })
        .collect();
    assert_eq!(outcomes, ["not", "failed"], "only the turn that was interrupted");
    assert!(
        events
            .iter()
            .any(|event| matches!(&event.kind, Kind::ModelChanged(changed) if changed.model == "other"))
    );
}

#[test]
fn system_lines() {
    let system = |subtype: &str, data: Value| json!({"type": "system", "subtype": subtype, "data": data});
    let stdout = lines(&[
        init(),
        event(&json!({"type": "goal_state", "goal_state": {"v": 2}})),
        event(&json!({"type": "active_goal", "active_goal": null})),
        system("model_fallback", json!({"fromModel": "a", "toModel": "b", "statusCode": 429})),
        json!({"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "manual", "pre_tokens": 900}}),
        system("something_new", json!({})),
        event(&json!({"type": "something_newer"})),
        success("x"),
    ]);
    let run = Run::of("qwen", &stdout);
    let summary = run.summary();
    assert_eq!(summary["unrecognized"], 2);
    for kind in ["model_changed", "context_compacted", "mcp_server_status", "session_started"] {
        assert_eq!(summary["events"][kind], 1, "{kind}");
    }
}

#[test]
fn the_forms_of_the_adapter_protocol_work() {
    assert_eq!(text("qwen", "plain words\n"), "plain words");
    assert_eq!(text("qwen", "{\"content\": \"Hello!\"}"), "Hello!");
    assert_eq!(text("qwen", "{\n  \"content\": \"Hello!\"\n}\n"), "Hello!");
    let content = "{\"type\":\"content\",\"content\":\"a\"}\n{\"type\":\"turn.completed\"}\n";
    assert_eq!(text("qwen", content), "a");
    let careless = lines(&[init(), start("a")])
        + "{\"type\":\"stream_event\",\"event\":{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\",\"text\":\"A\u{1}\"}}}\n"
        + &lines(&[success("x")]);
    assert_eq!(text("qwen", &careless), "A\u{1}");
}

#[test]
fn recordings_do_not_depend_on_how_they_are_cut() {
    for capture in fixtures::all().iter().filter(|capture| capture.cli == "qwen" && capture.dialect.is_none())
    {
        assert_eq!(capture.drafts(7), capture.drafts(usize::MAX), "{}", capture.name());
    }
}
