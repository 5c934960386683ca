//! Long turns: whether what a message costs depends on how many came before it, in each dialect and each view.

use std::hint::black_box;
use std::io::Write;

use anyhow::{Context, Result};
use bowline_protocol::{SessionId, Timestamp};
use bowline_providers::decode::{Decoder, End, Stamp};
use bowline_providers::dialect::Shape;
use bowline_providers::dialects;
use bowline_providers::moment::Moment;
use bowline_providers::views::{self, Digest, Setup};
use bowline_testkit::{LONG_TURNS, LongTurn};

/// The fold that every run makes of its events; no view.
const DIGEST: &str = "digest";

/// Formats whose records repeat all that came before, by the words of their specifications.
const CUMULATIVE: &[&str] = &["pi-partials", "chunks"];

/// How much a pipe gives at a time.
const CHUNK: usize = 64 * 1024;

/// Prints the pairs to measure, and how many lines a message has.
pub(crate) fn list() -> Result<()> {
    let mut out = std::io::stdout();
    for turn in LONG_TURNS {
        writeln!(out, "{} {DIGEST} {}", turn.dialect, turn.lines())?;
        for view in views::ALL.iter().filter(|view| !CUMULATIVE.contains(&view.name)) {
            writeln!(out, "{} {} {}", turn.dialect, view.name, turn.lines())?;
        }
    }
    Ok(())
}

/// Makes a long turn and does not read it.
pub(crate) fn make(dialect: &str, messages: usize) -> Result<()> {
    black_box(LongTurn::of(dialect).context("no such dialect")?.text(messages));
    Ok(())
}

/// Reads a long turn, into a view or into the digest.
pub(crate) fn read(dialect: &str, view: &str, messages: usize) -> Result<()> {
    let text = LongTurn::of(dialect).context("no such dialect")?.text(messages);
    let entry = dialects::by_name(dialect).context("no such dialect")?;
    let now = Moment::utc(Timestamp::EPOCH);
    let mut decoder = Decoder::of_shape(entry, Shape::Unknown);
    let mut stamp = Stamp::new(SessionId::from("s1"));
    let (mut digest, mut out, mut drafts) = (Digest::default(), String::new(), Vec::new());
    let mut view = match view {
        DIGEST => None,
        name => Some((views::by_name(name).context("no such view")?.make)(&Setup::default())),
    };
    let mut pass = |drafts: &mut Vec<_>| {
        for draft in drafts.drain(..) {
            let event = stamp.stamp(draft, Timestamp::EPOCH);
            match &mut view {
                Some(view) => view.event(&event, &mut out),
                None => digest.event(&event),
            }
        }
        black_box(&out);
        out.clear();
    };
    for chunk in text.as_bytes().chunks(CHUNK) {
        decoder.stdout(chunk, &now, &mut drafts);
        pass(&mut drafts);
    }
    decoder.finish(&End::default(), &now, &mut drafts);
    pass(&mut drafts);
    Ok(())
}
