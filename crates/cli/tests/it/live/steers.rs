//! Steers that the agent does not acknowledge: the error after 15 s, and after the end of its process.

use serde_json::Value;

use super::session::{LiveWorld, Session, kill, play};
use crate::world::wait_until;

/// Returns the texts of a list of the status.
fn texts<'a>(status: &'a Value, list: &str) -> Vec<&'a str> {
    let list = status[list].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|prompt| prompt["text"].as_str()).collect()
}

/// Waits until the runner has written a text to the agent.
fn is_written(session: &Session<'_>, text: &str) {
    wait_until("the steer at the agent", || {
        let written = std::fs::read(session.dir().join("stdin.raw")).unwrap_or_default();
        String::from_utf8_lossy(&written).contains(text)
    });
}

#[test]
fn a_steer_without_an_acknowledgement_is_an_error_after_15_s_and_waits() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["ignore steer", "tool run cat gate", "say one"], &["--permission", "yolo"]);
    let gate = live.at_gate("gate");
    let steer = play(&["say two"]);
    session.order("send", &["--steer", &steer]).exits(124).tells(&[
        "error: the agent did not acknowledge it within 15 s",
        "hint: the text of a prompt is kept",
    ]);
    assert_eq!(texts(&session.status(), "queue"), [steer]);
    drop(gate);
    session.has_played(2);
    assert_eq!(session.stop().text(), "onetwo");
}

#[test]
fn a_steer_that_comes_too_late_is_refused_and_begins_no_turn() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix"]);
    session.has_played(1);
    let late = live.end(&["send", "fix", "--steer", "use tabs"]).exits(1);
    late.tells(&[
        "error: no turn is running",
        "hint: without `--steer`, `bowline send fix` begins a turn with it",
    ]);
    let status = session.status();
    assert_eq!((texts(&status, "queue").len(), texts(&status, "offered").len()), (0, 0));
    assert_eq!(session.of("turn_started").len(), 1, "it is no prompt");
    session.send(&["say two"], &[]);
    session.has_played(2);
    assert_eq!(session.stop().text(), "onetwo");
}

#[test]
fn a_steer_that_died_with_the_agent_is_offered_and_not_sent_again() {
    let live = LiveWorld::new();
    let session = live.plays(&["ignore steer", "say one", "hang"], &[]);
    session.says("one");
    let steer = play(&["say two"]);
    let sending = live.call(&["send", &session.id, "--steer", &steer]).start();
    is_written(&session, "say two");
    kill(session.agents()[0]);
    let ended = sending.end_among_others().exits(1);
    ended.tells(&["error: the agent's process ended before it acknowledged it"]);
    let status = session.has_played(1);
    assert_eq!(
        (texts(&status, "offered"), status["has_process"].clone()),
        (vec![steer.as_str()], false.into())
    );
    // The next prompt starts a process, and the steer waits for an order.
    session.send(&["say three"], &[]);
    let status = session.has_played(2);
    session.done("send", &["--offered", status["offered"][0]["id"].as_str().expect("an id")]);
    session.has_played(3);
    assert_eq!(session.stop().text(), "onethreetwo");
}
