//! Claude Code: every trap that its recordings show. Each subject with many of them has a module.

mod approvals;
mod failures;
mod messages;
mod usage;

use std::sync::LazyLock;

use bowline_protocol::kinds::{Phase, ToolStatus, TurnOrigin, UserOrigin};
use bowline_protocol::{Decider, Decision, Event, Kind, SessionId, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::dialects;
use bowline_providers::moment::Moment;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{self, Recording, WireStep};
use crate::properties::check_account;
use crate::support::Run;

/// The announcement of a turn.
pub(crate) const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","model":"opus","permissionMode":"default"}"#;

/// A result line with its defaults.
pub(crate) fn result(fields: Value) -> String {
    let mut line = json!({
        "duration_ms": 1, "is_error": false, "subtype": "success", "session_id": "s1", "total_cost_usd": 0.5,
        "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4},
        "permission_denials": [], "terminal_reason": "completed", "stop_reason": "end_turn", "type": "result",
    });
    let (Value::Object(line_fields), Value::Object(fields)) = (&mut line, fields) else { panic!("objects") };
    line_fields.extend(fields);
    line.to_string()
}

pub(crate) fn says(id: &str, text: &str) -> String {
    json!({"type": "assistant", "message": {"id": id, "model": "opus", "content": [{"type": "text", "text": text}]}})
        .to_string()
}

fn calls(id: &str, tool: &str, name: &str) -> String {
    json!({"type": "assistant", "message": {"id": id, "content": [{"type": "tool_use", "id": tool, "name": name, "input": {}}]}})
        .to_string()
}

fn stream(event: &Value) -> String {
    json!({"type": "stream_event", "event": event, "parent_tool_use_id": null}).to_string()
}

fn piece(text: &str) -> String {
    stream(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}))
}

fn message_start(id: &str) -> String {
    stream(&json!({"type": "message_start", "message": {"id": id, "model": "opus"}}))
}

pub(crate) fn lines(lines: &[&str]) -> String {
    lines.iter().flat_map(|line| [*line, "\n"]).collect()
}

fn events(output: &str) -> Vec<Event> {
    Run::of("claude", output).events()
}

fn summary(output: &str) -> Value {
    Run::of("claude", output).summary()
}

/// Makes a prompt that is sent to the agent.
fn prompt(text: &str) -> (char, String) {
    ('>', json!({"type": "user", "message": {"role": "user", "content": text}}).to_string())
}

/// Plays a conversation of both sides: `>` is sent, `<` is printed.
fn talk(steps: &[(char, String)]) -> Vec<Event> {
    let entry = dialects::by_name("claude").expect("a dialect of the list");
    let now = Moment::utc("2026-11-15T08:00:00Z".parse::<Timestamp>().expect("a time"));
    let mut decoder = Decoder::new(entry);
    let mut drafts = Vec::new();
    for (side, line) in steps {
        match side {
            '>' => decoder.sent(line, 0, &now, &mut drafts),
            _ => decoder.stdout(format!("{line}\n").as_bytes(), &now, &mut drafts),
        }
    }
    decoder.finish(&End::default(), &now, &mut drafts);
    let mut stamp = Stamp::new(SessionId::from("s"));
    drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect()
}

fn decisions(events: &[Event]) -> Vec<(Decision, Decider)> {
    let decided = |event: &Event| {
        if let Kind::ApprovalDecided(decided) = &event.kind {
            Some((decided.decision, decided.by))
        } else {
            None
        }
    };
    events.iter().filter_map(decided).collect()
}

fn statuses(events: &[Event]) -> Vec<ToolStatus> {
    let ended =
        |event: &Event| if let Kind::ToolFinished(tool) = &event.kind { Some(tool.status) } else { None };
    events.iter().filter_map(ended).collect()
}

fn origins(events: &[Event]) -> Vec<TurnOrigin> {
    let began = |event: &Event| {
        if let Kind::TurnStarted(started) = &event.kind { Some(started.origin) } else { None }
    };
    events.iter().filter_map(began).collect()
}

#[test]
fn an_array_says_what_the_lines_would_have_said() {
    let output = [INIT, &calls("m1", "t1", "Bash"), &says("m2", "hi"), &result(json!({"result": "hi"}))];
    let array = format!("[{}]", output.join(","));
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&array).unwrap()).unwrap();
    for document in [&array, &pretty] {
        let as_array = summary(document);
        assert_eq!(as_array, summary(&lines(&output)), "{document}");
        assert_eq!((&as_array["text"], &as_array["tools"]), (&json!("hi"), &json!(1)));
    }
}

#[test]
fn the_form_of_the_adapter_protocol_works_too() {
    let output = "{\"type\":\"turn.started\",\"id\":\"t\"}\n{\"type\":\"content\",\"content\":\"Hello! \"}\n{\"type\":\"content\",\"content\":\"How can I help?\"}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":10,\"output_tokens\":8}}\n";
    let run = summary(output);
    assert_eq!((&run["text"], &run["outcome"]), (&json!("Hello! How can I help?"), &json!("completed")));
    assert_eq!(run["usage"]["total"], 18);
    assert_eq!(summary("{\n  \"content\": \"Hello!\"\n}\n")["text"], "Hello!");
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let delta = r#"{"api_message_id":"m","parent_tool_use_id":null,"event":{"delta":{"text":"hi","type":"text_delta"},"index":0,"type":"content_block_delta"},"type":"stream_event"}"#;
    let run = summary(&lines(&[INIT, delta, &result(json!({"result": "hi"}))]));
    assert_eq!((&run["all_text"], &run["unrecognized"]), (&json!("hi"), &json!(0)));
}

#[test]
fn careless_lines_are_not_lost() {
    for delta in [
        // Half a surrogate pair, a key twice, colour around it, a field of another type.
        r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi\ud83d"}}}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"index":0,"delta":{"type":"text_delta","text":"hi\ufffd"}}}"#,
        "\u{1b}[32m{\"type\":\"stream_event\",\"event\":{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\u{fffd}\"}}}\u{1b}[0m",
        r#"{"type":"stream_event","parent_tool_use_id":{"a":[1]},"event":{"type":"content_block_delta","index":"0","delta":{"type":"text_delta","text":"hi\ufffd","thinking":7}}}"#,
    ] {
        let run = summary(&lines(&[INIT, &message_start("m"), delta, &result(json!({}))]));
        assert_eq!((&run["text"], &run["unrecognized"]), (&json!("hi\u{fffd}"), &json!(0)), "{delta}");
    }
}

#[test]
fn a_user_line_is_never_a_persons() {
    let line = |extra: &str, text: &str| {
        format!(r#"{{"type":"user","message":{{"role":"user","content":"{text}"}}{extra}}}"#)
    };
    let output = lines(&[
        INIT,
        &line(r#","isReplay":true"#, "the prompt"),
        &line(r#","isSynthetic":true"#, "go on"),
        &line("", "[Request interrupted by user]"),
        &line(r#","parent_tool_use_id":"t""#, "do this"),
    ]);
    let found: Vec<UserOrigin> = events(&output)
        .iter()
        .filter_map(
            |event| if let Kind::UserMessage(message) = &event.kind { Some(message.origin) } else { None },
        )
        .collect();
    use UserOrigin::{Replayed, Synthetic};
    assert_eq!(found, [Replayed, Synthetic, Synthetic, Synthetic]);
    assert_eq!(Run::of("claude", &output).outcome(), "cancelled", "its own word, without a result");
}

#[test]
fn a_turn_after_a_notice_is_no_prompts() {
    let captures = fixtures::all();
    let play = |case: &str| captures.iter().find(|capture| capture.case == case).expect(case).events();
    use TurnOrigin::{BackgroundNotice, Prompt};
    assert_eq!(origins(&play("subagent")), [Prompt, BackgroundNotice]);
    assert_eq!(origins(&play("background-bash")), [Prompt, BackgroundNotice]);
    assert_eq!(origins(&play("bidi-two-turns")), [Prompt, Prompt]);
    assert_eq!(origins(&play("tool-sleep20-full")), [Prompt]);
}

#[test]
fn output_of_sub_agents_carries_its_parent() {
    let capture =
        fixtures::all().into_iter().find(|capture| capture.case == "subagent").expect("a recording");
    let parents: Vec<bool> = capture
        .events()
        .iter()
        .filter_map(|event| {
            if let Kind::TextDelta(delta) = &event.kind { Some(delta.parent.is_some()) } else { None }
        })
        .collect();
    assert_eq!(parents, [true, false, false]);
}

#[test]
fn tools_end_as_the_wire_says() {
    let captures = fixtures::all();
    let play = |case: &str| captures.iter().find(|capture| capture.case == case).expect(case).events();
    use ToolStatus::{Cancelled, Completed, Denied, Failed};
    assert_eq!(statuses(&play("tool-multi")), [Completed, Completed]);
    assert_eq!(statuses(&play("tool-error-exit3")), [Failed]);
    assert_eq!(statuses(&play("tool-bash-default-denied")), [Denied]);
    assert_eq!(statuses(&play("mode-dontAsk")), [Denied]);
    assert_eq!(statuses(&play("bidi-perm-deny")), [Denied]);
    assert_eq!(statuses(&play("bidi-perm-deny-interrupt")), [Denied]);
    assert_eq!(statuses(&play("bidi-perm-stdin-closed")), [Denied]);
    assert_eq!(statuses(&play("tool-running-sigint")), [Cancelled]);
    assert_eq!(statuses(&play("bidi-interrupt-during-perm")), [Cancelled]);
    let codes: Vec<Option<i32>> = play("tool-error-exit3")
        .iter()
        .filter_map(
            |event| if let Kind::ToolFinished(tool) = &event.kind { Some(tool.exit_code) } else { None },
        )
        .collect();
    assert_eq!(codes, [Some(3)]);
}

#[test]
fn prompts_that_wait_have_turns_of_their_own() {
    let events = talk(&[
        prompt("one"),
        ('<', INIT.into()),
        ('<', says("a", "first")),
        prompt("two"),
        ('<', result(json!({"result": "first"}))),
        ('<', INIT.into()),
        ('<', says("b", "second")),
        ('<', result(json!({"result": "second", "total_cost_usd": 0.75}))),
    ]);
    assert_eq!(origins(&events), [TurnOrigin::Prompt, TurnOrigin::Prompt]);
    let costs: Vec<Option<f64>> = events
        .iter()
        .filter_map(
            |event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended.cost_usd) } else { None },
        )
        .collect();
    assert_eq!(costs, [Some(0.5), Some(0.25)], "the cost is cumulative");
}

#[test]
fn a_command_between_turns_opens_none() {
    let replay = r#"{"type":"user","isReplay":true,"message":{"content":"<local-command-stdout>Set model to `x`</local-command-stdout>"}}"#;
    let changed = r#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"model":"sonnet"}}}"#;
    let output = lines(&[INIT, &says("a", "hi"), &result(json!({"result": "hi"})), replay, changed]);
    let run = summary(&output);
    assert_eq!((&run["outcome"], &run["events"]["turn_ended"]), (&json!("completed"), &json!(1)));
    assert_eq!(run["model"], "sonnet");
}

#[test]
fn a_sub_agent_that_goes_on_between_turns_spoils_none() {
    let aside = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"s","content":[{"type":"text","text":"aside"}]}}"#;
    let events = talk(&[
        prompt("one"),
        ('<', INIT.into()),
        ('<', says("a", "first")),
        ('<', result(json!({"result": "first"}))),
        ('<', aside.into()),
        prompt("two"),
        ('<', INIT.into()),
        ('<', says("b", "second")),
        ('<', result(json!({"result": "second"}))),
    ]);
    let outcomes: Vec<_> = events
        .iter()
        .filter_map(|event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended.outcome) } else { None })
        .collect();
    assert_eq!(outcomes, [bowline_protocol::kinds::Outcome::Completed; 2]);
}

#[test]
fn every_declared_type_is_known_and_others_are_kept() {
    let known = [
        "tool_progress",
        "tool_use_summary",
        "auth_status",
        "prompt_suggestion",
        "keep_alive",
        "command_lifecycle",
    ];
    let subtypes = [
        "hook_progress",
        "hook_started",
        "task_progress",
        "commands_changed",
        "notification",
        "conversation_reset",
        "local_command_output",
        "memory_recall",
        "files_persisted",
        "plugin_install",
        "elicitation_complete",
        "mirror_error",
        "worker_shutting_down",
        "active_goal",
        "model_refusal_fallback",
        "model_refusal_no_fallback",
        "informational",
        "ui_invalidate",
        "thinking_tokens",
    ];
    let mut output: Vec<String> = known.iter().map(|name| format!(r#"{{"type":"{name}"}}"#)).collect();
    output.extend(subtypes.iter().map(|name| format!(r#"{{"type":"system","subtype":"{name}"}}"#)));
    let output = output.join("\n");
    assert_eq!(Run::of("claude", &output).unrecognized(), Vec::<String>::new());
    let new = r#"{"type":"moon_phase","x":1}"#;
    assert_eq!(Run::of("claude", new).unrecognized(), [new]);
}

#[test]
fn servers_and_hooks_that_fail_are_told() {
    let init = r#"{"type":"system","subtype":"init","session_id":"s","mcp_servers":[{"name":"a","status":"failed"},{"name":"b","status":"connected"}]}"#;
    let hook = r#"{"type":"system","subtype":"hook_response","hook_name":"Stop","exit_code":2,"outcome":"error","stderr":"no"}"#;
    let run = summary(&lines(&[
        init,
        hook,
        &result(json!({"result": "x"})),
        init,
        &result(json!({"result": "y"})),
    ]));
    assert_eq!((&run["events"]["mcp_server_status"], &run["events"]["notice"]), (&json!(2), &json!(1)));
}

#[test]
fn our_deadline_while_it_retries_has_the_category_of_what_it_retries() {
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":3,"max_retries":10,"retry_delay_ms":2263.5,"error_status":429,"error":"rate_limit"}"#;
    let output = lines(&[INIT, retry]);
    let mut run = Run::of("claude", &output);
    run.end.cause = Cause::TimedOut;
    let failure = &run.summary()["failure"];
    assert_eq!((&failure["category"], &failure["code"]), (&json!("rate_limit"), &json!("gave_up_waiting")));
    let retried: Vec<Value> =
        run.lines("events").into_iter().filter(|event| event["kind"]["type"] == "retrying").collect();
    assert_eq!(
        retried[0]["kind"],
        json!({"type": "retrying", "attempt": 3, "max_attempts": 10, "delay_ms": 2264, "category": "rate_limit", "message": "rate_limit (status 429)"})
    );
}

#[test]
fn chunks_do_not_matter() {
    for capture in fixtures::all().into_iter().filter(|c| c.cli == "claude" && c.dialect.is_none()) {
        assert_eq!(capture.drafts(61), capture.drafts(usize::MAX), "{}", capture.name());
    }
}

#[test]
fn the_shape_shows_by_itself() {
    let recorded = |capture: &Recording| capture.cli == "claude" && capture.class == "stream";
    for capture in fixtures::all().into_iter().filter(recorded) {
        let stdout: Vec<u8> = capture.wire().into_iter().flat_map(printed).collect();
        let run = Run { end: capture.end(), ..Run::of("claude", &stdout) };
        let (found, told) = (run.summary(), capture.summary());
        assert_eq!((&found["text"], &found["usage"]), (&told["text"], &told["usage"]), "{}", capture.name());
        if !stdout.is_empty() {
            assert_eq!(found["outcome"], told["outcome"], "{}", capture.name());
        }
    }
}

fn printed(step: WireStep) -> Vec<u8> {
    match step {
        WireStep::FromAgent(bytes) => bytes,
        WireStep::ToAgent(_) => Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lines of the recordings in any order, some of them missing: the account adds up, whatever the program does.
    #[test]
    fn lines_in_any_order_leave_the_account_in_order(picks in prop::collection::vec(any::<prop::sample::Index>(), 1..40)) {
        let known = recorded_lines();
        let output: Vec<&str> = picks.iter().map(|pick| known[pick.index(known.len())].as_str()).collect();
        let output = lines(&output);
        let run = Run::of("claude", &output);
        check_account("claude", &run.events())?;
        let cut = Run { chunk: 97, ..Run::of("claude", &output) };
        prop_assert_eq!(run.events(), cut.events());
    }
}

/// The lines of the recordings that differ in what they are.
fn recorded_lines() -> &'static [String] {
    static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let cases =
            ["subagent", "background-bash", "err-midstream-error", "err-drop-all", "thinking-stream-partial"];
        let more =
            ["bidi-perm-deny", "compact-auto", "tool-multi", "hook-events", "hang-sigint", "max-turns"];
        fixtures::all()
            .into_iter()
            .filter(|capture| cases.contains(&&*capture.case) || more.contains(&&*capture.case))
            .flat_map(|capture| capture.wire().into_iter().flat_map(printed).collect::<Vec<u8>>())
            .collect::<Vec<u8>>()
            .split(|byte| *byte == b'\n')
            .map(|line| String::from_utf8(line.to_vec()).expect("text"))
            .collect()
    });
    &LINES
}
