//! Disks that are full and homes that cannot be written.

use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_testkit::skip;
use serde_json::Value;

use crate::journal::{Journal, kind};
use crate::world::{NOBODY, World, is_root};

/// A disk of a few kilobytes.
struct Tiny(PathBuf);

impl Tiny {
    #[expect(clippy::disallowed_methods, reason = "a disk is mounted by a program of the system")]
    fn mount(at: &Path, size: &str) -> Option<Self> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"]).arg(at);
        let mounted = is_root() && command.status().is_ok_and(|status| status.success());
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for Tiny {
    #[expect(clippy::disallowed_methods, reason = "a disk is unmounted by a program of the system")]
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(
            unmounted.is_ok_and(|status| status.success()) || std::thread::panicking(),
            "it is unmounted"
        );
    }
}

/// Runs directives with a journal on a disk that is too small for them.
fn on_a_full_disk(test: &str, directives: &[&str]) -> Option<Journal> {
    let world = World::new();
    let Some(tiny) = Tiny::mount(&world.path("home"), "300k") else {
        skip(test, "a small disk can be mounted only by root, where that is allowed");
        return None;
    };
    let ended = world.practice(directives).with(&["--output", "json", "--timeout", "none"]).end().exits(3);
    let summary = ended.json();
    assert_eq!(summary["failure"]["code"], "disk_full", "{ended:#?}");
    ended.tells(&["the disk is full", "hint: free some space"]);
    let journal = world.journal();
    journal.check().ended("failed configuration disk_full");
    drop(tiny);
    Some(journal)
}

#[test]
fn the_disk_is_full_while_the_agent_speaks() {
    on_a_full_disk("the_disk_is_full_while_the_agent_speaks", &["say first", "flood stdout 3MB", "say last"]);
}

#[test]
fn the_disk_is_full_and_the_agent_does_not_want_to_end() {
    let script = ["child setsid ignores-sigterm 600", "ignore sigterm sigint", "flood stdout 3MB", "hang"];
    on_a_full_disk("the_disk_is_full_and_the_agent_does_not_want_to_end", &script);
}

#[test]
fn who_watches_a_full_disk_sees_what_is_on_file() {
    let world = World::new();
    let Some(_tiny) = Tiny::mount(&world.path("home"), "300k") else {
        return skip(
            "who_watches_a_full_disk_sees_what_is_on_file",
            "a small disk can be mounted only by root",
        );
    };
    let script = ["ignore sigterm sigint", "say first", "flood stdout 3MB", "hang"];
    let ended = world.practice(&script).with(&["--output", "jsonl", "--timeout", "none"]).end().exits(3);
    let journal = world.journal();
    journal.check().ended("failed configuration disk_full");
    let seen: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen, journal.events);
    assert!(journal.count("gap") > 0, "what is missing is counted");
}

#[test]
fn the_end_is_told_however_small_the_disk_is() {
    let test = "the_end_is_told_however_small_the_disk_is";
    let mut refused = 0;
    for size in ["20k", "88k", "160k", "180k", "220k", "300k"] {
        let world = World::new();
        let Some(_tiny) = Tiny::mount(&world.path("home"), size) else {
            return skip(test, "a small disk can be mounted only by root, where that is allowed");
        };
        let call = world.practice(&["say first", "flood stdout 1MB"]).with(&["--output", "jsonl"]);
        let ended = call.end().tells(&["the disk is full", "hint: free some space"]);
        // It is the same whether it shows before the agent is started or when it speaks.
        let ended = ended.exits(3);
        if ended.stdout.is_empty() {
            // There is not even room for the end: nothing is begun.
            refused += 1;
            continue;
        }
        let seen: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers: Vec<u64> = seen.iter().filter_map(|event| event["seq"].as_u64()).collect();
        assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>(), "{size}");
        let of = |wanted: &str| seen.iter().filter(|event| kind(event) == wanted).collect::<Vec<_>>();
        assert_eq!(of("turn_ended")[0]["kind"]["failure"]["code"], "disk_full", "{size}");
        assert_eq!(seen.last().map(kind), Some("session_ended"), "{size}");
        if of("turn_started").is_empty() {
            assert!(
                of("process_spawned").is_empty(),
                "{size}: nobody is started of whom nothing could be kept"
            );
        }
    }
    assert!((1..6).contains(&refused), "both happen: {refused} of 6 were refused at once");
}

#[test]
fn the_disk_is_full_of_complaints() {
    on_a_full_disk("the_disk_is_full_of_complaints", &["flood stderr 3MB", "hang"]);
}

/// Not a byte is left but those that are kept for the end. They are enough for the state of the session, too.
#[test]
fn somebody_else_fills_the_disk() {
    let world = World::new();
    let Some(_tiny) = Tiny::mount(&world.path("home"), "400k") else {
        return skip("somebody_else_fills_the_disk", "a small disk can be mounted only by root");
    };
    let script = format!(
        "cat >/dev/null; dd if=/dev/zero of='{}' bs=4k 2>/dev/null; echo '{}'; exec sleep 600",
        world.path("home/ballast").display(),
        r#"{"type":"system","subtype":"init","session_id":"native-1","model":"m"}"#,
    );
    let texts = ["error: no disk space is left to record the run (disk_full)", "caused by: the disk is full"];
    world.claude(&script).end().exits(3).tells(&texts);
    let journal = world.journal();
    journal.check().ended("failed configuration disk_full");
    let meta = std::fs::read_to_string(journal.dir.join("session.json")).unwrap();
    assert!(meta.contains(r#""state": "failed""#), "{meta}");
    assert!(!journal.dir.join("session.json.new").exists());
}

/// A write beyond the limit raises SIGXFSZ, which ends a process without a handler.
#[test]
fn a_file_is_as_large_as_the_user_lets_it_get() {
    let world = World::new();
    let script = ["child setsid ignores-sigterm 600", "say first", "flood stdout 3MB", "say last"];
    let ended = world.practice(&script).after("ulimit -f 512").end().exits(3);
    ended.tells(&["is as large as a file may get here", "hint: raise the limit"]);
    world.journal().check().ended("failed configuration disk_full");

    // For the agent it is as it is for everybody.
    let world = World::new();
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"%s"}"#;
    let script =
        format!("cat >/dev/null; printf '{result}\\n' $(sed -n 's/SigIgn:\\t//p' /proc/self/status)");
    let ended = world.claude(&script).end().exits(0);
    let ignored = u64::from_str_radix(ended.stdout.trim(), 16).expect("a mask");
    assert_eq!(ignored & (1 << 24), 0, "{ignored:x}");
}

#[test]
fn the_disk_is_full_before_it_begins() {
    let world = World::new();
    let Some(_tiny) = Tiny::mount(&world.path("home"), "16k") else {
        return skip("the_disk_is_full_before_it_begins", "a small disk can be mounted only by root");
    };
    let filled = std::fs::write(world.path("home/ballast"), vec![0; 64 * 1024]);
    assert!(filled.is_err(), "the disk is full");
    let ended = world.practice(&["say hi"]).end().exits(3);
    ended.tells(&["error: the disk is full", "hint: free some space"]);
}

#[test]
fn the_home_is_read_only() {
    let world = World::new();
    let home = world.path("sealed");
    std::fs::create_dir(&home).unwrap();
    world.mode(&home, 0o555);
    let mut call = world.practice(&["say hi"]).env("BOWLINE_HOME", &home);
    if is_root() {
        // Another user's home is refused for that reason.
        std::os::unix::fs::chown(&home, Some(NOBODY), None).unwrap();
        call = call.user(NOBODY);
    }
    call.end().exits(3).tells(&["may not be written", "hint: set BOWLINE_HOME"]);
}

/// An `--ephemeral` run has its home among the temporary files.
#[test]
fn the_place_for_temporary_files_is_read_only_or_full() {
    let world = World::new();
    let sealed = world.path("sealed");
    std::fs::create_dir(&sealed).unwrap();
    world.mode(&sealed, 0o555);
    let mut call = world.practice(&["say hi"]).with(&["--ephemeral"]).env("TMPDIR", &sealed);
    if is_root() {
        call = call.user(NOBODY);
    }
    call.end().exits(3).tells(&["sealed/bowline-s-", "may not be written", "hint: set TMPDIR"]);

    let world = World::new();
    let Some(_tiny) = Tiny::mount(&world.path("tmp"), "300k") else {
        return skip(
            "the_place_for_temporary_files_is_read_only_or_full",
            "only root can mount a small disk",
        );
    };
    let call = world.practice(&["say first", "flood stdout 3MB"]).with(&["--ephemeral", "--timeout", "none"]);
    call.end().exits(3).tells(&["the disk is full: ", "tmp/bowline-s-", "or set TMPDIR to"]);
}

#[test]
fn no_home_is_known() {
    let world = World::new();
    let mut command = world.practice(&["say hi"]).command();
    let output = command.env_remove("BOWLINE_HOME").env_remove("HOME").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("no place for sessions is known") && stderr.contains("hint: set BOWLINE_HOME"),
        "{stderr}"
    );
}

#[test]
fn the_home_is_a_file() {
    let world = World::new();
    std::fs::write(world.path("file"), "").unwrap();
    let ended = world.practice(&["say hi"]).env("BOWLINE_HOME", world.path("file")).end().exits(3);
    ended.tells(&["error: ", "file"]);
}

#[test]
fn standard_output_is_full() {
    let world = World::new();
    let mut command = world.practice(&["say hi"]).command();
    command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("could not write to standard output"), "{stderr}");
    world.nobody_is_left();
    world.journal().check();
}

/// The answer is there, so the run went well; but a later reader has to know.
#[test]
fn a_journal_that_cannot_be_ended_is_told_of() {
    let world = World::new();
    let script = format!(
        "cat >/dev/null; for it in '{}'/sessions/*; do mkdir \"$it/session.json.new\"; done\necho '{}'",
        world.path("home").display(),
        r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#,
    );
    for format in ["human", "text"] {
        let ended = world.claude(&script).with(&["--output", format]).end().exits(0);
        assert_eq!(ended.stdout, "done\n");
        let warnings: Vec<&str> = ended.stderr.lines().filter(|it| it.starts_with("warning: ")).collect();
        assert_eq!(warnings.len(), 1, "{}", ended.stderr);
        assert!(warnings[0].contains("journal") && warnings[0].contains("session.json.new"), "{warnings:?}");
    }
    for journal in world.journals() {
        journal.check().ended("completed");
    }
}
