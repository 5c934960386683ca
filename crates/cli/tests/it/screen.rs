//! What a person sees of a run on a real terminal.

use crate::pty::shown;
use crate::route::{answering, routed, run};
use crate::world::World;

/// The command alone, without a pipe.
const ALONE: &str = r#""$0" "$@""#;

#[test]
fn the_work_is_shown_and_one_line_ends_it() {
    let world = World::new();
    std::fs::write(world.path("work/notes.md"), "one\n").expect("a file");
    let script = [
        "tool edit notes.md three",
        "tool run echo first; echo last; exit 3",
        "say \"**Done**: a sentence that is much too long for one line of a terminal this narrow.\"",
    ];
    let call = world.practice(&script).with(&["--permission", "yolo"]);
    let shown = shown(&call, ALONE, 60);
    let rows: Vec<&str> = shown.rows.iter().map(String::as_str).collect();
    for row in ["✓ Edit notes.md (+1 -0)", "    + three", "    │ first", "    │ last"] {
        assert!(rows.contains(&row), "{row}: {rows:#?}");
    }
    assert!(rows.iter().any(|row| row.starts_with("✗ Bash echo") && row.ends_with(": exit 3")), "{rows:#?}");
    assert!(rows.contains(&"Done: a sentence that is much too long for one line of a"), "{rows:#?}");
    assert!(rows.contains(&"terminal this narrow."), "{rows:#?}");
    let last = rows.last().expect("a footer");
    assert!(last.starts_with("practice · ") && last.contains(" · s-20"), "{rows:#?}");
    assert!(rows.iter().all(|row| !row.contains("journal")), "one line: {rows:#?}");
}

#[test]
fn quiet_shows_the_answer_alone() {
    let world = World::new();
    std::fs::write(world.path("work/notes.md"), "one\n").expect("a file");
    let script = ["tool read notes.md", "sleep 200ms", "say done"];
    assert_eq!(shown(&world.practice(&script).with(&["-q"]), ALONE, 80).rows, ["done"]);
    world.practice(&script).with(&["-q", "-v"]).end().exits(2);
    // What went wrong is told all the same.
    let shown = shown(&world.practice(&["fail 529 too much"]).with(&["--quiet"]), ALONE, 80);
    assert!(shown.rows.iter().any(|row| row.starts_with("error: ")), "{:#?}", shown.rows);
    assert!(!shown.rows.iter().any(|row| row.contains("s-20")), "{:#?}", shown.rows);
}

#[test]
fn the_demo_fits_a_narrow_terminal() {
    let world = World::new();
    let shown = shown(&world.bowline(&["demo", "--fast"]), ALONE, 60);
    let rows = shown.rows.join("\n");
    for word in ["demonstration:", "repository.", "account.", "--permission", "greeting.py", "providers"] {
        assert!(rows.contains(word), "`{word}` is broken:\n{rows}");
    }
    assert!(rows.contains("(+3 -2"), "{rows}");
}

#[test]
fn several_end_with_their_cost_and_session() {
    let world = routed(&[("first", answering()), ("second", answering())], "");
    let shown = shown(&run(&world, &["--provider", "first,second"]), ALONE, 100);
    for name in ["first", "second"] {
        assert!(shown.rows.iter().any(|row| *row == format!("== {name} ==")), "{:#?}", shown.rows);
        let footer = |row: &&String| row.starts_with(&format!("{name} · ")) && row.contains(" · s-20");
        assert_eq!(shown.rows.iter().filter(footer).count(), 1, "{:#?}", shown.rows);
    }
    assert!(shown.bytes.contains("first: ") && shown.bytes.contains("\r\u{1b}[K"), "{}", shown.bytes);
}
