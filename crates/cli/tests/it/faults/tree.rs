//! Descendants that outlive the agent, hold its pipes, or do not want to end.

use bowline_testkit::skip;
use rustix::process::Signal;

use crate::clock::{takes_at_most, wait_until};
use crate::journal::{is_reaped, is_stopping, kind};
use crate::world::{NOBODY, World, is_root};

/// Runs an agent that leaves a child behind and ends well. Every run checks that no process is left.
fn leaves(child: &str) {
    let world = World::new();
    let ended = world.practice(&[&format!("child {child} 600"), "say done"]).end().exits(0);
    assert_eq!(ended.stdout, "done\n", "{child}");
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!(journal.count("process_leaked"), 0);
    let after = journal.between(is_reaped, |it| kind(it) == "session_ended");
    assert!(after <= 5_000, "{child}: the end came {after} ms after the agent's");
}

#[test]
fn a_grandchild_keeps_standard_output() {
    leaves("holds-stdout");
}

#[test]
fn a_child_of_the_same_group_ignores_sigterm() {
    leaves("ignores-sigterm");
}

#[test]
fn a_child_with_its_own_session_holds_standard_output() {
    leaves("setsid holds-stdout");
}

#[test]
fn a_daemon_ignores_sigterm_and_holds_standard_output() {
    leaves("daemon ignores-sigterm holds-stdout");
}

/// Cancels an agent whose tree does not want to end.
fn cancelled(user: Option<u32>) {
    takes_at_most(2_000, || {
        let world = World::new();
        let script = [
            "child plain 600",
            "child setsid ignores-sigterm holds-stdout 600",
            "child daemon ignores-sigterm 600",
            "ignore sigterm sigint",
            "say part",
            "hang",
        ];
        let mut call = world.practice(&script);
        if let Some(uid) = user {
            call = call.user(uid);
        }
        let running = call.start();
        running.says("part");
        assert_eq!(world.agents().len(), 4, "the mark finds all of them: {:?}", world.agents());
        running.signal(Signal::INT);
        let ended = running.end().exits(130);
        let journal = world.journal();
        journal.check().ended("cancelled");
        journal.until(is_stopping, ended.at)
    });
}

/// Stopped, the keeper sees nothing of the end of its command, unless that end wakes it.
#[test]
fn a_keeper_that_was_stopped_goes_with_its_command() {
    let world = World::new();
    let mut running = world.practice(&["child setsid 600", "say part", "hang"]).start();
    running.says("part");
    rustix::process::kill_process(running.keeper(), Signal::STOP).expect("it is alive");
    running.kill();
    wait_until("the end of the agents", || world.agents().is_empty());
    world.nobody_is_left();
}

#[test]
fn a_tree_is_cancelled() {
    cancelled(None);
}

#[test]
fn a_tree_of_another_user_is_cancelled() {
    if !is_root() {
        return skip("a_tree_of_another_user_is_cancelled", "only root can become another user");
    }
    // No cgroup is given to that user.
    cancelled(Some(NOBODY));
}

#[test]
fn a_tree_is_killed_with_the_command() {
    let world = World::new();
    let script = ["child setsid ignores-sigterm 600", "child daemon 600", "say part", "hang"];
    let mut running = world.practice(&script).start();
    running.says("part");
    running.kill();
    crate::world::wait_until("the end of the agents", || world.agents().is_empty());
    world.nobody_is_left();
}

#[test]
fn a_journal_that_was_not_to_stay_goes_with_the_next_run() {
    let world = World::new();
    let left = || -> Vec<String> {
        let entries = std::fs::read_dir(world.path("tmp")).unwrap().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect()
    };
    let mut running = world.practice(&["say part", "hang"]).with(&["--ephemeral"]).start();
    running.has_agents(1);
    crate::world::wait_until("the journal", || !left().is_empty());
    running.kill();
    crate::world::wait_until("the end of the agents", || world.agents().is_empty());
    assert_eq!(left().len(), 1, "nobody was left to remove it: {:?}", left());
    // What is new is left alone: it may be about to take its lock.
    let aged = crate::support::in_shell(&format!("touch -d '1 hour ago' '{}'", left()[0])).status().unwrap();
    assert!(aged.success());
    world.practice(&["say done", "sleep 300ms"]).end().exits(0);
    assert_eq!(left(), Vec::<String>::new());
}

#[test]
fn the_command_is_killed_at_any_moment() {
    for delay in (0..8).map(|step| step * 15) {
        let world = World::new();
        let script = ["child setsid ignores-sigterm 600", "child daemon 600", "say part", "hang"];
        let mut running = world.practice(&script).start();
        std::thread::sleep(std::time::Duration::from_millis(delay));
        running.kill();
        crate::world::wait_until("the end of the agents", || world.agents().is_empty());
        world.nobody_is_left();
    }
}

#[test]
fn the_launcher_exits_first() {
    let world = World::new();
    let ended = world.practice(&["launcher-exits", "say done"]).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    world.journal().check().ended("completed");
}

#[test]
fn the_launcher_exits_first_and_what_it_left_never_ends() {
    let world = World::new();
    let script = ["launcher-exits", "ignore sigterm sigint", "say done", "result", "hang"];
    let ended = world.practice(&script).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    world.journal().check().ended("completed");
}

/// It is unknown what the agent did before: only the person may ask for it a second time.
#[test]
fn a_keeper_that_is_killed_does_not_make_us_ask_twice() {
    let world = World::new();
    let starts = world.path("starts");
    let script = format!("echo $$ >>{}; cat >/dev/null; kill -KILL $PPID; sleep 600", starts.display());
    let ended = world.claude(&script).end().exits(1);
    ended.tells(&["the keeper process was killed", "start it again"]);
    let starts = std::fs::read_to_string(starts).unwrap();
    assert_eq!(starts.lines().count(), 1, "the request was sent again");
    let journal = world.journal();
    assert_eq!((journal.count("process_spawned"), journal.count("fallback_taken")), (1, 0));
}

#[test]
fn an_agent_that_stops_its_keeper_stops_nothing_else() {
    let world = World::new();
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"b"}"#;
    let script =
        format!("cat >/dev/null; kill -STOP $PPID; (setsid sleep 300 >/dev/null 2>&1 &); echo '{result}'");
    world.claude(&script).end().exits(0);
}
