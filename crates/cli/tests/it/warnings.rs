//! What a person is warned of although the run ended well: output that was not understood, and output that was skipped.

use crate::pty::shown;
use crate::world::World;

const RESULT: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s"}"#;

/// Returns the lines of standard error that warn.
fn warnings(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("warning: ")).collect()
}

#[test]
fn lines_that_were_not_understood_are_reported_once() {
    let world = World::new();
    let script = format!("cat >/dev/null; echo '{{\"type\":\"news\"}}'; echo noise; echo '{RESULT}'");
    for format in ["human", "json"] {
        let world = World::new();
        let ended = world.claude(&script).with(&["-o", format]).end().exits(0);
        let events = world.journal().dir.join("events.jsonl");
        let expected = format!(
            "warning: 2 lines of output were not understood; see the events of type `unrecognized` in {}",
            events.display()
        );
        assert_eq!(warnings(&ended.stderr), [expected], "{format}: {}", ended.stderr);
    }
    let ended = world.claude(&script).with(&["--ephemeral"]).end().exits(0);
    let expected = "warning: 2 lines of output were not understood; run it with a journal to see them";
    assert_eq!(warnings(&ended.stderr), [expected]);
    // A program of which everything is understood gets no warning, on a terminal neither.
    let quiet = format!("cat >/dev/null; echo '{RESULT}'");
    let shown = shown(&world.claude(&quiet), r#""$0" "$@""#, 80);
    assert!(!shown.rows.iter().any(|row| row.contains("warning")), "{:#?}", shown.rows);
}

#[test]
fn a_line_that_is_too_long_is_reported_once() {
    let world = World::new();
    let script = format!(
        "cat >/dev/null; printf '{{\"type\":\"'; head -c 70000000 /dev/zero | tr '\\0' x; echo '\"}}'; echo '{RESULT}'"
    );
    let ended = world.claude(&script).end().exits(0);
    let expected = format!(
        "warning: 1 line of output above 64 MiB was skipped: a part of the answer may be missing; see the raw output in {}",
        world.journal().dir.display()
    );
    assert_eq!(warnings(&ended.stderr), [expected], "{}", ended.stderr);
    assert_eq!(ended.stdout, "done\n");
}
