//! Pipes without a reader, that are flooded, or that are closed at the wrong moment, on both sides of us.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::journal::Journal;
use crate::world::{Running, World, now, wait_until};

const TEN_MEGABYTES: usize = 10_000_000;

/// Returns a prompt of ten megabytes that begins with these lines.
fn huge_prompt(beginning: &str) -> String {
    let mut prompt = beginning.to_owned();
    while prompt.len() < TEN_MEGABYTES {
        prompt.push_str("This line is one of very many, and none of them says anything that matters.\n");
    }
    prompt
}

/// The keeper of a command is a copy of it. It is made before the prompt is there, and lives as long as the command.
#[test]
fn the_keeper_does_not_hold_a_large_prompt() {
    let world = World::new();
    let prompt = "words and words\n".repeat(20 * 1024 * 1024 / 16);
    let running =
        world.claude("cat >/dev/null; echo all >&2; exec sleep 600").no_prompt().input(prompt).start();
    let has_all =
        |dir: &std::path::PathBuf| std::fs::read(dir.join("stderr.raw")).is_ok_and(|it| it == b"all\n");
    wait_until("the agent has read it", || world.journals_begun().iter().any(has_all));
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.keeper().as_raw_nonzero()));
    let status = status.expect("it is alive");
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a size");
    let kilobytes: u64 = own.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kilobytes < 6 * 1024, "it holds {kilobytes} kB of its own");
    running.signal(Signal::INT);
    running.end().exits(130);
}

#[test]
fn standard_error_is_flooded_while_standard_output_is_quiet() {
    let world = World::new();
    let ended =
        world.practice(&["flood stderr 10MB", "say done"]).with(&["--timeout", "none"]).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    let journal = world.journal();
    journal.check().ended("completed");
    assert!(journal.raw("stderr").len() >= TEN_MEGABYTES, "all of it is on file");
}

/// Lines that are short and never end, none of which is understood: the clock and the person are heard all the same.
#[test]
fn output_that_never_pauses_is_ended_by_the_clock() {
    for script in ["exec yes x", "yes x >&2"] {
        let world = World::new();
        let ended = world.claude(script).with(&["--timeout", "1s"]).end().exits(124);
        ended.tells(&["took longer than 1 s"]);
        world.journal().check().ended("failed timeout timed_out");
        world.nobody_is_left();
    }
}

#[test]
fn output_that_never_pauses_is_ended_by_a_person() {
    let world = World::new();
    let running = world.claude("exec yes x").with(&["--timeout", "none"]).start();
    wait_until("the flood", || world.has_line(&["unrecognized"]));
    running.signal(Signal::INT);
    running.end().exits(130);
    world.journal().check().ended("cancelled");
    world.nobody_is_left();
}

#[test]
fn a_prompt_of_ten_megabytes_is_never_read() {
    let world = World::new();
    let call = world.run("practice", "").no_prompt().input(huge_prompt(""));
    let ended = call.with(&["--env", "PRACTICE_SCRIPT=say before\nsleep 300ms\nsay done"]).end().exits(0);
    assert_eq!(ended.stdout, "before\ndone\n");
    let journal = world.journal();
    journal.check().ended("completed");
    assert!(journal.raw("stdin").len() < TEN_MEGABYTES, "only what was really written is on file");
}

#[test]
fn a_prompt_of_ten_megabytes_is_read() {
    let world = World::new();
    let prompt = huge_prompt("practice: say done\n");
    let call = world.run("practice", "").no_prompt().input(prompt.clone());
    let ended = call.with(&["--timeout", "none", "--idle-timeout", "none"]).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    let journal = world.journal();
    journal.check().ended("completed");
    assert!(journal.raw("stdin") == prompt.as_bytes(), "what was written is on file");
}

#[test]
fn it_answers_and_exits_while_its_prompt_is_written() {
    let world = World::new();
    let prompt = huge_prompt("practice: answer-early\npractice: say done\n");
    let ended = world.run("practice", "").no_prompt().input(prompt).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    world.journal().check().ended("completed");
}

#[test]
fn standard_input_is_closed_by_an_agent_that_goes_on() {
    let world = World::new();
    let script = "exec 0<&-\nsleep 0.3\n\
        echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\"}'";
    let ended = world.claude(script).no_prompt().input(huge_prompt("")).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    world.journal().check().ended("completed");
}

/// Returns whether the only session has come to its end on file.
fn is_over(world: &World) -> bool {
    world.has_line(&["\"type\":\"session_ended\""])
}

/// Checks that a reader got every event, each as it is on file.
fn same(lines: &[String], journal: &Journal) {
    assert_eq!(lines.len(), journal.events.len(), "nothing is lost and nothing is doubled");
    for (line, event) in lines.iter().zip(&journal.events) {
        let mut shown: Value = serde_json::from_str(line).expect("an event");
        let mut event = event.clone();
        // A long text is cut on file.
        if shown["kind"]["type"] == "text_delta" {
            (shown["kind"], event["kind"]) = (Value::Null, Value::Null);
        }
        assert_eq!(shown, event);
    }
}

/// Far more than pipes and memory hold for a reader.
const MUCH: &str = "flood stdout 6MB";

/// It only waits, so it takes a minute and costs nothing.
#[test]
fn a_reader_that_stops_for_a_minute_holds_nobody_up() {
    let world = World::new();
    let call = world.practice(&[MUCH, "say done"]).with(&["--output", "jsonl", "--timeout", "none"]);
    let (running, stdout) = call.start_unread();
    let began = now();
    // The agent comes to its end while our output has no reader.
    wait_until("the end of the run", || is_over(&world));
    wait_until("the end of the agent", || world.agents().is_empty());
    std::thread::sleep(Duration::from_secs(60).saturating_sub(began.elapsed()));
    assert!(!running.is_over(), "it waits for whoever reads");
    let lines: Vec<String> = BufReader::new(stdout).lines().map(|line| line.unwrap()).collect();
    running.end().exits(0);
    let journal = world.journal();
    journal.check().ended("completed");
    same(&lines, &journal);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "somebody has to read what the command prints")]
fn a_reader_that_is_stopped_by_a_signal_holds_nobody_up() {
    let world = World::new();
    let call = world.practice(&[MUCH, "say done"]).with(&["--output", "text", "--timeout", "none"]);
    let (running, stdout) = call.start_unread();
    let mut reader = Command::new("/bin/cat").stdin(stdout).stdout(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&reader);
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    wait_until("the end of the run", || is_over(&world));
    wait_until("the end of the agent", || world.agents().is_empty());
    rustix::process::kill_process(pid, Signal::CONT).unwrap();
    let mut text = String::new();
    reader.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(reader.wait().unwrap().success());
    running.end().exits(0);
    let journal = world.journal();
    journal.check().ended("completed");
    assert!(text.len() > 2_000_000, "{} bytes", text.len());
    assert!(text.replace('\n', "") == journal.text(), "nothing is lost");
}

#[test]
fn ctrl_c_is_heard_while_the_reader_is_stopped() {
    let world = World::new();
    let call =
        world.practice(&["flood stdout 2MB", "hang"]).with(&["--output", "jsonl", "--timeout", "none"]);
    let (running, stdout) = call.start_unread();
    running.has_agents(1);
    // Once the pipe is full, the program that prints waits.
    std::thread::sleep(Duration::from_secs(1));
    running.signal(Signal::INT);
    wait_until("the end of the agent", || world.agents().is_empty());
    wait_until("the end of the run", || is_over(&world));
    let lines: Vec<String> = BufReader::new(stdout).lines().map(|line| line.unwrap()).collect();
    running.end().exits(130);
    let journal = world.journal();
    journal.check().ended("cancelled");
    same(&lines, &journal);
}

#[test]
fn a_command_whose_reader_never_reads_can_be_ended() {
    let world = World::new();
    let call =
        world.practice(&["flood stdout 2MB", "hang"]).with(&["--output", "jsonl", "--timeout", "none"]);
    let (running, stdout) = call.start_unread();
    running.has_agents(1);
    wait_until("the end of the run", || {
        // The first asks, the second kills, and one more after a while ends the command itself.
        running.signal_if_alive(Signal::INT);
        std::thread::sleep(Duration::from_millis(300));
        running.is_over()
    });
    running.end().exits(130);
    drop(stdout);
}

#[test]
fn once_the_agent_is_gone_one_signal_ends_a_command_whose_reader_does_not_read() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let world = World::new();
        let call = world.practice(&["flood stdout 2MB"]).with(&["--output", "jsonl", "--timeout", "none"]);
        let (running, stdout) = call.start_unread();
        ends_by(running, signal, code, &world);
        drop(stdout);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a reader of the test's own")]
fn once_the_agent_is_gone_one_signal_ends_what_takes_long_to_print() {
    let world = World::new();
    // Each chunk repeats the text so far, so that these are gigabytes.
    let call = world.practice(&["flood stdout 10MB"]).with(&["--output", "chunks", "--timeout", "none"]);
    let (running, stdout) = call.start_unread();
    let mut reader = Command::new("/bin/cat").stdin(stdout).stdout(Stdio::null()).spawn().unwrap();
    ends_by(running, Signal::TERM, 143, &world);
    reader.wait().unwrap();
}

/// Checks that a command whose agent is gone is ended by one signal.
fn ends_by(running: Running<'_>, signal: Signal, code: i32, world: &World) {
    wait_until("the end of the run", || is_over(world) && world.agents().is_empty());
    // The session is told to be over shortly before nothing is left to be done for it.
    std::thread::sleep(Duration::from_secs(1));
    assert!(!running.is_over(), "it has not printed everything");
    running.signal(signal);
    let asked = now();
    wait_until("the end of the command", || running.is_over());
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?}", asked.elapsed());
    let ended = running.end().exits(code);
    assert!(!ended.stderr.contains("Ctrl-C again"), "there is no agent to be killed: {}", ended.stderr);
    world.journal().check().ended("completed");
}

#[test]
fn a_reader_that_has_enough_ends_the_run() {
    for format in ["human", "jsonl", "text"] {
        let world = World::new();
        let call = world.practice(&["say first", "flood stdout 3MB", "hang"]);
        let (running, stdout) = call.with(&["--output", format]).start_unread();
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        if format == "text" {
            // It prints at the end, and there is none.
            running.has_agents(1);
        } else {
            reader.read_line(&mut line).unwrap();
            assert!(!line.is_empty());
        }
        drop(reader);
        if format == "text" {
            running.signal(Signal::INT);
        }
        let ended = running.end();
        let expect = if format == "text" { [141, 130] } else { [141, 141] };
        assert!(ended.status.code().is_some_and(|code| expect.contains(&code)), "{format}: {ended:?}");
        world.journal().check().ended("cancelled");
    }
}
