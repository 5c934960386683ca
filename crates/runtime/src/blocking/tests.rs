//! The calls without tokio, against scripts.

use bowline_protocol::Kind;
use bowline_protocol::kinds::Outcome;

use super::*;
use crate::run::testing::{Script, says, script};

fn task(script: Script) -> Task {
    crate::run::task::task("Do it").provider("claude").script(script)
}

#[test]
fn every_door_opens_without_tokio() {
    assert_eq!(answer(task(says("Hi"))).unwrap(), "Hi");
    assert_eq!(answer_as::<Vec<u8>>(task(says("[1, 2]"))).unwrap(), [1, 2]);
    assert!(matches!(answer_as::<u8>(task(says("x"))), Err(Error::BadAnswer { .. })));
    let fails = script(r#"{"steps": [{"fail": "500 oops"}, {"exit": 1}]}"#);
    assert!(matches!(answer(task(fails.clone())), Err(Error::Turn(_))));
    assert_eq!(run(task(fails)).unwrap().outcome, Outcome::Failed);
    assert!(matches!(start(crate::run::task::task("x")), Err(Error::NoProvider)));
}

#[test]
fn events_are_iterated_and_a_turn_is_stopped_from_another_thread() {
    let hangs = script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let mut turn = start(task(hangs)).unwrap();
    let mut text = String::new();
    for event in &mut turn {
        if let Kind::TextDelta(delta) = &event.kind {
            text.push_str(&delta.text);
            break;
        }
    }
    assert_eq!(text, "Half");
    let control = turn.control();
    std::thread::spawn(move || control.cancel()).join().unwrap();
    let record = turn.outcome().unwrap();
    assert_eq!((record.outcome, record.text.as_deref()), (Outcome::Cancelled, Some("Half")));
}

#[tokio::test]
async fn it_works_inside_a_runtime_of_somebody_else() {
    assert_eq!(answer(task(says("Hi"))).unwrap(), "Hi");
    let turn = start(task(says("Hi"))).unwrap();
    assert_eq!(turn.stop().unwrap().survivors, []);
}

#[test]
fn a_turn_that_is_let_go_ends_by_itself() {
    let world = crate::run::testing::world();
    let slow = script(r#"{"steps": [{"wait_ms": 50}, {"say": "Hi"}, {"result": {}}]}"#);
    let turn = start(world.task("Do it").provider("claude").script(slow)).unwrap();
    let dir = world.home().session_dir(turn.session()).unwrap();
    turn.detach();
    let mut reader = crate::sessions::journal::Reader::open(&dir).unwrap();
    while reader.is_live().unwrap() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut last = None;
    while let Some(event) = reader.next_event().unwrap() {
        last = Some(event.kind);
    }
    assert!(matches!(last, Some(Kind::SessionEnded(_))), "{last:?}");
}

#[test]
fn sessions_end_by_their_key() {
    let world = crate::run::testing::world();
    let registry = Registry::at(world.home());
    let hangs = script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let turn = start(world.task("Do it").provider("claude").key("a").script(hangs)).unwrap();
    assert_eq!(kill_stale(&registry, Duration::from_secs(3600)).unwrap(), []);
    assert_eq!(kill_all(&registry, "a", "").unwrap()[0].session, *turn.session());
    assert_eq!(turn.outcome().unwrap().outcome, Outcome::Cancelled);
}
