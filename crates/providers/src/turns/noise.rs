//! Output that nobody understands, in a row.
//!
//! Each piece is an event, as long as there are few. A program that prints rubbish without end would fill the journal many
//! times as fast as it prints, so from then on one event stands for many pieces: it has the first of them, how many there
//! are, and the span of all. What is told depends on the bytes alone: on neither the time nor how they came.

use bowline_protocol::kinds::Unrecognized;
use bowline_protocol::{Kind, RawSpan, Source};

use crate::dialect::Draft;

/// How many in a row are told one by one.
const ONE_BY_ONE: u64 = 100;

/// What one event stands for at most: so many pieces, or about so many bytes.
const PIECES: u64 = 1_000;
const BYTES: u64 = 64 * 1024;

/// A row of pieces. Whatever is told of anything else ends it.
#[derive(Debug, Default)]
pub(super) struct Row {
    told: u64,
    held: Option<Held>,
}

/// Pieces that are not told yet.
#[derive(Debug)]
struct Held {
    turn: Option<u32>,
    first: Unrecognized,
    count: u64,
    bytes: u64,
    span: Option<RawSpan>,
}

impl Held {
    /// Says whether a piece stands behind these, or, where a document is one frame, in the same place.
    fn goes_on(&self, raw: Option<RawSpan>) -> bool {
        match (self.span, raw) {
            (Some(span), Some(raw)) => span == raw || (span.file == raw.file && span.end <= raw.start),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Row {
    /// Takes one more piece.
    pub(super) fn add(
        &mut self,
        turn: Option<u32>,
        what: Unrecognized,
        raw: Option<RawSpan>,
        out: &mut Vec<Draft>,
    ) {
        if self.told < ONE_BY_ONE {
            self.told += 1;
            out.push(Draft { turn, source: Source::Bowline, raw, kind: Kind::Unrecognized(what) });
            return;
        }
        if self.held.as_ref().is_some_and(|held| !held.goes_on(raw)) {
            self.tell(out);
        }
        let bytes = what.head.bytes;
        let held = self.held.get_or_insert(Held { turn, first: what, count: 0, bytes: 0, span: raw });
        held.count += 1;
        held.bytes += bytes;
        if let (Some(span), Some(raw)) = (&mut held.span, raw) {
            span.end = raw.end;
        }
        if held.count >= PIECES || held.bytes >= BYTES {
            self.tell(out);
        }
    }

    /// Ends the row: something else is told.
    pub(super) fn end(&mut self, out: &mut Vec<Draft>) {
        if self.told > 0 {
            self.told = 0;
            self.tell(out);
        }
    }

    fn tell(&mut self, out: &mut Vec<Draft>) {
        let Some(Held { turn, first, count, span, .. }) = self.held.take() else { return };
        let count = (count > 1).then_some(count);
        let kind = Kind::Unrecognized(Unrecognized { count, ..first });
        out.push(Draft { turn, source: Source::Bowline, raw: span, kind });
    }
}
