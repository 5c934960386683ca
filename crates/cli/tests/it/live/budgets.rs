//! The budget of a live session, which its turns and processes share.

use serde_json::json;

use super::session::{LiveWorld, kill, play};

#[test]
fn tokens_are_counted_over_turns_and_processes_until_no_prompt_is_taken() {
    let live = LiveWorld::new();
    // A turn of the practice agent reports about 15,960 tokens.
    let session = live.plays(&["say one"], &["--max-tokens", "40000", "--name", "fix"]);
    session.has_played(1);
    session.send(&["say two"], &[]);
    session.has_played(2);
    kill(session.agents()[0]);
    session.until("the end of the process", |status| status["has_process"] == false);
    live.gate("gate");
    session.send(&["tool run cat gate", "say three"], &[]);
    let gate = live.at_gate("gate");
    let waiting = session.send(&["say four"], &[]);
    drop(gate);
    let status = session.until("the offer", |status| status["offered"].is_array());
    assert_eq!(session.outcomes(), ["completed", "completed", "completed"], "the answer was complete");
    assert_eq!((&status["offered"][0]["id"], &status["queue"]), (&waiting["prompt"], &json!(null)));
    let used = "error: the budget of 40000 tokens for this request is used up: ";
    let hint = "hint: stop the session, and resume it with another limit";
    session.order("send", &[&play(&["say five"])]).exits(1).tells(&[used, hint]);
    let id = waiting["prompt"].as_str().expect("an id");
    session.order("send", &["--offered", id]).exits(1).tells(&[used]);
    assert_eq!(session.status()["offered"][0]["id"], *id, "it is still offered");
    assert_eq!((session.agents().len(), session.text().as_str()), (2, "onetwothree"));
    session.order("stop", &[]).exits(0);
    session.is_gone();
    // With another limit it goes on, and the prompt waits for an order.
    let again = live.start(None, &["--resume", "fix", "--max-tokens", "40000"]);
    again.done("send", &["--offered", id]);
    again.until("the turn", |status| status["last_turn"]["turn"] == 4);
    assert_eq!(again.stop().text(), "onetwothreefour");
}

#[test]
fn a_limit_of_cost_is_one_sum_over_the_turns() {
    let live = LiveWorld::new();
    // A turn costs about one cent.
    let session = live.plays(&["say one"], &["--max-cost", "0.015"]);
    session.has_played(1);
    session.send(&["say two"], &[]);
    session.has_played(2);
    let late = session.order("send", &[&play(&["say three"])]).exits(1);
    late.tells(&["error: the budget of $0.0150 for this request is used up: $0.02", "as the agent reports"]);
    assert_eq!(session.stop().text(), "onetwo");
}
