//! The agent as a server: many prompts, steers, permissions and cancellations in one process.

use std::time::Duration;

use bowline_protocol::kinds::{FileOperation, TouchedFile};
use bowline_protocol::{Decision, Kind};
use serde_json::{Value, json};

use crate::host::Host;
use crate::support::{Agent, PATIENCE, marked, now};

fn agent() -> Agent {
    Agent::told("").without_pace().format("acp")
}

fn scripted(script: &str) -> Agent {
    agent().env("PRACTICE_SCRIPT", script)
}

/// Cancels the prompt and waits for its answer. What it interrupts here takes ten minutes.
fn cancelled(host: &mut Host, prompt: &Value) {
    host.cancel();
    assert_eq!(host.stop_reason(prompt), "cancelled");
}

#[test]
fn two_prompts_in_one_process_are_two_turns() {
    let mut host = Host::with_session(&agent());
    let first = host.plays("think Hm.\nsay One");
    assert_eq!(host.stop_reason(&first), "end_turn");
    let second = host.plays("say Two");
    let answer = host.answer(&second);
    assert_eq!(answer["result"]["usage"]["cachedReadTokens"], 15_600, "the usage of this turn: {answer}");
    assert_eq!(host.text(), "OneTwo");
    host.close();
    assert_eq!(host.exit_code(), Some(0));

    let events = host.events();
    let types: Vec<&str> = events.iter().map(|event| event.kind.type_name()).collect();
    let count = |kind: &str| types.iter().filter(|known| **known == kind).count();
    assert_eq!((count("turn_started"), count("turn_ended"), count("unrecognized")), (2, 2, 0), "{types:?}");
    assert_eq!((count("usage_reported"), count("thinking_delta")), (2, 1), "{types:?}");
}

#[test]
fn the_task_asks_and_says_nothing_that_the_real_programs_never_said() {
    let sample = bowline_practice::SAMPLE;
    let agent = agent().args(["--pace", "0"]).file(sample.0, sample.1);
    let mut host = Host::with_session(&agent);
    let prompt = host.prompt("Please improve it.");
    let request = host.wait_for("session/request_permission");
    assert_eq!(request["params"]["toolCall"]["kind"], "edit");
    let kinds = json!(["allow_once", "allow_always", "reject_once"]);
    assert_eq!(
        request["params"]["options"].as_array().map(|it| it.iter().map(|it| it["kind"].clone()).collect()),
        Some(kinds)
    );
    host.decide(&request, "allow_once");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert!(agent.read(sample.0).contains("def greeting(name=\"world\"):"));
    let mut novel = Vec::new();
    let mut touched = Vec::new();
    for event in host.events() {
        if let Kind::Notice(notice) = event.kind {
            novel.push(notice.text);
        } else if let Kind::FilesTouched(files) = event.kind {
            touched.extend(files.files);
        }
    }
    assert_eq!(novel, [""; 0]);
    let path = agent.path(sample.0).display().to_string();
    let expected = [FileOperation::Read, FileOperation::Write]
        .map(|operation| TouchedFile { path: path.clone(), operation });
    assert_eq!(touched, expected);
}

#[test]
fn a_permission_is_for_one_tool_or_for_the_session() {
    let agent = agent();
    let mut host = Host::with_session(&agent);
    let prompt = host.plays("tool write a.md a\ntool write b.md b\ntool write c.md c\ntool run touch d.md");
    for (option, file) in [("allow_once", "a.md"), ("reject_once", "b.md"), ("allow_always", "c.md")] {
        let request = host.wait_for("session/request_permission");
        assert!(request.to_string().contains(file), "{option}: {request}");
        host.decide(&request, option);
    }
    // Another tool is asked for again. An unknown option allows nothing.
    let request = host.wait_for("session/request_permission");
    assert_eq!(request["params"]["toolCall"]["kind"], "execute");
    host.decide(&request, "whatever");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    let there = |name: &str| agent.path(name).exists();
    assert_eq!([there("a.md"), there("b.md"), there("c.md"), there("d.md")], [true, false, true, false]);
    // The next turn of the session needs no permission for the tool.
    let prompt = host.plays("tool write e.md e");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert_eq!(agent.read("e.md"), "e");
    // Another session does.
    host.open("session/new", &json!({}));
    host.plays("tool write f.md f");
    host.wait_for("session/request_permission");

    let mut decisions = Vec::new();
    for event in host.events() {
        if let Kind::ApprovalDecided(decided) = event.kind {
            decisions.push(decided.decision);
        }
    }
    let expected = [Decision::Allow, Decision::Deny, Decision::AllowAlways, Decision::Deny];
    assert_eq!(decisions[..4], expected, "the last one is still open");
}

#[test]
fn a_text_is_cancelled_at_once_and_the_next_prompt_runs() {
    for directives in
        ["pace 1\nsay Hello\ndelta 100000 x 8", "say Hello\nhang", "say Hello\nflood stdout 1GB"]
    {
        let mut host = Host::with_session(&agent());
        let prompt = host.plays(directives);
        host.wait_for_update("Hello");
        cancelled(&mut host, &prompt);
        let prompt = host.plays("say Two");
        assert_eq!(host.stop_reason(&prompt), "end_turn");
        assert!(host.text().ends_with("Two"), "{directives}");
    }
}

#[test]
fn a_tool_is_cancelled_with_its_command() {
    let mark = format!("acp-{}", std::process::id());
    let mut host = Host::with_session(&agent().args(["--permission", "yolo"]).env("PRACTICE_MARK", &mark));
    let prompt = host.plays("tool run sleep 600; true\nsay never");
    let mark = format!("PRACTICE_MARK={mark}");
    let deadline = now() + PATIENCE;
    // The agent, the shell, and the command.
    while marked(&mark).len() < 3 {
        assert!(now() < deadline, "no command was started");
        std::thread::sleep(Duration::from_millis(5));
    }
    cancelled(&mut host, &prompt);
    assert_eq!(host.text(), "");
    let failed = host.agent_lines().iter().any(|line| line.contains(r#""status":"failed""#));
    assert!(failed, "{:?}", host.agent_lines());
    while marked(&mark) != [host.pid()] {
        assert!(now() < deadline, "the command lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_open_permission_is_withdrawn_with_its_prompt() {
    let agent = agent();
    let mut host = Host::with_session(&agent);
    let prompt = host.plays("tool write a.md a");
    let request = host.wait_for("session/request_permission");
    host.cancel();
    assert_eq!(host.wait_for("$/cancel_request")["params"]["requestId"], request["id"]);
    host.wait_for_update(r#""status":"failed""#);
    assert_eq!(host.stop_reason(&prompt), "cancelled");
    // A late answer allows nothing, not even the next request.
    host.decide(&request, "allow_always");
    let prompt = host.plays("tool write b.md b");
    let request = host.wait_for("session/request_permission");
    host.decide(&request, "reject_once");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert!(!agent.path("a.md").exists() && !agent.path("b.md").exists());
}

#[test]
fn a_steer_is_read_before_the_next_action_and_never_lost() {
    let mut host = Host::with_session(&agent());
    assert_eq!(host.steer("too early"), "promptRequired");
    let prompt = host.plays("tool write a.md a\nsay Next");
    let request = host.wait_for("session/request_permission");
    assert_eq!(host.steer("be brief"), "injected");
    assert_eq!(host.steer("be kind"), "injected");
    host.decide(&request, "reject_once");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert_eq!(host.text(), "Noted: be briefNoted: be kindNext");
    // Behind the last action: before the end.
    let prompt = host.plays("say Last\ntool write a.md a");
    let request = host.wait_for("session/request_permission");
    assert_eq!(host.steer("and now"), "injected");
    host.decide(&request, "reject_once");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert!(host.text().ends_with("LastNoted: and now"), "{}", host.text());
    assert_eq!(host.steer("too late"), "promptRequired");
    let unknown = host.call("_session/steering", &json!({"sessionId": "none", "prompt": []}));
    assert_eq!(unknown["error"]["code"], -32002);
}

#[test]
fn a_second_prompt_while_one_runs_is_refused_and_harmless() {
    let mut host = Host::with_session(&agent());
    let first = host.plays("say Hello\nsleep 200ms\nsay again");
    host.wait_for_update("Hello");
    let second = host.plays("say Two");
    assert_eq!(host.answer(&second)["error"]["code"], -32600);
    assert_eq!(host.stop_reason(&first), "end_turn");
    assert_eq!(host.text(), "Helloagain");
    // A cancellation without a prompt does not hit the next one.
    host.cancel();
    let third = host.plays("say Three");
    assert_eq!(host.stop_reason(&third), "end_turn");
}

#[test]
fn a_session_goes_on_in_another_process() {
    let agent = scripted("say One\nnext-prompt\nsay Two\nnext-prompt\nshow");
    let mut host = Host::with_session(&agent);
    let prompt = host.prompt("first");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    host.close();
    assert_eq!(host.exit_code(), Some(0));
    let session = json!({"sessionId": host.session});

    // The history, then the answer; the script goes on.
    let mut host = Host::of(&agent);
    host.open("session/load", &session);
    let replayed: Vec<String> = host.agent_lines().into_iter().filter(|it| it.contains("_chunk")).collect();
    assert_eq!(replayed.len(), 2, "{replayed:?}");
    assert!(replayed[0].contains("user_message_chunk") && replayed[0].contains("first"), "{replayed:?}");
    assert!(replayed[1].contains("agent_message_chunk") && replayed[1].contains("One"), "{replayed:?}");
    let prompt = host.prompt("second");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert!(host.text().ends_with("Two"));

    // No history; the unanswered prompt of a killed process is in it.
    let mut host = Host::of(&agent);
    host.open("session/resume", &session);
    assert!(!host.agent_lines().iter().any(|it| it.contains("_chunk")));
    let prompt = host.prompt("third");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    let shown: Value = serde_json::from_str(&host.text()).expect("what arrived, as JSON");
    assert_eq!((&shown["session"], &shown["earlier_turns"]), (&session["sessionId"], &json!(2)));
    let forked = host.open("session/fork", &session);
    assert_ne!(forked["result"]["sessionId"], session["sessionId"], "{forked}");

    for method in ["session/load", "session/resume", "session/fork"] {
        let answer = host.open(method, &json!({"sessionId": "00000000-0000-4000-8000-000000000000"}));
        assert_eq!(answer["error"]["code"], -32002, "{method}: {answer}");
    }
}

#[test]
fn a_killed_process_leaves_its_prompt_in_the_history() {
    let agent = agent();
    let mut host = Host::with_session(&agent);
    host.plays("say Hello\nhang");
    host.wait_for_update("Hello");
    let session = json!({"sessionId": host.session});
    drop(host);
    let mut host = Host::of(&agent);
    let answer = host.open("session/load", &session);
    assert_eq!(answer["result"]["sessionId"], session["sessionId"]);
    assert!(
        host.agent_lines().iter().any(|line| line.contains("practice: hang")),
        "{:?}",
        host.agent_lines()
    );
}

#[test]
fn settings_are_offered_changed_and_checked() {
    let agent = agent();
    let mut host = Host::of(&agent);
    let offered = host.open("session/new", &json!({}))["result"].clone();
    let ids = |list: &Value, key: &str| -> Vec<String> {
        list.as_array()
            .expect("a list")
            .iter()
            .map(|it| it[key].as_str().expect("an id").to_owned())
            .collect()
    };
    assert_eq!(ids(&offered["modes"]["availableModes"], "id"), ["read", "ask", "edit", "yolo"]);
    assert_eq!(ids(&offered["models"]["availableModels"], "modelId"), ["practice-small", "practice-large"]);
    assert_eq!(ids(&offered["configOptions"], "id"), ["mode", "model", "effort"]);
    let session = host.session.clone();
    let with = |more: &Value| {
        let mut params = json!({"sessionId": session});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        params
    };
    let option = |id: &str, value: &str| with(&json!({"configId": id, "value": value}));
    for (method, params, code) in [
        ("session/set_mode", with(&json!({"modeId": "edit"})), None),
        ("session/set_model", with(&json!({"modelId": "practice-small"})), None),
        ("session/set_config_option", option("effort", "high"), None),
        ("session/set_mode", with(&json!({"modeId": "sudo"})), Some(-32602)),
        ("session/set_model", with(&json!({"modelId": "other"})), Some(-32602)),
        ("session/set_config_option", option("colour", "red"), Some(-32602)),
        ("session/set_mode", json!({"sessionId": "none", "modeId": "edit"}), Some(-32002)),
    ] {
        let answer = host.call(method, &params);
        assert_eq!(answer["error"]["code"].as_i64(), code, "{method}: {answer}");
    }
    let prompt = host.plays("tool write a.md a\nshow");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert_eq!(agent.read("a.md"), "a", "edit needs no permission");
    let shown: Value = serde_json::from_str(&host.text()).expect("what arrived, as JSON");
    let expected = json!(["edit", "practice-small", "high"]);
    assert_eq!(json!([shown["permission"], shown["model"], shown["effort"]]), expected);
    // In the middle of a turn it holds for the next tool; `read` denies without asking.
    let prompt = host.plays("tool run touch b.md\ntool write c.md c");
    let request = host.wait_for("session/request_permission");
    host.call("session/set_mode", &with(&json!({"modeId": "read"})));
    host.decide(&request, "allow_once");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert!(agent.path("b.md").exists() && !agent.path("c.md").exists());
}

#[test]
fn wrong_messages_are_errors_and_the_server_goes_on() {
    let mut host = Host::with_session(&agent());
    for method in ["nope", "_nope", "session/list"] {
        assert_eq!(host.call(method, &json!({}))["error"]["code"], -32601, "{method}");
    }
    host.send_line("{not json");
    assert_eq!(host.answer(&Value::Null)["error"]["code"], -32700);
    host.send_line("[]");
    assert_eq!(host.answer(&Value::Null)["error"]["code"], -32600);
    host.send(&json!({"method": "$/unknown", "params": {}}));
    host.send(&json!({"id": 99, "result": {}}));
    let bad = host.plays("fly away");
    assert_eq!(host.answer(&bad)["error"]["code"], -32602);
    let empty = host.prompt(" ");
    assert_eq!(host.answer(&empty)["error"]["code"], -32602);
    let nowhere = host.call("session/new", &json!({"cwd": "relative"}));
    assert_eq!(nowhere["error"]["code"], -32602);
    let unknown = host.call("session/prompt", &json!({"sessionId": "none", "prompt": []}));
    assert_eq!(unknown["error"]["code"], -32002);
    let failed = host.plays("fail 429 slow down");
    assert_eq!(host.answer(&failed)["error"], json!({"code": 429, "message": "slow down"}));
    let prompt = host.plays("say Hello");
    assert_eq!(host.stop_reason(&prompt), "end_turn");
}

#[test]
fn it_goes_on_after_its_answer_until_the_next_prompt() {
    let mut host =
        Host::with_session(&scripted("say One\nresult\nsay afterwards\nhang\nnext-prompt\nsay Two"));
    let first = host.prompt("1");
    assert_eq!(host.stop_reason(&first), "end_turn");
    host.wait_for_update("afterwards");
    assert_eq!(host.steer("too late"), "promptRequired");
    let second = host.prompt("2");
    assert_eq!(host.stop_reason(&second), "end_turn");
    assert!(host.text().ends_with("Two"));
}

#[test]
fn the_end_of_its_input_and_the_script_end_it() {
    for (script, code) in [("say Hello\nhang", Some(0)), ("say Hello\nexit 3", Some(3))] {
        let mut host = Host::with_session(&scripted(script));
        host.prompt("Go.");
        host.wait_for_update("Hello");
        if code == Some(0) {
            host.close();
        }
        assert_eq!(host.exit_code(), code, "{script}");
    }
    let mut host = Host::of(&agent());
    host.close();
    assert_eq!(host.exit_code(), Some(0));
}

#[test]
fn sigterm_ends_it_and_it_can_be_deaf_to_everything() {
    let signal = |host: &Host, number: i32| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(host.pid()).expect("a pid")).expect("a pid");
        let signal = rustix::process::Signal::from_named_raw(number).expect("a signal");
        rustix::process::kill_process(pid, signal).expect("it is there");
    };
    let mut host = Host::with_session(&agent());
    signal(&host, 15);
    assert_eq!(host.exit_code(), Some(143));

    let mut host =
        Host::with_session(&scripted("ignore sigterm cancel eof\nsay Hello\nsleep 300ms\nsay Bye"));
    let prompt = host.prompt("Go.");
    host.wait_for_update("Hello");
    signal(&host, 15);
    host.cancel();
    assert_eq!(host.stop_reason(&prompt), "end_turn", "the cancellation has no effect");
    host.close();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(host.ended(), None);
}

#[test]
fn options_that_the_protocol_replaces_are_refused() {
    for args in [["--resume", "x"], ["--session-id", "x"]] {
        let ran = agent().args(args).run();
        assert!(ran.stderr.contains("exclude each other: the protocol opens sessions"), "{}", ran.stderr);
    }
    let ran = agent().args(["do it"]).run();
    assert!(ran.stderr.contains("takes its prompts from standard input"), "{}", ran.stderr);
}

#[test]
fn a_question_waits_for_its_answer() {
    let mut host = Host::with_session(&agent());
    for (result, text) in [
        (json!({"action": "accept", "content": {"answer": "red"}}), "Answer: red"),
        (json!({"action": "accept", "content": {"answer": "green"}}), "No choice: green"),
        (json!({"action": "decline"}), "No answer."),
        (json!({"action": "cancel", "content": {"answer": "red"}}), "No answer."),
    ] {
        let prompt = host.plays(r#"question "Which colour?" red "dark blue""#);
        let request = host.wait_for("elicitation/create");
        assert_eq!(request["params"]["message"], "Which colour?");
        let choices = &request["params"]["requestedSchema"]["properties"]["answer"]["enum"];
        assert_eq!(*choices, json!(["red", "dark blue"]));
        host.send(&json!({"id": request["id"], "result": result}));
        assert_eq!(host.stop_reason(&prompt), "end_turn");
        assert!(host.text().ends_with(text), "{}", host.text());
    }
    // Without choices any text is an answer.
    let prompt = host.plays("question Why?");
    let request = host.wait_for("elicitation/create");
    host.send(
        &json!({"id": request["id"], "result": {"action": "accept", "content": {"answer": "because"}}}),
    );
    assert_eq!(host.stop_reason(&prompt), "end_turn");
    assert!(host.text().ends_with("Answer: because"), "{}", host.text());
}

#[test]
fn an_open_question_is_withdrawn_with_its_prompt() {
    let mut host = Host::with_session(&agent());
    let prompt = host.plays("question Why?");
    let request = host.wait_for("elicitation/create");
    host.cancel();
    assert_eq!(host.wait_for("$/cancel_request")["params"]["requestId"], request["id"]);
    assert_eq!(host.stop_reason(&prompt), "cancelled");
    assert_eq!(host.text(), "");
}
