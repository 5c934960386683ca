//! A script of a process that takes many prompts: approvals, steers, interrupts, and what the host reads of them.

use bowline_protocol::kinds::{Outcome, ToolStatus};
use bowline_protocol::{Code, Event, Kind, OrderRefused, Receipt, SessionOrder};

use crate::run::testing::{Script, World, script, world};
use crate::sessions::journal::Reader;
use crate::{EventWatch, LiveSession};

/// A process that takes two prompts, asks in the first one and waits for a steer in the second one.
const TALK: &str = r#"{"session": "n-1", "model": "big", "prompts": [
    [
        {"tool": {"name": "Read", "input": {"path": "a.rs"}, "output": "fn main() {}"}},
        {"ask": {"name": "Bash", "input": {"command": "rm a.rs"}, "output": "removed",
            "allowed": [{"say": "It is gone."}], "denied": [{"say": "It stays."}]}},
        {"result": {"usage": {"input": 5, "output": 3}, "cost_usd": 0.25}}
    ],
    [
        {"think": "hm"}, {"say": ["Work", "ing."]}, {"steered": true}, {"say": "Shorter."},
        {"result": {"usage": {"input": 2, "output": 1}, "cost_usd": 0.5}}
    ]
]}"#;

async fn open(world: &World, script: Script) -> LiveSession {
    world.provider("claude", script);
    crate::session("claude").with(|task| world.prepare(task)).open().await.unwrap()
}

/// Reads on until an event of the wanted kind, and returns it.
async fn until(watch: &mut EventWatch, is: impl Fn(&Kind) -> bool) -> Event {
    loop {
        let event = watch.next().await.unwrap().expect("the event comes");
        if is(&event.kind) {
            return event;
        }
    }
}

/// Runs the first prompt of [`TALK`], decides its approval, and returns the text of the turn and the status of the tool.
async fn asked(decide: impl AsyncFnOnce(crate::Approval)) -> (String, ToolStatus, Vec<Event>) {
    let world = world();
    let session = open(&world, script(TALK)).await;
    let mut watch = session.watch_from(1).unwrap();
    session.send("Tidy up").await.unwrap();
    let event = until(&mut watch, |kind| matches!(kind, Kind::ApprovalAsked(_))).await;
    let approval = session.approval(&event).unwrap();
    assert_eq!((approval.summary(), approval.command().as_deref()), ("rm a.rs", Some("rm a.rs")));
    decide(approval).await;
    session.turn_over().await.unwrap();
    let record = session.stop().await.unwrap();
    let mut rest = Vec::new();
    while let Some(event) = watch.next().await.unwrap() {
        rest.push(event);
    }
    let ended = rest
        .iter()
        .find_map(|it| if let Kind::ToolFinished(ended) = &it.kind { Some(ended.status) } else { None });
    (record.text.unwrap(), ended.unwrap(), rest)
}

#[tokio::test]
async fn the_steps_follow_the_decision() {
    let (text, status, _) = asked(async |approval| approval.allow().await.unwrap()).await;
    assert_eq!((text.as_str(), status), ("It is gone.", ToolStatus::Completed));
    let (text, status, _) = asked(async |approval| approval.deny("keep it").await.unwrap()).await;
    assert_eq!((text.as_str(), status), ("It stays.", ToolStatus::Denied));
    let (text, _, events) = asked(async |approval| drop(approval)).await;
    assert_eq!(text, "It stays.", "dropped is denied");
    let decided = events.iter().filter(|event| matches!(event.kind, Kind::ApprovalDecided(_))).count();
    assert_eq!(decided, 1);
}

#[tokio::test]
async fn one_process_takes_many_prompts_and_a_steer() {
    let world = world();
    let session = open(&world, script(TALK)).await;
    let mut watch = session.watch_from(1).unwrap();
    session.send("Tidy up").await.unwrap();
    let event = until(&mut watch, |kind| matches!(kind, Kind::ApprovalAsked(_))).await;
    session.approval(&event).unwrap().allow_for_session().await.unwrap();
    session.turn_over().await.unwrap();
    session.send("And the rest").await.unwrap();
    until(&mut watch, |kind| matches!(kind, Kind::TextDelta(_))).await;
    until(&mut watch, |kind| matches!(kind, Kind::TextDelta(delta) if delta.text.contains("Work"))).await;
    let steered = session.steer("be brief").await.unwrap();
    assert!(matches!(steered, Receipt::Steered { turn: 2, .. }), "{steered:?}");
    assert_eq!(session.turn_over().await.map(|it| (it.turn, it.outcome)), Ok((2, Outcome::Completed)));
    // The last list stands for all further prompts.
    session.send("More").await.unwrap();
    session.steer("now").await.unwrap();
    assert_eq!(session.turn_over().await.map(|it| it.turn), Ok(3));
    let record = session.stop().await.unwrap();
    assert_eq!(record.cost_usd, Some(1.25), "the costs of the turns");
    assert_eq!(record.model.as_deref(), Some("big"));
    let mut reader = Reader::open(&record.journal.unwrap()).unwrap();
    let (mut spawned, mut read) = (0, Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        if let Kind::UserMessage(message) = event.kind {
            read.push(message.text);
        } else if matches!(event.kind, Kind::ProcessSpawned(_)) {
            spawned += 1;
        }
    }
    assert_eq!(spawned, 1, "one process for all prompts");
    assert_eq!(read, ["Tidy up", "And the rest", "be brief", "More", "now"]);
}

/// Answers a question, and returns the text of the turn.
async fn replied(answers: &[&str]) -> String {
    let world = world();
    let talk = r#"{"prompts": [[{"question": {"text": "Which?", "choices": ["red", "blue"],
        "answered": [{"say": "Painted."}], "dismissed": [{"say": "Left as it is."}]}}, {"result": {}}]]}"#;
    let session = open(&world, script(talk)).await;
    let mut watch = session.watch_from(1).unwrap();
    session.send("Paint it").await.unwrap();
    let event = until(&mut watch, |kind| matches!(kind, Kind::QuestionAsked(_))).await;
    let Kind::QuestionAsked(asked) = event.kind else { unreachable!("looked for") };
    assert_eq!((asked.text.as_str(), asked.choices), ("Which?", vec!["red".to_owned(), "blue".to_owned()]));
    let reply = |answers: &[&str]| SessionOrder::Reply {
        question: Some(asked.id.clone()),
        answers: answers.iter().map(|&it| it.to_owned()).collect(),
    };
    let wrong = session.control().order(reply(&["green"])).await;
    assert!(matches!(wrong, Err(OrderRefused::Unsupported { .. })), "{wrong:?}");
    assert_eq!(session.control().order(reply(answers)).await, Ok(Receipt::Done));
    session.turn_over().await.unwrap();
    session.stop().await.unwrap().text.unwrap()
}

#[tokio::test]
async fn the_steps_follow_the_reply_to_a_question() {
    assert_eq!(replied(&["blue"]).await, "Painted.");
    assert_eq!(replied(&[]).await, "Left as it is.");
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_keeps_the_process() {
    let world = world();
    let talk = r#"{"prompts": [[{"say": "half"}, {"hang": true}], [{"say": "whole"}, {"result": {}}]]}"#;
    let session = open(&world, script(talk)).await;
    let mut watch = session.watch_from(1).unwrap();
    session.send("one").await.unwrap();
    until(&mut watch, |kind| matches!(kind, Kind::TextDelta(_))).await;
    session.interrupt().await.unwrap();
    assert_eq!(session.turn_over().await.map(|it| it.outcome), Ok(Outcome::Cancelled));
    session.send("two").await.unwrap();
    assert_eq!(session.turn_over().await.map(|it| it.outcome), Ok(Outcome::Completed));
    session
        .control()
        .order(SessionOrder::SetOption { option: "permission".into(), value: "edit".into() })
        .await
        .unwrap();
    session.stop().await.unwrap();
}

#[tokio::test]
async fn a_turn_that_fails_and_a_process_that_ends_are_told_apart() {
    let world = world();
    let talk = r#"{"session": "n-1", "prompts": [[{"fail": "529 overloaded_error"}], [{"say": "bye"}, {"exit": 3}]]}"#;
    let session = open(&world, script(talk)).await;
    session.send("one").await.unwrap();
    assert_eq!(session.turn_over().await.map(|it| it.outcome), Ok(Outcome::Failed));
    session.send("two").await.unwrap();
    assert_eq!(session.turn_over().await.map(|it| it.outcome), Ok(Outcome::Failed));
    // The next process plays the script from its beginning.
    session.send("three").await.unwrap();
    session.turn_over().await.unwrap();
    let record = session.stop().await.unwrap();
    assert_eq!(record.journal.map(|dir| dir.join("events.jsonl").exists()), Some(true));
}

#[tokio::test]
async fn a_session_of_another_name_is_no_resume() {
    let world = world();
    world.provider("claude", script(r#"{"session": "n-2", "prompts": [[{"say": "new"}, {"result": {}}]]}"#));
    let record = world.task("Go on").provider("claude").ask_a_person().resume("n-1").run().await.unwrap();
    assert_eq!(record.failure.map(|failure| failure.code), Some(Code::SessionNotFound));
    world.provider("claude", script(r#"{"prompts": [[{"say": "on"}, {"result": {}}]]}"#));
    let record = world.task("Go on").provider("claude").ask_a_person().resume("n-1").run().await.unwrap();
    assert_eq!(
        (record.text.as_deref(), record.native_session.as_ref().map(|it| it.as_str())),
        (Some("on"), Some("n-1"))
    );
}

#[test]
fn a_wrong_script_names_the_place() {
    let check = |text: &str, message: &str| {
        assert_eq!(Script::parse(text).unwrap_err().to_string(), message);
    };
    check(
        r#"{"prompts": [[{"say": "a"}]]}"#,
        "prompt 1: expected result, fail, hang, exit or signal as its last step, found `[{\"say\":\"a\"}]`",
    );
    check(
        r#"{"prompts": [], "session": "n"}"#,
        "prompts: expected a list with a list of steps for each prompt, found `[]`",
    );
    check(
        r#"{"prompts": [[{"result": {}}]], "dialect": "text"}"#,
        "the script: expected `prompts` without `steps`, `retry` and `dialect`, found `dialect`",
    );
    check(
        r#"{"prompts": [[{"ask": {"input": {}}}, {"result": {}}]]}"#,
        "`ask` in step 1 of prompt 1: expected the tool's `name`, found `{\"input\":{}}`",
    );
    check(
        r#"{"prompts": [[{"ask": {"name": "Bash", "denied": [{"sya": "a"}]}}, {"result": {}}]]}"#,
        "step 1 of `denied` in step 1 of prompt 1: expected a step: an object with one of say, think, tool, ask, question, steered, \
         result, fail, stdout, stdout_text, stderr, wait_ms, hang, exit, signal, found `{\"sya\":\"a\"}`",
    );
    check(
        r#"{"prompts": [[{"question": {"text": "Which?", "choices": "red"}}, {"result": {}}]]}"#,
        "`choices` in `question` in step 1 of prompt 1: expected a list of texts, found `\"red\"`",
    );
    check(
        r#"{"steps": [{"steered": true}]}"#,
        "step 1 of steps: expected a step: an object with one of say, think, tool, result, fail, stdout, stdout_text, stderr, wait_ms, hang, exit, signal, found `{\"steered\":true}`",
    );
    check(
        r#"{"prompts": [[{"result": {"cost_usd": 1}}]]}"#,
        "`result` in step 1 of prompt 1: expected `usage` beside `cost_usd`, found `{\"cost_usd\":1}`",
    );
    check(
        r#"{"prompts": [[{"result": {"usage": {}, "cost_usd": "much"}}]]}"#,
        "`cost_usd` in `result` in step 1 of prompt 1: expected a number of dollars, found `\"much\"`",
    );
}
