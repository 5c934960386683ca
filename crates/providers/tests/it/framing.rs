//! Hard lines, through the whole decoder.

use bowline_protocol::{Exit, RawFile, RawSpan, Timestamp};
use bowline_providers::decode::{Decoder, End};
use bowline_providers::dialects;
use bowline_providers::moment::Moment;

use crate::support::Run;

#[test]
fn line_ends_of_every_sort() {
    for output in [
        "{\"type\":\"text\",\"delta\":\"a\"}\r\n{\"type\":\"text\",\"delta\":\"b\"}\r\n",
        "{\"type\":\"text\",\"delta\":\"a\"}\n{\"type\":\"text\",\"delta\":\"b\"}",
        "\n\n{\"type\":\"text\",\"delta\":\"a\"}\n\r\n\n{\"type\":\"text\",\"delta\":\"b\"}\r",
    ] {
        let run = Run::of("simple", output);
        assert_eq!((run.text().as_str(), run.unrecognized().len()), ("ab", 0), "{output:?}");
    }
}

#[test]
fn bytes_that_are_no_text_never_lose_a_line() {
    let output: &[u8] = b"{\"type\":\"text\",\"delta\":\"caf\xe9\"}\n{\"type\":\"text\",\"delta\":\"\\ud83d\"}\n{\"type\":\"text\",\"delta\":\"a\x00b\"}\n\x00{\"type\":\"text\",\"delta\":\"!\"}\x00\n";
    let run = Run::of("simple", output);
    assert_eq!(run.text(), "caf\u{FFFD}\u{FFFD}a\0b!");
    assert!(run.unrecognized().is_empty());
}

#[test]
fn a_character_cut_by_the_chunks_is_whole() {
    let output = "{\"type\":\"text\",\"delta\":\"né 😀\"}\n";
    for chunk in 1..8 {
        assert_eq!(Run { chunk, ..Run::of("simple", output) }.text(), "né 😀");
    }
}

#[test]
fn objects_that_share_a_line_are_both_read_and_the_rest_is_noise() {
    let run = Run::of(
        "simple",
        "{\"type\":\"text\",\"delta\":\"a\"}{\"type\":\"text\",\"delta\":\"b\"} [warn] x\n",
    );
    assert_eq!(run.text(), "ab");
    assert_eq!(run.unrecognized(), ["[warn] x"]);
}

#[test]
fn an_answer_quoted_by_a_log_line_is_no_answer() {
    let run = Run::of("simple", "DEBUG sent {\"type\":\"text\",\"delta\":\"secret\"}\n");
    assert_eq!(run.text(), "");
    assert_eq!(run.unrecognized().len(), 1);
}

#[test]
fn a_key_that_occurs_twice_counts_once() {
    assert_eq!(
        Run::of("simple", "{\"type\":\"text\",\"type\":\"text\",\"delta\":\"a\",\"delta\":\"b\"}").text(),
        "b"
    );
}

#[test]
fn a_line_over_the_cap_is_reported_with_its_place_and_the_next_is_read() {
    let long = format!("{{\"type\":\"text\",\"delta\":\"{}\"}}", "x".repeat(5000));
    let output = format!("{long}\n{{\"type\":\"text\",\"delta\":\"ok\"}}\n");
    let entry = dialects::by_name("simple").expect("a dialect");
    let now = Moment::utc(Timestamp::EPOCH);
    let mut drafts = Vec::new();
    let mut decoder = Decoder::with_line_cap(entry, 1000);
    for chunk in output.as_bytes().chunks(64) {
        decoder.stdout(chunk, &now, &mut drafts);
    }
    decoder.finish(&End { exit: Some(Exit::Code(0)), ..End::default() }, &now, &mut drafts);
    assert_eq!(drafts[0].kind.type_name(), "unrecognized");
    assert_eq!(drafts[0].raw, Some(RawSpan { file: RawFile::Stdout, start: 0, end: long.len() as u64 }));
    assert!(drafts.iter().any(|draft| draft.kind.type_name() == "text_delta"));
}

#[test]
fn spans_point_at_the_lines() {
    let output = "noise\r\n{\"type\":\"text\",\"delta\":\"a\"}\n";
    for event in Run::of("simple", output).events() {
        let Some(raw) = event.raw else { continue };
        let slice = &output[raw.start as usize..raw.end as usize];
        assert!(slice == "noise" || slice.starts_with('{') && slice.ends_with('}'), "{slice:?}");
    }
}
