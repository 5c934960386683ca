//! The CPU time of a message does not depend on how many came before it, in any dialect and any view.
//!
//! The measure is the CPU time of this thread, so it includes all work: also a walk over earlier messages that
//! allocates nothing and prints nothing, which the counts in `growth` cannot see. A long turn is fed in ten parts of equal
//! length, and late parts are compared with early ones. In linear code they cost the same; under a walk over all earlier
//! messages the cost of a part grows with its place.
//!
//! It detects a late message that costs [`LIMIT`] times as much as an early one: in an unoptimised build, a walk over some
//! 2,000 messages does. It cannot detect less, such as a logarithm or a walk over a short list; for this
//! `cargo xtask bench decode` counts instructions, with a limit of 1.2 for ten times the messages. Time is noisy where
//! instructions are not. So the time of other processes does not count, the cheapest of three parts represents them all, and only
//! growth in every one of several tries is a failure. Rare bursts of work are not detected either.

use std::hint::black_box;

use bowline_protocol::{Event, Kind, SessionId, Timestamp};
use bowline_providers::decode::{Decoder, Stamp};
use bowline_providers::dialect::Shape;
use bowline_providers::dialects;
use bowline_providers::moment::Moment;
use bowline_providers::views::{self, Digest, Setup};
use bowline_testkit::{LONG_TURNS, LongTurn};
use rustix::time::{ClockId, clock_gettime};

use crate::growth::CUMULATIVE;

/// The number of messages. A quadratic walk has to stand out from the cost of reading them in an unoptimised build too.
const MESSAGES: usize = 6_000;

/// The number of parts of a turn.
const PARTS: usize = 10;

/// How much more a late part may cost than an early one.
const LIMIT: f64 = 1.4;

/// How often growth has to appear. A disturbed measurement is repeated.
const TRIES: usize = 6;

/// Returns the CPU time of this thread so far, in nanoseconds.
fn cpu_time() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Measures each part, and returns how much more the late ones cost. The first part warms up and the last one has the end of the
/// turn, so neither is compared. Of three parts the cheapest counts: lists that double their capacity make others dearer.
fn growth<T>(parts: &[T], mut feed: impl FnMut(&T)) -> f64 {
    let cost = |part| {
        let before = cpu_time();
        feed(part);
        cpu_time() - before
    };
    let costs: Vec<i64> = parts.iter().map(cost).collect();
    let cheapest = |costs: &[i64]| costs.iter().copied().fold(i64::MAX, i64::min).max(1) as f64;
    cheapest(&costs[PARTS - 4..PARTS - 1]) / cheapest(&costs[1..4])
}

/// Repeats a measurement until it stays below the limit; the lowest growth counts.
fn lowest(mut measure: impl FnMut() -> f64) -> f64 {
    let mut lowest = f64::INFINITY;
    for _ in 0..TRIES {
        lowest = lowest.min(measure());
        if lowest <= LIMIT {
            break;
        }
    }
    lowest
}

/// Repeats a measurement until it exceeds the limit; the highest growth counts. A disturbed measurement hides growth as well.
fn highest(mut measure: impl FnMut() -> f64) -> f64 {
    let mut highest = 0.0_f64;
    for _ in 0..TRIES {
        highest = highest.max(measure());
        if highest > LIMIT {
            break;
        }
    }
    highest
}

/// Splits a long turn into parts. A message may be split too, as by a pipe.
fn cut(text: &str) -> Vec<&[u8]> {
    let bytes = text.as_bytes();
    bytes.chunks(bytes.len().div_ceil(PARTS)).collect()
}

/// Decodes the parts of a turn.
fn decoded(turn: &LongTurn, parts: &[&[u8]], mut each: impl FnMut(Vec<Event>)) -> f64 {
    let entry = dialects::by_name(turn.dialect).expect("a dialect of the list");
    let now = Moment::utc(Timestamp::EPOCH);
    let mut decoder = Decoder::of_shape(entry, Shape::Unknown);
    let mut drafts = Vec::new();
    let mut ends = Vec::new();
    let growth = growth(parts, |part| {
        decoder.stdout(part, &now, &mut drafts);
        ends.push(drafts.len());
    });
    let mut stamp = Stamp::new(SessionId::from("s"));
    let (mut drafts, mut begin) = (drafts.into_iter(), 0);
    for end in ends {
        each(drafts.by_ref().take(end - begin).map(|draft| stamp.stamp(draft, Timestamp::EPOCH)).collect());
        begin = end;
    }
    growth
}

/// Returns the events of a long turn, by the part in which they came.
fn events(turn: &LongTurn) -> Vec<Vec<Event>> {
    let (text, mut all) = (turn.text(MESSAGES), Vec::new());
    decoded(turn, &cut(&text), |events| all.push(events));
    all
}

#[test]
fn a_late_message_costs_no_more_to_decode_than_an_early_one() {
    for turn in LONG_TURNS {
        let text = turn.text(MESSAGES);
        let growth = lowest(|| decoded(turn, &cut(&text), drop));
        assert!(growth <= LIMIT, "{}: a late message costs {growth:.1} times as much", turn.dialect);
    }
}

#[test]
fn a_late_message_costs_no_more_to_show_than_an_early_one() {
    for turn in LONG_TURNS {
        let events = events(turn);
        for view in views::ALL.iter().filter(|view| !CUMULATIVE.contains(&view.name)) {
            let growth = lowest(|| {
                let (mut view, mut out) = ((view.make)(&Setup::default()), String::new());
                growth(&events, |part| {
                    part.iter().for_each(|event| view.event(event, &mut out));
                    out.clear();
                })
            });
            let name = view.name;
            assert!(
                growth <= LIMIT,
                "{} as {name}: a late message costs {growth:.1} times as much",
                turn.dialect
            );
        }
        let growth = lowest(|| {
            let mut digest = Digest::default();
            growth(&events, |part| part.iter().for_each(|event| digest.event(event)))
        });
        assert!(
            growth <= LIMIT,
            "{} in a record: a late message costs {growth:.1} times as much",
            turn.dialect
        );
    }
}

/// A program may begin messages and never finish one, and call tools meanwhile. Each piece of the last one, and each of the first,
/// finds its message.
#[test]
fn messages_that_are_never_finished_cost_no_more_the_more_there_are() {
    let text: String = (0..MESSAGES)
        .map(|number| {
            let delta = |item: usize| {
                serde_json::json!({"method": "item/agentMessage/delta",
                    "params": {"threadId": "t", "turnId": "u", "itemId": format!("m{item}"), "delta": "Word. "}})
            };
            let tool = serde_json::json!({"method": "item/started", "params": {"threadId": "t", "turnId": "u",
                "item": {"type": "commandExecution", "id": "c", "command": "ls", "cwd": "/", "status": "inProgress"}}});
            format!("{}\n{}\n{tool}\n", delta(number), delta(0))
        })
        .collect();
    let turn = LongTurn::of("codex-app-server").expect("a long turn");
    let growth = lowest(|| decoded(turn, &cut(&text), drop));
    assert!(growth <= LIMIT, "a late message costs {growth:.1} times as much");
}

/// Proves that the measure works: a walk over all earlier messages, which allocates and prints nothing, beside
/// the most expensive view.
#[test]
fn a_silent_walk_over_all_earlier_messages_is_seen() {
    for dialect in ["stream-json", "claude"] {
        let events = events(LongTurn::of(dialect).expect("a long turn"));
        let growth = highest(|| {
            let mut view = (views::by_name("events").expect("a view").make)(&Setup::default());
            let (mut seen, mut out) = (Vec::with_capacity(MESSAGES), String::new());
            growth(&events, |part| {
                for event in part {
                    view.event(event, &mut out);
                    if let Kind::MessageFinished(finished) = &event.kind {
                        black_box(seen.iter().filter(|id| **id == finished.message).count());
                        seen.push(finished.message.clone());
                    }
                }
                out.clear();
            })
        });
        assert!(growth > LIMIT, "{dialect}: a quadratic walk looks like {growth:.1} times");
    }
}
