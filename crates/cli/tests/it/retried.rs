//! A retry of the router goes on in the session of the attempt before it: for other commands, when the runner is killed, and in the
//! spending.

use serde_json::Value;

use crate::journal::Journal;
use crate::route::{INIT, answering, calls, routed, run};
use crate::spending::lines;
use crate::stints::{only_session, stints, turns};
use crate::world::{Call, Running, World, wait_until};

/// The script of an agent that fails, and has used ten tokens for that.
fn fails(status: u16, text: &str) -> String {
    let line = format!(
        r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":{status},"result":"API Error: {text}","session_id":"s","usage":{{"input_tokens":10,"output_tokens":0}}}}"#
    );
    format!("echo '{INIT}'; echo '{line}'; exit 1")
}

/// An agent that is out of its rate limit at first, with a reported wait.
fn limited_then(seconds: u32, then: &str) -> World {
    let limited = fails(429, &format!("rate limit: retry after {seconds} seconds"));
    routed(&[("only", format!("if [ ! -e count ]; then touch count; {limited}; fi; {then}"))], "")
}

fn auto<'a>(world: &'a World, args: &[&str]) -> Call<'a> {
    run(world, &["--provider", "auto"]).with(args)
}

/// Starts a run whose retry waits for so many seconds, and waits until it does.
fn waiting<'a>(world: &'a World, args: &[&str]) -> Running<'a> {
    let running = auto(world, args).start();
    wait_until("the wait", || world.has_line(&[r#""type":"retrying""#]));
    running
}

fn tokens(world: &World) -> Vec<u64> {
    let mut tokens: Vec<u64> = lines(world).iter().filter_map(|line| line["tokens"].as_u64()).collect();
    tokens.sort_unstable();
    tokens
}

fn ends(journal: &Journal) -> Vec<String> {
    let ends = journal.of("session_ended");
    ends.iter().filter_map(|event| event["kind"]["reason"].as_str()).map(str::to_owned).collect()
}

#[test]
fn other_commands_see_one_session_that_runs_over_its_attempts() {
    let world = limited_then(3, &answering());
    let running = waiting(&world, &["-o", "json"]);
    let ours = only_session(&world);
    let listed = world.bowline(&["sessions", "--json"]).start().end_among_others().exits(0).json();
    let row = (&listed[0]["session"], &listed[0]["running"], &listed[0]["state"]);
    assert_eq!(row, (&ours.as_str().into(), &true.into(), &"starting".into()), "{listed}");
    // Between the attempts nothing resumes or removes it.
    let resumed = run(&world, &["--resume", &ours]).start().end_among_others().exits(2);
    resumed.tells(&["is still running, in process "]);
    let refused = world.bowline(&["sessions", "remove", &ours]).start().end_among_others();
    assert_ne!(refused.status.code(), Some(0), "{refused:#?}");
    // The failed attempt is not its end.
    let waited = world.bowline(&["wait", &ours]).start();
    assert_eq!(waited.end_among_others().exits(0).stdout, "hello\n");
    let object = running.end().exits(0).json();
    assert_eq!((&object["session"], &object["text"]), (&ours.as_str().into(), &"hello".into()));
    assert_eq!(object["usage"]["total"], 40, "of both attempts: {object}");
    let attempts = object["attempts"].as_array().expect("a list");
    let sessions: Vec<&Value> = attempts.iter().map(|attempt| &attempt["session"]).collect();
    assert_eq!(sessions, [ours.as_str(); 2]);
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!((turns(&journal), stints(&journal)), (vec![1, 2], 2));
    let second =
        attempts[1]["first_seq"].as_u64().and_then(|seq| usize::try_from(seq).ok()).expect("a number");
    assert!(crate::journal::is_stint_start(&journal.events[second - 1]), "{}", journal.events[second - 1]);
    assert_eq!(tokens(&world), [10, 30], "{:#?}", lines(&world));
    assert!(lines(&world).iter().all(|line| line["session"] == ours.as_str()));
    let again = world.bowline(&["wait", &ours, "-o", "json"]).end().exits(0).json();
    assert_eq!((&again["text"], &again["usage"]["total"]), (&"hello".into(), &30.into()), "of its last turn");
    let rows = world.bowline(&["sessions", "--all", "--json"]).end().exits(0).json();
    assert_eq!((rows.as_array().map(Vec::len), &rows[0]["state"]), (Some(1), &"completed".into()));
}

#[test]
fn a_runner_that_is_killed_between_two_attempts_leaves_a_session_to_resume() {
    let world = limited_then(25, &answering());
    let mut running = waiting(&world, &[]);
    let ours = only_session(&world);
    let waited = world.bowline(&["wait", &ours]).start();
    running.kill();
    let _ = running.end_among_others();
    waited.end_among_others().exits(1);
    run(&world, &["--resume", &ours]).end().exits(0);
    assert_eq!(only_session(&world), ours);
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!(
        (turns(&journal), ends(&journal)),
        (vec![1, 2], vec!["exited".to_owned(), "lost".to_owned(), "exited".to_owned()])
    );
    assert_eq!(tokens(&world), [10, 30], "each attempt once: {:#?}", lines(&world));
    assert_eq!(std::fs::read_dir(world.path("home/open")).expect("the marks").count(), 0);
}

#[test]
fn a_runner_that_is_killed_in_a_retry_is_spent_once() {
    let hangs = format!("cat <<'END'\n{}\nEND\nexec sleep 600", calls());
    let world = limited_then(1, &hangs);
    let mut running = auto(&world, &[]).start();
    wait_until("the usage", || world.has_line(&["usage_reported", "2000"]));
    running.kill();
    let _ = running.end_among_others();
    assert_eq!(tokens(&world), [10], "its runner could not write the second one");
    world.practice(&["say later"]).end().exits(0);
    assert_eq!(tokens(&world), [10, 3000], "{:#?}", lines(&world));
    let ours = lines(&world)[0]["session"].clone();
    assert!(lines(&world).iter().all(|line| line["session"] == ours), "{:#?}", lines(&world));
    for journal in world.journals() {
        journal.check();
    }
    assert_eq!(std::fs::read_dir(world.path("home/spending-now")).map_or(0, Iterator::count), 0);
}

/// Attempt follows attempt at once, so that the kill hits every part of an attempt and the steps between two of them.
#[test]
fn a_runner_that_is_killed_anywhere_counts_each_attempt_once() {
    for round in 0..8_u64 {
        let world = routed(
            &[("only", fails(503, "service unavailable"))],
            "routing: {retry_backoff_ms: 0, retry_max_backoff_ms: 0}\n",
        );
        let mut running = auto(&world, &["--retries", "1000"]).start();
        wait_until("a retry", || world.has_line(&[r#""type":"retrying""#]));
        std::thread::sleep(std::time::Duration::from_millis(round * 73 % 251));
        running.kill();
        let _ = running.end_among_others();
        wait_until("the end of the agent", || world.agents().is_empty());
        let ours = only_session(&world);
        world.practice(&["say later"]).end().exits(0);
        let journal = world.journals().into_iter().find(|journal| journal.dir.ends_with(&ours));
        let journal = journal.expect("the session");
        journal.check();
        let used =
            journal.of("turn_ended").into_iter().filter_map(|event| event["kind"]["usage"]["input"].as_u64());
        let used = used.filter(|used| *used > 0).count();
        let (lines, mut names) = (lines(&world), std::collections::BTreeSet::new());
        for line in &lines {
            assert_eq!((&line["session"], line["tokens"].as_u64()), (&ours.as_str().into(), Some(10)));
            assert!(names.insert(line["run"].to_string()), "round {round}: twice: {line}");
        }
        assert!(used > 0 && lines.len() == used, "round {round}: {used} attempts, {lines:#?}");
        assert_eq!(std::fs::read_dir(world.path("home/open")).expect("the marks").count(), 0);
    }
}

#[test]
fn a_session_is_stopped_in_the_wait_for_a_retry() {
    let world = limited_then(25, &answering());
    let running = waiting(&world, &[]);
    world.bowline(&["stop", &only_session(&world)]).start().end_among_others().exits(0);
    running.end().exits(143);
    let journal = world.journal();
    journal.check().ended("cancelled");
    assert_eq!((stints(&journal), journal.count("process_spawned")), (2, 1), "nothing is started after it");
}

#[test]
fn a_retry_of_a_resumed_session_goes_on_in_it() {
    let world = limited_then(1, &answering());
    std::fs::write(world.path("work/count"), "").expect("a file");
    auto(&world, &[]).end().exits(0);
    let ours = only_session(&world);
    std::fs::remove_file(world.path("work/count")).expect("the file");
    let object = run(&world, &["--resume", &ours, "--retries", "1", "-o", "json"]).end().exits(0).json();
    assert_eq!(object["attempts"].as_array().map(Vec::len), Some(2), "{object}");
    assert_eq!(only_session(&world), ours);
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!((turns(&journal), stints(&journal)), (vec![1, 2, 3], 3));
    assert_eq!(tokens(&world), [10, 30, 30]);
}

/// A data home as an earlier version left it: each attempt has a directory, and names the one before.
#[test]
fn a_linked_retry_of_an_older_version_is_listed_and_resumed() {
    let world = limited_then(1, &answering());
    std::fs::write(world.path("work/count"), "").expect("a file");
    auto(&world, &[]).end().exits(0);
    let first = only_session(&world);
    auto(&world, &[]).end().exits(0);
    let dirs = world.journals_begun();
    let second = dirs.iter().find(|dir| !dir.ends_with(&first)).expect("another session");
    let name = second.file_name().expect("a name").display().to_string();
    let path = second.join("session.json");
    let mut meta: Value = serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
    meta["parent"] = first.as_str().into();
    std::fs::write(&path, meta.to_string()).expect("writes");
    run(&world, &["--resume", &name]).end().exits(0);
    let rows = world.bowline(&["sessions", "--all", "--json"]).end().exits(0).json();
    assert_eq!(rows.as_array().map(Vec::len), Some(2), "{rows}");
    let meta: Value = serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
    assert_eq!(meta["parent"], first.as_str(), "the link stays");
    for journal in world.journals() {
        journal.check().ended("completed");
    }
}
