//! Orders within one process, against recorded agents: steers, interrupts, options, compaction, forms.

use bowline_protocol::PermissionMode::{Ask, Edit, Read, Yolo};
use serde_json::json;

use super::*;
use crate::dialect::Acknowledgement;
use crate::played::{PlayedRecording, prompt, wire};

pub(super) fn open(wire: &str, permission: PermissionMode) -> PlayedRecording {
    let talk = Conversation { permission, cwd: "/home/u/proj".into(), ..Conversation::default() };
    PlayedRecording::open("acp", wire, &talk)
}

/// Plays up to the first recorded prompt and sends it.
fn begun(wire: &str) -> PlayedRecording {
    let mut played = open(wire, Ask);
    begins(&mut played, "p1");
    played
}

fn begins(played: &mut PlayedRecording, id: &str) {
    let recorded = played.until("session/prompt");
    assert!(played.ready);
    let text = recorded["params"]["prompt"][0]["text"].as_str().unwrap();
    let sent = played.prompts(&recorded, &prompt(id, text));
    assert_eq!(sent["params"], recorded["params"]);
}

/// Steers where the recorder did.
fn steers(played: &mut PlayedRecording) -> AckToken {
    let mut recorded = played.until("_session/steering");
    let text = recorded["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
    let (sent, message) =
        played.orders(&recorded, |decoder, now, out| decoder.steer(&prompt("s1", &text), now, out));
    recorded["params"]["_meta"] = json!({ "steering": { "idleBehavior": "promptRequired" } });
    assert_eq!(message.unwrap()["params"], recorded["params"]);
    let Sent::Awaiting(token) = sent else { panic!("{sent:?}") };
    token
}

/// Decides the first open request where the recorder did.
fn allows(played: &mut PlayedRecording) {
    let recorded = played.until("");
    let approval = played.requests[0].approval.clone();
    let allow = ApprovalAnswer::AllowOnce;
    let (sent, message) =
        played.orders(&recorded, |decoder, now, out| decoder.decide(&approval, &allow, now, out));
    assert_eq!((sent, &message.unwrap()["result"]), (Sent::Done, &recorded["result"]));
}

fn accepted(token: AckToken) -> [Acknowledgement; 1] {
    [Acknowledgement { token, result: Ok(()) }]
}

#[test]
fn a_steer_cuts_off_the_answer_and_joins_the_prompt() {
    for wire in [wire!("claude/2.1.325/acp-steer-text"), wire!("codex/0.166.0/acp-steer-text")] {
        let mut played = begun(wire);
        let token = steers(&mut played);
        played.next_line();
        assert_eq!((played.acknowledged.as_slice(), played.read.len()), (&accepted(token)[..], 0));
        played.rest();
        assert_eq!((played.read.len(), played.lost.len()), (1, 0));
        let turn = (vec!["NOTE-A DO[slow 8]DO".into(), "NOTE-B also this".into()], "completed".into());
        assert_eq!(played.turns(), [turn], "each message once");
        let finished = played.events(&["message_finished"]);
        let phases: Vec<&str> = finished.iter().map(|it| it["phase"].as_str().unwrap()).collect();
        assert_eq!(phases, ["commentary", "final"]);
    }
}

#[test]
fn a_steer_at_an_approval_leaves_the_request_open() {
    for wire in [wire!("claude/2.1.325/acp-steer-perm"), wire!("codex/0.166.0/acp-steer-perm")] {
        let mut played = begun(wire);
        let token = steers(&mut played);
        allows(&mut played);
        played.rest();
        assert_eq!((played.acknowledged.as_slice(), played.read.len()), (&accepted(token)[..], 1));
        assert_eq!(played.events(&["approval_decided"]).len(), 1);
        assert_eq!(played.turns().len(), 1);
    }
}

#[test]
fn work_without_a_prompt_is_a_turn_that_ends() {
    let mut played = begun(wire!("claude/2.1.325/acp-steer-tool"));
    allows(&mut played);
    steers(&mut played);
    played.rest();
    // The command went to the background, and its end made the agent answer again.
    let origins: Vec<Value> =
        played.events(&["turn_started"]).iter().map(|it| it["origin"].clone()).collect();
    assert_eq!(origins, [json!("prompt"), json!("agent")]);
    assert_eq!(played.turns().len(), 2);
    assert_eq!(played.decoder.open_turn(), None, "the session is idle");
}

#[test]
fn work_without_a_reported_end_ends_at_the_next_prompt() {
    let mut played = begun(wire!("opencode/1.18.33/acp-cancel-text"));
    let recorded = played.until("session/cancel");
    played.orders(&recorded, |decoder, now, out| decoder.interrupt(now, out));
    let recorded = played.until("session/prompt");
    assert_eq!(played.decoder.open_turn(), None);
    let chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "By the way." } });
    played.says(&json!({ "method": "session/update", "params": { "sessionId": "s1", "update": chunk } }));
    assert!(played.decoder.is_open_ended());
    played.prompts(&recorded, &prompt("p9", "Go on."));
    assert!(!played.decoder.is_open_ended());
    let turns = played.turns();
    assert_eq!(
        turns.last(),
        Some(&(Vec::new(), "completed".to_owned())),
        "without the message of the next one"
    );
    assert_eq!(played.events(&["user_message"]).last().unwrap()["text"], "Go on.");
}

#[test]
fn a_steer_that_is_too_late_is_not_sent_or_is_rejected() {
    let mut played = begun(wire!("claude/2.1.325/acp-steer-late"));
    let recorded = played.until("_session/steering");
    let steer = prompt("s1", "NOTE-B too late");
    let (sent, _) = played.orders(&recorded, |decoder, now, out| decoder.steer(&steer, now, out));
    assert_eq!(sent, Sent::Cannot("no prompt runs"));
    // The prompt ends while the steer is on its way.
    let mut played = begun(wire!("claude/2.1.325/acp-steer-text"));
    let token = steers(&mut played);
    played.edit = |message| {
        if let Some(outcome) = message.pointer_mut("/result/outcome") {
            *outcome = json!("promptRequired");
        }
    };
    played.rest();
    let rejected = Acknowledgement { token, result: Err("no prompt is running".into()) };
    assert_eq!((played.acknowledged, played.read.len(), played.lost.len()), (vec![rejected], 0, 0));
}

#[test]
fn a_steer_that_a_cancelled_prompt_did_not_read_is_lost() {
    let mut played = begun(wire!("claude/2.1.325/acp-steer-text"));
    let token = steers(&mut played);
    played.next_line();
    assert!(played.decoder.interrupt(&played.now, &mut played.drafts).is_sent());
    played.says(&json!({ "id": 3, "result": { "stopReason": "cancelled" } }));
    assert_eq!((played.acknowledged.as_slice(), played.read.len()), (&accepted(token)[..], 0));
    assert_eq!(played.lost, [PromptId::from("s1")]);
    assert_eq!(played.turns()[0].1, "cancelled");
}

#[test]
fn an_interrupt_answers_the_open_permissions_once() {
    for wire in [
        wire!("claude/2.1.325/acp-cancel-perm-open"),
        wire!("codex/0.166.0/acp-cancel-perm-open"),
        wire!("gemini/0.61.0/acp-cancel-perm-open"),
        wire!("qwen/0.24.4/acp-cancel-perm-open"),
        wire!("opencode/1.18.33/acp-cancel-perm-open"),
        wire!("copilot/1.0.102/acp-cancel-perm-open"),
    ] {
        let mut played = begun(wire);
        let recorded = played.until("session/cancel");
        let request = played.requests[0].clone();
        let (sent, cancel) = played.orders(&recorded, |decoder, now, out| decoder.interrupt(now, out));
        assert_eq!((sent, &cancel.unwrap()["params"]), (Sent::Done, &recorded["params"]));
        let [answer] = played.take_sent().try_into().unwrap();
        assert_eq!(answer["result"], json!({ "outcome": { "outcome": "cancelled" } }), "Gemini waits for it");
        let again = played.decoder.interrupt(&played.now, &mut played.drafts);
        assert_eq!(again, Sent::Cannot("the turn is being interrupted"));
        let late = ApprovalAnswer::AllowOnce;
        let late = played.decoder.decide(&request.approval, &late, &played.now, &mut played.drafts);
        assert_eq!(late, Sent::Cannot("the agent no longer waits for it"));
        played.rest();
        let ends = (played.events(&["approval_decided"]).len(), played.turns()[0].1.clone());
        assert_eq!(ends, (1, "cancelled".to_owned()));
        let idle = played.decoder.interrupt(&played.now, &mut played.drafts);
        assert_eq!(idle, Sent::Cannot("no prompt runs"), "claude-agent-acp would cancel the next prompt");
    }
}

#[test]
fn a_permission_that_is_asked_after_the_interrupt_is_cancelled() {
    let mut played = begun(wire!("gemini/0.61.0/acp-cancel-text"));
    assert!(played.decoder.interrupt(&played.now, &mut played.drafts).is_sent());
    let params = json!({ "toolCall": { "toolCallId": "t1", "kind": "execute" }, "options": [] });
    played.says(&json!({ "id": 9, "method": "session/request_permission", "params": params }));
    let (approval, allow) = (played.requests[0].approval.clone(), ApprovalAnswer::AllowOnce);
    assert!(played.decoder.decide(&approval, &allow, &played.now, &mut played.drafts).is_sent());
    assert_eq!(
        played.take_sent().last().unwrap()["result"],
        json!({ "outcome": { "outcome": "cancelled" } })
    );
}

#[test]
fn qwen_fetches_messages_after_its_tools() {
    let mut played = begun(wire!("qwen/0.24.4/acp-drain-tool"));
    let (kept, dropped) = (prompt("s1", "NOTE-B also this"), prompt("s2", "Not this."));
    let Sent::Awaiting(token) = played.decoder.steer(&kept, &played.now, &mut played.drafts) else {
        panic!()
    };
    assert!(played.decoder.steer(&dropped, &played.now, &mut played.drafts).is_sent());
    assert_eq!(played.decoder.take_back(&"s2".into(), &played.now, &mut played.drafts), Sent::Done);
    assert!(!played.decoder.take_back(&"s2".into(), &played.now, &mut played.drafts).is_sent());
    allows(&mut played);
    let recorded = played.until("");
    assert_eq!(
        (played.acknowledged.as_slice(), played.read.as_slice()),
        (&accepted(token)[..], &["s1".into()][..])
    );
    let [answer] = played.take_sent().try_into().unwrap();
    assert_eq!(answer["result"], recorded["result"]);
    assert!(!played.decoder.take_back(&"s1".into(), &played.now, &mut played.drafts).is_sent());
    begins(&mut played, "p2");
    played.rest();
    let messages: Vec<usize> = played.turns().iter().map(|(messages, _)| messages.len()).collect();
    assert_eq!((messages, played.lost.len()), (vec![2, 1], 0));
}

#[test]
fn qwen_gets_no_messages_for_a_prompt_that_is_cancelled() {
    let mut played = begun(wire!("qwen/0.24.4/acp-drain-text"));
    assert!(played.decoder.steer(&prompt("s1", "Unread."), &played.now, &mut played.drafts).is_sent());
    assert!(played.decoder.interrupt(&played.now, &mut played.drafts).is_sent());
    played.says(&json!({ "id": 9, "method": "craft/drainMidTurnQueue", "params": {} }));
    let answer = played.take_sent().pop().unwrap();
    assert_eq!(answer["result"], json!({ "messages": [], "hasQueuedPrompt": false }));
    played.says(&json!({ "id": 4, "result": { "stopReason": "cancelled" } }));
    assert_eq!((played.lost.as_slice(), played.read.len()), (&["s1".into()][..], 0));
}

#[test]
fn qwen_gets_an_empty_queue_and_never_asks_without_tools() {
    let mut played = begun(wire!("qwen/0.24.4/acp-drain-items"));
    allows(&mut played);
    played.until("");
    let [answer] = played.take_sent().try_into().unwrap();
    assert_eq!(answer["result"], json!({ "messages": [], "hasQueuedPrompt": false }));
    let mut played = begun(wire!("qwen/0.24.4/acp-drain-text"));
    assert!(played.decoder.steer(&prompt("s1", "Unread."), &played.now, &mut played.drafts).is_sent());
    played.rest();
    assert_eq!((played.lost.as_slice(), played.acknowledged.len()), (&["s1".into()][..], 0));
    let file = HostPrompt {
        attachments: vec![Attachment { path: "x.png".into(), media_type: None }],
        ..prompt("s2", "Look.")
    };
    assert!(!played.decoder.steer(&file, &played.now, &mut played.drafts).is_sent());
}

#[test]
fn an_agent_without_a_way_to_steer_is_not_steered() {
    for wire in [
        wire!("gemini/0.61.0/acp-cancel-text"),
        wire!("opencode/1.18.33/acp-cancel-text"),
        wire!("copilot/1.0.102/acp-cancel-text"),
    ] {
        let mut played = begun(wire);
        let sent = played.decoder.steer(&prompt("s1", "Also."), &played.now, &mut played.drafts);
        assert_eq!(sent, Sent::Cannot("this agent takes no messages while a prompt runs"));
    }
}

/// A choice: how the recorder made it, our option and its value, and the agent's word for that.
type RecordedChoice<'a> = (&'a str, &'a str, &'a str, &'a str);

#[test]
fn options_are_set_by_the_requests_that_the_agent_has() {
    const MODE: &str = "session/set_mode";
    const MODEL: &str = "session/set_model";
    const CONFIG: &str = "session/set_config_option";
    const PLAN: &str = "https://agentclientprotocol.com/protocol/session-modes#plan";
    let table: [(&str, &[RecordedChoice<'_>]); 6] = [
        (
            wire!("claude/2.1.325/acp-options"),
            &[(MODE, "permission", "edit", "acceptEdits"), (CONFIG, "effort", "low", "low")],
        ),
        (
            wire!("codex/0.166.0/acp-options"),
            &[(MODE, "permission", "edit", "workspace-write"), (CONFIG, "effort", "high", "high")],
        ),
        (
            wire!("gemini/0.61.0/acp-options"),
            &[(MODE, "permission", "edit", "autoEdit"), (MODEL, "model", "gemini-2.5-pro", "gemini-2.5-pro")],
        ),
        (wire!("qwen/0.24.4/acp-options"), &[(MODE, "permission", "edit", "auto-edit")]),
        (
            wire!("opencode/1.18.33/acp-options"),
            &[(CONFIG, "model", "fake/fake-model-2", "fake/fake-model-2"), (CONFIG, "mode", "plan", "plan")],
        ),
        (wire!("copilot/1.0.102/acp-options"), &[(MODE, "mode", PLAN, PLAN)]),
    ];
    for (wire, choices) in table {
        let mut played = begun(wire);
        let mut expected = Vec::new();
        for (method, option, value, native) in choices {
            let made =
                |recorded: &Value| recorded["params"].as_object().unwrap().values().any(|it| it == *native);
            let recorded = std::iter::repeat_with(|| played.until(method)).find(made).unwrap();
            let (sent, message) =
                played.orders(&recorded, |decoder, now, out| decoder.set_option(option, value, now, out));
            assert_eq!(message.unwrap()["params"], recorded["params"]);
            let Sent::Awaiting(token) = sent else { panic!("{option}: {sent:?}") };
            expected.extend(accepted(token));
        }
        begins(&mut played, "p2");
        assert_eq!(played.acknowledged, expected);
    }
}

#[test]
fn an_option_that_the_agent_does_not_offer_is_not_sent() {
    let mut played = begun(wire!("opencode/1.18.33/acp-options"));
    let sets = |option: &str, value: &str, played: &mut PlayedRecording| {
        played.decoder.set_option(option, value, &played.now, &mut played.drafts)
    };
    let missing = Sent::Cannot("the agent has no such setting");
    assert_eq!(sets("no-such-option", "x", &mut played), missing);
    assert_eq!(sets("effort", "high", &mut played), missing);
    assert_eq!(
        sets("model", "no-such-model", &mut played),
        Sent::Cannot("the agent does not offer this value")
    );
    assert_eq!(
        sets("permission", "yolo", &mut played),
        Sent::Cannot("the agent has no known mode for these permissions")
    );
    assert!(!sets("permission", "everything", &mut played).is_sent());
    assert!(played.take_sent().is_empty());
    // The agent refuses what it offered.
    let Sent::Awaiting(token) = sets("mode", "plan", &mut played) else { panic!() };
    let id = played.take_sent()[0]["id"].clone();
    played.says(&json!({ "id": id, "error": { "code": -32602, "message": "not now" } }));
    assert_eq!(played.acknowledged, [Acknowledgement { token, result: Err("not now".into()) }]);
}

#[test]
fn copilot_asks_in_its_mode_agent() {
    for (permission, asks) in [(Read, true), (Ask, true), (Edit, true), (Yolo, true)] {
        let mut played = open(wire!("copilot/1.0.102/acp-perm-two"), permission);
        played.until("session/prompt");
        let sent = played.take_sent();
        assert_eq!((played.ready, sent.iter().all(|it| it["method"] != "session/set_mode")), (true, asks));
        assert!(played.events(&["notice"]).is_empty(), "the mode is known to ask");
    }
}

#[test]
fn compaction_is_a_prompt_where_the_agent_has_the_command() {
    for wire in [
        wire!("claude/2.1.325/acp-compact"),
        wire!("codex/0.166.0/acp-compact"),
        wire!("opencode/1.18.33/acp-compact"),
        wire!("copilot/1.0.102/acp-compact"),
    ] {
        let mut played = begun(wire);
        let busy = played.decoder.compact(&played.now, &mut played.drafts);
        assert_eq!(busy, Sent::Cannot("no session is open, or a prompt runs"));
        let recorded = played.until("session/prompt");
        let (sent, message) = played.orders(&recorded, |decoder, now, out| decoder.compact(now, out));
        assert_eq!((sent, &message.unwrap()["params"]), (Sent::Done, &recorded["params"]));
        begins(&mut played, "p2");
        played.rest();
        assert_eq!(played.turns().len(), 3);
    }
    for wire in [wire!("gemini/0.61.0/acp-compact"), wire!("qwen/0.24.4/acp-compact")] {
        let mut played = begun(wire);
        played.until("session/prompt");
        let sent = played.decoder.compact(&played.now, &mut played.drafts);
        assert_eq!(sent, Sent::Cannot("this agent has no command to compact its context"));
    }
}

#[test]
fn an_answer_that_outlives_the_session_is_never_chosen() {
    let mut played = begun(wire!("qwen/0.24.4/acp-drain-tool"));
    played.until("");
    let request = played.requests[0].clone();
    assert_eq!(request.offers, [OptionEffect::AllowOnce, OptionEffect::RejectOnce]);
    let answer = ApprovalAnswer::AllowForSession;
    assert!(played.decoder.decide(&request.approval, &answer, &played.now, &mut played.drafts).is_sent());
    played.next_line();
    let answer = played.take_sent().pop().unwrap();
    assert_eq!(answer["result"]["outcome"]["optionId"], "cancel");
    // That for edits is for the session.
    let mut played = begun(wire!("qwen/0.24.4/acp-perm-always"));
    played.until("");
    assert!(played.requests[0].offers.contains(&OptionEffect::AllowAlways));
}

#[test]
fn copilot_counts_all_prompts_of_the_process() {
    let mut played = begun(wire!("copilot/1.0.102/acp-options"));
    begins(&mut played, "p2");
    begins(&mut played, "p3");
    played.rest();
    let inputs: Vec<Value> =
        played.events(&["turn_ended"]).iter().map(|it| it["usage"]["input"].clone()).collect();
    assert_eq!(inputs, [8, 8, 8]);
}

#[test]
fn a_form_waits_for_its_reply_if_the_caller_answers_questions() {
    let schema = json!({ "properties": { "colour": { "type": "string", "enum": ["red", "blue"] } } });
    let ask = |id: &str| {
        let params = json!({ "message": "Which?", "requestedSchema": schema });
        json!({ "id": id, "method": "elicitation/create", "params": params })
    };
    let mut scene = Scene::of(&Conversation { answers_questions: true, ..talk() });
    let prompt = scene.opened(&json!({ "sessionId": "s1" }));
    let replies = [
        (
            QuestionReply::Answers(vec!["red".into()]),
            json!({ "action": "accept", "content": { "colour": "red" } }),
        ),
        (QuestionReply::Dismissed, json!({ "action": "decline" })),
    ];
    for (reply, response) in replies {
        scene.agent(&ask("q"));
        let waiting = scene.decoder.take_client_output();
        assert_eq!((waiting.bytes.len(), waiting.questions), (0, vec!["q".into()]));
        // A wrong answer is not sent, and leaves the form open.
        let wrong = QuestionReply::Answers(vec!["green".into()]);
        let sent = scene.decoder.reply(&"q".into(), &wrong, &scene.now, &mut scene.drafts);
        assert_eq!(sent, Sent::Cannot("the answer is none of the choices"));
        assert_eq!(scene.decoder.take_client_output().bytes.len(), 0);
        let sent = scene.decoder.reply(&"q".into(), &reply, &scene.now, &mut scene.drafts);
        assert_eq!((sent, &scene.said()["result"]), (Sent::Done, &response));
        assert!(!scene.decoder.reply(&"q".into(), &reply, &scene.now, &mut scene.drafts).is_sent(), "once");
    }
    // The end of the prompt is the end of its questions.
    scene.agent(&ask("r"));
    scene.answers(&prompt, &json!({ "stopReason": "end_turn" }));
    assert_eq!(scene.sent().0.last().unwrap()["result"], json!({ "action": "cancel" }));
    let answers: Vec<Vec<String>> = scene
        .drafts
        .iter()
        .filter_map(|draft| {
            if let Kind::QuestionAnswered(it) = &draft.kind { Some(it.answers.clone()) } else { None }
        })
        .collect();
    assert_eq!(answers, [vec!["red".to_owned()], vec![], vec![]]);
}
