//! Consecutive pieces of output that were not understood.
//!
//! Each piece is an event while there are few. A program that prints garbage without end would fill the journal many
//! times as fast as it prints. After the first few, one event therefore stands for many pieces: it has the first of them, their
//! number, and the span of all. The events depend on the bytes alone, not on time or chunk sizes.

use bowline_protocol::kinds::Unrecognized;
use bowline_protocol::{Kind, RawSpan, Source};

use crate::decode::dialect::UnnumberedEvent;

/// The number of consecutive pieces that get an event each.
const ONE_BY_ONE: u64 = 100;

/// The limits of one event: a number of pieces, or about a number of bytes.
const PIECES: u64 = 1_000;
const BYTES: u64 = 64 * 1024;

/// A run of pieces. Any other event ends it.
#[derive(Debug, Default)]
pub(super) struct NoiseRow {
    told: u64,
    held: Option<HeldPieces>,
}

/// Pieces without an event so far.
#[derive(Debug)]
struct HeldPieces {
    turn: Option<u32>,
    first: Unrecognized,
    count: u64,
    bytes: u64,
    span: Option<RawSpan>,
}

impl HeldPieces {
    /// Returns whether a piece follows these, or, where a document is one frame, is in the same place.
    fn goes_on(&self, raw: Option<RawSpan>) -> bool {
        match (self.span, raw) {
            (Some(span), Some(raw)) => span == raw || (span.file == raw.file && span.end <= raw.start),
            (None, None) => true,
            _ => false,
        }
    }
}

impl NoiseRow {
    /// Adds a piece.
    pub(super) fn add(
        &mut self,
        turn: Option<u32>,
        what: Unrecognized,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        if self.told < ONE_BY_ONE {
            self.told += 1;
            out.push(UnnumberedEvent { turn, source: Source::Bowline, raw, kind: Kind::Unrecognized(what) });
            return;
        }
        if self.held.as_ref().is_some_and(|held| !held.goes_on(raw)) {
            self.tell(out);
        }
        let bytes = what.head.bytes;
        let held = self.held.get_or_insert(HeldPieces { turn, first: what, count: 0, bytes: 0, span: raw });
        held.count += 1;
        held.bytes += bytes;
        // One span over all of them: `goes_on` has made sure that they are in order and in one file.
        if let (Some(span), Some(raw)) = (&mut held.span, raw) {
            span.end = raw.end;
        }
        if held.count >= PIECES || held.bytes >= BYTES {
            self.tell(out);
        }
    }

    /// Ends the run: another event follows.
    pub(super) fn end(&mut self, out: &mut Vec<UnnumberedEvent>) {
        // Called before every event, so the usual case must cost one comparison.
        if self.told > 0 {
            self.told = 0;
            self.tell(out);
        }
    }

    fn tell(&mut self, out: &mut Vec<UnnumberedEvent>) {
        let Some(HeldPieces { turn, first, count, span, .. }) = self.held.take() else { return };
        let count = (count > 1).then_some(count);
        let kind = Kind::Unrecognized(Unrecognized { count, ..first });
        out.push(UnnumberedEvent { turn, source: Source::Bowline, raw: span, kind });
    }
}
