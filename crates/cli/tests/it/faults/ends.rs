//! Agents that end too early, too late, or not at all.

use rustix::process::Signal;

use crate::clock::{takes_at_most, wait_until};
use crate::journal::{is_answered, is_stopping};
use crate::world::World;

/// The most time between the answer, or the stop of the caller, and the end of the call.
const AFTER_THE_ANSWER: i128 = 1_000;
const AFTER_THE_WISH: i128 = 2_000;

#[test]
fn silent_at_start() {
    for (option, watchdog) in [("--idle-timeout", "watchdog_first_event"), ("--timeout", "watchdog_total")] {
        let world = World::new();
        let ended = world.practice(&["silent"]).with(&[option, "1s", "--output", "json"]).end().exits(124);
        assert_eq!(ended.json()["failure"]["category"], "timeout");
        let journal = world.journal();
        journal.check().ended("failed timeout timed_out");
        let notices = journal.of("notice");
        assert!(notices.iter().any(|it| it["kind"]["code"] == watchdog), "{option}: {notices:#?}");
        assert_eq!(journal.events.last().unwrap()["kind"]["reason"], "timed_out");
    }
}

#[test]
fn dies_in_the_middle_of_a_line() {
    let world = World::new();
    let script = ["say part", "half-line", "exit 1"];
    let ended = world.practice(&script).with(&["--output", "json"]).end().exits(1);
    let journal = world.journal();
    journal.check().ended("failed unknown unknown");
    assert!(journal.count("unrecognized") > 0, "half a line is reported");
    assert_eq!(journal.of("turn_ended")[0]["kind"]["failure"]["exit"]["code"], 1);
    assert_eq!(ended.json()["all_text"], "part", "and not doubled by the second try");
    assert!(journal.text().starts_with("part"), "what was said before is kept");
}

#[test]
fn is_killed() {
    let world = World::new();
    let script = ["say part", "kill-self 9"];
    let ended = world.practice(&script).end().exits(1).tells(&["SIGKILL"]);
    assert_eq!(ended.stdout, "part\n");
    let journal = world.journal();
    journal.check();
    let reaped = journal.of("process_reaped");
    assert!(reaped.iter().all(|it| it["kind"]["exit"]["signal"] == 9), "{reaped:?}");
    assert_eq!(journal.outcome().0, "failed");
}

#[test]
fn crashes() {
    let world = World::new();
    world.practice(&["say part", "crash"]).end().exits(1).tells(&["SIGABRT"]);
    world.journal().check();
}

#[test]
fn hangs_after_its_result() {
    takes_at_most(AFTER_THE_ANSWER, || {
        let world = World::new();
        let ended = world.practice(&["say done", "result", "hang"]).end().exits(0);
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("done\n", ""));
        let journal = world.journal();
        journal.check().ended("completed");
        assert_eq!(journal.events.last().unwrap()["kind"]["reason"], "exited");
        journal.until(is_answered, ended.at)
    });
}

#[test]
fn hangs_after_its_result_and_ignores_all_signals() {
    takes_at_most(AFTER_THE_ANSWER, || {
        let world = World::new();
        let script = ["ignore sigterm sigint sighup", "say done", "result", "hang"];
        let ended = world.practice(&script).end().exits(0);
        assert_eq!(ended.stdout, "done\n");
        let journal = world.journal();
        journal.check().ended("completed");
        journal.until(is_answered, ended.at)
    });
}

/// It takes its time to exit, and leaves a child that ignores signals and holds its output.
#[test]
fn exits_late_after_its_result_and_leaves_somebody_deaf() {
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s"}"#;
    let script = format!("cat >/dev/null\n(trap '' TERM; sleep 600) &\necho '{result}'\nsleep 0.53");
    takes_at_most(AFTER_THE_ANSWER, || {
        let world = World::new();
        let ended = world.claude(&script).end().exits(0);
        assert_eq!(ended.stdout, "done\n");
        let journal = world.journal();
        journal.check().ended("completed");
        journal.until(is_answered, ended.at)
    });
}

#[test]
fn ignores_sigterm_when_it_is_cancelled() {
    for deaf in ["ignore sigterm", "ignore sigterm sigint"] {
        takes_at_most(AFTER_THE_WISH, || {
            let world = World::new();
            // SIGINT is its polite way; where it hears that, the ladder has one rung.
            let running = world.practice(&[deaf, "say part", "hang"]).start();
            running.says("part");
            running.signal(Signal::INT);
            let ended = running.end().exits(130);
            assert_eq!(ended.stdout, "part\n");
            let journal = world.journal();
            journal.check().ended("cancelled");
            journal.until(is_stopping, ended.at)
        });
    }
}

/// It saves its work when it is asked to stop, which takes long, and leaves a child that ignores signals and holds its output.
#[test]
fn exits_late_when_it_is_cancelled_and_leaves_somebody_deaf() {
    takes_at_most(AFTER_THE_WISH, || {
        let world = World::new();
        let script = "trap '' TERM; sleep 600 &\ntrap 'sleep 1.5; echo saved >&2; exit 0' INT\n\
                      cat >/dev/null; echo ready >&2; while :; do wait; done";
        let running = world.claude(script).with(&["--verbose"]).start();
        wait_until("the agent", || world.journals_begun().iter().any(|dir| has(dir, "ready")));
        running.signal(Signal::INT);
        let ended = running.end().exits(130);
        let journal = world.journal();
        journal.check().ended("cancelled");
        // A polite agent has the time that it needs.
        if has(&journal.dir, "saved") { journal.until(is_stopping, ended.at) } else { i128::MAX }
    });
}

/// Returns whether the agent of a session has complained of this.
fn has(dir: &std::path::Path, word: &str) -> bool {
    std::fs::read_to_string(dir.join("stderr.raw")).is_ok_and(|text| text.contains(word))
}

#[test]
fn ignores_sigterm_when_its_time_is_over() {
    // The time limit counts from the start, and a machine that has much else to do may need all of it before the agent says a
    // word. Such a try shows nothing about an agent that has spoken; the next one gives the agent twice the time.
    let mut limit = 1;
    takes_at_most(AFTER_THE_WISH, || {
        let world = World::new();
        let script = ["ignore sigterm sigint", "say part", "hang"];
        let timeout = format!("{limit}s");
        let ended = world.practice(&script).with(&["--timeout", &timeout]).end().exits(124);
        if world.journal().text().is_empty() {
            limit *= 2;
            return i128::MAX;
        }
        assert_eq!(ended.stdout, "part\n");
        let took = format!("the turn took longer than {limit} s");
        let ended = ended.tells(&["error: the run timed out", &took, "with `--timeout`"]);
        assert!(!ended.stderr.contains("no output from"), "there was output: {}", ended.stderr);
        let journal = world.journal();
        journal.check().ended("failed timeout timed_out");
        journal.until(is_stopping, ended.at)
    });
}

#[test]
fn falls_silent() {
    let world = World::new();
    let ended = world.practice(&["say part", "hang"]).with(&["--idle-timeout", "1s"]).end().exits(124);
    ended.tells(&["error: the run timed out", "no output from the program for 1 s", "with `--idle-timeout`"]);
}

#[test]
fn closes_its_output_and_lives_on() {
    let world = World::new();
    let ended = world.practice(&["say part", "close-stdout", "hang"]).end().exits(1);
    assert_eq!(ended.stdout, "part\n");
    ended.tells(&[
        "the text so far is kept",
        "error: the agent's output ended before the answer was complete",
    ]);
    world.journal().check().ended("truncated unknown truncated");

    let world = World::new();
    let ended = world.practice(&["say done", "result", "close-stdout", "hang"]).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    world.journal().check().ended("completed");
}

#[test]
fn fails_by_its_own_word() {
    let world = World::new();
    let ended =
        world.practice(&["say part", "fail 429 slow down"]).with(&["--output", "json"]).end().exits(1);
    assert_eq!(ended.json()["failure"]["category"], "rate_limit");
    world.journal().check();
}

#[test]
fn ends_its_turn_twice() {
    let world = World::new();
    let ended = world.practice(&["say done", "second-result"]).end().exits(0);
    // The second result is a turn of its own, of which only the text is known.
    assert_eq!(ended.stdout, "done\ndone\n");
    assert_eq!(world.journal().check().count("turn_ended"), 2);
}
