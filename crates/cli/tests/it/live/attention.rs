//! `attention.command` and `attention.notice`: a person is called when an agent needs one, also when no client is attached.

use std::path::PathBuf;

use super::session::LiveWorld;
use crate::pty::shown;
use crate::world::{World, wait_until};

/// Writes a program that appends its variables to a file, and the user's settings that name it. Returns the file.
fn pager(world: &World, more: &str) -> PathBuf {
    let (notes, program) = (world.path("notes"), world.path("pager"));
    let line =
        "$BOWLINE_EVENT|$BOWLINE_NAME|$BOWLINE_AGENT|$BOWLINE_TURN|$BOWLINE_OUTCOME|$BOWLINE_SUMMARY|$#";
    world.script("pager", &format!("printf '%s\\n' \"{line}\" >> '{}'\n{more}", notes.display()));
    settings(world, &format!("[attention]\ncommand = [\"{}\", \"one\"]\n", program.display()));
    notes
}

fn settings(world: &World, text: &str) {
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("bowline.toml"), text).expect("a file");
}

fn read(notes: &PathBuf) -> Vec<String> {
    std::fs::read_to_string(notes).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn the_runner_calls_when_no_client_is_attached() {
    let live = LiveWorld::new();
    let notes = pager(live.world(), "");
    let session = live.plays(&["tool write a.txt hello", "say done"], &["--name", "fix"]);
    session.asks();
    wait_until("the first call", || read(&notes).len() == 1);
    session.decides("approve", &[]);
    session.has_played(1);
    wait_until("the second call", || read(&notes).len() == 2);
    let lines = read(&notes);
    assert!(lines[0].starts_with("approval|fix|practice|1||approval wanted: Write "), "{lines:?}");
    assert_eq!(lines[1], "turn_end|fix|practice|1|completed|the turn is completed|1");
    session.stop().ended("completed");
    assert_eq!(read(&notes), lines, "a stop runs no command");
}

#[test]
fn the_command_may_approve_because_it_is_no_part_of_the_agent() {
    let live = LiveWorld::new();
    let bowline = env!("CARGO_BIN_EXE_bowline");
    let approve = format!(
        "[ \"$BOWLINE_EVENT\" != approval ] || '{bowline}' approve \"$BOWLINE_SESSION\" \"$BOWLINE_REQUEST\""
    );
    pager(live.world(), &approve);
    let session = live.plays(&["tool write a.txt hello", "say done"], &[]);
    session.has_played(1);
    assert_eq!(session.outcomes(), ["completed"]);
    assert!(live.path("work/a.txt").exists());
    session.stop();
}

#[test]
fn a_run_waits_for_its_call_and_reports_one_failure() {
    let world = World::new();
    let notes = pager(&world, "sleep 0.3; echo the pager is offline >&2; echo late >> \"$0.late\"; exit 4");
    let ended = world.practice(&["say hello"]).start().end().exits(0);
    assert_eq!(ended.stdout, "hello\n");
    assert_eq!(read(&notes), ["turn_end||practice|1|completed|the turn is completed|1"]);
    assert!(world.path("pager.late").exists(), "the run waited");
    let warned = "failed: exit code 4: the pager is offline";
    assert!(ended.stderr.contains(warned), "{}", ended.stderr);
}

#[test]
fn a_failure_is_one_notice_of_the_session_and_changes_nothing() {
    let live = LiveWorld::new();
    settings(live.world(), "[attention]\ncommand = [\"no-such-pager\"]\non = [\"turn_end\"]\n");
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    session.send(&["say two"], &[]);
    session.has_played(2);
    wait_until("the notice", || session.of("notice").iter().any(|it| it["code"] == "attention_failed"));
    let told = session.of("notice").iter().filter(|it| it["code"] == "attention_failed").count();
    assert_eq!((told, session.outcomes()), (1, vec!["completed".to_owned(), "completed".to_owned()]));
    session.stop().ended("completed");
}

#[test]
fn a_project_cannot_name_a_command() {
    let world = World::new();
    let dir = world.path("work/project/.bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(
        dir.join("bowline.toml"),
        "[attention]\ncommand = [\"/bin/sh\", \"-c\", \"touch /tmp/no\"]\n",
    )
    .expect("a file");
    let run = || world.practice(&["say hello"]).after("cd project").start().end();
    let ended = run().exits(3);
    assert!(ended.stderr.contains("a project cannot set `attention.command`"), "{}", ended.stderr);
    // Also with trust.
    world.bowline(&["trust"]).after("cd project").start().end();
    run().exits(3);
}

#[test]
fn a_desktop_notice_has_no_options_and_no_markup_of_the_agent() {
    let world = World::new();
    let (bin, notes) = (world.path("bin"), world.path("notes"));
    std::fs::create_dir(&bin).expect("a directory");
    world.script(
        "bin/notify-send",
        &format!("for word; do printf '%s\\n' \"$word\" >> '{}'; done", notes.display()),
    );
    settings(&world, "[attention]\nnotice = true\n");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let run = |display: &str| {
        let call = world.practice(&["fail 400 bad <b>request</b>"]).with(&["--label=--urgent"]);
        call.env("PATH", &path).env("DISPLAY", display).start().end();
    };
    run("");
    assert_eq!(read(&notes), Vec::<String>::new(), "there is no desktop");
    run(":0");
    let shown = read(&notes);
    assert_eq!(shown[..3], ["--app-name=bowline", "--", "Bowline: --urgent"], "{shown:?}");
    assert!(shown[3].starts_with("the turn failed") && !shown[3].contains('<'), "{shown:?}");
}

#[test]
fn without_a_notice_program_the_terminal_shows_the_notice() {
    let world = World::new();
    settings(&world, "[attention]\nnotice = true\non = [\"turn_end\"]\n");
    let show = |term: &str, version: &str| {
        let call = world.practice(&["say hello"]).env("TERM", term).env("VTE_VERSION", version);
        let bytes = shown(&call, r#""$0" "$@""#, 80).bytes;
        bytes
            .split('\u{1b}')
            .filter(|part| part.starts_with("]9;") || part.starts_with("]777;"))
            .map(cut)
            .collect()
    };
    fn cut(part: &str) -> String {
        part.split_once('\u{7}').map_or("no end", |(text, _)| text).to_owned()
    }
    let shown: Vec<Vec<String>> =
        vec![show("xterm-256color", ""), show("xterm-256color", "7600"), show("linux", "")];
    let expect: [&[&str]; 3] =
        [&["]9;Bowline: the turn is completed"], &["]777;notify;Bowline;the turn is completed"], &[]];
    assert_eq!(shown, expect);
}
