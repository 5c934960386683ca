//! INV-CLI-PARSE-004: ANSI stripping.

use crate::support::{Run, text};

#[test]
fn text_has_no_sequences() {
    for (output, expect) in [
        ("\x1b[32mgreen\x1b[0m", "green"),
        ("\x1b[2K\x1b[1Gdone", "done"),
        ("\x1b[1m\x1b[31mboth\x1b[0m\x1b[22m", "both"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1bPq#0\x1b\\text", "text"),
        ("\u{9b}31mred", "red"),
    ] {
        assert_eq!(text("text", output), expect, "{output:?}");
    }
    assert_eq!(Run::of("text", b"\x9b31mred\x9b0m".as_slice()).text(), "red");
}

#[test]
fn json_is_read_through_the_sequences_around_it() {
    let line = "\x1b[32m{\"type\":\"content\",\"content\":\"Hi\"}\x1b[0m\r\n";
    assert_eq!(text("stream-json", line), "Hi");
    assert_eq!(text("json", "\x1b[2K\x1b[1G{\"content\":\"Hi\"}\x1b[0m"), "Hi");
    assert_eq!(text("simple", "\u{9b}1m{\"type\":\"text\",\"delta\":\"Hi\"}"), "Hi");
}

#[test]
fn a_document_is_found_through_sequences_marks_and_noise() {
    for (dialect, object) in
        [("json", "{\"content\":\"Hi\"}"), ("executable-generate", "{\"content\":\"Hi\",\"model\":\"m\"}")]
    {
        for (before, after) in [
            ("\x1b[32m", "\x1b[0m\n"),
            ("\u{feff}", "\n"),
            ("Loading\n\x1b[32m", "\x1b[0m\nbye\n"),
            ("{warn} hello\n", "\n"),
            ("don't \" quote\n\u{9b}1m", "\n"),
        ] {
            let output = format!("{before}{object}{after}");
            let run = Run::of(dialect, &output);
            assert_eq!(
                (run.text().as_str(), run.outcome().as_str()),
                ("Hi", "completed"),
                "{dialect}: {output:?}"
            );
        }
    }
    assert_eq!(text("json", "Warn: x\n{\"content\":\"\\ud83d hi\"}\n"), "\u{fffd} hi");
}

#[test]
fn what_a_json_string_says_is_left_alone() {
    let escaped = r#"{"content":"\u001b[32mgreen\u001b[0m"}"#;
    assert_eq!(text("json", escaped), "\x1b[32mgreen\x1b[0m");
    let around = "\x1b[1m{\"type\":\"content\",\"content\":\"a\u{9b}b\"}\x1b[0m";
    assert_eq!(text("stream-json", around), "a\u{9b}b");
}

#[test]
fn the_reason_of_a_failure_has_no_sequences() {
    let run = Run::of("text", "").exit(1).stderr("\x1b[31mError: 401 Unauthorized\x1b[0m");
    assert_eq!(run.summary()["failure"]["message"], "Error: 401 Unauthorized");
}
