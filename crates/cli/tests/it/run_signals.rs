//! What signals do to a run: Ctrl-C once asks, twice kills; SIGTERM and a hangup end it too. The partial answer stays.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use rustix::process::Signal;

use crate::journal::{is_reaped, is_stopping};
use crate::world::{World, now, wait_until};

#[test]
fn ctrl_c_once_cancels_and_keeps_the_partial_answer() {
    let world = World::new();
    let running = world.practice(&["say first", "hang", "say second"]).start();
    running.says("first");
    running.signal(Signal::INT);
    let ended = running.end().exits(130).tells(&["Ctrl-C"]);
    assert_eq!(ended.stdout, "first\n");
    let journal = world.journal();
    journal.check().ended("cancelled");
    assert_eq!(journal.text(), "first");
    assert_eq!(journal.events.last().unwrap()["kind"]["reason"], "stopped");
}

#[test]
fn a_cancelled_run_keeps_its_text_in_the_summary() {
    let world = World::new();
    let running = world.practice(&["say part", "hang"]).with(&["--output", "json"]).start();
    running.says("part");
    running.signal(Signal::INT);
    let summary = running.end().exits(130).json();
    assert_eq!((&summary["outcome"], &summary["all_text"]), (&"cancelled".into(), &"part".into()));
    world.journal().check().ended("cancelled");
}

#[test]
fn ctrl_c_twice_kills() {
    let world = World::new();
    let running = world.practice(&["ignore sigint sigterm", "say part", "hang"]).start();
    running.says("part");
    running.signal(Signal::INT);
    // It is deaf: only the second one ends it, and that at once.
    running.tells("Ctrl-C");
    running.signal(Signal::INT);
    let ended = running.end().exits(130);
    assert_eq!(ended.stdout, "part\n");
    let journal = world.journal();
    journal.check().ended("cancelled");
    let waited = journal.between(is_stopping, is_reaped);
    assert!(waited < 1_700, "it was ended {waited} ms after the first");
    assert_eq!(journal.of("process_reaped")[0]["kind"]["exit"]["signal"], 9);
}

#[test]
fn sigterm_and_a_hangup_end_the_run() {
    for signal in [Signal::TERM, Signal::HUP] {
        let world = World::new();
        let running = world.practice(&["say part", "child setsid 600", "hang"]).start();
        running.says("part");
        running.signal(signal);
        let ended = running.end().exits(143);
        assert_eq!(ended.stdout, "part\n");
        world.journal().check().ended("cancelled");
    }
}

#[test]
fn a_hangup_that_is_ignored_ends_nothing() {
    let world = World::new();
    let running = world.practice(&["say part", "sleep 1s", "say done"]).after("trap '' HUP").start();
    running.says("part");
    running.signal(Signal::HUP);
    let ended = running.end().exits(0);
    assert_eq!(ended.stdout, "part\ndone\n");
    world.journal().check().ended("completed");
}

#[test]
fn a_signal_before_the_agent_has_said_anything() {
    let world = World::new();
    let running = world.practice(&["silent"]).start();
    running.has_agents(1);
    running.signal(Signal::INT);
    let ended = running.end().exits(130);
    assert_eq!(ended.stdout, "");
    world.journal().check().ended("cancelled");
}

#[test]
fn a_signal_after_the_answer_does_not_undo_it() {
    let world = World::new();
    let script = ["ignore sigterm sigint", "say done", "result", "hang"];
    let running = world.practice(&script).start();
    running.says("done");
    wait_until("the result", || world.has_line(&["turn_ended"]));
    running.signal(Signal::INT);
    let ended = running.end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    world.journal().check().ended("completed");
}

#[test]
fn a_second_signal_after_the_answer_does_not_undo_it_either() {
    let world = World::new();
    let script = ["ignore sigterm sigint", "say done", "result", "hang"];
    let running = world.practice(&script).start();
    wait_until("the result", || world.has_line(&["turn_ended"]));
    running.signal(Signal::INT);
    running.signal_if_alive(Signal::INT);
    let ended = running.end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    world.journal().check().ended("completed");
}

/// A git that leaves a sign and hangs, from when a file is there.
fn slow_git(world: &World, from: &str) -> std::path::PathBuf {
    std::fs::create_dir(world.path("bin")).expect("a directory");
    let (from, sign) = (world.path(from), world.path("sign"));
    let text = format!(
        "if [ -e '{}' ]; then touch '{}'; exec sleep 600; fi\nPATH=/usr/local/bin:/usr/bin:/bin exec git \"$@\"",
        from.display(),
        sign.display()
    );
    world.script("bin/git", &text);
    let made =
        crate::support::in_shell("git init -q").current_dir(world.path("work")).status().expect("a shell");
    assert!(made.success());
    sign
}

fn path(world: &World) -> String {
    format!("{}:/usr/local/bin:/usr/bin:/bin", world.path("bin").display())
}

/// One is enough: there is nothing yet that could be lost.
#[test]
fn ctrl_c_while_git_looks_at_the_files_starts_nobody() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let world = World::new();
        let sign = slow_git(&world, "work");
        let started = world.path("started");
        let script = format!("touch '{}'; exec sleep 600", started.display());
        let running = world.claude(&script).env("PATH", path(&world)).start();
        wait_until("git", || sign.exists());
        let asked = now();
        running.signal(signal);
        let ended = running.end().exits(code);
        assert!(asked.elapsed() < Duration::from_millis(2_500), "it took {:?}", asked.elapsed());
        assert_eq!(ended.stdout, "");
        assert!(!started.exists(), "the agent was started all the same");
        let journal = world.journal();
        journal.check().ended("cancelled");
        assert_eq!(journal.count("process_spawned"), 0);
        let meta = std::fs::read_to_string(world.journals_begun()[0].join("session.json")).expect("a file");
        assert!(meta.contains(r#""state": "failed""#), "{meta}");
    }
}

/// A git that hangs holds the agent up for a while only, and takes its time of the limit on all of it.
#[test]
fn a_git_that_hangs_does_not_keep_the_agent_from_starting() {
    let world = World::new();
    slow_git(&world, "work");
    let ended = world.practice(&["say done"]).env("PATH", path(&world)).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    ended.tells(&["the changed files will be unknown: git"]);
    world.journal().check().ended("completed");

    let world = World::new();
    slow_git(&world, "work");
    let began = now();
    let call = world.practice(&["say done"]).env("PATH", path(&world)).with(&["--timeout", "1s"]);
    let ended = call.end().exits(124).tells(&["took longer than 1 s"]);
    assert!(began.elapsed() < Duration::from_millis(3_500), "it took {:?}", began.elapsed());
    assert_eq!(ended.stdout, "");
    let journal = world.journal();
    journal.check().ended("failed timeout timed_out");
    assert_eq!(journal.count("process_spawned"), 0);
}

#[test]
fn ctrl_c_twice_does_not_wait_for_git_after_the_answer() {
    let world = World::new();
    let sign = slow_git(&world, "slow");
    let script = format!(
        "cat >/dev/null; touch '{}'\necho '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\"}}'",
        world.path("slow").display()
    );
    let running = world.claude(&script).env("PATH", path(&world)).start();
    wait_until("git", || sign.exists());
    running.signal(Signal::INT);
    running.tells("cancelling");
    let asked = now();
    running.signal(Signal::INT);
    let ended = running.end().exits(0).tells(&["did not wait for git"]);
    assert!(asked.elapsed() < Duration::from_millis(2_500), "it took {:?}", asked.elapsed());
    assert_eq!(ended.stdout, "done\n", "the answer was complete");
    world.journal().check().ended("completed");
}

/// A terminal sends its signals to everybody in the foreground: the command, its keeper, and all others in the group.
#[test]
fn a_terminal_signals_the_whole_group() {
    for (signal, code) in [(Signal::INT, 130), (Signal::HUP, 143)] {
        let world = World::new();
        let script = ["ignore sigint sigterm sighup", "child setsid ignores-sigterm 600", "say part", "hang"];
        let running = world.practice(&script).start();
        running.says("part");
        running.signal_group(signal);
        let ended = running.end().exits(code);
        assert_eq!(ended.stdout, "part\n");
        assert!(!ended.stderr.contains("keeps the agents died"), "{}", ended.stderr);
        let journal = world.journal();
        journal.check().ended("cancelled");
        assert_eq!(journal.count("process_leaked"), 0);
    }
}

/// The command makes a copy of itself early, which is to be its keeper: what a terminal sends then is for the command alone.
#[test]
fn ctrl_c_in_the_first_milliseconds() {
    for delay in (0..3).flat_map(|_| 0..30) {
        let world = World::new();
        let running = world.practice(&["child setsid ignores-sigterm 600", "hang"]).start();
        std::thread::sleep(Duration::from_millis(delay));
        running.signal_group(Signal::INT);
        let ended = running.end();
        // Before it listens, a signal ends it as it ends any other command, which a shell calls 130 as well.
        let listened = ended.status.code() == Some(130);
        assert!(listened || ended.status.signal() == Some(2), "after {delay} ms: {ended:#?}");
        if !listened {
            assert!(world.journals_begun().is_empty(), "after {delay} ms something had begun");
        }
        assert!(!ended.stderr.contains("keeper"), "after {delay} ms: {}", ended.stderr);
    }
}

/// Whatever is going on: no process is left, and what is on file is whole.
#[test]
fn a_signal_at_any_moment() {
    for delay in (0..12).map(|step| step * 9) {
        let world = World::new();
        let script = ["child setsid ignores-sigterm 600", "say part", "hang"];
        let running = world.practice(&script).start();
        std::thread::sleep(Duration::from_millis(delay));
        running.signal(Signal::INT);
        let ended = running.end();
        // Before it listens, a signal ends the command as it ends any other; then there is no agent yet.
        let begun = ended.status.code() == Some(130);
        assert!(
            begun || (ended.status.signal() == Some(2) && world.journals_begun().is_empty()),
            "{ended:?}"
        );
        if begun {
            world.journal().check().ended("cancelled");
        }
    }
}

/// As Ctrl-Z does, but the agent goes on.
#[test]
fn being_stopped_for_a_while_is_no_silence_of_the_agent() {
    let world = World::new();
    let mut script = vec!["say one"];
    for _ in 0..10 {
        script.extend(["sleep 300ms", "say and"]);
    }
    script.extend(["sleep 1s", "say last"]);
    let running = world.practice(&script).with(&["--idle-timeout", "1500ms"]).start();
    running.says("one");
    running.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(2500));
    running.signal(Signal::CONT);
    let ended = running.end().exits(0);
    assert!(ended.stdout.contains("last"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("nothing"), "{}", ended.stderr);
    world.journal().check().ended("completed");
}
