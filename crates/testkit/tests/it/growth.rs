//! The output for a message does not depend on how many came before it, in any dialect and any view.
//!
//! Bytes and events are counted here, because they are the same on every machine. Work without output is not counted here: `work`
//! measures its CPU time, and `cargo xtask bench decode` counts its instructions, with the limit of this file.

use std::collections::BTreeMap;

use bowline_protocol::{SessionId, Timestamp};
use bowline_providers::decode::{Decoder, End, Stamp};
use bowline_providers::moment::Moment;
use bowline_providers::views::{self, Setup};
use bowline_providers::{dialect::Shape, dialects};
use bowline_testkit::{LONG_TURNS, LongTurn};

/// How much more a message may print when there are ten times as many.
const LIMIT: f64 = 1.2;

/// Formats whose records repeat everything before them, as the specifications define.
pub(crate) const CUMULATIVE: &[&str] = &["pi-partials", "chunks"];

/// Decodes a long turn, and returns its events and the output of each view, in bytes.
fn printed(turn: &LongTurn, messages: usize) -> (BTreeMap<String, usize>, Vec<(&'static str, usize)>) {
    let entry = dialects::by_name(turn.dialect).expect("a dialect of the list");
    let now = Moment::utc(Timestamp::EPOCH);
    let mut decoder = Decoder::of_shape(entry, Shape::Unknown);
    let mut drafts = Vec::new();
    decoder.stdout(turn.text(messages).as_bytes(), &now, &mut drafts);
    decoder.finish(&End::default(), &now, &mut drafts);
    let mut stamp = Stamp::new(SessionId::from("s"));
    let events: Vec<_> = drafts.drain(..).map(|draft| stamp.stamp(draft, Timestamp::EPOCH)).collect();
    let mut kinds = BTreeMap::new();
    events.iter().for_each(|event| *kinds.entry(event.kind.type_name().to_owned()).or_default() += 1);
    let each = |view: &views::ViewEntry| {
        let (mut view, mut out) = ((view.make)(&Setup::default()), String::new());
        events.iter().for_each(|event| view.event(event, &mut out));
        view.finish(&mut out);
        out.len()
    };
    let bytes = views::ALL.iter().filter(|view| !CUMULATIVE.contains(&view.name));
    (kinds, bytes.map(|view| (view.name, each(view))).collect())
}

#[test]
fn every_dialect_has_a_long_turn() {
    let one_answer = ["json", "executable-generate"];
    for entry in dialects::ALL.iter().filter(|entry| !one_answer.contains(&entry.name)) {
        let turn = LongTurn::of(entry.name).unwrap_or_else(|| panic!("no long turn of `{}`", entry.name));
        let (kinds, _) = printed(turn, 30);
        assert_eq!(kinds.get("unrecognized"), None, "{}: {kinds:?}", entry.name);
        assert!(kinds["text_delta"] >= 30, "{}: {kinds:?}", entry.name);
        assert_eq!(kinds["turn_started"], 1, "{}: {kinds:?}", entry.name);
        assert_eq!(kinds["turn_ended"], 1, "{}: {kinds:?}", entry.name);
    }
}

#[test]
fn ten_times_the_messages_print_ten_times_the_bytes() {
    for turn in LONG_TURNS {
        let (few, many) = (printed(turn, 200), printed(turn, 2000));
        for ((view, few), (_, many)) in few.1.into_iter().zip(many.1) {
            assert!(
                many as f64 <= 10.0 * LIMIT * few as f64,
                "{} as {view}: {few} bytes, then {many}",
                turn.dialect
            );
        }
        let count = |kinds: &BTreeMap<String, usize>| kinds.values().sum::<usize>() as f64;
        assert!(count(&many.0) <= 10.0 * LIMIT * count(&few.0), "{}: {:?}", turn.dialect, many.0);
    }
}
