//! The client against agents that the tests play, line by line.

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{
    ApprovalCategory, Attachment, Code, Kind, OptionEffect, PermissionMode, Risk, Timestamp,
};

use super::*;
use crate::decode::{Decoder, End};
use crate::dialect::{ActionDoer, ClientOutput, DecisionRequest, RequestedAct, UnnumberedEvent};
use crate::dialects;
use crate::moment::Moment;
use crate::played;

mod acts;
mod files;
mod live;
mod questions;
mod servers;
mod settings;
mod terminals;

/// A client and what it said, with an agent that is played by the test.
struct Scene {
    decoder: Decoder,
    drafts: Vec<UnnumberedEvent>,
    now: Moment,
    prompt: HostPrompt,
    prompted: bool,
}

impl Scene {
    fn of(talk: &Conversation) -> Self {
        let entry = dialects::by_name("acp").unwrap();
        let mut scene = Self {
            decoder: Decoder::new(entry).talking(entry, Some(talk)),
            drafts: Vec::new(),
            now: Moment::utc(Timestamp::EPOCH),
            prompt: talk.first_prompt("p1".into()),
            prompted: false,
        };
        scene.decoder.prompt(&talk.prompt, &mut scene.drafts);
        scene.decoder.open(&scene.now, &mut scene.drafts);
        scene
    }

    /// Takes the messages that the client has sent since the last time, and whether it hung up.
    fn sent(&mut self) -> (Vec<Value>, bool) {
        let ClientOutput { mut bytes, mut last, ready, .. } = self.decoder.take_client_output();
        // The engine sends the first prompt, and hangs up when the turn is over.
        if ready {
            let prompt = self.prompt.clone();
            assert_eq!(self.decoder.send_prompt(&prompt, &self.now, &mut self.drafts), Sent::Done);
            self.prompted = true;
            bytes.extend(self.decoder.take_client_output().bytes);
        }
        if self.prompted && self.decoder.open_turn().is_none() {
            self.decoder.close(&self.now, &mut self.drafts);
            last |= self.decoder.take_client_output().last;
        }
        let text = String::from_utf8(bytes).unwrap();
        (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), last)
    }

    /// Takes the one request that waits for a decision. Nothing is sent before the decision.
    fn awaited(&mut self) -> DecisionRequest {
        let ClientOutput { bytes, mut requests, .. } = self.decoder.take_client_output();
        assert_eq!((bytes.len(), requests.len()), (0, 1));
        requests.remove(0)
    }

    /// Decides the one request that waits, and returns the client's response.
    fn decides(&mut self, answer: &ApprovalAnswer) -> Value {
        let request = self.awaited();
        let sent = self.decoder.decide(&request.approval, answer, &self.now, &mut self.drafts);
        assert_eq!(sent, Sent::Done);
        self.said()
    }

    /// Takes the one message that the client has sent.
    fn said(&mut self) -> Value {
        let (mut messages, last) = self.sent();
        assert_eq!((messages.len(), last), (1, false), "{messages:?}");
        messages.remove(0)
    }

    fn agent(&mut self, message: &Value) {
        self.decoder.stdout(format!("{message}\n").as_bytes(), &self.now, &mut self.drafts);
    }

    /// Answers the last request of the client.
    fn answers(&mut self, request: &Value, result: &Value) {
        self.agent(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// Goes up to the answer that opens the session, and returns what is said then.
    fn opened(&mut self, session: &Value) -> Value {
        let hello = self.said();
        assert_eq!(hello["method"], "initialize");
        self.answers(&hello, &json!({ "protocolVersion": 1, "agentCapabilities": {} }));
        let open = self.said();
        assert_eq!(open["method"], "session/new");
        self.answers(&open, session);
        let (mut messages, _) = self.sent();
        messages.pop().unwrap_or_default()
    }

    fn outcome(&mut self) -> (Outcome, Option<Code>) {
        self.decoder.finish(&End::default(), &self.now, &mut self.drafts);
        played::first_outcome(&self.drafts)
    }
}

fn talk() -> Conversation {
    Conversation { prompt: "Tie a bowline.".into(), cwd: "/src/boat".into(), ..Conversation::default() }
}

/// The modes of the agents that were recorded, and the one that each begins in.
const MODES: &[(&str, &[&str])] = &[
    ("default", &["default", "acceptEdits", "plan", "auto"]),
    ("default", &["default", "autoEdit", "yolo", "plan"]),
    ("auto", &["plan", "default", "auto-edit", "auto", "yolo"]),
    ("agent", &["read-only", "workspace-write", "agent", "agent-full-access"]),
    ("build", &["build", "plan"]),
];

fn session(current: &str, modes: &[&str]) -> Value {
    let list: Vec<Value> = modes.iter().map(|mode| json!({ "id": mode, "name": mode })).collect();
    json!({ "sessionId": "s1", "modes": { "currentModeId": current, "availableModes": list } })
}

#[test]
fn a_prompt_goes_from_the_introduction_to_the_end_of_the_line() {
    let mut scene = Scene::of(&talk());
    let prompt = scene.opened(&json!({ "sessionId": "s1" }));
    assert_eq!(prompt["method"], "session/prompt");
    assert_eq!(prompt["params"]["sessionId"], "s1");
    assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": "Tie a bowline." }]));
    let chunk =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "Done." } });
    scene.agent(&json!({ "method": "session/update", "params": { "sessionId": "s1", "update": chunk } }));
    assert_eq!(scene.sent(), (vec![], false), "a notification wants no answer");
    scene.answers(&prompt, &json!({ "stopReason": "end_turn" }));
    assert_eq!(scene.sent(), (vec![], true), "it hangs up");
    assert_eq!(scene.outcome(), (Outcome::Completed, None));
    let turns = scene.drafts.iter().filter(|draft| matches!(draft.kind, Kind::TurnStarted(_))).count();
    assert_eq!(turns, 1, "the prompt is one turn, whoever tells of it");
}

#[test]
fn a_session_never_begins_in_a_mode_that_allows_more_than_was_asked_for() {
    let chosen = |permission, current: &str, modes: &[&str]| {
        let mut scene = Scene::of(&Conversation { permission, ..talk() });
        let next = scene.opened(&session(current, modes));
        match next["method"].as_str() {
            Some("session/set_mode") => next["params"]["modeId"].as_str().unwrap().to_owned(),
            Some("session/prompt") => current.to_owned(),
            other => panic!("{other:?}"),
        }
    };
    let table = [
        (PermissionMode::Read, ["default", "default", "default", "read-only", "plan"]),
        (PermissionMode::Ask, ["default", "default", "default", "read-only", "build"]),
        (PermissionMode::Edit, ["acceptEdits", "autoEdit", "auto-edit", "workspace-write", "build"]),
        (PermissionMode::Yolo, ["acceptEdits", "yolo", "yolo", "agent-full-access", "build"]),
    ];
    for (permission, expected) in table {
        for ((current, modes), expected) in MODES.iter().zip(expected) {
            assert_eq!(chosen(permission, current, modes), expected, "{permission:?} of {modes:?}");
        }
    }
}

#[test]
fn an_agent_that_cannot_be_made_to_ask_is_not_asked() {
    let mut scene = Scene::of(&talk());
    assert_eq!(scene.opened(&session("yolo", &["yolo"])), Value::Null, "nothing is sent");
    assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::Unsupported)));
}

#[test]
fn decisions_are_sent_in_the_ids_of_the_agent() {
    let once = json!({ "optionId": "go", "name": "Allow", "kind": "allow_once" });
    let always = json!({ "optionId": "always", "name": "Always", "kind": "allow_always" });
    let no = json!({ "optionId": "no", "name": "Reject", "kind": "reject_once" });
    let all = json!([once, always, no]);
    let table = [
        (ApprovalAnswer::AllowOnce, all.clone(), "go"),
        (ApprovalAnswer::AllowForSession, all.clone(), "always"),
        (ApprovalAnswer::DENY, all, "no"),
        // An answer that is not offered becomes a refusal, never another way to allow it.
        (ApprovalAnswer::AllowOnce, json!([always, no]), "no"),
        (ApprovalAnswer::AllowForSession, json!([once, no]), "no"),
    ];
    for (answer, options, expected) in table {
        let mut scene = Scene::of(&talk());
        let prompt = scene.opened(&json!({ "sessionId": "s1" }));
        let call = json!({ "toolCallId": "t1", "title": "rm", "kind": "execute" });
        let params = json!({ "sessionId": "s1", "toolCall": call, "options": options });
        // Its number is the one of our own last request, which means nothing: each side counts for itself.
        let asked = json!({ "id": prompt["id"], "method": "session/request_permission", "params": params });
        scene.agent(&asked);
        let response = scene.decides(&answer);
        assert_eq!(response["id"], prompt["id"]);
        let chosen = json!({ "outcome": "selected", "optionId": expected });
        assert_eq!(response["result"]["outcome"], chosen, "{answer:?} {options}");
        let decided = scene.drafts.iter().filter(|it| matches!(it.kind, Kind::ApprovalDecided(_))).count();
        assert_eq!(decided, 1, "the reader reports the decision once");
        let id = prompt["id"].to_string();
        let again = scene.decoder.decide(&id.as_str().into(), &answer, &scene.now, &mut scene.drafts);
        assert_ne!(again, Sent::Done, "a request is answered once");
        scene.answers(&prompt, &json!({ "stopReason": "end_turn" }));
        assert_eq!(scene.outcome(), (Outcome::Completed, None));
    }
}

#[test]
fn a_request_names_the_files_of_its_tool_call() {
    let options =
        json!([{ "optionId": "go", "kind": "allow_once" }, { "optionId": "no", "kind": "reject_once" }]);
    let at = |path: &str| json!({ "kind": "edit", "locations": [{ "path": path }] });
    let diff = json!({ "kind": "edit", "content": [{ "type": "diff", "path": "/src/boat/a.rs" }] });
    let both = json!({ "kind": "edit", "locations": [{ "path": "/src/boat/a" }], "rawInput": { "file_path": "/etc/passwd" } });
    use ApprovalCategory::{Edit, Network, Other, Read, Shell};
    let table: [(Value, ApprovalCategory, Risk, &[&str]); 10] = [
        (at("/src/boat/a.rs"), Edit, Risk::Med, &["/src/boat/a.rs"]),
        (at("a.rs"), Edit, Risk::Med, &["a.rs"]),
        (diff, Edit, Risk::Med, &["/src/boat/a.rs"]),
        (both, Edit, Risk::Med, &["/src/boat/a", "/etc/passwd"]),
        (json!({ "kind": "edit" }), Edit, Risk::Med, &[]),
        (json!({ "kind": "delete" }), Edit, Risk::High, &[]),
        (json!({ "kind": "read" }), Read, Risk::Low, &[]),
        (json!({ "kind": "execute" }), Shell, Risk::High, &[]),
        (json!({ "kind": "fetch" }), Network, Risk::Med, &[]),
        (json!({ "kind": "no such kind" }), Other, Risk::Med, &[]),
    ];
    for (mut call, category, risk, paths) in table {
        call["toolCallId"] = json!("t1");
        // Reported with the call, and not repeated where the permission is asked for.
        for repeated in [true, false] {
            let mut scene = Scene::of(&talk());
            scene.opened(&json!({ "sessionId": "s1" }));
            let mut update = call.clone();
            update["sessionUpdate"] = json!("tool_call");
            scene.agent(
                &json!({ "method": "session/update", "params": { "sessionId": "s1", "update": update } }),
            );
            let asked = if repeated { call.clone() } else { json!({ "toolCallId": "t1" }) };
            let params = json!({ "sessionId": "s1", "toolCall": asked, "options": options });
            scene.agent(&json!({ "id": 0, "method": "session/request_permission", "params": params }));
            let expected = DecisionRequest {
                approval: "0".into(),
                category,
                risk,
                paths: Some(paths.iter().map(|path| (*path).to_owned()).collect()),
                offers: vec![OptionEffect::AllowOnce, OptionEffect::RejectOnce],
                changeable: false,
                carries_message: false,
                doer: ActionDoer::Agent,
                acts: acts(category, paths, &call["rawInput"]),
            };
            assert_eq!(scene.awaited(), expected, "{call}");
        }
    }
}

/// Returns what a request does to its files, and its call if it has an input.
fn acts(category: ApprovalCategory, paths: &[&str], input: &Value) -> Vec<RequestedAct> {
    let each = paths.iter().map(|path| (*path).to_owned());
    let call = RequestedAct::Tool { name: String::new(), input: input.clone() };
    let files: Vec<RequestedAct> = match category {
        ApprovalCategory::Edit => each.map(RequestedAct::Write).collect(),
        ApprovalCategory::Read => each.map(RequestedAct::Read).collect(),
        ApprovalCategory::Merge
        | ApprovalCategory::DepsAdd
        | ApprovalCategory::Secrets
        | ApprovalCategory::Deploy
        | ApprovalCategory::Shell
        | ApprovalCategory::Network
        | ApprovalCategory::Other => Vec::new(),
    };
    files.into_iter().chain((!input.is_null()).then_some(call)).collect()
}

#[test]
fn a_request_that_the_agent_takes_back_cannot_be_decided() {
    let mut scene = Scene::of(&talk());
    scene.opened(&json!({ "sessionId": "s1" }));
    let params = json!({ "toolCall": { "toolCallId": "t1", "kind": "execute" }, "options": [] });
    scene.agent(&json!({ "id": "x", "method": "session/request_permission", "params": params }));
    let request = scene.awaited();
    scene.agent(&json!({ "method": "$/cancel_request", "params": { "requestId": "x" } }));
    let sent =
        scene.decoder.decide(&request.approval, &ApprovalAnswer::AllowOnce, &scene.now, &mut scene.drafts);
    assert_eq!(sent, Sent::Cannot("the agent no longer waits for it"));
    assert_eq!(scene.sent(), (vec![], false));
}

#[test]
fn nothing_is_sent_to_another_session_than_the_one_that_is_meant() {
    let resume = |fork: bool| {
        let native_session = "old".into();
        Some(if fork { Resume::Fork { native_session } } else { Resume::Id { native_session } })
    };
    for (fork, got) in [(false, "other"), (true, "old")] {
        let mut scene = Scene::of(&Conversation { resume: resume(fork), ..talk() });
        let hello = scene.said();
        let able = json!({ "sessionCapabilities": { "resume": {}, "fork": {} } });
        scene.answers(&hello, &json!({ "agentCapabilities": able }));
        let open = scene.said();
        scene.answers(&open, &json!({ "sessionId": got }));
        assert_eq!(scene.sent(), (vec![], true), "no prompt is sent");
        assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::SessionNotFound)));
    }
    let mut scene = Scene::of(&talk());
    assert_eq!(scene.opened(&json!({})), Value::Null, "a session without a name is none");
    assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::Unsupported)));
}

#[test]
fn another_version_of_the_protocol_is_not_spoken() {
    let mut scene = Scene::of(&talk());
    let hello = scene.said();
    scene.answers(&hello, &json!({ "protocolVersion": 2 }));
    assert_eq!(scene.sent(), (vec![], true));
    assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::Unsupported)));
}

#[test]
fn a_turn_that_ends_with_a_refusal_was_cancelled_by_nobody() {
    let mut scene = Scene::of(&talk());
    let prompt = scene.opened(&json!({ "sessionId": "s1" }));
    let options = json!([{ "optionId": "no", "kind": "reject_once" }]);
    let params = json!({ "toolCall": { "toolCallId": "t1", "kind": "execute" }, "options": options });
    scene.agent(&json!({ "id": 0, "method": "session/request_permission", "params": params }));
    scene.decides(&ApprovalAnswer::DENY);
    scene.answers(&prompt, &json!({ "stopReason": "cancelled" }));
    assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::Policy)));
}

#[test]
fn a_refusal_that_is_not_offered_is_a_cancelled_request() {
    let mut scene = Scene::of(&talk());
    scene.opened(&json!({ "sessionId": "s1" }));
    let options = json!([{ "optionId": "go", "kind": "allow_once" }]);
    let params = json!({ "toolCall": { "toolCallId": "t1", "kind": "execute" }, "options": options });
    scene.agent(&json!({ "id": "x", "method": "session/request_permission", "params": params }));
    let response = scene.decides(&ApprovalAnswer::DENY);
    assert_eq!(response["result"]["outcome"], json!({ "outcome": "cancelled" }));
}

#[test]
fn what_is_not_offered_is_refused_by_number_and_in_words() {
    let mut scene = Scene::of(&talk());
    scene.opened(&json!({ "sessionId": "s1" }));
    for method in ["fs/read_text_file", "terminal/create", "_vendor/thing", "no/such/method"] {
        scene.agent(&json!({ "id": "a-1", "method": method, "params": {} }));
        let answer = scene.said();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a-1"), &json!(-32601)), "{method}");
    }
    scene.agent(&json!({ "id": 7, "method": "elicitation/create", "params": { "message": "Which?" } }));
    assert_eq!(scene.said()["result"], json!({ "action": "decline" }));
}

#[test]
fn a_model_is_chosen_before_the_prompt_or_the_prompt_is_not_sent() {
    let models =
        json!({ "availableModels": [{ "modelId": "big" }, { "modelId": "small" }], "currentModelId": "big" });
    let option = json!([{
        "id": "m", "category": "model", "currentValue": "big",
        "options": [{ "name": "group", "options": [{ "value": "big" }, { "value": "small" }] }],
    }]);
    let by_method = ("session/set_model", json!({ "sessionId": "s1", "modelId": "small" }));
    let by_option =
        ("session/set_config_option", json!({ "sessionId": "s1", "configId": "m", "value": "small" }));
    for (session, (method, params)) in [
        (json!({ "sessionId": "s1", "models": models }), by_method),
        (json!({ "sessionId": "s1", "models": models, "configOptions": option }), by_option),
    ] {
        let mut scene = Scene::of(&Conversation { model: Some("small".into()), ..talk() });
        let choice = scene.opened(&session);
        assert_eq!((choice["method"].as_str(), &choice["params"]), (Some(method), &params));
        scene.answers(&choice, &json!({}));
        assert_eq!(scene.said()["method"], "session/prompt");
    }
    // Qwen Code 0.24.4: the id of a model is not the name that people know.
    let two = |names: [&str; 2]| {
        let [one, two] = ["$runtime|openai|small(openai)", "$runtime|openai|other(openai)"];
        json!([{ "id": "m", "category": "model", "currentValue": two, "options":
            [{ "value": one, "name": names[0] }, { "value": two, "name": names[1] }] }])
    };
    let mut scene = Scene::of(&Conversation { model: Some("small".into()), ..talk() });
    let choice = scene.opened(&json!({ "sessionId": "s1", "configOptions": two(["small", "other"]) }));
    assert_eq!(choice["params"]["value"], json!("$runtime|openai|small(openai)"));
    for (session, code) in [
        (json!({ "sessionId": "s1", "models": models }), Code::ModelNotFound),
        (json!({ "sessionId": "s1", "configOptions": two(["huge", "huge"]) }), Code::ModelNotFound),
        (json!({ "sessionId": "s1" }), Code::Unsupported),
    ] {
        let mut scene = Scene::of(&Conversation { model: Some("huge".into()), ..talk() });
        assert_eq!(scene.opened(&session), Value::Null);
        assert_eq!(scene.outcome(), (Outcome::Failed, Some(code)));
    }
}

#[test]
fn a_choice_that_the_agent_refuses_ends_it() {
    let mut scene = Scene::of(&Conversation { effort: Some("high".into()), ..talk() });
    let effort = json!([{ "id": "effort", "options": [{ "value": "high" }] }]);
    let choice = scene.opened(&json!({ "sessionId": "s1", "configOptions": effort }));
    let error = json!({ "code": -32602, "message": "not for this model" });
    scene.agent(&json!({ "id": choice["id"], "error": error }));
    assert_eq!(scene.sent(), (vec![], true), "no prompt is sent without it");
    assert_eq!(scene.outcome().0, Outcome::Failed);
}

#[test]
fn an_old_session_goes_on_in_the_way_that_the_agent_has() {
    let resume = || Some(Resume::Id { native_session: "old".into() });
    let fork = || Some(Resume::Fork { native_session: "old".into() });
    let table = [
        (resume(), json!({ "loadSession": true }), Some("session/load")),
        (
            resume(),
            json!({ "loadSession": true, "sessionCapabilities": { "resume": {} } }),
            Some("session/resume"),
        ),
        (fork(), json!({ "sessionCapabilities": { "fork": {} } }), Some("session/fork")),
        (fork(), json!({ "loadSession": true }), None),
        (resume(), json!({}), None),
    ];
    for (resume, capabilities, method) in table {
        let mut scene = Scene::of(&Conversation { resume, ..talk() });
        let hello = scene.said();
        scene.answers(&hello, &json!({ "protocolVersion": 1, "agentCapabilities": capabilities }));
        let Some(method) = method else {
            assert_eq!(scene.sent(), (vec![], true));
            assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::Unsupported)));
            continue;
        };
        let open = scene.said();
        assert_eq!((open["method"].as_str(), &open["params"]["sessionId"]), (Some(method), &json!("old")));
        // The answer of `session/load` does not repeat the id; a branch has one of its own.
        let branch = method == "session/fork";
        scene.answers(&open, &if branch { json!({ "sessionId": "new" }) } else { json!({}) });
        assert_eq!(scene.said()["params"]["sessionId"], if branch { "new" } else { "old" });
    }
}

#[test]
fn a_prompt_is_interrupted_by_a_word_and_what_is_none_is_not() {
    let mut scene = Scene::of(&talk());
    assert!(!scene.decoder.interrupt(&scene.now, &mut scene.drafts).is_sent(), "there is no prompt yet");
    let prompt = scene.opened(&json!({ "sessionId": "s1" }));
    assert!(scene.decoder.interrupt(&scene.now, &mut scene.drafts).is_sent());
    let cancel = scene.said();
    assert_eq!((cancel["method"].as_str(), cancel.get("id")), (Some("session/cancel"), None));
    scene.answers(&prompt, &json!({ "stopReason": "cancelled" }));
    assert_eq!(scene.outcome(), (Outcome::Cancelled, None));
}

#[test]
fn files_are_images_where_the_agent_takes_them_and_links_elsewhere() {
    let attachments = vec![
        Attachment { path: "dot.png".into(), media_type: None },
        Attachment { path: "/notes.txt".into(), media_type: None },
    ];
    let images: std::collections::BTreeMap<_, _> = [("dot.png".to_owned(), vec![1, 2, 3, 4])].into();
    let first = |takes: bool| {
        let mut scene =
            Scene::of(&Conversation { attachments: attachments.clone(), images: images.clone(), ..talk() });
        let hello = scene.said();
        let able = json!({ "promptCapabilities": { "image": takes } });
        scene.answers(&hello, &json!({ "agentCapabilities": able }));
        let open = scene.said();
        scene.answers(&open, &json!({ "sessionId": "s1" }));
        let prompt = scene.said();
        assert_eq!(prompt["params"]["prompt"][2]["uri"], "file:///notes.txt");
        prompt["params"]["prompt"][1].clone()
    };
    assert_eq!(first(true), json!({ "type": "image", "mimeType": "image/png", "data": "AQIDBA==" }));
    let link = json!({ "type": "resource_link", "uri": "file:///src/boat/dot.png", "name": "dot.png" });
    assert_eq!(first(false), link);
}

#[test]
fn the_manifest_of_any_agent_is_made_of_its_command() {
    let manifest = crate::acp::agent("my-agent --acp -v").unwrap();
    assert_eq!((manifest.name.as_str(), manifest.program.as_str()), ("acp:my-agent --acp -v", "my-agent"));
    assert_eq!(manifest.run.args, ["--acp", "-v"]);
    assert!(crate::acp::agent("  ").is_none());
}
