//! `bowline attach`: watchers beside each other, and prompts, decisions and commands that are typed.

use serde_json::Value;

use super::session::{LiveWorld, play};
use crate::world::wait_until;

fn events(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

#[test]
fn watchers_see_the_same_events_and_the_death_of_one_changes_nothing() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["say one", "tool run cat gate", "say two"], &[]);
    let watch = ["attach", session.id.as_str(), "--watch", "--from", "1", "-o", "jsonl"];
    let (first, second, mut third) =
        (live.call(&watch).start(), live.call(&watch).start(), live.call(&watch).start());
    for watcher in [&first, &second, &third] {
        watcher.prints("\"one\"");
    }
    third.kill();
    live.open_gate("gate");
    session.has_played(1);
    for watcher in [&first, &second] {
        watcher.prints("turn_ended");
    }
    let id = session.id.clone();
    let journal = session.stop();
    let (first, second) = (first.end_among_others().exits(0), second.end_among_others().exits(0));
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(events(&first.stdout), journal.events, "a watcher sees everything, once");
    // Afterwards it is read from the file.
    let read = live.end(&["attach", &id, "--from", "1", "-o", "jsonl"]).exits(0);
    assert_eq!(events(&read.stdout), journal.events);
    assert!(third.end_among_others().status.code().is_none(), "it was killed");
}

#[test]
fn a_watcher_can_begin_at_any_event() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    session.send(&["say two"], &[]);
    session.has_played(2);
    let id = session.id.clone();
    let journal = session.stop();
    let read = |from: &[&str]| {
        let args: Vec<&str> =
            ["attach", &id, "-o", "jsonl"].into_iter().chain(from.iter().copied()).collect();
        events(&live.end(&args).exits(0).stdout)
    };
    assert_eq!(read(&["--from", "7"]), journal.events[6..]);
    let last = read(&[]);
    assert_eq!((&last[0]["kind"]["type"], &last[0]["turn"]), (&"turn_started".into(), &2.into()));
}

#[test]
fn typed_lines_are_prompts_decisions_and_commands() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say first"], &[]);
    session.asks();
    let attached = live.call(&["attach", &session.id]).open_input().start();
    attached.tells("practice wants to change files (medium risk, 1 line)");
    attached.tells("    + one");
    session.decides("approve", &[]);
    session.has_played(1);
    attached.prints("first");
    let mut typing = live.call(&["attach", &session.id]).open_input().start();
    typing.writes(":help\n:status\n:interrupt\n:nonsense\npractice: say second\n");
    typing.tells("take a queued prompt back");
    typing.tells("state     idle");
    typing.tells("not done: no turn is running");
    session.has_played(2);
    typing.prints("second");
    session.stop();
    // Both followed the session to its end.
    attached.end_among_others().exits(0).tells(&["the session is over"]);
    typing.end_among_others().exits(0);
}

#[test]
fn an_interrupted_attach_detaches_and_the_session_goes_on() {
    let live = LiveWorld::new();
    live.gate("gate");
    let session = live.plays(&["say one", "tool run cat gate", "say two"], &[]);
    let attached = live.call(&["attach", &session.id, "-o", "jsonl"]).start();
    attached.prints("\"one\"");
    attached.signal(rustix::process::Signal::INT);
    attached.end_among_others().exits(0).tells(&["detached; the session goes on"]);
    live.open_gate("gate");
    session.has_played(1);
    assert_eq!(session.stop().text(), "onetwo");
}

#[test]
fn a_run_of_one_prompt_takes_no_orders() {
    let live = LiveWorld::new();
    let run = live.world().practice(&["say one", "hang"]).start();
    run.says("one");
    live.end(&["attach", "@last"]).exits(2).tells(&["takes no orders", "--watch", "bowline stop"]);
    // Its journal shows what it does.
    let status = live.end(&["status", "@last", "--json"]).exits(0).json();
    assert_eq!((&status["state"], &status["turn"]), (&"running".into(), &1.into()), "{status}");
    live.end(&["status", "@last"]).exits(0).prints(&["turn      1, running\n", "process   running\n"]);
    let watching = live.call(&["attach", "@last", "--watch", "-o", "jsonl"]).start();
    watching.prints("\"one\"");
    live.end(&["send", "@last", &play(&["say two"])])
        .exits(2)
        .tells(&["a run of `bowline run` takes no orders"]);
    live.end(&["stop", "@last"]).exits(0);
    run.end().exits(143);
    let watched = watching.end().exits(0).stdout;
    assert_eq!(events(&watched).last().expect("an event")["kind"]["type"], "session_ended");
}

#[test]
fn a_reader_that_closes_its_pipe_ends_the_command_on_an_idle_session() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    let (watching, mut out) =
        live.call(&["attach", &session.id, "--from", "1", "-o", "jsonl"]).start_unread();
    let mut first = [0; 1];
    std::io::Read::read_exact(&mut out, &mut first).expect("a byte");
    drop(out);
    wait_until("the end of the command", || watching.is_over());
    watching.end_among_others().exits(0);
    assert_eq!(session.stop().text(), "one");
}

#[test]
fn the_leader_is_told_who_leads() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    let mut typing = live.call(&["attach", &session.id]).open_input().start();
    typing.writes(":lead\n:release\n");
    typing.tells("you lead; the queue waits");
    typing.tells("the agent leads again");
    session.stop();
    typing.end_among_others().exits(0);
}
