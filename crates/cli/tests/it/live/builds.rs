//! An idle runner of an older build hands its session over to the caller's; a busy one is spoken to.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::Pid;
use serde_json::{Value, json};

use super::session::{LiveWorld, Session, play};
use crate::world::wait_until;

/// Copies the program, as a build that is so much older than the one of the tests, or newer.
fn build(live: &LiveWorld, name: &str, change: impl Fn(SystemTime) -> SystemTime) -> PathBuf {
    let program = env!("CARGO_BIN_EXE_bowline");
    // The practice agent is started by this name.
    let copy = live.path(name).join("bowline");
    std::fs::create_dir(live.path(name)).expect("makes a directory");
    std::fs::copy(program, &copy).expect("copies");
    let written = std::fs::metadata(program).and_then(|file| file.modified()).expect("has a time");
    let file = std::fs::File::options().write(true).open(&copy).expect("opens");
    file.set_modified(change(written)).expect("sets the time");
    copy
}

fn older(live: &LiveWorld) -> PathBuf {
    build(live, "older", |written| written - Duration::from_secs(3600))
}

fn newer(live: &LiveWorld) -> PathBuf {
    build(live, "newer", |written| written + Duration::from_secs(3600))
}

/// Starts a session whose runner is of a build.
fn started<'a>(live: &'a LiveWorld, program: &Path, directives: &[&str], flags: &[&str]) -> Session<'a> {
    let call = live.starting(Some(&play(directives)), flags).program(program);
    live.session(&call.start().end_among_others().exits(0).json())
}

/// The runner of the session at this moment.
fn runner(session: &Session<'_>) -> Pid {
    let text = std::fs::read_to_string(session.dir().join("session.json")).expect("reads");
    let meta: Value = serde_json::from_str(&text).expect("is JSON");
    let pid = meta["runner"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    pid.and_then(Pid::from_raw).expect("has a runner")
}

fn program_of(pid: Pid) -> PathBuf {
    std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).expect("runs")
}

#[test]
fn an_idle_runner_hands_over_to_a_newer_caller() {
    let live = LiveWorld::new();
    let old = older(&live);
    let flags = ["--name", "fix", "--permission", "yolo", "--model", "practice-small", "--env", "OWN=1"];
    let session = started(&live, &old, &["say one"], &flags);
    session.has_played(1);
    assert_eq!(program_of(session.runner), old);
    // Chosen since the start: the newer runner must not go back to the command line.
    session.done("set", &["model", "practice-large"]);
    let receipt = session.send(&["tool write made.txt two", "say two"], &[]);
    assert_eq!(receipt["receipt"], "started", "{receipt}");
    assert_eq!(receipt["turn"], 2, "{receipt}");
    let status = session.has_played(2);
    let now = runner(&session);
    assert_ne!(now, session.runner);
    assert_eq!(program_of(now), PathBuf::from(env!("CARGO_BIN_EXE_bowline")));
    // The directory of the world, which is the old runner's, not the caller's; and the mode that only the old runner knew.
    assert!(live.path("work/made.txt").exists(), "yolo holds");
    assert_eq!((&status["permission"], &status["model"]), (&json!("yolo"), &json!("practice-large")));
    assert_eq!(session.text(), "onetwo");
    // The same build again: nothing to hand over.
    session.send(&["say three"], &[]);
    session.has_played(3);
    assert_eq!(runner(&session), now);
    let journal = session.stop();
    assert_eq!(
        (journal.count("session_started"), journal.count("session_ended")),
        (4, 2),
        "two by the runners, two by the agents"
    );
    let meta = std::fs::read_to_string(journal.dir.join("session.json")).expect("reads");
    assert_eq!(serde_json::from_str::<Value>(&meta).expect("is JSON")["label"], "fix");
}

#[test]
fn a_busy_runner_is_spoken_to_and_keeps_its_session() {
    let live = LiveWorld::new();
    let old = older(&live);
    live.gate("gate");
    let session = started(&live, &old, &["tool run cat gate", "say one"], &["--permission", "yolo"]);
    let open = live.at_gate("gate");
    let receipt = session.send(&["say two"], &[]);
    assert_eq!(receipt["receipt"], "queued", "{receipt}");
    drop(open);
    session.has_played(2);
    assert_eq!((runner(&session), session.text().as_str()), (session.runner, "onetwo"));
    // An open request of the agent is busy, too.
    session.send(&["tool write a.txt x", "say three"], &[]);
    session.has_played(3);
    assert_ne!(runner(&session), session.runner);
    session.stop();
}

#[test]
fn a_caller_that_is_not_newer_changes_nothing() {
    let live = LiveWorld::new();
    // Looking is not work, also from a newer caller.
    stays_with_its_runner(started(&live, &newer(&live), &["say one"], &[]));
}

/// Checks that a session which gets a second prompt stays with its runner, and stops it.
fn stays_with_its_runner(session: Session<'_>) {
    session.has_played(1);
    session.send(&["say two"], &[]);
    session.has_played(2);
    assert_eq!(runner(&session), session.runner);
    session.stop();
}

#[test]
fn a_session_with_a_limit_stays_with_the_runner_that_counts() {
    let live = LiveWorld::new();
    stays_with_its_runner(started(&live, &older(&live), &["say one"], &["--max-tokens", "1000000"]));
}

#[test]
fn a_successor_that_does_not_start_is_reported_and_the_session_can_be_resumed() {
    let live = LiveWorld::new();
    let session = started(&live, &older(&live), &["say one"], &[]);
    session.has_played(1);
    // The older runner has read it; the newer one cannot.
    let settings = live.path("work/.config/bowline/bowline.toml");
    std::fs::create_dir_all(live.path("work/.config/bowline")).expect("makes a directory");
    std::fs::write(&settings, "run = 7\n").expect("writes");
    session.order("send", &["practice: say two"]).exits(1).tells(&[
        "the new one did not start",
        "bowline start --resume",
        "runner.log",
    ]);
    let log = std::fs::read_to_string(live.path("home").join("runner.log")).expect("reads");
    assert!(log.contains("did not start as its runner: error: "), "{log}");
    std::fs::remove_file(settings).expect("removes");
    wait_until("the end of the older runner", || live.world().hosts().is_empty());
    let resumed = live.starting(Some("practice: say two"), &["--resume", &session.id]);
    let again = live.session(&resumed.start().end_among_others().exits(0).json());
    again.has_played(2);
    assert_eq!(again.text(), "onetwo");
    again.stop();
}
