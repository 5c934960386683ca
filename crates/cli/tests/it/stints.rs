//! A session that is resumed goes on in its own directory, under its own id, with one numbering.

use serde_json::Value;

use crate::journal::{Journal, is_stint_start, kind};
use crate::route::{INIT, answering, calls};
use crate::spending::lines;
use crate::world::{World, wait_until};

/// Returns the id of the only session.
pub(crate) fn only_session(world: &World) -> String {
    let mut dirs = world.journals_begun();
    assert_eq!(dirs.len(), 1, "one session has one directory: {dirs:?}");
    dirs.remove(0).file_name().expect("a name").display().to_string()
}

/// Returns the turns that began, in order.
pub(crate) fn turns(journal: &Journal) -> Vec<u64> {
    journal.of("turn_started").iter().filter_map(|event| event["turn"].as_u64()).collect()
}

pub(crate) fn stints(journal: &Journal) -> usize {
    journal.events.iter().filter(|event| is_stint_start(event)).count()
}

#[test]
fn three_runs_of_a_session_share_its_directory_and_its_numbers() {
    let world = World::new();
    world.practice(&["say one"]).end().exits(0);
    let ours = only_session(&world);
    let second =
        world.practice(&["say two"]).with(&["--resume", &ours, "--output", "json"]).end().exits(0).json();
    assert_eq!((&second["session"], &second["text"]), (&ours.as_str().into(), &"two".into()), "{second}");
    assert_eq!(second["all_text"], "two", "the record is that of this run: {second}");
    let before = world.journal().events.len() as u64;
    // The end of the id is enough.
    let third = world.practice(&["say three"]).with(&["--resume", &ours[21..], "--output", "jsonl"]);
    let third = third.end().exits(0);
    let printed: Vec<Value> =
        third.stdout.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert_eq!(printed[0]["seq"], before + 1, "the run prints its own events: {}", printed[0]);
    assert!(is_stint_start(&printed[0]) && printed[0]["turn"].is_null(), "{}", printed[0]);

    assert_eq!(only_session(&world), ours);
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!((turns(&journal), stints(&journal)), (vec![1, 2, 3], 3));
    assert_eq!(journal.text(), "onetwothree");
    let (stdout, mut begins) = (journal.raw("stdout"), Vec::new());
    for spawned in journal.of("process_spawned") {
        begins.push(spawned["kind"]["raw_start"].as_u64().unwrap_or(0) as usize);
    }
    assert!(begins[0] == 0 && begins.is_sorted() && begins[1] < begins[2], "{begins:?}");
    // Each span leads to the bytes of its own process.
    for (word, begin, end) in
        [("one", 0, begins[1]), ("two", begins[1], begins[2]), ("three", begins[2], stdout.len())]
    {
        let said = journal.of("text_delta").into_iter().find(|event| event["kind"]["text"] == word);
        let raw = &said.expect("the word")["raw"];
        let (from, to) = (raw["start"].as_u64().expect("a start"), raw["end"].as_u64().expect("an end"));
        let (from, to) = (from as usize, to as usize);
        assert!(begin <= from && to <= end, "{word}: {raw} is not in {begin}..{end}");
        assert!(String::from_utf8_lossy(&stdout[from..to]).contains(word), "{word}: {raw}");
    }
    let listed = world.bowline(&["sessions", "--all", "--json"]).end().exits(0).json();
    let rows = listed.as_array().expect("a list");
    assert_eq!((rows.len(), &rows[0]["session"]), (1, &ours.as_str().into()));
    assert_eq!((&rows[0]["state"], &rows[0]["running"]), (&"completed".into(), &false.into()));
}

#[test]
fn a_killed_run_is_repaired_and_goes_on_in_its_directory() {
    let world = World::new();
    world.runs_and_is_killed();
    let ours = only_session(&world);
    world.practice(&["say two"]).with(&["--resume", &ours]).end().exits(0);
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!((turns(&journal), stints(&journal)), (vec![1, 2], 2));
    let ends: Vec<&str> =
        journal.of("session_ended").iter().filter_map(|event| event["kind"]["reason"].as_str()).collect();
    assert_eq!(ends, ["lost", "exited"]);
    let marks = std::fs::read_dir(world.path("home/open")).expect("the marks").count();
    assert_eq!(marks, 0, "both are over");
}

#[test]
fn one_of_two_resumes_wins_and_the_other_names_its_process() {
    let world = World::new();
    world.practice(&["say one"]).end().exits(0);
    let ours = only_session(&world);
    let first = world.practice(&["say two", "hang"]).with(&["--resume", &ours]).start();
    first.says("two");
    let listed = world.bowline(&["sessions", "--json"]).start().end_among_others().exits(0).json();
    assert_eq!((&listed[0]["session"], &listed[0]["state"]), (&ours.as_str().into(), &"running".into()));
    let second =
        world.practice(&["say three"]).with(&["--resume", &ours]).start().end_among_others().exits(2);
    second.tells(&[
        &format!("error: the session {ours} is still running, in process {}", first.id()),
        &format!("hint: wait until it ends, or stop it: `bowline stop {ours}`"),
    ]);
    // It is found and stopped like any other.
    world.bowline(&["stop", &ours]).start().end_among_others().exits(0);
    first.end().exits(143);
    // The mark was for that runner only.
    world.practice(&["say four"]).with(&["--resume", &ours]).end().exits(0);
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!((turns(&journal), journal.text()), (vec![1, 2, 3], "onetwofour".to_owned()));
}

#[test]
fn a_resume_that_fails_leaves_a_session_that_can_be_resumed() {
    let world = World::new();
    let claude = |script: &str, ours: &str| world.claude(script).with(&["--resume", ours]);
    world.claude(&format!("cat >/dev/null; {}", answering())).end().exits(0);
    let ours = only_session(&world);
    // The agent begins another session.
    let other = INIT.replace("\"s\"", "\"another\"");
    claude(&format!("cat >/dev/null; echo '{other}'; sleep 600"), &ours).end().exits(1);
    // Its program is gone.
    let gone = world.run("claude", "Go on.").with(&["--resume", &ours, "--binary", "/no/such/program"]);
    gone.end().exits(4);
    let meta = std::fs::read_to_string(world.path("home/sessions").join(&ours).join("session.json"));
    let meta: Value = serde_json::from_str(&meta.expect("a file")).expect("JSON");
    assert_eq!((&meta["native_session"], &meta["state"]), (&"s".into(), &"failed".into()), "{meta}");
    claude(&format!("cat >/dev/null; {}", answering()), &ours).end().exits(0);
    assert_eq!(only_session(&world), ours);
    world.journal().check().ended("completed");
}

#[test]
fn each_run_of_a_session_is_spent_once() {
    let world = World::new();
    world.claude(&format!("cat >/dev/null; {}", answering())).end().exits(0);
    let ours = only_session(&world);
    let tokens = || {
        let mut tokens: Vec<u64> = lines(&world).iter().filter_map(|line| line["tokens"].as_u64()).collect();
        tokens.sort_unstable();
        tokens
    };
    assert_eq!(tokens(), [30]);
    let script = format!("cat >/dev/null; cat <<'END'\n{}\nEND\nexec sleep 600", calls());
    let mut running = world.claude(&script).with(&["--resume", &ours]).start();
    wait_until("the usage", || world.has_line(&["usage_reported", "2000"]));
    running.kill();
    let _ = running.end_among_others();
    assert_eq!(tokens(), [30], "its runner could not write it");
    world.claude(&format!("cat >/dev/null; {}", answering())).with(&["--resume", &ours]).end().exits(0);
    assert_eq!(tokens(), [30, 30, 3000], "{:#?}", lines(&world));
    world.practice(&["say later"]).end().exits(0);
    assert_eq!(tokens(), [30, 30, 3000], "nothing is left to write");
    assert!(lines(&world).iter().all(|line| line["session"] == ours.as_str()));
    assert_eq!(std::fs::read_dir(world.path("home/spending-now")).map_or(0, Iterator::count), 0);
}

#[test]
fn a_session_of_a_newer_version_is_read_and_not_written() {
    let world = World::new();
    world.practice(&["say one"]).end().exits(0);
    let ours = only_session(&world);
    let dir = world.path("home/sessions").join(&ours);
    let meta = std::fs::read_to_string(dir.join("session.json")).expect("a file");
    let newer = meta.replacen("\"format\": 2", "\"format\": 99", 1);
    assert_ne!(newer, meta);
    std::fs::write(dir.join("session.json"), &newer).expect("writes");
    let events = std::fs::read(dir.join("events.jsonl")).expect("a file");
    let refused = world.practice(&["say two"]).with(&["--resume", &ours]).end().exits(3);
    refused.tells(&["has format 99; this version reads up to 2", "hint: update bowline"]);
    assert_eq!(std::fs::read(dir.join("events.jsonl")).expect("a file"), events);
    assert_eq!(std::fs::read_to_string(dir.join("session.json")).expect("a file"), newer);
    world.journal().check().ended("completed");
    let text = std::fs::read_to_string(dir.join("events.jsonl")).expect("a file");
    assert!(text.lines().any(|line| kind(&serde_json::from_str(line).expect("an event")) == "turn_ended"));
}

/// A directory as version 0.1 wrote it: format 1, one run, no options.
#[test]
fn a_session_of_an_older_version_is_listed_and_resumed() {
    let world = World::new();
    world.practice(&["say one"]).end().exits(0);
    let ours = only_session(&world);
    let path = world.path("home/sessions").join(&ours).join("session.json");
    let mut meta: Value = serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
    meta["format"] = 1.into();
    meta.as_object_mut().expect("an object").remove("options");
    std::fs::write(&path, meta.to_string()).expect("writes");
    let listed = world.bowline(&["sessions", "--all", "--json"]).end().exits(0).json();
    assert_eq!((&listed[0]["session"], &listed[0]["state"]), (&ours.as_str().into(), &"completed".into()));
    world.practice(&["say two"]).with(&["--resume", &ours]).end().exits(0);
    let meta: Value = serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
    assert_eq!(meta["format"], 2, "a version that knows no stints leaves it alone from now on");
    let journal = world.journal();
    journal.check();
    assert_eq!((turns(&journal), journal.text()), (vec![1, 2], "onetwo".to_owned()));
}
