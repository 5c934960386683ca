//! Questions of the agent: open until a person replies, dismissed by an interrupt, and ended with their process.

use bowline_protocol::kinds::SessionState;
use bowline_protocol::{Kind, QuestionId, SessionOrder, WhenBusy};

use super::*;
use crate::run::RunCommand;

/// A question with two choices.
pub(super) const QUESTION: &str = r#"{"id":5,"method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"Which colour?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string","enum":["red","blue"]}},"required":["answer"]}}}"#;
/// The agent withdraws it.
pub(super) const QUESTION_TAKEN_BACK: &str = r#"{"method":"$/cancel_request","params":{"requestId":5}}"#;
const CANCELLED: &str = r#"{"id":3,"result":{"stopReason":"cancelled"}}"#;

/// A session whose agent has asked.
fn asked() -> World {
    let mut world = World::live(|plan, _| plan.attempts[0].limits.total = Some(Millis(100_000)));
    begin_process(&mut world);
    world.says(QUESTION);
    assert!(world.log().ends_with("question_asked state:waiting_for_input"), "{}", world.log());
    world
}

fn reply(answers: &[&str]) -> SessionOrder {
    SessionOrder::Reply { question: None, answers: answers.iter().map(|&it| it.to_owned()).collect() }
}

/// Returns the answers of the questions that have ended.
fn answers(world: &World) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for event in &world.events {
        if let Kind::QuestionAnswered(answered) = &event.kind {
            all.push(answered.answers.clone());
        }
    }
    all
}

#[test]
fn a_question_waits_for_a_person_and_no_clock_runs() {
    let mut world = asked();
    let snapshot = world.run.snapshot().expect("live");
    assert_eq!((snapshot.questions.len(), snapshot.turn), (1, Some(1)));
    assert_eq!(snapshot.questions[0].choices, ["red", "blue"]);
    let log = after(&mut world, |world| {
        // Ten times the limit of a turn; other texts change nothing.
        world.wait(1_000_000).says(&says("a sub-agent goes on"));
    });
    assert!(!log.contains("state:") && !log.contains("!signal"), "{log}");
    let log = after(&mut world, |world| {
        world.order(1, reply(&["blue"]));
    });
    assert_eq!(log, "question_answered state:running !write !answer(1, done)");
    assert_eq!(answers(&world), [["blue"]]);
    assert!(world.run.snapshot().expect("live").questions.is_empty());
    // The limit counts again, from where it stood.
    world.wait(99_000);
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.wait_for_action("!signal(Terminate, Tree)");
}

#[test]
fn a_wrong_answer_is_refused_and_leaves_the_question_open() {
    let mut world = asked();
    world.order(1, reply(&["green"])).order(2, reply(&["red", "blue"]));
    assert!(
        world.log().ends_with(
            "!answer(1, refused: not possible: the answer is none of the choices) \
             !answer(2, refused: not possible: the question takes one answer)"
        ),
        "{}",
        world.log()
    );
    assert_eq!(world.run.state(), SessionState::WaitingForInput);
    let unknown = SessionOrder::Reply { question: Some(QuestionId::from("9")), answers: Vec::new() };
    world.order(3, unknown).order(4, reply(&["red"])).order(5, reply(&["red"]));
    assert!(world.log().contains("!answer(3, refused: there is no open question `9`)"), "{}", world.log());
    assert!(world.log().contains("!answer(4, done)"), "{}", world.log());
    assert!(world.log().ends_with("!answer(5, refused: there is no open question)"), "{}", world.log());
    assert_eq!(answers(&world), [["red"]]);
}

#[test]
fn two_open_questions_need_an_id() {
    let mut world = asked();
    world.says(&QUESTION.replace(r#""id":5"#, r#""id":6"#));
    world.order(1, reply(&["red"]));
    assert!(world.log().ends_with("!answer(1, refused: several are open: 5, 6)"), "{}", world.log());
    let second = SessionOrder::Reply { question: Some("6".into()), answers: vec!["red".to_owned()] };
    world.order(2, second);
    assert_eq!((answers(&world).len(), world.run.state()), (1, SessionState::WaitingForInput));
    world.order(3, reply(&[]));
    assert_eq!(answers(&world), [vec!["red".to_owned()], vec![]], "without an answer it is dismissed");
    assert_eq!(world.run.state(), SessionState::Running);
}

#[test]
fn an_interrupt_dismisses_the_question() {
    let mut world = asked();
    world.order(1, SessionOrder::Interrupt);
    assert_eq!(answers(&world), [[""; 0]]);
    world.says(CANCELLED);
    assert_eq!((answers(&world).len(), world.run.state()), (1, SessionState::Idle), "once");
    world.order(2, prompt("go on", WhenBusy::Queue));
    assert!(world.log().ends_with("!answer(2, started:2)"), "{}", world.log());
}

#[test]
fn a_question_ends_with_its_process_and_with_the_session() {
    let mut world = asked();
    world.killed(9).swept();
    assert!(world.log().contains("question_answered turn_ended:failed state:idle"), "{}", world.log());
    assert_eq!((answers(&world), world.run.state()), (vec![Vec::new()], SessionState::Idle));
    world.order(1, reply(&["red"]));
    assert!(
        world.log().ends_with("!answer(1, refused: there is no open approval or question)"),
        "{}",
        world.log()
    );
    // The next process may use the id again.
    world.order(2, prompt("again", WhenBusy::Queue));
    next_process(&mut world, |_| {});
    world.says(HELLO).says(SESSION).says(QUESTION);
    assert_ne!(world.run.snapshot().expect("live").questions[0].id.as_str(), "5");
    world.command(RunCommand::Cancel).killed(9).swept();
    assert_eq!(answers(&world).len(), 2, "{}", world.log());
    assert!(world.log().ends_with("session_ended !done"), "{}", world.log());
}

#[test]
fn a_withdrawn_question_is_over() {
    let mut world = asked();
    world.says(QUESTION_TAKEN_BACK);
    assert!(world.log().ends_with("question_answered state:running"), "{}", world.log());
    // Also in one read of the pipe.
    let mut world = talking();
    world.says(&format!("{QUESTION}\n{QUESTION_TAKEN_BACK}"));
    assert_eq!((answers(&world).len(), world.run.state()), (1, SessionState::Running), "{}", world.log());
}

/// The agent takes one reply, and means its last question.
#[test]
fn a_question_under_the_id_of_an_open_one_ends_that_one() {
    let mut world = asked();
    world.says(&QUESTION.replace("Which colour?", "Which other one?"));
    let open = world.run.snapshot().expect("live").questions;
    assert_eq!((open.len(), open[0].text.as_str()), (1, "Which other one?"), "{}", world.log());
    world.order(1, reply(&["red"]));
    assert_eq!(answers(&world), [vec![], vec!["red".to_owned()]]);
    assert_eq!(world.run.state(), SessionState::Running, "{}", world.log());
}
