//! Qwen Code: its failures as a table, and the traps that no recording shows.

mod failures;
mod retries;

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
