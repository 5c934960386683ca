//! The client against app servers that were recorded, and against some that the tests play.

use bowline_protocol::kinds::{Outcome, ToolStatus};
use bowline_protocol::{ApprovalCategory, Attachment, Decision, Kind, PermissionMode, Risk, Timestamp};

use super::*;
use crate::decode::{Decoder, End};
use crate::dialect::{ClientOutput, DecisionRequest, UnnumberedEvent};
use crate::dialects;
use crate::moment::Moment;
use crate::played;

mod live;

const ASK: &str = include_str!("../../../../../fixtures/codex/0.166.0/appserver-ask/transcript.jsonl");
const GO_ON: &str =
    include_str!("../../../../../fixtures/codex/0.166.0/appserver-resume-fork/transcript.jsonl");
const ERRORS: &str = include_str!("../../../../../fixtures/codex/0.166.0/appserver-errors/transcript.jsonl");
const MCP: &str = include_str!("../../../../../fixtures/codex/0.166.0/appserver-mcp/transcript.jsonl");

/// A client and what it said, with a server that is played by the test.
struct Scene {
    decoder: Decoder,
    drafts: Vec<UnnumberedEvent>,
    now: Moment,
    /// The lines that the client has sent, and whether it hung up.
    sent: Vec<Value>,
    hung_up: bool,
    prompt: HostPrompt,
    prompted: bool,
    /// The decision on each request, and the requests so far.
    answer: ApprovalAnswer,
    asked: Vec<DecisionRequest>,
}

impl Scene {
    fn of(talk: &Conversation) -> Self {
        let entry = dialects::by_name("codex-app-server").unwrap();
        let mut scene = Self {
            decoder: Decoder::new(entry).talking(entry, Some(talk)),
            drafts: Vec::new(),
            now: Moment::utc(Timestamp::EPOCH),
            sent: Vec::new(),
            hung_up: false,
            prompt: talk.first_prompt("p1".into()),
            prompted: false,
            answer: ApprovalAnswer::DENY,
            asked: Vec::new(),
        };
        scene.decoder.prompt(&talk.prompt, &mut scene.drafts);
        scene.decoder.open(&scene.now, &mut scene.drafts);
        scene.listen();
        scene
    }

    fn listen(&mut self) {
        let ClientOutput { bytes, last, requests, ready, .. } = self.decoder.take_client_output();
        let text = String::from_utf8(bytes).unwrap();
        self.sent.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        self.hung_up |= last;
        // The engine sends the first prompt, and hangs up when the turn is over.
        if ready {
            let prompt = self.prompt.clone();
            assert_eq!(self.decoder.send_prompt(&prompt, &self.now, &mut self.drafts), Sent::Done);
            self.prompted = true;
            self.listen();
        }
        if self.prompted && !self.hung_up && self.decoder.open_turn().is_none() {
            self.decoder.close(&self.now, &mut self.drafts);
            self.listen();
        }
        for request in requests {
            let sent = self.decoder.decide(&request.approval, &self.answer, &self.now, &mut self.drafts);
            assert_eq!(sent, Sent::Done);
            self.asked.push(request);
            self.listen();
        }
    }

    fn server(&mut self, message: &Value) {
        self.decoder.stdout(format!("{message}\n").as_bytes(), &self.now, &mut self.drafts);
        self.listen();
    }

    /// Answers the last request of the client.
    fn answers(&mut self, result: &Value) {
        let id = self.sent.last().unwrap()["id"].clone();
        self.server(&json!({ "id": id, "result": result }));
    }

    /// Goes up to the answer that opens the thread.
    fn opened(&mut self, opened: &Value) {
        self.answers(&json!({ "userAgent": "codex" }));
        self.answers(opened);
    }

    /// Plays the server of a recording, with the turn of this number for the one that the client starts, up to the end of
    /// the turn or until `stop` is said.
    fn plays(&mut self, recording: &str, turn: usize, stop: &str) {
        let mut calls: Vec<(Value, String)> = Vec::new();
        let mut turns = 0;
        for line in recording.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            let mut message = entry["msg"].clone();
            let method = message["method"].as_str().map(str::to_owned);
            let here = turns == turn + 1;
            if entry["dir"] == "send" {
                if let (Some(method), true) = (method, message.get("id").is_some()) {
                    turns += usize::from(method == "turn/start");
                    calls.push((message["id"].clone(), method));
                }
                continue;
            }
            match method {
                Some(method) if here => {
                    self.server(&message);
                    if method == stop || method == "turn/completed" {
                        return;
                    }
                }
                Some(_) => {}
                None => {
                    let (_, method) = calls.iter().rev().find(|(id, _)| *id == message["id"]).unwrap();
                    // Of what the client has not asked it hears nothing; and its numbers are its own.
                    let asked = self.sent.last().unwrap();
                    if asked["method"] == method.as_str() && (method != "turn/start" || here) {
                        message["id"] = asked["id"].clone();
                        self.server(&message);
                    }
                }
            }
        }
    }

    fn outcome(&mut self) -> (Outcome, Option<Code>) {
        self.decoder.finish(&End::default(), &self.now, &mut self.drafts);
        played::first_outcome(&self.drafts)
    }

    fn sent_as(&self, method: &str) -> &Value {
        let found = self.sent.iter().find(|it| it["method"] == method);
        &found.unwrap_or_else(|| panic!("`{method}` was not sent: {:?}", self.sent))["params"]
    }
}

fn talk(prompt: &str) -> Conversation {
    Conversation {
        prompt: prompt.into(),
        cwd: "/home/u/proj".into(),
        model: Some("gpt-5.5".into()),
        ..Conversation::default()
    }
}

/// What the recorded client sent, up to the end of its first turn.
fn recorded(recording: &str) -> Vec<Value> {
    let entries: Vec<Value> = recording.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = entries.iter().take_while(|entry| entry["msg"]["method"] != "turn/completed");
    first.filter(|entry| entry["dir"] == "send").map(|entry| entry["msg"].clone()).collect()
}

fn decided(drafts: &[UnnumberedEvent]) -> Vec<Decision> {
    let decision = |draft: &UnnumberedEvent| {
        if let Kind::ApprovalDecided(it) = &draft.kind { Some(it.decision) } else { None }
    };
    drafts.iter().filter_map(decision).collect()
}

fn denied(drafts: &[UnnumberedEvent]) -> usize {
    let denied = |draft: &&UnnumberedEvent| matches!(&draft.kind, Kind::ToolFinished(it) if it.status == ToolStatus::Denied);
    drafts.iter().filter(denied).count()
}

#[test]
fn a_turn_goes_as_it_was_recorded_and_what_is_asked_for_is_refused() {
    let mut scene = Scene::of(&talk("[[risky]] Do it."));
    scene.plays(ASK, 0, "");
    let mut expected = recorded(ASK);
    let ours: Value = serde_json::from_str(&AppServerClient::first_message()).unwrap();
    expected[0] = ours;
    assert_eq!(scene.sent, expected);
    assert!(scene.hung_up, "the turn is over");
    assert_eq!((decided(&scene.drafts), denied(&scene.drafts)), (vec![Decision::Deny], 1));
    assert_eq!(scene.outcome(), (Outcome::Completed, None), "the turn went on");
    let turns = scene.drafts.iter().filter(|draft| matches!(draft.kind, Kind::TurnStarted(_))).count();
    assert_eq!(turns, 1, "the server's turn is the one that the prompt began");
}

#[test]
fn a_patch_is_refused_as_well() {
    let mut scene = Scene::of(&talk("[[edit]] Write it."));
    scene.plays(ASK, 1, "");
    assert_eq!(scene.sent.last().unwrap(), &json!({ "id": 1, "result": { "decision": "decline" } }));
    assert_eq!((decided(&scene.drafts), denied(&scene.drafts)), (vec![Decision::Deny], 1));
}

#[test]
fn decisions_are_sent_in_the_words_of_the_server() {
    use ApprovalCategory::{Edit, Network, Other, Shell};
    let network = json!({ "network": { "enabled": true } });
    let command = "item/commandExecution/requestApproval";
    let about_a_tool = json!({ "_meta": { "codex_approval_kind": "mcp_tool_call" }, "message": "May it?" });
    let decision = |word: &str| json!({ "decision": word });
    for (method, params, sort, responses) in [
        (
            command,
            json!({ "itemId": "c" }),
            (Shell, Risk::Med),
            [decision("accept"), decision("acceptForSession"), decision("decline")],
        ),
        (
            command,
            json!({ "itemId": "c", "networkApprovalContext": { "host": "example.com" } }),
            (Network, Risk::Med),
            [decision("accept"), decision("acceptForSession"), decision("decline")],
        ),
        (
            "item/fileChange/requestApproval",
            json!({ "itemId": "c" }),
            (Edit, Risk::Med),
            [decision("accept"), decision("acceptForSession"), decision("decline")],
        ),
        (
            "execCommandApproval",
            json!({}),
            (Shell, Risk::Med),
            [decision("approved"), decision("approved_for_session"), decision("denied")],
        ),
        (
            "item/permissions/requestApproval",
            json!({ "permissions": network }),
            (Other, Risk::High),
            [
                json!({ "permissions": network }),
                json!({ "permissions": network, "scope": "session" }),
                json!({ "permissions": {} }),
            ],
        ),
        (
            "mcpServer/elicitation/request",
            about_a_tool,
            (Other, Risk::Med),
            [
                json!({ "action": "accept", "content": {} }),
                json!({ "action": "accept", "content": {}, "_meta": { "persist": "session" } }),
                json!({ "action": "decline" }),
            ],
        ),
    ] {
        let answers = [ApprovalAnswer::AllowOnce, ApprovalAnswer::AllowForSession, ApprovalAnswer::DENY];
        let meanings = [Decision::Allow, Decision::AllowAlways, Decision::Deny];
        for ((answer, meaning), response) in answers.into_iter().zip(meanings).zip(responses) {
            let mut scene = Scene::of(&talk("[[risky]] Do it."));
            scene.opened(&json!({ "thread": { "id": "t1" } }));
            scene.answers(&json!({ "turn": { "id": "u1" } }));
            scene.answer = answer.clone();
            scene.server(&json!({ "id": 7, "method": method, "params": params }));
            assert_eq!(scene.sent.last().unwrap(), &json!({ "id": 7, "result": response }), "{method}");
            let asked: Vec<_> =
                scene.asked.iter().map(|it| (it.approval.as_str(), it.category, it.risk)).collect();
            assert_eq!(asked, [("7", sort.0, sort.1)], "{method}");
            // The reader understands the response as what was meant.
            assert_eq!(decided(&scene.drafts), [meaning], "{method} {answer:?}");
            let mut events = Vec::new();
            for draft in &scene.drafts {
                if let Kind::ApprovalAsked(it) = &draft.kind {
                    events.push((it.id.as_str(), it.category, it.risk));
                }
            }
            assert_eq!(events, asked, "the event and the request are about the same");
        }
    }
}

#[test]
fn a_question_of_an_mcp_server_is_no_approval() {
    let mut scene = Scene::of(&talk("Hello."));
    scene.opened(&json!({ "thread": { "id": "t1" } }));
    scene.answer = ApprovalAnswer::AllowOnce;
    let question = json!({ "message": "Who are you?" });
    scene.server(&json!({ "id": 7, "method": "mcpServer/elicitation/request", "params": question }));
    assert_eq!(scene.sent.last().unwrap(), &json!({ "id": 7, "result": { "action": "decline" } }));
    assert_eq!(scene.asked, []);
}

#[test]
fn a_request_that_the_server_takes_back_cannot_be_decided() {
    let mut scene = Scene::of(&talk("Hello."));
    scene.opened(&json!({ "thread": { "id": "t1" } }));
    scene.answers(&json!({ "turn": { "id": "u1" } }));
    let asked = json!({ "id": 7, "method": "execCommandApproval", "params": {} });
    scene.decoder.stdout(format!("{asked}\n").as_bytes(), &scene.now, &mut scene.drafts);
    let request = scene.decoder.take_client_output().requests.remove(0);
    scene.server(
        &json!({ "method": "serverRequest/resolved", "params": { "threadId": "t1", "requestId": 7 } }),
    );
    let sent =
        scene.decoder.decide(&request.approval, &ApprovalAnswer::AllowOnce, &scene.now, &mut scene.drafts);
    assert_eq!(sent, Sent::Cannot("the server no longer waits for it"));
}

#[test]
fn the_modes_are_said_in_the_servers_words() {
    for (permission, asks, sandbox) in [
        (PermissionMode::Read, "never", "read-only"),
        (PermissionMode::Ask, "untrusted", "read-only"),
        (PermissionMode::Edit, "on-request", "workspace-write"),
        (PermissionMode::Yolo, "never", "danger-full-access"),
    ] {
        let mut scene = Scene::of(&Conversation { permission, ..talk("Hello.") });
        scene.answers(&json!({}));
        let asked = scene.sent_as("thread/start");
        let told = (&asked["approvalPolicy"], &asked["sandbox"], &asked["approvalsReviewer"]);
        assert_eq!(told, (&json!(asks), &json!(sandbox), &json!("user")));
    }
}

#[test]
fn a_session_goes_on_or_branches() {
    let id = "01a1e17d-274b-78b0-8d97-96679bad4300";
    let resume = Some(Resume::Id { native_session: id.into() });
    let mut scene = Scene::of(&Conversation { resume, ..talk("[[recall]] What did I say?") });
    scene.plays(GO_ON, 0, "");
    assert_eq!(scene.sent[1..], recorded(GO_ON)[1..]);
    assert_eq!(scene.outcome(), (Outcome::Completed, None));

    let resume = Some(Resume::Fork { native_session: id.into() });
    let mut scene = Scene::of(&Conversation { resume, ephemeral: true, ..talk("[[text]] And now?") });
    scene.plays(GO_ON, 1, "");
    let asked = scene.sent_as("thread/fork");
    assert_eq!((&asked["threadId"], &asked["ephemeral"]), (&json!(id), &json!(true)));
    assert_ne!(scene.sent_as("turn/start")["threadId"], id, "the branch has a name of its own");
    assert!(scene.hung_up);
    assert_eq!(scene.outcome(), (Outcome::Completed, None));
}

#[test]
fn a_session_that_is_not_the_one_is_sent_nothing() {
    let id = "01a1de29-0000-7000-8000-000000000000";
    let resume = || Some(Resume::Id { native_session: id.into() });
    let mut scene = Scene::of(&Conversation { resume: resume(), ..talk("Go on.") });
    scene.answers(&json!({}));
    let refused = ERRORS.lines().find(|line| line.contains("no rollout found")).unwrap();
    scene.server(&serde_json::from_str::<Value>(refused).unwrap()["msg"]);
    assert!(scene.hung_up);
    assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::SessionNotFound)));

    let mut scene = Scene::of(&Conversation { resume: resume(), ..talk("Go on.") });
    scene.opened(&json!({ "thread": { "id": "01a1e17d-274b-78b0-8d97-96679bad4300" } }));
    assert!(scene.hung_up && scene.sent.iter().all(|it| it["method"] != "turn/start"));
    assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::SessionNotFound)));

    // Settings that we do not have in hand have won.
    for other in [
        json!({ "thread": { "id": "t1" }, "sandbox": { "type": "workspaceWrite" } }),
        json!({ "thread": { "id": "t1" }, "approvalPolicy": "never" }),
        json!({ "thread": { "id": "t1" }, "approvalsReviewer": "auto_review" }),
    ] {
        let mut scene = Scene::of(&talk("Hello."));
        scene.opened(&other);
        assert!(scene.hung_up && scene.sent.iter().all(|it| it["method"] != "turn/start"), "{other}");
        assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::Unsupported)), "{other}");
    }
}

#[test]
fn a_server_that_leaves_before_the_prompt_has_not_succeeded() {
    let mut scene = Scene::of(&talk("Hello."));
    scene.answers(&json!({ "userAgent": "codex" }));
    assert_ne!(scene.outcome().0, Outcome::Completed);
}

#[test]
fn a_turn_is_interrupted_in_its_own_words() {
    let mut scene = Scene::of(&talk("[[hang]] Wait."));
    assert!(!scene.decoder.interrupt(&scene.now, &mut scene.drafts).is_sent(), "there is no turn yet");
    scene.plays(ERRORS, 6, "turn/started");
    assert!(scene.decoder.interrupt(&scene.now, &mut scene.drafts).is_sent());
    scene.listen();
    let line = ERRORS.lines().find(|line| line.contains("\"turn/interrupt\"")).unwrap();
    let recorded: Value = serde_json::from_str(line).unwrap();
    assert_eq!(scene.sent_as("turn/interrupt"), &recorded["msg"]["params"]);
    scene.server(&json!({ "id": scene.sent.last().unwrap()["id"], "result": {} }));
    assert!(!scene.hung_up, "its end is still to come");
    let ended = ERRORS.lines().rfind(|line| line.contains("turn/completed")).unwrap();
    scene.server(&serde_json::from_str::<Value>(ended).unwrap()["msg"]);
    assert!(scene.hung_up);
    assert_eq!(scene.outcome(), (Outcome::Cancelled, None));
}

#[test]
fn turns_that_fail_say_why() {
    for (turn, code) in [
        (0, Code::InvalidCredentials),
        (1, Code::RateLimited),
        // Its words for a server that failed.
        (2, Code::Overloaded),
        (3, Code::QuotaExhausted),
        (4, Code::ContextOverflow),
    ] {
        let mut scene = Scene::of(&talk("Answer."));
        scene.plays(ERRORS, turn, "");
        assert!(scene.hung_up, "{code}");
        assert_eq!(scene.outcome(), (Outcome::Failed, Some(code)));
    }
}

#[test]
fn whoever_asks_gets_an_answer() {
    let mut scene = Scene::of(&talk("Hello."));
    scene.opened(&json!({ "thread": { "id": "t1" } }));
    scene.answers(&json!({ "turn": { "id": "u1" } }));
    scene.server(&json!({ "id": 3, "method": "no/such", "params": {} }));
    let answer = scene.sent.last().unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(UNKNOWN_METHOD)));
    scene
        .server(&json!({ "id": "q", "method": "item/tool/requestUserInput", "params": { "questions": [] } }));
    assert_eq!(scene.sent.last().unwrap(), &json!({ "id": "q", "result": { "answers": {} } }));
    scene.server(&json!({ "id": 5, "method": "item/permissions/requestApproval", "params": { "permissions": { "network": {} } } }));
    assert_eq!(scene.sent.last().unwrap(), &json!({ "id": 5, "result": { "permissions": {} } }));
    let line = MCP.lines().find(|line| line.contains("mcpServer/elicitation/request")).unwrap();
    scene.server(&serde_json::from_str::<Value>(line).unwrap()["msg"]);
    assert_eq!(scene.sent.last().unwrap(), &json!({ "id": 0, "result": { "action": "decline" } }));
    scene.server(&json!({ "method": "turn/completed", "params": { "threadId": "another", "turn": {} } }));
    assert!(!scene.hung_up, "the turn of a sub-agent is not ours");
}

#[test]
fn every_wish_has_its_place() {
    let schema = Some(Json::parse(r#"{"type":"object"}"#).unwrap());
    let image = |path: &str| Attachment { path: path.into(), media_type: None };
    let mut scene = Scene::of(&Conversation {
        effort: Some("high".into()),
        add_dirs: vec!["/a b".into(), "lib".into()],
        attachments: vec![image("/x.png"), image("y.png")],
        schema,
        ephemeral: true,
        ..talk("Hello.")
    });
    scene.opened(&json!({ "thread": { "id": "t1" } }));
    let thread = scene.sent_as("thread/start");
    assert_eq!((&thread["model"], &thread["ephemeral"]), (&json!("gpt-5.5"), &json!(true)));
    let roots = &thread["config"]["sandbox_workspace_write.writable_roots"];
    assert_eq!(roots, &json!(["/a b", "/home/u/proj/lib"]));
    assert_eq!(
        scene.sent_as("turn/start"),
        &json!({
            "threadId": "t1",
            "input": [
                { "type": "text", "text": "Hello." },
                { "type": "localImage", "path": "/x.png" },
                { "type": "localImage", "path": "/home/u/proj/y.png" },
            ],
            "effort": "high",
            "outputSchema": { "type": "object" },
        })
    );
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_starts() {
    let resume = Some(Resume::Id { native_session: "t1".into() });
    let talk = Conversation { ephemeral: true, ..talk("Hello.") };
    assert_eq!(AppServerClient::refuses(&talk), None);
    assert_eq!(
        AppServerClient::refuses(&Conversation { resume, ..talk }).map(|it| it.0),
        Some(RequestField::Ephemeral)
    );
}
