//! Promises about the decoding of any output in any dialect.

use std::collections::HashSet;

use bowline_protocol::kinds::TurnEnded;
use bowline_protocol::{Event, Exit, Kind, MessageId, RawFile, SessionId, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::dialect::UnnumberedEvent;
use bowline_providers::dialects::{self, DialectEntry};
use bowline_providers::moment::Moment;

use crate::Chunking;

/// The separator of standard output and standard error in the bytes of a fuzz input. It is never valid UTF-8, so that no
/// text has to be kept out of the input because of it.
pub const SEPARATOR: &[u8] = b"\xFF\xFE";

/// The output of one process, as a fuzz input describes it.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The dialect.
    pub entry: &'static DialectEntry,
    /// The chunks of its output.
    pub chunking: Chunking,
    /// Its exit.
    pub end: End,
    /// Its standard output.
    pub stdout: &'a [u8],
    /// Its standard error.
    pub stderr: &'a [u8],
}

impl<'a> Case<'a> {
    /// Reads a fuzz input: one byte each for the dialect, the chunking and the end, then the output.
    /// `None` if it is too short.
    pub fn read(input: &'a [u8]) -> Option<Self> {
        let (&[dialect, chunking, end], output) = input.split_first_chunk::<3>()?;
        let place = memchr_pair(output);
        let (stdout, stderr) = place.map_or((output, &[][..]), |at| (&output[..at], &output[at + 2..]));
        Some(Self {
            entry: &dialects::ALL[usize::from(dialect) % dialects::ALL.len()],
            chunking: Chunking::new(chunking.into()),
            end: end_of(end),
            stdout,
            stderr,
        })
    }

    /// Writes the head of a fuzz input, for a dialect whose process exits with 0.
    pub fn header(dialect: &str) -> Option<[u8; 3]> {
        let place = dialects::ALL.iter().position(|entry| entry.name == dialect)?;
        Some([u8::try_from(place).ok()?, 1, 0])
    }
}

fn memchr_pair(bytes: &[u8]) -> Option<usize> {
    bytes.windows(SEPARATOR.len()).position(|pair| pair == SEPARATOR)
}

fn end_of(byte: u8) -> End {
    let cause = match byte >> 6 {
        0 | 1 => Cause::Exited,
        2 => Cause::Cancelled,
        _ => Cause::TimedOut,
    };
    let exit = match byte & 0x3F {
        0x3F => None,
        code @ 0..0x20 => Some(Exit::Code(code.into())),
        signal => Some(Exit::Signal((signal - 0x20).into())),
    };
    End { exit, cause }
}

/// Checks every promise of the decoder for one output.
///
/// The decoder itself asserts that a dialect reports every line that is not blank, in builds with
/// debug assertions, which these are.
pub fn check_decode(case: &Case<'_>) {
    let whole = decode(case, |bytes| vec![bytes]);
    let pieces = decode(case, |bytes| case.chunking.cut(bytes).collect());
    assert_eq!(whole, pieces, "{}: events depend on how the bytes were chunked", case.entry.name);

    check_spans(case, &whole);
    check_account(&whole);
}

/// Decodes with standard error in the middle of standard output; `cut` splits the three parts into chunks.
fn decode<'a>(case: &Case<'a>, cut: impl Fn(&'a [u8]) -> Vec<&'a [u8]>) -> Vec<UnnumberedEvent> {
    let now = Moment::utc(Timestamp::EPOCH);
    let mut drafts = Vec::new();
    let mut decoder = Decoder::new(case.entry);
    let (before, after) = case.stdout.split_at(case.chunking.place(case.stdout.len()));
    cut(before).into_iter().for_each(|piece| decoder.stdout(piece, &now, &mut drafts));
    cut(case.stderr).into_iter().for_each(|piece| decoder.stderr(piece, &now, &mut drafts));
    cut(after).into_iter().for_each(|piece| decoder.stdout(piece, &now, &mut drafts));
    decoder.finish(&case.end, &now, &mut drafts);
    drafts
}

/// Spans lie inside their files, and in each file they go forward without overlapping.
fn check_spans(case: &Case<'_>, drafts: &[UnnumberedEvent]) {
    for (file, bytes) in [(RawFile::Stdout, case.stdout), (RawFile::Stderr, case.stderr)] {
        let mut last = (0, 0);
        for span in drafts.iter().filter_map(|draft| draft.raw).filter(|span| span.file == file) {
            let place = (span.start, span.end);
            assert!(
                span.start <= span.end && span.end <= bytes.len() as u64,
                "a span leaves the output: {span:?}"
            );
            assert!(place == last || span.start >= last.1, "{span:?} overlaps or goes back behind {last:?}");
            last = place;
        }
    }
    let elsewhere = drafts
        .iter()
        .filter_map(|draft| draft.raw)
        .find(|span| !matches!(span.file, RawFile::Stdout | RawFile::Stderr));
    assert_eq!(elsewhere, None, "a span in a file that was never read");
}

/// Turns and messages: see the promises in `bowline_providers::decode`.
fn check_account(drafts: &[UnnumberedEvent]) {
    let mut turn: Option<u32> = None;
    let mut turns = 0;
    let mut open: HashSet<&MessageId> = HashSet::new();
    let mut finished: HashSet<&MessageId> = HashSet::new();
    let (last, before) = drafts.split_last().expect("a stream has at least an end");
    assert!(matches!(last.kind, Kind::SessionEnded(_)), "the last event is not the end: {last:?}");
    for draft in before {
        #[expect(clippy::wildcard_enum_match_arm, reason = "forty kinds about which nothing is promised")]
        match &draft.kind {
            Kind::SessionEnded(_) => panic!("the session ended before its last event"),
            Kind::TurnStarted(_) => {
                assert_eq!(turn, None, "a turn began inside another");
                turns += 1;
                turn = Some(turns);
            }
            Kind::TurnEnded(ended) => {
                assert!(turn.take().is_some(), "a turn ended that had not begun");
                assert!(open.is_empty(), "messages were not finished before their turn ended: {open:?}");
                finished.clear();
                check_ended(ended);
            }
            Kind::TextDelta(delta) => {
                assert!(turn.is_some(), "text outside any turn: {draft:?}");
                assert!(!delta.text.is_empty(), "a piece of text without text");
                assert!(!finished.contains(&delta.message), "text of a finished message: {draft:?}");
                open.insert(&delta.message);
            }
            Kind::MessageFinished(message) => {
                assert!(open.remove(&message.message), "a message was finished that was not open: {draft:?}");
                finished.insert(&message.message);
            }
            Kind::UsageReported(report) => check_cost(report.cost_usd),
            _ => {}
        }
        assert_eq!(draft.turn, (turns > 0).then_some(turns), "an event of another turn: {draft:?}");
    }
    assert_eq!(turn, None, "a turn never ended");
    assert!(turns > 0, "no turn was told of");
}

fn check_ended(ended: &TurnEnded) {
    use bowline_protocol::kinds::Outcome;
    let failed = matches!(ended.outcome, Outcome::Failed | Outcome::Truncated);
    assert_eq!(failed, ended.failure.is_some(), "an outcome that its failure contradicts: {ended:?}");
    check_cost(ended.cost_usd);
}

fn check_cost(cost: Option<f64>) {
    // JSON cannot express infinity, so such a cost would be lost.
    assert!(cost.is_none_or(f64::is_finite), "a cost that cannot be written: {cost:?}");
}

/// Checks that every event of an output can be written and read again.
///
/// Separate from [`check_decode`], because a fuzzer that watches the writer learns its branches instead of the dialects'.
pub fn check_wire(case: &Case<'_>) {
    let mut stamp = Stamp::new(SessionId::from("s1"));
    for (place, draft) in decode(case, |bytes| vec![bytes]).into_iter().enumerate() {
        let event = stamp.stamp(draft, Timestamp::EPOCH);
        assert_eq!(event.seq, place as u64 + 1, "the numbers have a gap");
        let written = serde_json::to_string(&event).expect("an event is plain JSON");
        assert!(!written.contains('\n'), "an event is one line");
        let read: Event = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
        // Not compared whole: a parsed fraction may differ in the last bit.
        assert_eq!(
            (read.seq, read.turn, read.raw),
            (event.seq, event.turn, event.raw),
            "read as another: {written}"
        );
        assert_eq!(read.kind.type_name(), event.kind.type_name(), "read as another: {written}");
    }
}
