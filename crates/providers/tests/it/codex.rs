//! Codex: every row of its table of failures, and every trap that its recordings show or its other versions set.

mod app_server;
mod failures;

use bowline_protocol::kinds::{Outcome, Phase, ToolKind, ToolOwner, ToolStatus};
use bowline_protocol::{Decider, Decision, Event, Exit, Kind, SessionId};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::dialects;
use bowline_providers::moment::Moment;
use serde_json::{Value, json};

use crate::support::Run;

/// A run of `codex exec --json`.
fn exec(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn begun(rest: &[Value]) -> String {
    let first = [json!({"type":"thread.started","thread_id":"t1"}), json!({"type":"turn.started"})];
    exec(&[&first, rest].concat())
}

fn said(id: &str, text: &str) -> Value {
    json!({"type":"item.completed","item":{"id":id,"type":"agent_message","text":text}})
}

fn error(message: &str) -> Value {
    json!({"type":"error","message":message})
}

fn done() -> Value {
    json!({"type":"turn.completed","usage":{"input_tokens":1200,"cached_input_tokens":1000,"output_tokens":34}})
}

fn failure(summary: &Value) -> String {
    let part = |key: &str| summary["failure"][key].as_str().unwrap_or("-").to_owned();
    format!("{}/{}", part("category"), part("code"))
}

fn count(summary: &Value, kind: &str) -> u64 {
    summary["events"][kind].as_u64().unwrap_or(0)
}

#[test]
fn errors_that_are_overcome_are_no_failure() {
    let output =
        begun(&[error("Reconnecting... 1/5 (x)"), error("something odd"), said("item_0", "Fine."), done()]);
    let run = Run::of("codex-exec", &output).summary();
    assert_eq!((run["outcome"].as_str(), run["failure"].is_null()), (Some("completed"), true));
    // An empty answer is an answer.
    assert_eq!(Run::of("codex-exec", &begun(&[done()])).outcome(), "completed");
    // Exit code 0 without the end of the turn is no success.
    assert_eq!(Run::of("codex-exec", &begun(&[said("item_0", "Fine.")])).outcome(), "truncated");
}

#[test]
fn usage_counts_from_the_beginning_of_the_thread() {
    let turn = |input: u64| json!({"type":"turn.completed","usage":{"input_tokens":input,"cached_input_tokens":input / 2,"output_tokens":input / 10,"reasoning_output_tokens":1}});
    let output = begun(&[
        said("item_0", "a"),
        turn(100),
        json!({"type":"turn.started"}),
        said("item_1", "b"),
        turn(300),
    ]);
    let run = Run::of("codex-exec", &output).summary();
    let usage = &run["usage"];
    let counts = ["input", "output", "cache_read", "total"].map(|key| usage[key].as_u64().expect("a count"));
    assert_eq!(counts, [150, 30, 150, 330]);
}

#[test]
fn items_become_tools_files_plans_and_warnings() {
    let item = |step: &str, item: Value| json!({"type":step,"item":item});
    let output = begun(&[
        item(
            "item.started",
            json!({"id":"item_0","type":"command_execution","command":"sleep 9","aggregated_output":"","exit_code":null,"status":"in_progress"}),
        ),
        item(
            "item.completed",
            json!({"id":"item_1","type":"file_change","changes":[{"path":"a","kind":"update"},{"path":"b","kind":"add"},{"path":"c","kind":"delete"}],"status":"completed"}),
        ),
        item(
            "item.completed",
            json!({"id":"item_2","type":"file_change","changes":[{"path":"d","kind":"update"}],"status":"failed"}),
        ),
        item(
            "item.started",
            json!({"id":"item_3","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"n":1},"result":null,"error":null,"status":"in_progress"}),
        ),
        item(
            "item.completed",
            json!({"id":"item_3","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"n":1},"result":null,"error":{"message":"MCP tool call requires approval, but approval policy is never"},"status":"failed"}),
        ),
        item(
            "item.started",
            json!({"id":"item_4","type":"collab_tool_call","tool":"spawn_agent","sender_thread_id":"t1","receiver_thread_ids":["child"],"prompt":"Look.","agents_states":{},"status":"in_progress"}),
        ),
        item(
            "item.completed",
            json!({"id":"item_4","type":"collab_tool_call","tool":"spawn_agent","sender_thread_id":"t1","receiver_thread_ids":["child"],"prompt":"Look.","agents_states":{"child":{"status":"completed","message":"Seen."}},"status":"completed"}),
        ),
        item(
            "item.completed",
            json!({"id":"item_5","type":"collab_tool_call","tool":"spawn_agent","sender_thread_id":"child","receiver_thread_ids":["grandchild"],"status":"completed"}),
        ),
        item(
            "item.started",
            json!({"id":"item_6","type":"todo_list","items":[{"text":"look","completed":true},{"text":"fix","completed":false}]}),
        ),
        item("item.completed", json!({"id":"item_7","type":"error","message":"Careful."})),
        item(
            "item.completed",
            json!({"id":"item_8","type":"command_execution","command":7,"aggregated_output":{"odd":1},"exit_code":"3","status":["failed"]}),
        ),
        item("item.completed", json!({"id":"item_9","type":"hologram","text":"?"})),
        done(),
    ]);
    let events = Run::of("codex-exec", &output).events();
    let finished = |id: &str| {
        events.iter().find_map(|event| {
            let Kind::ToolFinished(tool) = &event.kind else { return None };
            (tool.id.as_str() == id)
                .then(|| (tool.status, tool.output.as_ref().map(|output| output.text.clone())))
        })
    };
    assert_eq!(finished("item_0"), None);
    assert_eq!(finished("item_1"), Some((ToolStatus::Completed, None)));
    assert_eq!(finished("item_2"), Some((ToolStatus::Failed, None)));
    assert_eq!(finished("item_3").map(|(status, _)| status), Some(ToolStatus::Denied));
    assert_eq!(finished("item_4"), Some((ToolStatus::Completed, Some("Seen.".to_owned()))));
    assert_eq!(
        finished("item_8"),
        Some((ToolStatus::Completed, None)),
        "fields of another kind lose nothing else"
    );
    let started = |id: &str| {
        events.iter().find_map(|event| {
            if let Kind::ToolStarted(tool) = &event.kind {
                (tool.id.as_str() == id).then_some(tool)
            } else {
                None
            }
        })
    };
    assert_eq!(
        started("item_3").map(|tool| (tool.name.as_str(), tool.input.as_ref().map(|json| json.as_str()))),
        Some(("s.t", Some("{\"n\":1}")))
    );
    assert_eq!(
        started("item_5").map(|tool| (tool.kind, tool.parent.as_ref().map(|id| id.as_str()))),
        Some((ToolKind::Agent, Some("item_4")))
    );
    let files: Vec<&str> = events
        .iter()
        .filter_map(
            |event| if let Kind::FilesTouched(touched) = &event.kind { Some(&touched.files) } else { None },
        )
        .flatten()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(files, ["a", "b", "c"], "a failed change touches nothing");
    let ended = events
        .iter()
        .find_map(|event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended) } else { None })
        .expect("an end");
    assert_eq!(ended.running_tools.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["item_0"]);
    assert_eq!(Run::of("codex-exec", &output).unrecognized().len(), 1, "only the unknown type");
    let kinds = Run::of("codex-exec", &output).kinds();
    assert_eq!(kinds.iter().filter(|kind| ["plan_updated", "notice"].contains(&kind.as_str())).count(), 2);
}

#[test]
fn the_documented_forms_and_careless_lines() {
    let check = |output: &str, text: &str| {
        let run = Run::of("codex-exec", output).summary();
        assert_eq!(
            (run["text"].as_str(), run["outcome"].as_str(), run["unrecognized"].as_u64()),
            (Some(text), Some("completed"), Some(0)),
            "{output}"
        );
    };
    check(
        "{\"type\":\"thread.started\",\"thread_id\":\"thread_abc\"}\n{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"Here's my response.\"}}\n{\"type\":\"turn.completed\"}\n",
        "Here's my response.",
    );
    check(
        "{\"type\":\"item.completed\",\"item\":{\"agent_message\":{\"text\":\"Nested.\"}}}\n{\"type\":\"turn.completed\"}\n",
        "Nested.",
    );
    check(
        "{\"type\":\"item.completed\",\"item\":{\"id\":\"item_0\",\"type\":\"web_search\",\"id\":\"ws_1\",\"query\":\"q\"}}\n{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"a\\ud83d\"}}\n{\"type\":\"turn.completed\"}\n",
        "a\u{FFFD}",
    );
    check("Just text.\nIn two lines.\n", "Just text.\nIn two lines.");
}

#[test]
fn the_lines_of_older_versions() {
    let msg = |msg: Value| json!({"id":"0","msg":msg});
    let output = exec(&[
        json!({"model":"gpt-5","workdir":"/w","approval":"never","sandbox":"read-only","reasoning effort":"none"}),
        json!({"prompt":"Do it."}),
        msg(json!({"type":"session_configured","session_id":"s1","model":"gpt-5"})),
        msg(json!({"type":"task_started","model_context_window":272000})),
        msg(json!({"type":"agent_reasoning_delta","delta":"Hm"})),
        msg(json!({"type":"agent_reasoning","text":"Hm."})),
        msg(json!({"type":"agent_message_delta","delta":"I will "})),
        msg(json!({"type":"agent_message_delta","delta":"look."})),
        msg(json!({"type":"agent_message","message":"I will look."})),
        msg(json!({"type":"exec_command_begin","call_id":"c1","command":["ls","-l"],"cwd":"/w"})),
        msg(json!({"type":"exec_command_output_delta","call_id":"c1","stream":"stdout","chunk":"YQ=="})),
        msg(
            json!({"type":"exec_command_end","call_id":"c1","stdout":"a","stderr":"","aggregated_output":"a","exit_code":2}),
        ),
        msg(
            json!({"type":"patch_apply_begin","call_id":"c2","auto_approved":true,"changes":{"/w/a":{"add":{"content":"x"}}}}),
        ),
        msg(
            json!({"type":"patch_apply_end","call_id":"c2","stdout":"ok","stderr":"","success":true,"changes":{"/w/a":{"add":{"content":"x"}}}}),
        ),
        msg(
            json!({"type":"mcp_tool_call_begin","call_id":"c3","invocation":{"server":"s","tool":"t","arguments":{}}}),
        ),
        msg(
            json!({"type":"mcp_tool_call_end","call_id":"c3","invocation":{"server":"s","tool":"t"},"result":{"Err":"gone"}}),
        ),
        msg(json!({"type":"plan_update","plan":[{"step":"look","status":"in_progress"}]})),
        msg(json!({"type":"turn_diff","unified_diff":"diff --git a/a b/a\n+x\n"})),
        msg(
            json!({"type":"stream_error","message":"stream error: connection closed; retrying 1/5 in 200ms…"}),
        ),
        msg(json!({"type":"background_event","message":"still here"})),
        msg(
            json!({"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":10,"reasoning_output_tokens":2,"total_tokens":110},"last_token_usage":{"input_tokens":50,"cached_input_tokens":40,"output_tokens":5,"total_tokens":55},"model_context_window":272000},"rate_limits":{"primary":{"used_percent":85.0,"window_minutes":300,"resets_at":1794729229}}}),
        ),
        msg(json!({"type":"agent_message","message":"Done."})),
        msg(json!({"type":"task_complete","last_agent_message":"Done."})),
    ]);
    let run = Run::of("codex-exec", &output).summary();
    assert_eq!(
        (run["text"].as_str(), run["all_text"].as_str(), run["outcome"].as_str()),
        (Some("Done."), Some("I will look.\nDone."), Some("completed"))
    );
    assert_eq!(
        (run["native_session"].as_str(), run["model"].as_str(), run["tools"].as_u64()),
        (Some("s1"), Some("gpt-5"), Some(3))
    );
    assert_eq!(
        (
            run["usage"]["input"].as_u64(),
            run["usage"]["cache_read"].as_u64(),
            run["usage"]["output"].as_u64()
        ),
        (Some(60), Some(40), Some(10))
    );
    for (kind, expected) in [
        ("retrying", 1),
        ("context_gauge", 1),
        ("limit_reported", 1),
        ("files_touched", 1),
        ("plan_updated", 1),
        ("diff_available", 1),
        ("tool_finished", 3),
        ("thinking_delta", 2),
        ("user_message", 1),
        ("unrecognized", 0),
    ] {
        assert_eq!(count(&run, kind), expected, "{kind}");
    }

    // After an error the task completes too, without a message.
    let failed = exec(&[
        msg(json!({"type":"task_started"})),
        msg(json!({"type":"error","message":"Quota exceeded. Check your plan and billing details."})),
        msg(json!({"type":"task_complete","last_agent_message":null})),
    ]);
    assert_eq!(failure(&Run::of("codex-exec", &failed).summary()), "quota/quota_exhausted");
    let aborted = exec(&[
        msg(json!({"type":"task_started"})),
        msg(json!({"type":"turn_aborted","reason":"interrupted"})),
    ]);
    assert_eq!(Run::of("codex-exec", &aborted).outcome(), "cancelled");
    // Only the end tells the answer; the counts are flat.
    let bare = exec(&[
        msg(json!({"type":"task_started"})),
        msg(
            json!({"type":"token_count","input_tokens":9,"cached_input_tokens":4,"output_tokens":2,"total_tokens":11}),
        ),
        msg(json!({"type":"task_complete","last_agent_message":"Only here."})),
    ]);
    let bare = Run::of("codex-exec", &bare).summary();
    assert_eq!((bare["text"].as_str(), bare["usage"]["input"].as_u64()), (Some("Only here."), Some(5)));
}
