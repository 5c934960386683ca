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

/// A table, an answer with one, and a sentence that is wider than the terminals of these tests.
const TABLE: &str = r"**Result**\n\n| file | what it does |\n|---|---|\n| a.rs | it reads the arguments of the command and of its files |\n| b.rs | it runs |\n";

#[test]
fn a_table_fits_the_terminal() {
    let world = World::new();
    let script = format!("say \"{TABLE}\"");
    let shown_at = |width| shown(&world.practice(&[&script]), ALONE, width).rows;
    let rows = shown_at(80);
    let expected = [
        "Result",
        "file  what it does",
        "────  ──────────────────────────────────────────────────────",
        "a.rs  it reads the arguments of the command and of its files",
        "b.rs  it runs",
    ];
    assert_eq!(rows[..5], expected, "{rows:#?}");
    let rows = shown_at(40);
    assert_eq!(
        rows[3..6],
        ["a.rs  it reads the arguments of the", "      command and of its files", "b.rs  it runs"]
    );
    let rows = shown_at(14);
    assert!(rows.contains(&"file: a.rs".to_owned()), "{rows:#?}");
    // A pipe gets what the agent wrote.
    let ended = world.practice(&[&script]).end().exits(0);
    assert!(ended.stdout.contains("| file | what it does |\n|---|---|\n"), "{}", ended.stdout);
}

#[test]
fn several_answers_are_rendered_for_a_person_alone() {
    let saying = answering().replace("hello", TABLE);
    let world = routed(&[("first", saying.clone()), ("second", saying)], "");
    let call = || run(&world, &["--provider", "first,second"]);
    let person = shown(&call(), ALONE, 80);
    for row in ["Result", "file  what it does", "b.rs  it runs"] {
        assert_eq!(person.rows.iter().filter(|shown| *shown == row).count(), 2, "{row}: {:#?}", person.rows);
    }
    assert!(person.bytes.contains("\u{1b}[1mResult\u{1b}[0m"), "{}", person.bytes);
    let raw = "**Result**\n\n| file | what it does |\n|---|---|\n";
    assert_eq!(call().end().exits(0).stdout.matches(raw).count(), 2);
    let text = shown(&call().with(&["-o", "text"]), ALONE, 80);
    assert_eq!(
        text.rows.iter().filter(|row| *row == "| file | what it does |").count(),
        2,
        "{:#?}",
        text.rows
    );
}

#[test]
fn long_lines_of_ours_end_between_words() {
    let world = World::new();
    let whole = |rows: &[String], word: &str| {
        assert!(rows.iter().any(|row| row.split_whitespace().any(|it| it == word)), "{word}: {rows:#?}");
    };
    let error = shown(&world.bowline(&["run", "--provider", "practise", "hi"]), ALONE, 30).rows;
    let piped = world.bowline(&["run", "--provider", "practise", "hi"]).end().exits(2).stderr;
    let words = piped.split_whitespace().filter(|word| word.len() < 28);
    words.for_each(|word| whole(&error, word));
    assert!(piped.lines().any(|line| line.len() > 30), "{piped}");
    // So do those of a run.
    let rows = shown(&world.practice(&["fail 529 the service has far too much to do today"]), ALONE, 30).rows;
    let piped = world.practice(&["fail 529 the service has far too much to do today"]).end().stderr;
    piped.split_whitespace().filter(|word| word.len() < 28).for_each(|word| whole(&rows, word));
}

#[test]
fn several_end_with_their_cost_and_session() {
    // Both take long enough for their progress to be drawn.
    let slow = format!("sleep 0.5; {}", answering());
    let world = routed(&[("first", slow.clone()), ("second", slow)], "");
    let shown = shown(&run(&world, &["--provider", "first,second"]), ALONE, 100);
    for name in ["first", "second"] {
        assert!(shown.rows.iter().any(|row| *row == format!("== {name} ==")), "{:#?}", shown.rows);
        let footer = |row: &&String| row.starts_with(&format!("{name} · ")) && row.contains(" · s-20");
        assert_eq!(shown.rows.iter().filter(footer).count(), 1, "{:#?}", shown.rows);
    }
    assert!(shown.bytes.contains("first: ") && shown.bytes.contains("\r\u{1b}[K"), "{}", shown.bytes);
}
