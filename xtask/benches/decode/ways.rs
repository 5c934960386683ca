//! The ways of reading a stream that are compared, from the least that could be done to all that we do.

use std::collections::BTreeMap;
use std::hint::black_box;

use bowline_protocol::{SessionId, Timestamp};
use bowline_providers::decode::{Decoder, End, Stamp};
use bowline_providers::dialects;
use bowline_providers::framing::{LINE_CAP, LineCutter};
use bowline_providers::moment::Moment;

use crate::bare::Bare;
use crate::streams::Stream;

/// How much a pipe gives at a time.
const CHUNK: usize = 64 * 1024;

/// A way of reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// Cut lines, and look at none.
    Split,
    /// Parse each line into a struct with the fields that matter. The measure of the others.
    Typed,
    /// Parse each line into a tree.
    Value,
    /// Decode to events.
    Decode,
    /// Decode to events and write them as JSON.
    DecodeWrite,
}

impl Way {
    pub(crate) const ALL: &[Self] = &[Self::Split, Self::Typed, Self::Value, Self::Decode, Self::DecodeWrite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Typed => "typed",
            Self::Value => "value",
            Self::Decode => "decode",
            Self::DecodeWrite => "decode+write",
        }
    }

    /// Reads a stream.
    pub(crate) fn read(self, stream: &Stream, bytes: &[u8]) {
        match self {
            Self::Split => each_line(bytes, |line| {
                black_box(line);
            }),
            Self::Typed => each_line(bytes, |line| stream.bare.read(line)),
            Self::Value if stream.bare == Bare::Text => each_line(bytes, |line| stream.bare.read(line)),
            Self::Value => each_line(bytes, |line| {
                black_box(serde_json::from_slice::<serde_json::Value>(line).expect("a line of JSON"));
            }),
            Self::Decode => decode(stream, bytes, &mut |_, _| {}),
            Self::DecodeWrite => {
                let mut written = Vec::new();
                decode(stream, bytes, &mut |event, last_of_chunk| {
                    serde_json::to_writer(&mut written, &event).expect("an event is plain JSON");
                    written.push(b'\n');
                    if last_of_chunk {
                        black_box(&written).len();
                        written.clear();
                    }
                });
            }
        }
    }
}

fn each_line(bytes: &[u8], mut look: impl FnMut(&[u8])) {
    let mut cutter = LineCutter::new(LINE_CAP);
    for chunk in bytes.chunks(CHUNK) {
        cutter.push(chunk, &mut |frame| look(frame.bytes));
    }
    cutter.finish(&mut |frame| look(frame.bytes));
}

/// Counts the events of each kind.
pub(crate) fn kinds(stream: &Stream, bytes: &[u8]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    decode(stream, bytes, &mut |event, _| {
        *kinds.entry(event.kind.type_name().to_owned()).or_default() += 1;
    });
    kinds
}

/// Decodes in chunks, and gives each event to `look` with the word whether it is the last of its chunk.
fn decode(stream: &Stream, bytes: &[u8], look: &mut dyn FnMut(bowline_protocol::Event, bool)) {
    let entry = dialects::by_name(&stream.dialect).expect("a dialect of the list");
    let now = Moment::utc(Timestamp::EPOCH);
    let mut decoder = Decoder::of_shape(entry, stream.shape);
    let mut stamp = Stamp::new(SessionId::from("s1"));
    let mut drafts = Vec::new();
    let mut pass = |drafts: &mut Vec<_>| {
        let count = drafts.len();
        for (at, draft) in drafts.drain(..).enumerate() {
            look(stamp.stamp(draft, Timestamp::EPOCH), at + 1 == count);
        }
    };
    for chunk in bytes.chunks(CHUNK) {
        decoder.stdout(chunk, &now, &mut drafts);
        pass(&mut drafts);
    }
    decoder.finish(&End::default(), &now, &mut drafts);
    pass(&mut drafts);
}
