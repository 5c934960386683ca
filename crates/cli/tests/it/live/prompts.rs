//! Prompts on their way: turns of one process, the queue, steers, interrupts.

use serde_json::Value;

use super::session::{LiveWorld, Session, play};

/// Returns the texts of the prompts that wait.
fn queue(status: &Value) -> Vec<&str> {
    let waiting = status["queue"].as_array().map(Vec::as_slice).unwrap_or_default();
    waiting.iter().filter_map(|prompt| prompt["text"].as_str()).collect()
}

/// Returns how the prompts of a kind left the queue.
fn removals(session: &Session<'_>, reason: &str) -> usize {
    session.of("prompt_removed").iter().filter(|removed| removed["reason"] == reason).count()
}

#[test]
fn two_turns_run_in_one_process() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    assert_eq!(session.send(&["say two"], &[])["receipt"], "started");
    session.has_played(2);
    let journal = session.stop();
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("onetwo", 1));
    journal.ended("completed");
}

#[test]
fn queued_prompts_are_sent_in_order_and_can_be_taken_back() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["tool run cat gate", "say one"], &[]);
    let gate = live.at_gate("gate");
    let receipts = [
        session.send(&["say two"], &[]),
        session.send(&["say three"], &["--queue"]),
        session.send(&["say four"], &[]),
    ];
    for (receipt, ahead) in receipts.iter().zip(0..) {
        assert_eq!((&receipt["receipt"], &receipt["ahead"]), (&"queued".into(), &ahead.into()), "{receipt}");
    }
    assert_eq!(queue(&session.status()).len(), 3);
    // Without an id, the last one in the queue. The output shows the prompt, because nothing else names it.
    let (first, last) = (&receipts[0]["prompt"], &receipts[2]["prompt"]);
    let taken = format!("taken back: {}: practice: say four\n", last.as_str().expect("an id"));
    assert_eq!(session.order("dequeue", &[]).exits(0).stdout, taken);
    assert_eq!(
        session.done("dequeue", &[first.as_str().expect("an id")])["prompt"]["text"],
        "practice: say two"
    );
    assert_eq!(queue(&session.status()), ["practice: say three"]);
    session
        .order("dequeue", &["p999"])
        .exits(2)
        .tells(&["there is no queued prompt `p999`", "bowline status"]);
    drop(gate);
    session.has_played(2);
    session.order("dequeue", &[]).exits(2).tells(&["error: no prompt is queued\n"]);
    assert_eq!((removals(&session, "dequeued"), removals(&session, "sent")), (2, 1));
    assert_eq!(session.stop().text(), "onethree");
}

#[test]
fn a_prompt_that_was_not_sent_is_dropped_only_by_its_id() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one", "hang"], &["--name", "fix"]);
    session.says("one");
    let queued = session.send(&["say two"], &[]);
    let id = queued["prompt"].as_str().expect("an id");
    session.done("interrupt", &[]);
    session.until("the offer", |status| status["offered"][0]["id"] == id);
    let hint = format!("hint: `bowline dequeue fix {id}` drops an unsent one");
    live.end(&["dequeue", "fix"]).exits(2).tells(&["error: no prompt is queued\n", &hint]);
    assert_eq!(session.status()["offered"][0]["id"], id);
    session.done("dequeue", &[id]);
    assert_eq!(session.status()["offered"], serde_json::Value::Null);
    session.stop();
}

#[test]
fn a_steer_joins_the_running_turn() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["tool run cat gate", "say one"], &[]);
    let gate = live.at_gate("gate");
    let receipt = session.done("send", &["--steer", "skip the slow tests"]);
    assert_eq!((&receipt["receipt"], &receipt["turn"]), (&"steered".into(), &1.into()));
    drop(gate);
    let status = session.has_played(1);
    assert_eq!(queue(&status), Vec::<&str>::new());
    let journal = session.stop();
    assert!(journal.text().contains("Noted: skip the slow tests"), "{}", journal.text());
    assert_eq!(journal.count("turn_started"), 1);
}

#[test]
fn a_steer_that_the_agent_cannot_take_is_refused_and_kept_by_the_caller() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["tool run cat gate", "say one"], &["--format", "stream-json"]);
    let gate = live.at_gate("gate");
    let refused = session.order("send", &["--steer", "practice: say two"]).exits(1);
    refused.tells(&["error: the agent cannot be steered", "hint: leave out `--steer`"]);
    assert_eq!(queue(&session.status()), Vec::<&str>::new());
    assert_eq!(session.send(&["say two"], &[])["receipt"], "queued");
    drop(gate);
    session.has_played(2);
    let journal = session.stop();
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("onetwo", 2));
}

#[test]
fn a_prompt_for_now_interrupts_the_turn_and_comes_before_the_queue() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one", "hang"], &[]);
    session.says("one");
    session.send(&["say three"], &[]);
    assert_eq!(session.send(&["say two"], &["--now"])["receipt"], "queued");
    session.has_played(3);
    assert_eq!(session.outcomes(), ["cancelled", "completed", "completed"]);
    let journal = session.stop();
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("onetwothree", 1));
}

#[test]
fn a_steer_that_an_interrupt_cut_off_is_named_and_the_interrupt_is_no_failure() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["tool run cat gate", "say one"], &["--name", "fix"]);
    let gate = live.at_gate("gate");
    let steer = session.done("send", &["--steer", "skip the slow tests"]);
    let id = steer["prompt"].as_str().expect("an id");
    let watching = live.call(&["attach", "fix", "--watch", "--from", "1"]).start();
    session.send(&["say two"], &["--now"]);
    watching.tells(&format!("warning: the queued prompt {id} was not sent; send it with `--offered {id}`"));
    session.has_played(2);
    watching.prints("two");
    drop(gate);
    session.stop();
    let shown = watching.end_among_others().exits(0).stderr;
    assert!(!shown.contains("continues after a failure"), "{shown}");
}

#[test]
fn an_interrupt_ends_the_turn_and_the_next_one_runs_in_the_same_process() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["say one", "hang"], &[]);
    session.says("one");
    session.done("interrupt", &[]);
    session.has_played(1);
    session.send(&["tool run cat gate", "say never"], &[]);
    let _gate = live.at_gate("gate");
    session.done("interrupt", &[]);
    session.has_played(2);
    let idle = session.order("interrupt", &[]).exits(1);
    idle.tells(&["error: no turn is running", &format!("hint: `bowline status {}`", session.id)]);
    session.send(&["say three"], &[]);
    session.has_played(3);
    assert_eq!(session.outcomes(), ["cancelled", "cancelled", "completed"]);
    let journal = session.stop();
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("onethree", 1));
}

#[test]
fn queued_prompts_are_returned_by_an_interrupt_and_sent_only_on_request() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one", "hang"], &[]);
    session.says("one");
    let receipt = session.send(&["say two"], &[]);
    let id = receipt["prompt"].as_str().expect("an id");
    session.done("interrupt", &[]);
    let status = session.has_played(1);
    assert_eq!(status["offered"][0]["id"], id, "{status}");
    let shown = session.order("status", &[]).exits(0).stdout;
    assert!(shown.contains(&format!("--offered {id}")), "{shown}");
    session.done("send", &["--offered", id]);
    session.has_played(2);
    session
        .order("send", &["--offered", id])
        .exits(2)
        .tells(&[&format!("there is no offered prompt `{id}`")]);
    assert_eq!(session.stop().text(), "onetwo");
}

#[test]
fn an_agent_that_ignores_the_interrupt_is_stopped_and_resumed() {
    let live = LiveWorld::new();
    let session = live.plays(&["ignore cancel", "say one", "hang"], &[]);
    session.says("one");
    session.done("interrupt", &[]);
    // 10 s later, the stop ladder.
    session.until("the end of the process", |status| status["has_process"] == false);
    assert_eq!(session.outcomes(), ["cancelled"]);
    session.send(&["say two"], &[]);
    session.has_played(2);
    let journal = session.stop();
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("onetwo", 2));
}

#[test]
fn a_failed_turn_leaves_a_session_that_takes_prompts() {
    let live = LiveWorld::new();
    let session = live.plays(&["fail 529 overloaded"], &[]);
    session.until("the end of the turn", |status| status["last_turn"]["outcome"] == "failed");
    session.send(&["say two"], &[]);
    session.has_played(2);
    assert_eq!(session.stop().text(), "two");
}

#[test]
fn one_shot_formats_are_sessions_with_a_process_for_each_prompt() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--format", "stream-json"]);
    session.has_played(1);
    session.send(&["say two"], &[]);
    session.has_played(2);
    let journal = session.stop();
    let natives: Vec<&str> = journal
        .of("session_started")
        .into_iter()
        .filter_map(|it| it["kind"]["native_session"].as_str())
        .collect();
    assert!(natives.windows(2).all(|pair| pair[0] == pair[1]), "{natives:?}");
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("onetwo", 2));
}

#[test]
fn a_prompt_is_read_from_standard_input() {
    let live = LiveWorld::new();
    let session = live.start(None, &["--name", "fix"]);
    let sent = live.call(&["send", "fix", "-"]).input(play(&["say from a pipe"])).start().end_among_others();
    assert_eq!(sent.exits(0).stdout, "started turn 1\n");
    session.has_played(1);
    live.call(&["send", "fix", " "]).start().end_among_others().exits(2);
    assert_eq!(session.stop().text(), "from a pipe");
}

#[test]
fn an_image_goes_with_a_prompt() {
    let live = LiveWorld::new();
    let session = super::decide::asking(&live, "Go.");
    session.decides("deny", &[]);
    session.is("idle");
    std::fs::write(live.path("work/error.png"), "PNG").expect("written");
    session.order("send", &["--image", "none.png", "Look."]).exits(2).tells(&["none.png` is not a file"]);
    session.done("send", &["--image", "error.png", "Look."]);
    session.asks();
    let prompts = std::fs::read_to_string(live.path("work/prompts")).expect("the agent got prompts");
    let second = prompts.lines().nth(1).expect("the second one");
    // The image in base64.
    assert!(second.contains("Look.") && second.contains("UE5H"), "{second}");
    session.stop();
}
