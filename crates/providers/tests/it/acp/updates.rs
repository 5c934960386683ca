//! Updates of every kind, careless ones among them.

use super::*;

#[test]
fn every_update_of_the_protocol_is_understood() {
    for (update, kind) in UPDATES {
        let update: Value = serde_json::from_str(update).expect("an example");
        let talk = Talk::prompted().update(update.clone());
        assert!(talk.kinds().iter().any(|told| told == kind), "{update} gives {:?}", talk.kinds());
        assert_eq!(talk.summary()["unrecognized"], 0, "{update}");
    }
    for quiet in [
        r#"{"sessionUpdate":"compaction_summary_chunk","compactionId":"c","content":{"type":"text","text":"a"}}"#,
        r#"{"sessionUpdate":"session_message","messageId":"m"}"#,
        r#"{"sessionUpdate":"session_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#,
    ] {
        let before = Talk::prompted().kinds();
        assert_eq!(Talk::prompted().update(serde_json::from_str(quiet).expect("an example")).kinds(), before);
    }
}

#[test]
fn words_that_are_not_known_do_not_lose_the_event() {
    let talk = Talk::prompted()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "kind": "of_the_future", "status": "of_the_future", "locations": "none", "content": {"a": 1}, "rawInput": 7, "_meta": []}))
        .update(json!({"sessionUpdate": "plan", "entries": [{"content": "a", "status": "of_the_future"}]}))
        .update(json!({"sessionUpdate": "agent_message_chunk", "content": "bare "}))
        .update(json!({"sessionUpdate": "agent_message_chunk", "content": [{"type": "text", "text": "list"}], "messageId": 7}))
        .stops(3, "end_turn");
    let summary = talk.summary();
    assert_eq!((&summary["text"], &summary["unrecognized"]), (&json!("bare list"), &json!(0)));
    assert_eq!(talk.told("tool_started")[0]["kind"], "other");
    assert_eq!(talk.told("plan_updated")[0]["steps"][0]["status"], "pending");
    assert_eq!(ends(&talk.events())[0].running_tools.len(), 1);
}

#[test]
fn what_is_not_known_is_kept() {
    let rows = [
        (
            r#"{"method":"session/update","params":{"update":{"sessionUpdate":"moon_phase"}}}"#,
            Some("moon_phase"),
        ),
        (r#"{"method":"session/update","params":{}}"#, Some("session/update")),
        (r#"{"method":"moon/phase","params":{}}"#, Some("moon/phase")),
        (r#"{"id":1,"method":"moon/phase"}"#, Some("moon/phase")),
        (r#"{"id":1}"#, None),
        (r#"{"hello":1}"#, None),
        ("a banner", None),
        ("[2026-11-15] a log line", None),
        ("[]", None),
        ("7", None),
    ];
    for (line, name) in rows {
        let talk = Talk::prompted().line(Side::Agent, line);
        let told = talk.told("unrecognized");
        assert_eq!(told.len(), 1, "{line}");
        assert_eq!(told[0]["type_name"].as_str(), name, "{line}");
    }
    for quiet in [
        r#"{"method":"_vendor/thing","params":{}}"#,
        r#"{"id":5,"method":"craft/drainMidTurnQueue","params":{}}"#,
        r#"{"method":"_auth/status_update","params":{"authStatus":{"kind":"api_key"}}}"#,
    ] {
        assert_eq!(Talk::prompted().line(Side::Agent, quiet).kinds(), Talk::prompted().kinds(), "{quiet}");
    }
    let none = json!({"method": "_auth/status_update", "params": {"authStatus": {"kind": "none", "label": "Not logged in"}}});
    assert_eq!(Talk::prompted().agent(none).told("notice")[0]["code"], "not_logged_in");
}

#[test]
fn batches_colour_and_keys_that_occur_twice() {
    let chunk = |text: &str| {
        format!(
            r#"{{"method":"session/update","params":{{"update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        )
    };
    let batch = format!("[{},{}]", chunk("a"), chunk("b"));
    let twice = chunk("c").replace("\"method\"", "\"method\":\"x\",\"method\"");
    let inner = chunk("d").replace("\"type\":\"text\"", "\"type\":\"image\",\"type\":\"text\"");
    let colour = format!("\u{1B}[2m{}\u{1B}[0m", chunk("e"));
    let pair = format!("{}{}", chunk("f"), chunk("g"));
    let mut talk = Talk::prompted();
    for line in [batch, twice, inner, colour, pair] {
        talk = talk.line(Side::Agent, &line);
    }
    let summary = talk.stops(3, "end_turn").summary();
    assert_eq!((&summary["text"], &summary["unrecognized"]), (&json!("abcdefg"), &json!(0)));
}

#[test]
fn ids_may_be_strings() {
    let params = json!({"sessionId": SESSION, "prompt": [{"type": "text", "text": "x"}]});
    let talk = Talk::default()
        .client(json!({"id": "p-1", "method": "session/prompt", "params": params}))
        .says("done")
        .agent(json!({"id": "p-1", "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.verdicts(), ["completed"]);
    assert_eq!(talk.told("turn_started")[0]["native_turn"], "p-1");
}

#[test]
fn usage_wherever_it_stands() {
    let result = |fields: Value| {
        let mut result = json!({"stopReason": "end_turn"});
        result.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        let usage = Talk::prompted().agent(json!({"id": 3, "result": result})).summary()["usage"].clone();
        ["input", "output", "cache_read"].map(|key| usage[key].as_u64().expect("a count"))
    };
    assert_eq!(
        result(
            json!({"usage": {"inputTokens": 200, "outputTokens": 34, "cachedReadTokens": 1000, "totalTokens": 1234}})
        ),
        [200, 34, 1000]
    );
    assert_eq!(
        result(
            json!({"usage": null, "_meta": {"quota": {"token_count": {"input_tokens": 11, "output_tokens": 7}}}})
        ),
        [11, 7, 0]
    );
    // A cost is cumulative over the session; a turn costs what it adds.
    let cost = |amount: f64| json!({"sessionUpdate": "usage_update", "used": 1, "size": 10, "cost": {"amount": amount, "currency": "USD"}});
    let answer = |id: u32| json!({"id": id, "result": {"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1}}});
    let talk = Talk::prompted().update(cost(0.25)).update(cost(0.5)).agent(answer(3));
    let talk = talk.prompt(4, "more").update(cost(0.75)).agent(answer(4));
    let costs: Vec<Option<f64>> = ends(&talk.events()).iter().map(|end| end.cost_usd).collect();
    assert_eq!(costs, [Some(0.5), Some(0.25)]);
}

#[test]
fn sub_agents_do_not_answer() {
    let said = |meta: Value| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "inner"}, "_meta": meta});
    let child = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "child", "update": said(Value::Null)}});
    let rows = [
        Talk::prompted()
            .says("ou")
            .update(said(json!({"claudeCode": {"parentToolUseId": "task"}})))
            .says("ter"),
        Talk::prompted().says("ou").update(said(json!({"parentToolCallId": "task"}))).says("ter"),
        Talk::prompted()
            .update(json!({"sessionUpdate": "subagent_update", "sessionId": "child"}))
            .says("ou")
            .agent(child)
            .says("ter"),
    ];
    for talk in rows {
        let summary = talk.stops(3, "end_turn").summary();
        assert_eq!((&summary["text"], &summary["all_text"]), (&json!("outer"), &json!("outer\ninner")));
    }
}

#[test]
fn an_agent_that_speaks_without_a_prompt_has_a_turn_of_its_own() {
    let talk = Talk::prompted().says("a").stops(3, "end_turn").says("by the way");
    assert_eq!(talk.verdicts(), ["completed", "completed"]);
    let talk = talk.prompt(4, "more").says("b").stops(4, "end_turn");
    assert_eq!(talk.verdicts(), ["completed", "completed", "completed"]);
    assert_eq!(talk.summary()["all_text"], "a\nby the way\nb");
}

#[test]
fn settings_are_told_when_they_change() {
    let modes = json!({"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "auto", "name": "Auto"}]});
    let talk = Talk::default()
        .client(json!({"id": 1, "method": "session/new", "params": {"cwd": "/w"}}))
        .agent(json!({"id": 1, "result": {"sessionId": "s1", "modes": modes, "models": {"currentModelId": "m1", "availableModels": [{"modelId": "m1", "name": "1"}]}}}))
        .client(json!({"id": 2, "method": "session/set_mode", "params": {"modeId": "auto"}}))
        .update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "auto"}))
        .agent(json!({"id": 2, "result": {}}))
        .client(json!({"id": 3, "method": "session/set_model", "params": {"modelId": "m2"}}))
        .agent(json!({"id": 3, "result": {}}));
    let started = &talk.told("session_started")[0];
    assert_eq!(
        (&started["permission_mode"], &started["model"], &started["cwd"]),
        (&json!("ask"), &json!("m1"), &json!("/w"))
    );
    let changed: Vec<Value> =
        talk.told("options_changed").iter().map(|told| told["options"][0]["current"].clone()).collect();
    assert_eq!(changed, [json!("auto"), json!("m2")]);
    assert_eq!(talk.told("model_changed")[0]["model"], "m2");
}

/// Recordings that need both sides: a session that another process had begun, prompts that overlap, turns without a
/// prompt, errors of other requests while text comes.
const BOTH_SIDES: [&str; 6] =
    ["acp-busy", "acp-killed", "acp-load-live", "acp-options", "acp-resume", "acp-steer"];

#[test]
fn the_agents_side_alone_tells_the_same_story() {
    let alone = |capture: &fixtures::Recording| {
        capture.dialect.as_deref() == Some("acp")
            && !BOTH_SIDES.iter().any(|name| capture.case.starts_with(name))
    };
    for capture in fixtures::all().into_iter().filter(alone) {
        let stdout: Vec<u8> = capture
            .wire()
            .into_iter()
            .filter_map(
                |step| if let fixtures::WireStep::FromAgent(bytes) = step { Some(bytes) } else { None },
            )
            .flatten()
            .collect();
        let (alone, both) = (Run::of("acp", &stdout).summary(), capture.summary());
        for key in ["all_text", "native_session", "tools", "unrecognized", "cost_usd"] {
            assert_eq!(alone[key], both[key], "{}: {key}", capture.name());
        }
        // An error after the last prompt cannot be told from the error of a prompt.
        if !capture.case.starts_with("acp-load") {
            assert_eq!(alone["outcome"], both["outcome"], "{}", capture.name());
        }
    }
}

#[test]
fn a_very_long_line_is_a_line() {
    let commands: Vec<Value> = (0..2000)
        .map(|n| json!({"name": format!("c{n}"), "description": "x".repeat(300), "_meta": {"y": [n]}}))
        .collect();
    let talk = Talk::prompted()
        .update(json!({"sessionUpdate": "available_commands_update", "availableCommands": commands}));
    let told = talk.told("options_advertised");
    assert_eq!(told[0]["options"][0]["choices"].as_array().map(Vec::len), Some(1024));
    assert!(told[0].to_string().len() < 16 * 1024);
}

#[test]
fn statuses_that_are_refusals() {
    let rows = [
        (json!({"status": "failed"}), ToolStatus::Failed),
        (
            json!({"status": "failed", "_meta": {"claudeCode": {"nonExecutionKind": "permission-rule"}}}),
            ToolStatus::Denied,
        ),
        (json!({"status": "cancelled"}), ToolStatus::Cancelled),
        (json!({"status": "completed"}), ToolStatus::Completed),
    ];
    for (fields, expect) in rows {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"});
        update.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        let told = Talk::prompted().update(update).told("tool_finished");
        assert_eq!(told[0]["status"], serde_json::to_value(expect).expect("a word"), "{fields}");
    }
}

/// Puts another value in the place of every part of a message, one at a time.
fn mutants(message: &Value) -> Vec<Value> {
    fn paths(value: &Value, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(key, value)| paths(value, &format!("{path}/{}", escape(key)), all))
            }
            Value::Array(items) => items
                .iter()
                .take(2)
                .enumerate()
                .for_each(|(at, value)| paths(value, &format!("{path}/{at}"), all)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut places = Vec::new();
    paths(message, "", &mut places);
    let mut all = Vec::new();
    for place in places {
        for other in [json!(null), json!(-7), json!("é"), json!([1]), json!({"a": {}})] {
            let mut mutant = message.clone();
            *mutant.pointer_mut(&place).expect("a place of the message") = other;
            all.push(mutant);
        }
    }
    all
}

#[test]
fn fields_of_another_type_are_survived() {
    let now = Moment::utc(Timestamp::EPOCH);
    for capture in fixtures::all().into_iter().filter(|capture| capture.dialect.as_deref() == Some("acp")) {
        let mut decoder = Decoder::new(dialects::by_name("acp").expect("the dialect"));
        let mut drafts = Vec::new();
        for step in capture.wire() {
            let (side, bytes) = match step {
                fixtures::WireStep::FromAgent(bytes) => (Side::Agent, bytes),
                fixtures::WireStep::ToAgent(line) => (Side::Client, line.into_bytes()),
            };
            let message: Value = serde_json::from_slice(&bytes).expect("a message");
            if bytes.len() > 1024 {
                continue;
            }
            for mutant in mutants(&message) {
                match side {
                    Side::Agent => decoder.stdout(format!("{mutant}\n").as_bytes(), &now, &mut drafts),
                    Side::Client => decoder.sent(&mutant.to_string(), 0, &now, &mut drafts),
                }
            }
            drafts.clear();
        }
        decoder.finish(&End::default(), &now, &mut drafts);
        assert!(drafts.iter().any(|draft| matches!(draft.kind, Kind::SessionEnded(_))), "{}", capture.name());
    }
}
