//! Promises about the splitting of streams into frames.

use bowline_providers::dialect::Framing;
use bowline_providers::framing::{Frame, Framer};

use crate::Chunking;

/// A frame that outlives its framer.
#[derive(Debug, PartialEq)]
struct Kept {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    cut: bool,
}

/// Checks that frames do not depend on the chunks, and that their spans are right.
pub fn check_framing(framing: Framing, cap: usize, input: &[u8], chunking: Chunking) {
    let whole = frames(framing, cap, std::iter::once(input));
    let pieces = frames(framing, cap, chunking.cut(input));
    assert_eq!(whole, pieces, "{framing:?} frames depend on how the bytes were chunked");

    let mut behind = 0;
    for frame in &whole {
        assert!(frame.start <= frame.end && frame.end <= input.len(), "a span leaves the input: {frame:?}");
        assert!(frame.start >= behind, "frames overlap or go back: {frame:?} begins before {behind}");
        let between = &input[behind..frame.start];
        let source = &input[frame.start..frame.end];
        match framing {
            Framing::Lines => {
                assert!(
                    matches!(between, b"" | b"\n" | b"\r\n"),
                    "bytes were lost between lines: {between:?}"
                );
                check_slice(frame, source);
            }
            Framing::Document => {
                assert!(between.is_empty(), "bytes were lost before the document: {between:?}");
                check_slice(frame, source);
            }
            // The data of an event is joined from several lines, so it is not a slice of the input.
            Framing::LinesOrEvents => {
                assert!(
                    frame.cut || frame.bytes.len() <= source.len(),
                    "a frame says more than it read: {frame:?}"
                );
            }
        }
        behind = frame.end;
    }
    if framing != Framing::LinesOrEvents {
        let rest = &input[behind..];
        assert!(matches!(rest, b"" | b"\n" | b"\r" | b"\r\n"), "bytes were lost at the end: {rest:?}");
    }
}

/// A frame over the limit keeps only its beginning; any other is the input itself.
fn check_slice(frame: &Kept, source: &[u8]) {
    if frame.cut {
        assert!(source.starts_with(&frame.bytes), "the head of a long frame is not its beginning: {frame:?}");
    } else {
        assert_eq!(frame.bytes, source, "a frame is not what stands at its place");
    }
}

fn frames<'a>(framing: Framing, cap: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Kept> {
    let mut kept = Vec::new();
    let mut framer = Framer::new(framing, cap);
    let mut keep = |frame: Frame<'_>| {
        let place = |offset: u64| usize::try_from(offset).expect("an offset in memory");
        kept.push(Kept {
            bytes: frame.bytes.to_vec(),
            start: place(frame.start),
            end: place(frame.end),
            cut: frame.cut,
        });
    };
    pieces.for_each(|piece| framer.push(piece, &mut keep));
    framer.finish(&mut keep);
    kept
}
