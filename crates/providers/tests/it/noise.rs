//! Consecutive lines that are not understood: one event for many of them, and nothing lost.

use bowline_protocol::kinds::Unrecognized;
use bowline_protocol::{Event, Kind, RawSpan, Timestamp};
use bowline_providers::decode::Decoder;
use bowline_providers::dialects;
use bowline_providers::moment::Moment;

use crate::support::Run;

const GOOD: &str =
    r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"hi"}]},"session_id":"s"}"#;
const QUIET: &str = r#"{"type":"keep_alive"}"#;

/// What is told of lines that were not understood: how many, and where.
fn told(events: &[Event]) -> Vec<(u64, Option<RawSpan>)> {
    let of = |event: &Event| {
        let Kind::Unrecognized(Unrecognized { count, .. }) = &event.kind else { return None };
        Some((count.unwrap_or(1), event.raw))
    };
    events.iter().filter_map(of).collect()
}

/// A stream that begins well, and of so many bad lines before each good one.
fn stream(rows: &[usize], bad: &str, good: &str) -> String {
    let row = |row: &usize| format!("{}{good}\n", format!("{bad}\n").repeat(*row));
    format!("{GOOD}\n{}", rows.iter().map(row).collect::<String>())
}

#[test]
fn few_are_told_one_by_one_and_many_together() {
    let counts = |rows: &[usize], good| -> Vec<u64> {
        told(&Run::of("claude", &stream(rows, "x", good)).events()).iter().map(|(count, _)| *count).collect()
    };
    let alone = |number: usize| vec![1_u64; number];
    assert_eq!(counts(&[100], GOOD), alone(100));
    assert_eq!(counts(&[101], GOOD), alone(101), "one that is left over is one");
    assert_eq!(counts(&[102], GOOD), [alone(100), vec![2]].concat());
    assert_eq!(counts(&[3_230], GOOD), [alone(100), vec![1_000, 1_000, 1_000, 130]].concat());
    // What was understood ends a row, also where there was nothing to tell.
    for good in [GOOD, QUIET] {
        let both = [alone(100), vec![50], alone(100), vec![3]].concat();
        assert_eq!(counts(&[150, 103], good), both, "{good}");
    }
}

#[test]
fn long_lines_are_told_together_up_to_a_span() {
    let events = Run::of("claude", &stream(&[400], &"x".repeat(999), GOOD)).events();
    let together = told(&events).split_off(100);
    assert_eq!(together.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [66, 66, 66, 66, 36]);
    let long = |span: Option<RawSpan>| span.is_none_or(|span| span.end - span.start > 66 * 1_000);
    assert!(!together.iter().any(|(_, span)| long(*span)), "{together:?}");
}

/// A new release may change its whole format. A success without an answer would hide that.
#[test]
fn lines_of_unknown_types_alone_are_no_success_in_any_dialect() {
    let check = |dialect: &str, line: &str| {
        let summary = Run::of(dialect, &format!("{line}\n{line}\n")).summary();
        let told = (summary["outcome"].as_str(), summary["failure"]["code"].as_str());
        assert_eq!(told, (Some("failed"), Some("format_changed")), "{dialect}: {line}");
    };
    for entry in dialects::ALL {
        // Plain text is the answer, whatever it has.
        if entry.name != "text" {
            check(entry.name, r#"{"type":"a"}"#);
        }
        // For a document without types, the id of a session is enough.
        if !["text", "json"].contains(&entry.name) {
            check(entry.name, r#"{"type":"a","sessionID":"s","session_id":"s","part":{"type":"b"}}"#);
        }
    }
}

#[test]
fn nothing_of_a_row_is_lost_in_any_dialect() {
    let stdout = "x\n".repeat(2_750);
    for entry in dialects::ALL {
        let told = told(&Run::of(entry.name, &stdout).exit(1).events());
        // Where any text is an answer, nothing is noise; and a document is one piece.
        if told.len() <= 1 {
            continue;
        }
        assert_eq!(told.iter().map(|(count, _)| count).sum::<u64>(), 2_750, "{}", entry.name);
        let mut end = 0;
        // What is kept for the end has no place of its own.
        for span in told.iter().filter_map(|(_, span)| *span) {
            assert!(span.start <= end + 1 && span.end > span.start, "{}: {span:?} behind {end}", entry.name);
            end = span.end;
        }
        let length = stdout.len() as u64;
        assert!([0, length - 1, length].contains(&end), "{}: the last ends at {end}", entry.name);
        assert!(told.len() <= 103, "{}: {} events", entry.name, told.len());
    }
}

#[test]
fn a_row_does_not_depend_on_how_it_comes() {
    let stdout = stream(&[1_130, 40, 2_400], "x", GOOD);
    let whole = Run::of("claude", &stdout).events();
    for chunk in [1, 2, 3, 1_000, 4_096] {
        assert_eq!(whole, Run { chunk, ..Run::of("claude", &stdout) }.events(), "in chunks of {chunk}");
    }
    let before_the_end = |bytes: &[u8]| {
        let mut drafts = Vec::new();
        let entry = dialects::by_name("claude").expect("a dialect of the list");
        Decoder::new(entry).stdout(bytes, &Moment::utc(Timestamp::EPOCH), &mut drafts);
        drafts
    };
    let whole = before_the_end(stdout.as_bytes());
    for at in (0..stdout.len()).step_by(61) {
        let part = before_the_end(&stdout.as_bytes()[..at]);
        assert_eq!(part[..], whole[..part.len()], "cut at {at}");
    }
}

#[test]
fn a_summary_counts_lines_and_not_events() {
    let summary = Run::of("claude", &stream(&[5_000], "x", GOOD)).summary();
    assert_eq!((&summary["unrecognized"], &summary["events"]["unrecognized"]), (&5_000.into(), &105.into()));
}
