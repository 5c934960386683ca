//! Processes that the agent leaves behind, counted by a marker in the environment.

use crate::support::{Agent, PATIENCE, Started, marked, now};

/// Kills the processes of a test, also when it fails.
struct Left(String);

impl Left {
    fn new(name: &str) -> Self {
        Self(format!("PRACTICE_MARK={name}-{}", std::process::id()))
    }

    fn value(&self) -> &str {
        self.0.split_once('=').expect("a variable").1
    }

    fn pids(&self) -> Vec<u32> {
        marked(&self.0)
    }

    fn end(&self) {
        for pid in self.pids() {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
            // It may have exited by itself in the meantime.
            _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs an agent to its exit, even if another process holds its pipes.
fn run(left: &Left, directives: &str) -> Started {
    let mut agent = Agent::plays(directives).env("PRACTICE_MARK", left.value()).start();
    assert!(agent.wait().success(), "{directives}");
    agent
}

fn field(pid: u32, index: usize) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
    rest.split(' ').nth(index).expect("a field").parse().expect("a number")
}

#[test]
fn a_plain_child_survives_in_the_group_of_the_agent() {
    let left = Left::new("plain");
    let agent = run(&left, "say Hello\nchild sleep 600");
    let pids = left.pids();
    assert_eq!(pids.len(), 1);
    // The third and fourth fields of `stat` are the group and the session.
    assert_eq!(field(pids[0], 2), field(std::process::id(), 2));
    assert_eq!(agent.finish().text(), "Hello", "it does not hold standard output");
}

#[test]
fn a_child_with_a_session_of_its_own_leads_it() {
    let left = Left::new("setsid");
    run(&left, "child setsid 600").finish();
    let pids = left.pids();
    assert_eq!(pids.len(), 1);
    assert_eq!(field(pids[0], 3), pids[0]);
}

#[test]
fn a_daemon_leads_nothing_and_has_lost_its_parents() {
    let left = Left::new("daemon");
    let agent = run(&left, "child daemon 600");
    let gone = agent.pid();
    agent.finish();
    let pids = left.pids();
    assert_eq!(pids.len(), 1);
    assert_ne!(field(pids[0], 3), pids[0]);
    assert_ne!(field(pids[0], 3), field(std::process::id(), 3));
    assert_ne!(field(pids[0], 1), gone);
}

#[test]
fn a_child_can_hold_standard_output() {
    for directives in ["say Hello\nchild holds-stdout 600", "say Hello\nchild setsid holds-stdout 600"] {
        let left = Left::new("holds");
        let mut agent = run(&left, directives);
        agent.wait_for("\"type\":\"result\"");
        assert_eq!(left.pids().len(), 1);
        assert!(!agent.is_alive());
        assert!(agent.is_open(), "the pipe is held");
        left.end();
        assert_eq!(agent.finish().text(), "Hello");
    }
}

#[test]
fn a_child_can_be_deaf_to_sigterm() {
    let left = Left::new("deaf");
    run(&left, "child ignores-sigterm 600\nchild plain 600").finish();
    let pids = left.pids();
    assert_eq!(pids.len(), 2);
    for pid in &pids {
        let pid = i32::try_from(*pid).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
    }
    let deadline = now() + PATIENCE;
    while left.pids().len() == 2 && now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The plain one is gone; the other would be gone by now, if it did not ignore signals.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(left.pids().len(), 1);
}

#[test]
fn a_launcher_exits_before_the_agent_does() {
    let left = Left::new("launcher");
    let mut agent = Agent::plays("launcher-exits\nsay Hello\nsleep 1s\nsay Good bye")
        .env("PRACTICE_MARK", left.value())
        .start();
    assert!(agent.wait().success());
    assert_eq!(left.pids().len(), 1, "the launched one is still at work");
    let ran = agent.finish();
    assert_eq!((ran.outcome().as_str(), ran.text().as_str()), ("completed", "Hello\nGood bye"));
}
