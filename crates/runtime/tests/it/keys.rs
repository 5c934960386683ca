//! Sessions of another process are found and ended by their key.

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use bowline::kinds::Outcome;
use bowline::registry::{Registry, StopResult};
use bowline::{Kind, journal};
use libtest_mimic::Trial;

use crate::support::{Stage, is_alive, trial};

/// Set in a process that is to run an agent in the place of the tests.
const ROLE: &str = "BOWLINE_IT_RUNNER";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_session_of_another_process_ends_by_its_key", by_key),
        trial("a_process_with_other_work_is_not_killed", not_killed),
        trial("a_process_for_one_session_is_killed_if_need_be", killed),
        trial("a_session_that_its_process_forgot_is_ended_by_others", forgotten),
        trial("a_session_whose_process_was_killed_is_not_active", died),
    ]
}

/// Runs an agent if this process was started for that: `home agent key sole|shared`.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    #[expect(clippy::disallowed_methods, reason = "a test of two processes")]
    let words = std::env::var(ROLE).ok()?;
    let words: Vec<&str> = words.split('\n').collect();
    let [home, agent, key, sort] = words[..] else { return Some(ExitCode::from(64)) };
    let mut task = bowline::task("x").provider("claude").binary(agent).cwd(home).key(key).label("main");
    task = task.home(journal::Home::at(home));
    if sort == "sole" {
        task = task.sole_process();
    }
    let record = bowline::blocking::run(task);
    Some(match record {
        Ok(record) if record.outcome == Outcome::Cancelled => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    })
}

const WAITS: &str = "echo $$ >$HERE/pid; init; say m1 Half; exec sleep 600";

fn host(stage: &Stage, key: &str, sort: &str) -> Child {
    let words = [&stage.world.path().display().to_string(), &stage.agent().display().to_string(), key, sort];
    let exe = std::env::current_exe().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test of two processes")]
    let mut command = Command::new(exe);
    command.env(ROLE, words.join("\n")).stdin(Stdio::null()).spawn().unwrap()
}

/// Waits until the other process has an agent that speaks.
fn started(stage: &Stage, key: &str) -> u32 {
    let registry = Registry::at(stage.world.home());
    let pid = stage.pid("pid");
    assert!(registry.has_active(key).unwrap());
    pid
}

fn events_say(dir: &Path, wanted: impl Fn(&Kind) -> bool) -> bool {
    let mut reader = journal::Reader::open(dir).unwrap();
    let mut found = false;
    while let Some(event) = reader.next_event().unwrap() {
        found |= wanted(&event.kind);
    }
    found
}

async fn by_key() {
    let stage = Stage::new(WAITS);
    let registry = Registry::at(stage.world.home());
    let mut host = host(&stage, "chat/42", "shared");
    let pid = started(&stage, "chat/42");
    assert!(!registry.has_active("chat/43").unwrap());
    assert_eq!(registry.kill_all("chat/43", "").await.unwrap(), []);
    assert!(is_alive(pid));

    let killed = registry.kill_all("chat/42", "enough").await.unwrap();
    assert_eq!(
        (killed.len(), killed[0].label.as_deref(), killed[0].how),
        (1, Some("main"), StopResult::Politely)
    );
    assert!(!is_alive(pid));
    assert!(!registry.has_active("chat/42").unwrap());
    assert!(registry.was_aborted("chat/42").unwrap());
    // It ended by itself, as a cancelled turn, without a signal.
    assert!(host.wait().unwrap().success());
    let dir = stage.world.home().session_dir(&killed[0].session).unwrap();
    assert!(events_say(
        &dir,
        |kind| matches!(kind, Kind::TurnEnded(ended) if ended.outcome == Outcome::Cancelled)
    ));
    registry.clear_abort("chat/42").unwrap();
    assert!(!registry.was_aborted("chat/42").unwrap());
}

fn signal(host: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(host);
    rustix::process::kill_process(pid, signal).unwrap();
}

async fn not_killed() {
    let stage = Stage::new(WAITS);
    let registry = Registry::at(stage.world.home());
    let mut host = host(&stage, "a", "shared");
    started(&stage, "a");
    signal(&host, rustix::process::Signal::STOP);
    let killed = registry.kill_all("a", "").await.unwrap();
    assert_eq!(killed[0].how, StopResult::Survived);
    assert!(host.try_wait().unwrap().is_none(), "it may have other work");
    // When it goes on, it obeys.
    signal(&host, rustix::process::Signal::CONT);
    assert!(host.wait().unwrap().success());
    assert!(!registry.has_active("a").unwrap());
}

async fn killed() {
    let stage = Stage::new(WAITS);
    let registry = Registry::at(stage.world.home());
    let mut host = host(&stage, "a", "sole");
    let pid = started(&stage, "a");
    signal(&host, rustix::process::Signal::STOP);
    let killed = registry.kill_all("a", "").await.unwrap();
    assert_eq!(killed[0].how, StopResult::Killed);
    assert!(!host.wait().unwrap().success());
    // Its keeper ends what it had started.
    crate::support::wait_for("the end of the agent", || !is_alive(pid));
}

async fn forgotten() {
    let stage = Stage::new(WAITS);
    let registry = Registry::at(stage.world.home());
    let mut host = host(&stage, "a", "sole");
    let pid = started(&stage, "a");
    signal(&host, rustix::process::Signal::STOP);
    assert_eq!(registry.kill_overdue().await.unwrap(), [], "it has time");
    let dir = stage.world.home().session_dir(&registry.active().unwrap()[0].session).unwrap();
    // It began with the machine, and a second was enough: its own runner should have ended it minutes ago.
    let long_ago = |meta: &mut journal::SessionMeta| {
        let began = meta.registered_up.as_mut().expect("the machine tells how long it is up");
        began.up_ms = bowline_protocol::Millis(0);
        meta.limit_ms = Some(bowline_protocol::Millis(1000));
    };
    journal::update_meta(&dir, long_ago).unwrap();
    let killed = registry.kill_overdue().await.unwrap();
    assert_eq!((killed.len(), killed[0].how), (1, StopResult::Killed));
    assert!(!host.wait().unwrap().success());
    crate::support::wait_for("the end of the agent", || !is_alive(pid));
}

async fn died() {
    let stage = Stage::new(WAITS);
    let registry = Registry::at(stage.world.home());
    let mut host = host(&stage, "a", "shared");
    let pid = started(&stage, "a");
    host.kill().unwrap();
    host.wait().unwrap();
    crate::support::wait_for("the end of the agent", || !is_alive(pid));
    assert!(!registry.has_active("a").unwrap());
    assert_eq!(registry.active().unwrap(), []);
}
