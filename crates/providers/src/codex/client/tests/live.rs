//! Orders within one process, against recorded app servers: steers, interrupts, questions, options, compaction.

use bowline_protocol::PermissionMode::{Ask, Edit, Yolo};
use serde_json::json;

use super::*;
use crate::dialect::{Acknowledgement, QuestionReply};
use crate::played::{PlayedRecording, prompt, wire};

const FIRST: &str = "NOTE-A DO[run python3 -c 'import time; time.sleep(3)' | say Ran.]DO";

fn open(wire: &str, permission: PermissionMode) -> PlayedRecording {
    let talk = Conversation {
        permission,
        cwd: "/home/u/proj".into(),
        answers_questions: true,
        ..Conversation::default()
    };
    PlayedRecording::open("codex-app-server", wire, &talk)
}

/// Plays up to the first recorded prompt and sends it.
fn begun(wire: &str, permission: PermissionMode) -> PlayedRecording {
    let mut played = open(wire, permission);
    begins(&mut played, "p1");
    played
}

fn begins(played: &mut PlayedRecording, id: &str) {
    let recorded = played.until("turn/start");
    assert!(played.ready);
    let text = recorded["params"]["input"][0]["text"].as_str().unwrap();
    let sent = played.prompts(&recorded, &prompt(id, text));
    assert_eq!(
        (&sent["params"]["threadId"], &sent["params"]["input"]),
        (&recorded["params"]["threadId"], &recorded["params"]["input"])
    );
}

/// Steers where the recorder did.
fn steers(played: &mut PlayedRecording) -> (Sent, Value) {
    let recorded = played.until("turn/steer");
    let text = recorded["params"]["input"][0]["text"].as_str().unwrap();
    let id = recorded["params"]["clientUserMessageId"].as_str().unwrap();
    let (sent, message) =
        played.orders(&recorded, |decoder, now, out| decoder.steer(&prompt(id, text), now, out));
    let message = message.unwrap_or_default();
    if sent.is_sent() {
        assert_eq!(message["params"], recorded["params"]);
    }
    (sent, message)
}

fn acknowledged(sent: Sent) -> Vec<Acknowledgement> {
    let Sent::Awaiting(token) = sent else { panic!("{sent:?}") };
    vec![Acknowledgement { token, result: Ok(()) }]
}

#[test]
fn a_steer_is_acknowledged_at_once_and_read_when_the_tool_has_ended() {
    let mut played = begun(wire!("codex/0.166.0/appserver-steer-tool"), Yolo);
    let (sent, _) = steers(&mut played);
    assert!(!played.decoder.take_back(&"mine-1".into(), &played.now, &mut played.drafts).is_sent());
    played.rest();
    assert_eq!(played.acknowledged, acknowledged(sent));
    assert_eq!((played.read.len(), played.lost.len()), (1, 0));
    let text = "NOTE-B also this".to_owned();
    assert_eq!(played.turns(), [(vec![FIRST.to_owned(), text], "completed".to_owned())], "each message once");
}

#[test]
fn a_steer_cuts_off_the_answer_which_is_then_no_answer() {
    let mut played = begun(wire!("codex/0.166.0/appserver-steer-text"), Ask);
    let (sent, _) = steers(&mut played);
    played.rest();
    assert_eq!(played.acknowledged, acknowledged(sent));
    assert_eq!(played.read, [PromptId::from("mine-1")]);
    let ended = played.events(&["message_finished", "user_message", "turn_ended"]);
    let types: Vec<&str> =
        ended.iter().map(|it| it["phase"].as_str().or(it["type"].as_str()).unwrap()).collect();
    assert_eq!(
        types[..3],
        ["user_message", "commentary", "user_message"],
        "before the message that caused it"
    );
    assert_eq!(types[3..], ["final", "turn_ended"]);
}

#[test]
fn a_steer_at_an_approval_is_read_after_the_decision() {
    let mut played = open(wire!("codex/0.166.0/appserver-steer-approval"), Ask);
    // The recorder gave the steer no id.
    played.edit = |message| {
        if message.pointer("/params/item/content/0/text") == Some(&json!("CASE:text steered")) {
            message["params"]["item"]["clientId"] = json!("mine-1");
        }
    };
    begins(&mut played, "p1");
    let mut recorded = played.until("turn/steer");
    recorded["params"]["clientUserMessageId"] = json!("mine-1");
    let steer = prompt("mine-1", "CASE:text steered");
    let (sent, message) = played.orders(&recorded, |decoder, now, out| decoder.steer(&steer, now, out));
    assert_eq!(message.unwrap()["params"], recorded["params"]);
    let recorded = played.until("");
    assert_eq!((played.acknowledged.clone(), played.read.len()), (acknowledged(sent), 0));
    let approval = played.requests[0].approval.clone();
    let allow = ApprovalAnswer::AllowOnce;
    let (sent, message) =
        played.orders(&recorded, |decoder, now, out| decoder.decide(&approval, &allow, now, out));
    assert_eq!((sent, message.unwrap()["result"].clone()), (Sent::Done, recorded["result"].clone()));
    played.rest();
    assert_eq!(played.read.len(), 1);
    assert_eq!(played.events(&["approval_asked"]).len(), 1);
    assert_eq!(played.events(&["approval_decided"])[0]["decision"], "allow");
}

#[test]
fn a_steer_that_is_too_late_is_not_sent_or_is_rejected() {
    let mut played = begun(wire!("codex/0.166.0/appserver-steer-late"), Ask);
    assert_eq!(steers(&mut played).0, Sent::Cannot("no turn runs"));
    // The server saw the end of the turn before our steer arrived.
    let mut played = begun(wire!("codex/0.166.0/appserver-steer-wrong"), Yolo);
    let recorded = played.until("turn/steer");
    let steer = prompt("mine-1", "x");
    let (sent, _) = played.orders(&recorded, |decoder, now, out| decoder.steer(&steer, now, out));
    let Sent::Awaiting(token) = sent else { panic!("{sent:?}") };
    played.rest();
    let [answer] = played.acknowledged.as_slice() else { panic!("{:?}", played.acknowledged) };
    assert_eq!(answer.token, token);
    assert!(answer.result.as_ref().is_err_and(|why| why.contains("expected active turn id")), "{answer:?}");
    assert_eq!((played.read.len(), played.lost.len()), (0, 0), "the rejection is its end");
}

#[test]
fn an_interrupt_loses_the_steer_that_was_acknowledged_and_not_read() {
    let mut played = begun(wire!("codex/0.166.0/appserver-interrupt-steered"), Yolo);
    let (sent, _) = steers(&mut played);
    let recorded = played.until("turn/interrupt");
    assert_eq!(played.acknowledged, acknowledged(sent));
    let (sent, message) = played.orders(&recorded, |decoder, now, out| decoder.interrupt(now, out));
    assert_eq!((sent, &message.unwrap()["params"]), (Sent::Done, &recorded["params"]));
    let again = played.decoder.interrupt(&played.now, &mut played.drafts);
    assert_eq!(again, Sent::Cannot("the turn is being interrupted"));
    assert!(played.lost.is_empty(), "the turn has not ended");
    begins(&mut played, "p2");
    assert_eq!((played.lost.as_slice(), played.read.len()), (&["mine-1".into()][..], 0));
    played.rest();
    let outcomes: Vec<String> = played.turns().into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, ["cancelled", "completed"]);
    assert_eq!(
        played.events(&["tool_finished"])[0]["status"],
        "cancelled",
        "the server does not report its end"
    );
}

#[test]
fn a_process_that_ends_loses_its_steers() {
    let mut played = begun(wire!("codex/0.166.0/appserver-steer-tool"), Yolo);
    steers(&mut played);
    played.finish();
    assert_eq!(played.lost, [PromptId::from("mine-1")]);
}

#[test]
fn an_interrupt_withdraws_the_open_approval_once() {
    let mut played = begun(wire!("codex/0.166.0/appserver-interrupt-approval"), Ask);
    let recorded = played.until("turn/interrupt");
    let approval = played.requests[0].approval.clone();
    let (sent, _) = played.orders(&recorded, |decoder, now, out| decoder.interrupt(now, out));
    assert_eq!(sent, Sent::Done);
    begins(&mut played, "p2");
    let late = played.decoder.decide(&approval, &ApprovalAnswer::AllowOnce, &played.now, &mut played.drafts);
    assert_eq!(late, Sent::Cannot("the server no longer waits for it"));
    let decided = played.events(&["approval_decided"]);
    assert_eq!((decided.len(), &decided[0]["by"]), (1, &json!("withdrawn")));
}

#[test]
fn an_interrupt_before_the_turn_has_an_id_follows_when_it_has_one() {
    let mut scene = Scene::of(&talk("[[hang]] Wait."));
    scene.opened(&json!({ "thread": { "id": "t1" } }));
    assert_eq!(scene.sent.last().unwrap()["method"], "turn/start");
    assert!(scene.decoder.interrupt(&scene.now, &mut scene.drafts).is_sent());
    scene.answers(&json!({ "turn": { "id": "u1" } }));
    let last = scene.sent.last().unwrap();
    assert_eq!(
        (&last["method"], &last["params"]),
        (&json!("turn/interrupt"), &json!({ "threadId": "t1", "turnId": "u1" }))
    );
}

#[test]
fn a_form_of_an_mcp_server_is_answered_declined_or_left_alone() {
    let replies =
        [QuestionReply::Answers(vec!["red".into()]), QuestionReply::Dismissed, QuestionReply::Dismissed];
    let mut played = open(wire!("codex/0.166.0/appserver-elicitation"), Edit);
    played.edit = |message| {
        if let Some(sandbox) = message.pointer_mut("/result/sandbox/type") {
            *sandbox = json!("workspaceWrite");
        }
    };
    begins(&mut played, "p1");
    for (number, reply) in replies.iter().enumerate() {
        let mut recorded = played.until("");
        let question = QuestionId::from(format!("{number}/fake"));
        assert_eq!(played.questions.last(), Some(&question));
        let (sent, message) =
            played.orders(&recorded, |decoder, now, out| decoder.reply(&question, reply, now, out));
        if number == 2 {
            recorded["result"]["action"] = json!("decline");
        }
        assert_eq!((sent, &message.unwrap()["result"]), (Sent::Done, &recorded["result"]));
        let again = played.decoder.reply(&question, reply, &played.now, &mut played.drafts);
        assert!(!again.is_sent(), "once");
    }
    played.rest();
    let answers: Vec<Value> =
        played.events(&["question_answered"]).iter().map(|it| it["answers"].clone()).collect();
    assert_eq!(answers, [json!(["red"]), json!([]), json!([])]);
    assert_eq!(played.events(&["question_asked"]).len(), 3);
}

#[test]
fn a_question_gets_the_chosen_label() {
    let mut played = begun(wire!("codex/0.166.0/appserver-question"), Ask);
    let recorded = played.until("");
    assert_eq!(played.questions, [QuestionId::from("0/q1")]);
    let asked = played.events(&["question_asked"]);
    assert_eq!((&asked[0]["text"], &asked[0]["choices"]), (&json!("Which colour?"), &json!(["Red", "Blue"])));
    let (question, reply) = ("0/q1".into(), QuestionReply::Answers(vec!["Blue".into()]));
    let (_, message) =
        played.orders(&recorded, |decoder, now, out| decoder.reply(&question, &reply, now, out));
    assert_eq!(message.unwrap()["result"], recorded["result"]);
    played.rest();
    assert_eq!(played.events(&["question_answered"])[0]["answers"], json!(["Blue"]));
}

#[test]
fn a_request_with_several_questions_is_answered_when_all_have_their_reply() {
    let mut scene = Scene::of(&Conversation { answers_questions: true, ..talk("Hello.") });
    scene.opened(&json!({ "thread": { "id": "t1" } }));
    scene.answers(&json!({ "turn": { "id": "u1" } }));
    let questions = json!([{ "id": "a", "question": "Which?" }, { "id": "b", "question": "Why?" }]);
    scene.server(
        &json!({ "id": 4, "method": "item/tool/requestUserInput", "params": { "questions": questions } }),
    );
    let mut replies = |id: &str, reply: QuestionReply| {
        let sent = scene.decoder.reply(&id.into(), &reply, &scene.now, &mut scene.drafts);
        scene.listen();
        (sent.is_sent(), scene.sent.last().unwrap()["result"].clone())
    };
    let answer = |text: &str| QuestionReply::Answers(vec![text.into()]);
    assert_eq!(replies("4/b", answer("Because.")), (true, Value::Null), "the other one waits");
    assert!(!replies("4/b", answer("Again.")).0);
    assert!(!replies("4/c", answer("No such question.")).0);
    let (sent, result) = replies("4/a", QuestionReply::Dismissed);
    assert!(sent);
    assert_eq!(result, json!({ "answers": { "b": { "answers": ["Because."] } } }));
}

#[test]
fn questions_die_with_their_turn_and_those_of_sub_agents_are_answered() {
    let mut scene = Scene::of(&Conversation { answers_questions: true, ..talk("Hello.") });
    scene.opened(&json!({ "thread": { "id": "t1" } }));
    scene.answers(&json!({ "turn": { "id": "u1" } }));
    let ask = |id: u64, thread: &str| {
        let questions = json!([{ "id": "a", "question": "Which?" }]);
        json!({ "id": id, "method": "item/tool/requestUserInput", "params": { "threadId": thread, "questions": questions } })
    };
    scene.server(&ask(4, "t1"));
    scene.server(&ask(5, "sub"));
    scene.server(&json!({ "method": "turn/completed", "params": { "threadId": "t1", "turn": { "id": "u1", "status": "interrupted" } } }));
    assert_eq!(scene.sent.last().unwrap(), &json!({ "id": 5, "result": { "answers": {} } }));
    assert!(scene.sent.iter().all(|it| it["id"] != 4 || it.get("method").is_some()));
    let reply = scene.decoder.reply(&"4/a".into(), &QuestionReply::Dismissed, &scene.now, &mut scene.drafts);
    assert!(!reply.is_sent());
    let answered =
        scene.drafts.iter().filter(|draft| matches!(draft.kind, Kind::QuestionAnswered(_))).count();
    assert_eq!(answered, 2, "each once");
}

#[test]
fn options_go_with_the_next_turn_and_the_server_reports_them() {
    let mut played = open(wire!("codex/0.166.0/appserver-options"), Ask);
    let sets = |played: &mut PlayedRecording, option: &str, value: &str| {
        played.decoder.set_option(option, value, &played.now, &mut played.drafts)
    };
    let recorded = played.until("turn/start");
    assert_eq!(sets(&mut played, "model", "gpt-5.5"), Sent::Done);
    assert_eq!(sets(&mut played, "effort", "low"), Sent::Done);
    assert!(!sets(&mut played, "permission", "everything").is_sent());
    assert!(!sets(&mut played, "temperature", "1").is_sent());
    let sent = played.prompts(&recorded, &prompt("p1", "NOTE-A DO[say One.]DO"));
    assert_eq!(sent["params"], recorded["params"]);
    let recorded = played.until("turn/start");
    assert_eq!(sets(&mut played, "permission", "yolo"), Sent::Done);
    assert_eq!(sets(&mut played, "effort", "high"), Sent::Done);
    let mut sent = played.prompts(&recorded, &prompt("p2", "NOTE-B DO[run touch two.txt | say Two.]DO"));
    let model = sent["params"].as_object_mut().unwrap().remove("model");
    assert_eq!((model, &sent["params"]), (Some(json!("gpt-5.5")), &recorded["params"]), "what is set stays");
    played.rest();
    let changed: Vec<Value> =
        played.events(&["options_changed"]).iter().map(|it| it["options"].clone()).collect();
    let option = |id: &str, value: &str| json!({ "id": id, "current": value });
    assert_eq!(changed[0], json!([option("effort", "low")]));
    assert_eq!(changed[1], json!([option("effort", "high"), option("permission", "yolo")]));
    assert_eq!(played.events(&["model_changed"])[0]["model"], "gpt-6-sol");
}

#[test]
fn a_sandbox_that_may_write_keeps_the_further_directories() {
    let mut scene = Scene::of(&Conversation { add_dirs: vec!["lib".into()], ..talk("Hello.") });
    assert!(scene.decoder.set_option("permission", "edit", &scene.now, &mut scene.drafts).is_sent());
    scene.opened(&json!({ "thread": { "id": "t1" } }));
    let params = scene.sent_as("turn/start");
    assert_eq!(params["approvalPolicy"], "on-request");
    assert_eq!(
        params["sandboxPolicy"],
        json!({ "type": "workspaceWrite", "writableRoots": ["/home/u/proj/lib"] })
    );
}

#[test]
fn a_compaction_is_a_turn_without_a_prompt() {
    let mut played = begun(wire!("codex/0.166.0/appserver-compact"), Ask);
    let recorded = played.until("thread/compact/start");
    let (sent, message) = played.orders(&recorded, |decoder, now, out| decoder.compact(now, out));
    assert_eq!(message.unwrap()["params"], recorded["params"]);
    let again = played.decoder.compact(&played.now, &mut played.drafts);
    assert_eq!(again, Sent::Cannot("no thread is open, or a turn runs"));
    begins(&mut played, "p2");
    assert_eq!(played.acknowledged, acknowledged(sent));
    played.rest();
    let turns = played.events(&["turn_started"]);
    let origins: Vec<&str> = turns.iter().map(|it| it["origin"].as_str().unwrap()).collect();
    assert_eq!(origins, ["prompt", "agent", "prompt"]);
    assert_eq!(played.events(&["context_compacted"])[0]["trigger"], "manual");
    assert_eq!(played.turns().iter().map(|(messages, _)| messages.len()).collect::<Vec<_>>(), [1, 0, 1]);
}
