//! The live table on a terminal.

use rustix::process::Signal;

use super::{line, tasks};
use crate::pty::{Terminal, Typist};
use crate::world::World;

const ALONE: &str = r#""$0" "$@""#;

#[test]
fn a_table_shows_the_tasks_until_the_last_one_ends() {
    let world = World::new();
    let waits = |id: &str| line(id, &["tool run until test -e go; do sleep 0.05; done", "say **Done**."]);
    let lines = [line("early", &["say The first."]), waits("a\u{1b}[31m"), waits("last")];
    let call = tasks(&world, &lines[..1]);
    drop(call);
    // An id with a control character is refused; the text of an agent is not.
    tasks(&world, &lines).end().exits(2).tells(&["`id` must have 1 to 64 bytes and no control characters"]);
    let hostile =
        line("hostile", &["tool run : \u{1b}[31m; until test -e go; do sleep 0.05; done", "say **Done**."]);
    let lines = [line("early", &["say The first."]), hostile, waits("last")];
    let call = tasks(&world, &lines).with(&["--at-once", "2", "--permission", "yolo"]);
    let mut terminal = Terminal::start(&call, ALONE, 90, Typist::Absent);
    terminal.shows("TASK");
    terminal.shows("== early ==");
    terminal.shows("last ");
    wait_for(&terminal, |rows| {
        let has = |parts: &[&str]| rows.iter().any(|row| parts.iter().all(|part| row.contains(part)));
        has(&["early", "completed", "practice"])
            && has(&["hostile", "running", "Bash"])
            && has(&["last", "running", "until"])
    });
    let rows = terminal.rows();
    assert!(rows.iter().all(|row| row.chars().count() <= 90), "{rows:#?}");
    let answer = rows.iter().position(|row| row == "== early ==").expect("the answer");
    let table = rows.iter().position(|row| row.starts_with("TASK")).expect("the table");
    assert!(answer < table, "the table stays below: {rows:#?}");
    assert!(rows.last().is_some_and(|row| row.starts_with("2 running, 1 completed, ")), "{rows:#?}");
    // Another width.
    terminal.resize(40);
    wait_for(&terminal, |rows| rows.iter().any(|row| row.starts_with("hostile") && row.chars().count() < 40));
    terminal.resize(90);
    std::fs::write(world.path("work/go"), "").expect("a file");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    assert!(!shown.bytes.contains("\u{1b}[31m"), "no control character of an agent");
    let rows = &shown.rows;
    assert!(rows.iter().any(|row| row == "== last ==") && rows.iter().any(|row| row == "Done."), "{rows:#?}");
    assert!(rows.last().is_some_and(|row| row.starts_with("3 tasks: 3 completed, ")), "{rows:#?}");
    assert!(!rows.iter().any(|row| row.contains(" running ")), "the table is gone: {rows:#?}");
    let footers = rows.iter().filter(|row| row.starts_with("practice") && row.contains(" · s-20")).count();
    assert_eq!(footers, 3, "{rows:#?}");
}

#[test]
fn ctrl_c_is_seen_in_the_table() {
    let world = World::new();
    let deaf = line("deaf", &["ignore sigint", "say deaf", "hang"]);
    let call = tasks(&world, &[deaf, line("late", &["say x"])]).with(&["--at-once", "1"]);
    let terminal = Terminal::start(&call, &format!("exec {ALONE}"), 80, Typist::Absent);
    terminal.shows("running");
    wait_for(&terminal, |_| world.has_line(&["text_delta", "deaf"]));
    terminal.signal(Signal::INT);
    terminal.shows("cancelling; Ctrl-C again kills the agents");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(130), "{:#?}", shown.rows);
    assert!(shown.rows.iter().any(|row| row == "== deaf: cancelled =="), "{:#?}", shown.rows);
    assert!(shown.rows.last().is_some_and(|row| row.starts_with("2 tasks: 1 cancelled, 1 not begun, ")));
}

fn wait_for(terminal: &Terminal, check: impl Fn(&[String]) -> bool) {
    crate::world::wait_until("the screen", || check(&terminal.rows()));
}
