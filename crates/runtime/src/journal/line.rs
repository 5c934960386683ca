//! Events as lines. The envelope is written by hand: most events of a chunk share their time and all share their session.

use std::fmt::Write as _;

use bowline_protocol::{Event, RawFile, RawSpan, SessionId, Source, Timestamp};

/// Writes events as `serde_json` would, faster.
#[derive(Debug, Default)]
pub(super) struct LineWriter {
    /// The last time, with its text.
    at: Option<(Timestamp, String)>,
    /// The last session, with its text as JSON.
    session: Option<(SessionId, String)>,
}

impl LineWriter {
    /// Appends an event and the end of its line.
    pub(super) fn write(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let Event { v, seq, at, session, turn, source, raw, kind } = event;
        if self.at.as_ref().is_none_or(|(known, _)| known != at) {
            let mut text = self.at.take().map(|(_, text)| text).unwrap_or_default();
            text.clear();
            write!(text, "{at}").expect("a string takes everything");
            self.at = Some((*at, text));
        }
        if self.session.as_ref().is_none_or(|(known, _)| known != session) {
            self.session = Some((session.clone(), serde_json::to_string(session)?));
        }
        let (Some((_, at)), Some((_, session))) = (&self.at, &self.session) else {
            unreachable!("both were set above")
        };
        put(out, "{\"v\":", u64::from(*v));
        put(out, ",\"seq\":", *seq);
        for part in [",\"at\":\"", at, "\",\"session\":", session] {
            out.extend_from_slice(part.as_bytes());
        }
        if let Some(turn) = turn {
            put(out, ",\"turn\":", u64::from(*turn));
        }
        out.extend_from_slice(match source {
            Source::Agent => b",\"source\":\"agent\"",
            Source::Bowline => b",\"source\":\"bowline\"",
        });
        if let Some(RawSpan { file, start, end }) = raw {
            let before = match file {
                RawFile::Stdout => ",\"raw\":{\"file\":\"stdout\",\"start\":",
                RawFile::Stderr => ",\"raw\":{\"file\":\"stderr\",\"start\":",
                RawFile::Stdin => ",\"raw\":{\"file\":\"stdin\",\"start\":",
                RawFile::Pty => ",\"raw\":{\"file\":\"pty\",\"start\":",
            };
            put(out, before, *start);
            put(out, ",\"end\":", *end);
            out.push(b'}');
        }
        out.extend_from_slice(b",\"kind\":");
        serde_json::to_writer(&mut *out, kind)?;
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

/// Appends a text and a number. By hand: the machinery of `write!` takes longer than the rest of a short line.
fn put(out: &mut Vec<u8>, text: &str, number: u64) {
    let (mut digits, mut at, mut rest) = ([0; 20], 20, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(&digits[at..]);
}

/// Reads the number of an event without reading the rest, where the line has our own form.
pub(super) fn seq(line: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(&line[..line.len().min(64)], b"\"seq\":")? + 6;
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&line[at..at + digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_written_as_serde_would() {
        let fixture = include_str!("../../../protocol/tests/fixtures/events.jsonl");
        let mut writer = LineWriter::default();
        let mut count = 0;
        for line in fixture.lines() {
            let mut event: Event = serde_json::from_str(line).expect("the fixture holds events");
            event.session = SessionId::from("with \"quotes\"");
            for raw in [None, Some(RawSpan { file: RawFile::Pty, start: 1, end: u64::MAX })] {
                event.raw = raw;
                let mut out = Vec::new();
                writer.write(&event, &mut out).expect("writes");
                assert_eq!(
                    String::from_utf8_lossy(&out),
                    serde_json::to_string(&event).expect("writes") + "\n"
                );
                assert_eq!(seq(&out), Some(event.seq));
                count += 1;
            }
        }
        assert!(count > 60, "the fixture has every kind: {count}");
    }
}
