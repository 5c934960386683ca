//! `kill -9` of the runner, its keeper, the agent and a client: what is left, and how the session goes on.

use super::session::{LiveWorld, Session, kill, play};
use crate::journal::is_stint_start;
use crate::world::wait_until;

/// Returns the keeper of a runner.
pub(crate) fn keeper(session: &Session<'_>) -> Option<rustix::process::Pid> {
    let runner = session.runner.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{runner}/task/{runner}/children")).ok()?;
    let name = |child: &str| std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
    let keeper = children.split_whitespace().find(|child| name(child) == "bowline-keeper\n")?;
    rustix::process::Pid::from_raw(keeper.parse().ok()?)
}

#[test]
fn a_killed_runner_takes_its_agents_along_and_its_queue_is_offered() {
    let live = LiveWorld::new();
    let steps = ["child setsid 600", "child ignores-sigterm 600", "say one", "hang"];
    let session = live.plays(&steps, &["--name", "fix"]);
    session.says("one");
    let receipts = [session.send(&["say two"], &[]), session.send(&["say three"], &[])];
    assert!(live.world().agents().len() >= 3, "{:?}", live.world().agents());
    kill(session.runner);
    session.is_gone();
    // Nothing is repaired yet. The journal shows what the repair will leave.
    let seen = live.end(&["status", "fix"]).exits(0);
    let lines =
        ["state     failed\n", "turn      1, truncated\n", "the process that ran the session was lost"];
    seen.prints(&lines).prints(&["bowline start --resume fix"]);
    let on_file = session.status();
    let unsent: Vec<_> = on_file["offered"].as_array().expect("prompts").iter().map(|it| &it["id"]).collect();
    assert_eq!(unsent, receipts.iter().map(|receipt| &receipt["prompt"]).collect::<Vec<_>>(), "{on_file}");
    assert_eq!((&on_file["queue"], &on_file["has_process"]), (&serde_json::Value::Null, &false.into()));
    live.end(&["send", "fix", "x"]).exits(2).tells(&["bowline start --resume fix"]);
    let go_on = "`bowline start --resume fix` goes on and offers the 2 prompts that were not sent";
    live.end(&["wait", "fix"]).exits(1).tells(&[&format!("hint: {go_on}")]);
    live.end(&["attach", "fix"]).exits(0).tells(&[&format!("the session is not running; {go_on}")]);

    let again = live.start(None, &["--resume", "fix"]);
    // The repair does not know the times of some bytes. The answer does not depend on them.
    let waited = live.end(&["wait", "fix"]).exits(1);
    assert!(!waited.stderr.contains("missing"), "{}", waited.stderr);
    assert_eq!(again.id, session.id);
    let status = again.is("idle");
    assert_eq!(status["last_turn"], serde_json::json!({ "turn": 1, "outcome": "truncated" }), "{status}");
    assert_eq!(status["reason"], "no process runs: the next prompt starts one");
    let offered: Vec<_> =
        status["offered"].as_array().expect("prompts").iter().map(|it| it["id"].clone()).collect();
    assert_eq!(offered, receipts.map(|receipt| receipt["prompt"].clone()), "{status}");
    assert_eq!((&status["queue"], &status["has_process"]), (&serde_json::Value::Null, &false.into()));
    // A prompt of today is sent; those of yesterday wait for an order.
    again.send(&["say four"], &[]);
    again.has_played(2);
    again.done("send", &["--offered", offered[0].as_str().expect("an id")]);
    again.has_played(3);
    again.done("dequeue", &[offered[1].as_str().expect("an id")]);
    assert_eq!(again.status()["offered"], serde_json::Value::Null);
    let journal = again.stop();
    assert_eq!(journal.text(), "onefourtwo");
    assert_eq!(journal.events.iter().filter(|event| is_stint_start(event)).count(), 2);
    let ends: Vec<&str> =
        journal.of("session_ended").iter().filter_map(|event| event["kind"]["reason"].as_str()).collect();
    assert_eq!(ends, ["lost", "stopped"]);
    assert_eq!(std::fs::read_dir(live.path("home/open")).expect("the marks").count(), 0);
}

#[test]
fn a_runner_that_is_killed_before_the_agent_names_its_session_loses_no_prompt() {
    let live = LiveWorld::new();
    // The agent reads nothing, and so never answers.
    let deaf = live.world().script("deaf", "exec sleep 600");
    let binary = deaf.to_str().expect("UTF-8");
    let session = live.plays(&["say one"], &["--name", "fix", "--binary", binary]);
    let queued = session.send(&["say two"], &[]);
    kill(session.runner);
    session.is_gone();
    let again = live.start(None, &["--resume", "fix"]);
    let status = again.is("idle");
    assert_eq!(status["offered"][0]["id"], queued["prompt"], "{status}");
    again.send(&["say three"], &[]);
    again.has_played(2);
    assert_eq!(again.id, session.id);
    assert_eq!(again.stop().text(), "three");
}

#[test]
fn a_killed_runner_leaves_no_approval_open() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say done"], &[]);
    session.asks();
    kill(session.runner);
    session.is_gone();
    let again = live.plays(&["say two"], &["--resume", &session.id]);
    again.has_played(2);
    assert_eq!(again.status()["approvals"], serde_json::Value::Null);
    let journal = again.stop();
    assert_eq!(journal.count("approval_asked"), journal.count("approval_decided"), "it was decided once");
    assert!(!live.path("work/a.txt").exists());
}

#[test]
fn a_killed_agent_ends_its_turn_and_the_next_prompt_resumes() {
    let live = LiveWorld::new();
    let session = live.plays(&["child setsid 600", "say one", "hang"], &[]);
    session.says("one");
    let queued = session.send(&["say two"], &[]);
    kill(session.agents()[0]);
    let status = session.until("the end of the process", |status| status["state"] == "idle");
    assert_eq!((&status["has_process"], &status["offered"][0]["id"]), (&false.into(), &queued["prompt"]));
    let outcomes = session.outcomes();
    assert!(outcomes == ["failed"] || outcomes == ["truncated"], "{outcomes:?}");
    assert_eq!(live.world().agents(), Vec::<String>::new(), "its tree is gone");
    session.send(&["say three"], &[]);
    session.has_played(2);
    let journal = session.stop();
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("onethree", 2));
}

#[test]
fn an_agent_that_dies_before_its_first_word_can_be_resumed() {
    let live = LiveWorld::new();
    let session = live.plays(&["kill-self 9"], &["--name", "fix"]);
    session.until("the end of the turn", |status| status["last_turn"]["turn"] == 1);
    session.send(&["say two"], &[]);
    session.has_played(2);
    assert_eq!(session.outcomes()[1], "completed");
    // An agent that lost its sessions: the next step is in the hint.
    kill(*session.agents().last().expect("an agent"));
    session.until("the end of the process", |status| status["has_process"] == false);
    std::fs::remove_dir_all(live.path("practice")).expect("the sessions of the agent");
    session.send(&["say three"], &[]);
    session.until("the end of the turn", |status| status["last_turn"]["turn"] == 3);
    let ended = session.order("wait", &[]).exits(1);
    ended.tells(&["(session_not_found)", "hint: begin a new session: `bowline start -p practice \"…\"`"]);
    session.stop();
}

#[test]
fn a_killed_keeper_ends_the_session_which_can_be_resumed() {
    let live = LiveWorld::new();
    let session = live.plays(&["child setsid 600", "say one", "hang"], &[]);
    session.says("one");
    let queued = session.send(&["say two"], &[]);
    kill(keeper(&session).expect("a keeper"));
    // Without a keeper, nothing would end the agents if the runner died.
    session.is_gone();
    session.journal().ended("failed unknown killed");
    let again = live.start(None, &["--resume", &session.id]);
    assert_eq!(again.is("idle")["offered"][0]["id"], queued["prompt"]);
    again.send(&["say three"], &[]);
    again.has_played(2);
    assert_eq!(again.stop().text(), "onethree");
}

#[test]
fn a_killed_client_takes_no_order_back() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["tool run cat gate", "say one"], &[]);
    let gate = live.at_gate("gate");
    let mut attached = live.call(&["attach", &session.id]).open_input().start();
    attached.writes(&format!(":queue {}\n", play(&["say two"])));
    wait_until("the prompt", || !session.of("prompt_queued").is_empty());
    attached.kill();
    drop(gate);
    session.has_played(2);
    assert_eq!(session.stop().text(), "onetwo");
    let _ = attached.end_among_others();
}
