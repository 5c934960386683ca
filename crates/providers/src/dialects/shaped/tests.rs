//! The events of a text that is no document.

use bowline_protocol::{Kind, Timestamp};

use crate::decode::{Decoder, End};
use crate::dialect::{Shape, UnnumberedEvent};
use crate::dialects;
use crate::moment::Moment;

/// Decodes what a program printed that was to print one document.
fn decode(stdout: &str) -> Vec<UnnumberedEvent> {
    let now = Moment::utc(Timestamp::EPOCH);
    let mut decoder = Decoder::of_shape(dialects::by_name("claude").expect("a dialect"), Shape::Document);
    let mut drafts = Vec::new();
    for chunk in stdout.as_bytes().chunks(64 * 1024) {
        decoder.stdout(chunk, &now, &mut drafts);
    }
    decoder.finish(&End::default(), &now, &mut drafts);
    drafts
}

/// Returns the stretches of what was not understood, which must lie in their order and not over each other.
fn not_understood(drafts: &[UnnumberedEvent]) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    for draft in drafts.iter().filter(|draft| matches!(draft.kind, Kind::Unrecognized(_))) {
        let raw = draft.raw.expect("a place");
        assert!(spans.last().is_none_or(|(_, end)| *end < raw.start), "{raw:?} after {spans:?}");
        spans.push((raw.start, raw.end));
    }
    spans
}

#[test]
fn a_flood_that_is_no_document_is_a_few_events_and_none_of_it_is_lost() {
    let flood = "x\n".repeat(300_000);
    let spans = not_understood(&decode(&flood));
    assert!(spans.len() < 100, "{}", spans.len());
    assert_eq!((spans[0].0, spans[spans.len() - 1].1), (0, flood.len() as u64 - 1));
    // Nothing but line ends between them.
    assert!(spans.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "{spans:?}");
}

#[test]
fn a_flood_before_the_document_hides_neither_it_nor_the_reason_at_its_end() {
    let result =
        r#"{"type":"result","subtype":"success","is_error":false,"result":"Hello","session_id":"s"}"#;
    let drafts = decode(&format!("{}{result}\n", "a warning\n".repeat(50_000)));
    assert!(drafts.len() < 100, "{}", drafts.len());
    let said =
        |draft: &UnnumberedEvent| matches!(&draft.kind, Kind::TextDelta(delta) if delta.text == "Hello");
    assert!(drafts.iter().any(said), "{drafts:?}");

    let drafts = decode(&format!("{}the last word\n", "progress\n".repeat(50_000)));
    let last = |draft: &UnnumberedEvent| matches!(&draft.kind, Kind::Unrecognized(it) if it.head.text == "the last word");
    assert!(drafts.iter().any(last), "the end of a flood stands on its own");
}

#[test]
fn lines_of_json_in_place_of_the_document_are_told_as_they_come() {
    let now = Moment::utc(Timestamp::EPOCH);
    let mut decoder = Decoder::of_shape(dialects::by_name("claude").expect("a dialect"), Shape::Document);
    let mut most = 0;
    let line = "{\"type\":\"nobody_knows_it\"}\n";
    for _ in 0..1000 {
        let mut drafts = Vec::new();
        decoder.stdout(line.repeat(10).as_bytes(), &now, &mut drafts);
        most = most.max(drafts.len());
    }
    let mut drafts = Vec::new();
    decoder.finish(&End::default(), &now, &mut drafts);
    assert!(most < 20 && drafts.len() < 20, "{most} in one piece, {} at the end", drafts.len());
}
