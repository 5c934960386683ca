//! `bowline wait` and `bowline stop`: when they return, what they print, and their exit codes.

use super::session::{LiveWorld, kill};

#[test]
fn wait_prints_the_answer_and_exits_like_run() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["tool run cat gate", "say one"], &[]);
    let gate = live.at_gate("gate");
    session.order("wait", &["--timeout", "100ms"]).exits(124).tells(&["is still busy"]);
    let waiting = live.call(&["wait", &session.id]).start();
    drop(gate);
    assert_eq!(waiting.end_among_others().exits(0).stdout, "one\n");
    let json = session.order("wait", &["-o", "json"]).exits(0).json();
    assert_eq!((&json["text"], &json["outcome"]), (&"one".into(), &"completed".into()), "{json}");
    // At rest already.
    session.order("wait", &[]).exits(0);
    session.send(&["fail 529 overloaded"], &[]);
    session.order("wait", &[]).exits(1);
    session.send(&["say two", "hang"], &[]);
    session.says("two");
    session.done("interrupt", &[]);
    session.order("wait", &[]).exits(130);
    session.stop();
}

#[test]
fn wait_follows_the_queue_to_its_end() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["tool run cat gate", "say one"], &[]);
    let gate = live.at_gate("gate");
    session.send(&["say two"], &[]);
    session.send(&["say three"], &[]);
    let waiting = live.call(&["wait", &session.id]).start();
    drop(gate);
    assert_eq!(waiting.end_among_others().exits(0).stdout, "three\n");
    assert_eq!(session.stop().text(), "onetwothree");
}

#[test]
fn wait_for_the_end_returns_when_the_session_is_stopped() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix"]);
    session.has_played(1);
    let waiting = live.call(&["wait", "fix", "--end"]).start();
    session.order("wait", &["--end", "--timeout", "100ms"]).exits(124);
    live.end(&["stop", "fix"]).exits(0);
    waiting.end_among_others().exits(0);
    session.is_gone();
    session.journal().ended("completed");
    live.end(&["wait", "fix"]).exits(0);
    live.end(&["stop", "fix"]).exits(2);
}

#[test]
fn stop_ends_a_turn_that_runs() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one", "hang"], &[]);
    session.says("one");
    let receipt = session.send(&["say two"], &[]);
    let journal = session.stop();
    journal.ended("cancelled");
    let removed = &journal.of("prompt_removed")[0]["kind"];
    assert_eq!((&removed["id"], &removed["reason"]), (&receipt["prompt"], &"returned".into()));
}

#[test]
fn a_turn_whose_runner_was_killed_is_truncated() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one", "hang"], &[]);
    session.says("one");
    let waiting = live.call(&["wait", &session.id, "-o", "json"]).start();
    kill(session.runner);
    let json =
        waiting.end_among_others().exits(1).tells(&["the process that ran the session was lost"]).json();
    assert_eq!((&json["text"], &json["outcome"]), (&"one".into(), &"truncated".into()), "{json}");
    assert_eq!(json["exit_code"], 1, "{json}");
    // Also later, and for people.
    session.is_gone();
    let ended = session.order("wait", &[]).exits(1);
    assert_eq!(ended.stdout, "one\n");
    ended.tells(&["the process that ran the session was lost"]);
    // The next runner writes the same end.
    let again = live.start(None, &["--resume", &session.id]);
    again.is("idle");
    again.order("wait", &[]).exits(1);
    again.stop();
}

#[test]
fn wait_tells_that_a_person_is_waited_for() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say done"], &["--name", "fix"]);
    session.asks();
    let waiting = live.call(&["wait", "fix"]).start();
    waiting.tells("the session waits for your decision");
    waiting.tells("hint: `bowline status fix` shows what for");
    session.decides("approve", &[]);
    let ended = waiting.end_among_others().exits(0);
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.matches("waits for your decision").count()),
        ("done\n", 1)
    );
    session.stop();
}
