//! `bowline sessions` and `bowline stop`: what runs is found from another process, and ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::journal::Journal;
use crate::world::{Ended, Running, World, wait_until};

/// Starts an agent that says a word, which no other one says, and then nothing more.
fn hanging<'a>(world: &'a World, word: &str, options: &[&str]) -> Running<'a> {
    let running = world.practice(&[&format!("say {word}"), "hang"]).with(options).start();
    running.says(word);
    running
}

/// Runs the command while others run.
fn told(world: &World, args: &[&str]) -> Ended {
    world.bowline(args).start().end_among_others()
}

fn listed(world: &World, options: &[&str]) -> Vec<Value> {
    let list = told(world, &[&["sessions", "--json"], options].concat()).exits(0).json();
    list.as_array().expect("a list").clone()
}

fn of<'a>(list: &'a [Value], field: &str) -> Vec<&'a str> {
    list.iter().map(|row| row[field].as_str().unwrap_or("")).collect()
}

#[test]
fn sessions_are_found_and_ended_by_their_key() {
    let world = World::new();
    assert!(listed(&world, &[]).is_empty());
    let one = hanging(&world, "here-1", &["--key", "k", "--label", "the first"]);
    let two = hanging(&world, "here-2", &["--key", "k"]);
    let other = hanging(&world, "here-3", &["--key", "other"]);
    let rows = listed(&world, &["--key", "k"]);
    assert_eq!(of(&rows, "label"), ["", "the first"], "the newest first: {rows:#?}");
    assert_eq!((of(&rows, "key"), of(&rows, "state")), (vec!["k"; 2], vec!["running"; 2]));
    assert_eq!(of(&rows, "provider"), ["practice"; 2]);
    let work = world.path("work").canonicalize().unwrap();
    assert_eq!(of(&rows, "cwd"), [work.to_str().unwrap(); 2]);
    assert!(rows.iter().all(|row| row["since"].is_string() && row["running"] == true), "{rows:#?}");
    let table = told(&world, &["sessions"]).exits(0).stdout;
    assert!(table.starts_with("SESSION ") && table.lines().count() == 4, "{table}");
    assert!(table.contains("the first") && table.contains(" other "), "{table}");

    let stopped = told(&world, &["stop", "--key", "k"]).exits(0);
    assert_eq!(stopped.stdout.matches(": stopped\n").count(), 2, "{}", stopped.stdout);
    assert!(stopped.stdout.contains(" (the first): stopped\n"), "{}", stopped.stdout);
    for running in [one, two] {
        let ended = running.end_among_others();
        assert!(ended.stdout.contains("here"), "what was said is kept: {}", ended.stdout);
    }
    assert_eq!(of(&listed(&world, &[]), "key"), ["other"]);
    let all = listed(&world, &["--all"]);
    assert_eq!(of(&all, "state"), ["running", "stopped", "stopped"], "{all:#?}");

    let none = told(&world, &["stop", "--key", "k"]).exits(2);
    none.tells(&["error: no session with the key `k` is running", "hint: `bowline sessions`"]);
    let stopped = told(&world, &["stop", "--all"]).exits(0);
    assert_eq!(stopped.stdout.lines().count(), 1, "{}", stopped.stdout);
    let _ = other.end_among_others();
    let stopped = told(&world, &["stop", "--all"]).exits(0);
    assert_eq!((stopped.stdout.as_str(), stopped.stderr.as_str()), ("", "no session is running\n"));
    world.nobody_is_left();
}

#[test]
fn a_session_is_ended_by_its_name_and_one_that_is_over_is_told_apart_from_none() {
    let world = World::new();
    world.practice(&["say done"]).end().exits(0);
    world.practice(&["exit 1"]).end();
    let over = listed(&world, &["--all"]);
    assert_eq!(of(&over, "state"), ["failed", "completed"], "{over:#?}");
    let over = over[1]["session"].as_str().unwrap();
    let running = hanging(&world, "here", &[]);
    let id = listed(&world, &[])[0]["session"].as_str().unwrap().to_owned();
    // The one that runs is ended whatever else was asked for.
    let ended = told(&world, &["stop", over, &id]).exits(2);
    assert_eq!(ended.stdout, format!("{id}: stopped\n"));
    ended.tells(&[&format!("error: the session `{over}` is already finished")]);
    let _ = running.end_among_others();
    told(&world, &["stop", "s-nobody"]).exits(2).tells(&["error: there is no session `s-nobody`"]);
    world.nobody_is_left();
}

#[test]
fn a_runner_that_hangs_is_killed_and_what_it_had_started_goes_with_it() {
    let world = World::new();
    let running = hanging(&world, "here", &["--key", "k"]);
    running.signal(Signal::STOP);
    let stopped = told(&world, &["stop", "--key", "k"]).exits(0);
    assert!(stopped.stdout.contains(": killed: "), "{}", stopped.stdout);
    let _ = running.end_among_others();
    wait_until("the end of the agent", || world.agents().is_empty());
    // Its end is not written.
    assert_eq!(of(&listed(&world, &["--all"]), "state"), ["lost"]);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let world = World::new();
    told(&world, &["stop"]).exits(2).tells(&["<SESSION|--key <KEY>|--all>"]);
    told(&world, &["stop", "--all", "s-1"]).exits(2).tells(&["cannot be used with"]);
    for command in ["run", "sessions", "stop"] {
        for key in ["", " "] {
            let ended = told(&world, &[command, "--key", key]).exits(2);
            ended.tells(&["for `--key <KEY>`: a key needs at least one character"]);
        }
    }
    // Another process could never find it.
    let ended = world.practice(&["say hi"]).with(&["--key", "k", "--ephemeral"]).end().exits(2);
    ended.tells(&[
        "error: `--key` cannot be used with `--ephemeral`: other processes cannot find an ephemeral session",
    ]);
    assert!(world.journals_begun().is_empty());
}

#[test]
fn no_name_is_too_long_for_the_list() {
    let world = World::new();
    let (fits, tall) = ("n".repeat(256), "n".repeat(65_536));
    world.practice(&["say hi"]).with(&["--key", &fits, "--label", &fits]).end().exits(0);
    for option in ["--key", "--label"] {
        let ended = world.practice(&["say hi"]).with(&[option, &tall]).end().exits(2);
        ended.tells(&["65536 bytes is too long; the maximum is 256 bytes"]);
    }
    assert_eq!(listed(&world, &["--all"]).len(), 1, "what is refused starts nothing");
    // A session of a version that had no limit is listed all the same.
    let dir = world.journals_begun().pop().expect("a session");
    let meta = std::fs::read_to_string(dir.join("session.json")).expect("it is there");
    let mut meta: Value = serde_json::from_str(&meta).expect("it is JSON");
    meta["label"] = format!("{tall}\u{1b}[2J\u{85}").into();
    std::fs::write(dir.join("session.json"), meta.to_string()).expect("written");
    let table = told(&world, &["sessions", "--all"]).exits(0).stdout;
    assert_eq!(table.lines().count(), 2);
    assert!(table.contains(&tall) && !table.contains('\u{1b}'), "the label is shown, and harmless");
    assert_eq!(of(&listed(&world, &["--all"]), "label"), [meta["label"].as_str().unwrap()]);
}

#[test]
fn a_session_is_found_by_a_part_of_its_id_and_one_that_is_not_there_is_named() {
    let world = World::new();
    let running = hanging(&world, "here", &[]);
    let id = listed(&world, &[])[0]["session"].as_str().unwrap().to_owned();
    let end = &id[id.len() - 8..];
    assert_eq!(told(&world, &["stop", end]).exits(0).stdout, format!("{id}: stopped\n"));
    let _ = running.end_among_others();
    world.practice(&["say again"]).with(&["--resume", end, "--dry-run"]).end();
    let resume = |options: &[&str]| told(&world, &[&["run"], options, &["hi"]].concat()).exits(2);
    let unknown = resume(&["--resume", "zzjde463"]);
    unknown.tells(&["error: there is no session `zzjde463`", "`--provider NAME --resume zzjde463`"]);
    resume(&["--resume", "last"])
        .tells(&["error: there is no session `last`", "hint: `--continue --provider NAME`"]);
    world.practice(&["say one"]).end().exits(0);
    let several = resume(&["--resume", &id[..6]]);
    several.tells(&["` names 2 sessions", "`bowline sessions --all`"]);
    world.nobody_is_left();
}

/// A home may have thousands of sessions that are over.
#[test]
fn a_session_that_is_over_is_opened_by_all_alone() {
    let world = World::new();
    world.practice(&["say one"]).end().exits(0);
    let id = listed(&world, &["--all"])[0]["session"].as_str().unwrap().to_owned();
    // A pipe in the place of the description shows who opens it: without a reader, it cannot be opened for writing.
    let over = world.path("home").join("sessions").join("s-20200101-000000000-00000000");
    std::fs::create_dir(&over).unwrap();
    let pipe = over.join("session.json");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let is_opened_by = |args: &[&str]| {
        let (ended, opened) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
                    let writer = rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty());
                    opened.fetch_or(writer.is_ok(), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let _ = told(&world, args);
            ended.store(true, Ordering::Relaxed);
        });
        opened.into_inner()
    };
    for args in [&["sessions"][..], &["stop", "--all"], &["stop", "--key", "k"], &["stop", &id]] {
        assert!(!is_opened_by(args), "{args:?}");
    }
    assert!(is_opened_by(&["sessions", "--all"]));
}

#[test]
fn a_damaged_session_is_shown_and_can_be_removed() {
    let world = World::new();
    world.practice(&["say one"]).end().exits(0);
    let sessions = world.path("home").join("sessions");
    let spoiled = [
        ("s-20200101-000000000-empty", ""),
        ("s-20200102-000000000-text", "no JSON"),
        ("s-20200103-000000000-later", r#"{"format": 99}"#),
    ];
    let open = world.path("home").join("open");
    for (name, content) in spoiled {
        std::fs::create_dir(sessions.join(name)).unwrap();
        std::fs::write(sessions.join(name).join("session.json"), content).unwrap();
        std::fs::write(sessions.join(name).join("events.jsonl"), "{}\n").unwrap();
        std::fs::write(open.join(name), "").unwrap();
    }
    // Something else than a session: it is never followed, never removed.
    std::fs::create_dir(world.path("precious")).unwrap();
    std::os::unix::fs::symlink(world.path("precious"), sessions.join("s-link")).unwrap();

    assert!(listed(&world, &[]).is_empty());
    let all = listed(&world, &["--all"]);
    assert_eq!(of(&all, "state"), ["completed", "newer_version", "damaged", "damaged"], "{all:#?}");
    assert_eq!(of(&all, "session")[1..], [spoiled[2].0, spoiled[1].0, spoiled[0].0]);
    assert!(all[1]["problem"].as_str().unwrap().contains("has format 99"), "{all:#?}");
    let shown = told(&world, &["sessions", "--all"]).exits(0);
    assert!(shown.stdout.contains("damaged"), "{}", shown.stdout);
    shown.tells(&[&format!("`bowline sessions remove {}`", spoiled[0].0)]);

    // The next run does not look at them for ever. One of a newer version stays marked for a day.
    world.practice(&["say two"]).end().exits(0);
    wait_until("their marks to go", || {
        !open.join(spoiled[0].0).exists() && !open.join(spoiled[1].0).exists()
    });
    assert!(open.join(spoiled[2].0).exists());

    for bad in ["../precious", "..", "", "s-link", "s-nobody", "/etc"] {
        told(&world, &["sessions", "remove", "--", bad]).exits(2).tells(&["error: there is no session"]);
    }
    let running = hanging(&world, "here", &[]);
    let id = listed(&world, &[])[0]["session"].as_str().unwrap().to_owned();
    let refused = told(&world, &["sessions", "remove", &id]).exits(2);
    refused.tells(&[&format!("the session `{id}` is running"), &format!("`bowline stop {id}`")]);
    told(&world, &["stop", &id]).exits(0);
    let _ = running.end_among_others();
    let removed =
        told(&world, &["sessions", "remove", spoiled[0].0, spoiled[1].0, spoiled[2].0, &id]).exits(0);
    assert_eq!(removed.stdout.lines().count(), 4);
    assert_eq!(of(&listed(&world, &["--all"]), "state"), ["completed"; 2]);
    assert!(world.path("precious").exists() && !open.join(spoiled[2].0).exists());
    let left = std::fs::read_dir(&sessions).unwrap().count();
    assert_eq!(left, 3, "two sessions and the link");
    world.nobody_is_left();
}

#[test]
fn a_data_home_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.practice(&["say one"]).end().exits(0);
    let home = world.path("home");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = world.practice(&["say two"]).end().exits(3);
    refused
        .tells(&["other users may write in it (mode 777)", &format!("hint: chmod 700 {}", home.display())]);
    for command in [&["sessions"][..], &["stop", "--all"]] {
        told(&world, command).exits(3).tells(&["other users may write in it"]);
    }
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
    world.practice(&["say three"]).end().exits(0);
}

#[test]
fn the_last_session_of_a_directory_is_continued_without_a_provider() {
    let world = World::new();
    let continues = |text: &str| told(&world, &["run", "--continue", text]);
    continues("hi").exits(2).tells(&["error: no session of Bowline in this directory to continue"]);
    world.practice(&["say one"]).end().exits(0);
    std::fs::create_dir(world.path("work/elsewhere")).expect("a directory");
    world.practice(&["say elsewhere"]).with(&["--cwd", "elsewhere"]).end().exits(0);
    assert_eq!(continues("practice: say two").exits(0).stdout, "two\n");
    let mut texts: Vec<String> = world.journals().iter().map(Journal::text).collect();
    texts.sort();
    assert_eq!(texts, ["elsewhere", "onetwo"], "the same session, and not that of another directory");
}

#[test]
fn the_last_session_is_removed_by_its_short_name() {
    let world = World::new();
    for label in ["first", "second"] {
        world.practice(&["say one"]).with(&["--label", label]).end().exits(0);
    }
    let removed = told(&world, &["sessions", "remove", "@last"]).exits(0).stdout;
    assert!(removed.starts_with("s-20") && removed.ends_with(": removed\n"), "{removed}");
    assert_eq!(of(&listed(&world, &["--all"]), "label"), ["first"]);
    told(&world, &["sessions", "remove", "first"]).exits(0);
    assert_eq!(listed(&world, &["--all"]).len(), 0);
}
