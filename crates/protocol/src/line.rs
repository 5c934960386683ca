//! Writes events as lines of JSON for a journal.
//!
//! The envelope is written by hand, because most events of a chunk share their time and all share their session. Text deltas
//! are written by hand too: there are thousands of them, and a general serializer checks each byte by itself.

use std::fmt::Write as _;

use crate::kinds::{TextDelta, ThinkingDelta};
use crate::{Event, Kind, RawFile, RawSpan, SessionId, Source, Timestamp, ToolId};

/// Writes events as lines of JSON, byte for byte as `serde_json` would, but faster.
///
/// Foreign JSON with line breaks is joined to one line: a line of the output is always one event.
#[derive(Debug, Default)]
pub struct EventWriter {
    /// The last time, with its text.
    at: Option<(Timestamp, String)>,
    /// The last session, with its text as JSON.
    session: Option<(SessionId, String)>,
}

impl EventWriter {
    /// Appends an event and the end of its line.
    pub fn write(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
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
        put_kind(out, kind)?;
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "serde writes the less frequent kinds")]
fn put_kind(out: &mut Vec<u8>, kind: &Kind) -> Result<(), serde_json::Error> {
    match kind {
        Kind::TextDelta(TextDelta { message, block, text, parent }) => {
            put_string(out, "{\"type\":\"text_delta\",\"message\":", message.as_str());
            put_piece(out, *block, text, parent.as_ref());
        }
        Kind::ThinkingDelta(ThinkingDelta { message, block, text, parent }) => {
            put_string(out, "{\"type\":\"thinking_delta\",\"message\":", message.as_str());
            put_piece(out, *block, text, parent.as_ref());
        }
        other => {
            let start = out.len();
            serde_json::to_writer(&mut *out, other)?;
            // Tool arguments are kept as their author wrote them, and JSON allows line breaks between tokens. Inside strings
            // line breaks are always escaped, so replacing the others by a blank changes only the layout.
            for byte in &mut out[start..] {
                if *byte == b'\n' || *byte == b'\r' {
                    *byte = b' ';
                }
            }
        }
    }
    Ok(())
}

/// Appends the remaining fields of a text delta.
fn put_piece(out: &mut Vec<u8>, block: u32, text: &str, parent: Option<&ToolId>) {
    put(out, ",\"block\":", u64::from(block));
    put_string(out, ",\"text\":", text);
    if let Some(parent) = parent {
        put_string(out, ",\"parent\":", parent.as_str());
    }
    out.push(b'}');
}

/// Appends JSON as it is, then a text as a JSON string.
fn put_string(out: &mut Vec<u8>, before: &str, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(before.len() + bytes.len() + 2);
    out.extend_from_slice(before.as_bytes());
    out.push(b'"');
    let mut from = 0;
    loop {
        let at = escaped_from(bytes, from);
        out.extend_from_slice(&bytes[from..at]);
        let Some(&byte) = bytes.get(at) else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            control => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 0xF)]);
            }
        }
        from = at + 1;
    }
    out.push(b'"');
}

/// Returns the longest prefix of a text that needs no escaping in a JSON string: up to the first quote, backslash or control
/// character.
///
/// ```
/// assert_eq!(bowline_protocol::plain_json_prefix("it is\\n"), "it is");
/// ```
pub fn plain_json_prefix(text: &str) -> &str {
    &text[..escaped_from(text.as_bytes(), 0)]
}

/// Returns the index of the first byte at or after `from` that JSON requires to be escaped; the length if there is none.
fn escaped_from(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Sets the top bit of each zero byte. A borrow can set more of them, but only above the first.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = from;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let found =
            zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\'))) | controls;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = &bytes[at.min(bytes.len())..];
    let place = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
    place.map_or(bytes.len(), |place| at + place)
}

/// Appends a text and a number. By hand, because `write!` takes longer than the rest of a short line.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_written_as_serde_would() {
        let fixture = include_str!("../tests/fixtures/events.jsonl");
        let mut writer = EventWriter::default();
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
                count += 1;
            }
        }
        assert!(count > 60, "the fixture has every kind: {count}");
    }

    #[test]
    fn text_is_escaped_as_serde_would() {
        let check = |text: &str| {
            let mut out = Vec::new();
            put_string(&mut out, "", text);
            assert_eq!(String::from_utf8_lossy(&out), serde_json::to_string(text).expect("writes"));
        };
        // Every character that may need escaping, at every index of a word, before and after others of its kind.
        for character in ('\0'..='\u{A0}').chain(['\u{2028}', '\u{FEFF}', '\u{1F600}', '\u{10FFFF}']) {
            for before in 0..18 {
                let plain = "a".repeat(before);
                check(&format!("{plain}{character}"));
                check(&format!("{plain}{character}\u{1}bcdefghijk\"{character}"));
                check(&format!("{plain}\u{80}!{character}#\u{7F}{character}"));
            }
        }
        check("");
    }

    #[test]
    fn an_event_is_one_line() {
        let line = r#"{"v":1,"seq":1,"at":"2026-11-15T08:00:00Z","session":"s","source":"agent","kind":{"type":"tool_started","id":"t","name":"n","kind":"other","owner":"cli","input":{"a":1}}}"#;
        let mut event: Event = serde_json::from_str(line).expect("an event");
        if let Kind::ToolStarted(tool) = &mut event.kind {
            tool.input = Some(crate::Json::parse("{\n  \"a\": \"b\\nc\"\r\n}").expect("JSON"));
        }
        let mut out = Vec::new();
        EventWriter::default().write(&event, &mut out).expect("writes");
        assert_eq!(out.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count(), 1);
        let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(read, serde_json::to_value(&event).expect("JSON"));
    }
}
