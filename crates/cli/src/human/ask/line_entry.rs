//! A line that the person types while a question is open. It is drawn as the status line, so that output of the agent does not
//! tear it.

use bowline_providers::ansi;

use crate::human::line::{Paint, PaintedLine};
use crate::human::words::{self, Glyphs};

/// The maximum length of a typed line, in bytes.
const LONGEST: usize = 16 * 1024;

/// The least number of columns for the typed text, however long the label is.
const LEAST_ROOM: usize = 10;

/// A line that is being typed.
#[derive(Debug, Default)]
pub(super) struct LineEntry {
    label: String,
    text: String,
    /// The beginning of a character whose last bytes are not read yet.
    rest: Vec<u8>,
}

/// The state of the line after some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryStep {
    Typing,
    /// Esc was pressed.
    Cancelled,
    /// Enter was pressed.
    Entered(String),
}

impl LineEntry {
    /// Begins a line. The label is harmless; the text may be changed by the person.
    pub(super) fn new(label: impl Into<String>, text: impl Into<String>) -> Self {
        Self { label: label.into(), text: text.into(), rest: Vec::new() }
    }

    /// Handles bytes of the terminal.
    pub(super) fn typed(&mut self, bytes: &[u8]) -> EntryStep {
        match bytes {
            [0x1b] => return EntryStep::Cancelled,
            // Arrows and function keys: a line is changed at its end only.
            [0x1b, ..] => return EntryStep::Typing,
            _ => {}
        }
        self.rest.extend_from_slice(bytes);
        for c in complete(&mut self.rest).chars() {
            match c {
                '\n' | '\r' => return EntryStep::Entered(std::mem::take(&mut self.text)),
                '\u{7f}' | '\u{8}' => drop(self.text.pop()),
                // Ctrl-U and Ctrl-W.
                '\u{15}' => self.text.clear(),
                '\u{17}' => {
                    let words = self.text.trim_end();
                    let end = words.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                    self.text.truncate(self.text.ceil_char_boundary(end));
                }
                c if c.is_control() || self.text.len() >= LONGEST => {}
                c => self.text.push(c),
            }
        }
        EntryStep::Typing
    }

    /// Returns the line with the end of the text, so that the cursor stays on the screen.
    pub(super) fn line(&self, columns: usize, glyphs: Glyphs) -> PaintedLine {
        let label = format!("{}: ", self.label);
        let text = ansi::harmless(&self.text);
        let room = columns.saturating_sub(words::width(&label) + 1).max(LEAST_ROOM);
        let shown = if words::width(&text) <= room {
            text.into_owned()
        } else {
            let mut room = room.saturating_sub(words::width(glyphs.ellipsis()));
            let mut from = text.len();
            // From the end, so that the cursor stays visible while the person types.
            for (at, c) in text.char_indices().rev() {
                let wide = words::char_width(c);
                if wide > room {
                    break;
                }
                room -= wide;
                from = at;
            }
            format!("{}{}", glyphs.ellipsis(), &text[from..])
        };
        PaintedLine::of(Paint::Yellow, label).and(Paint::Plain, shown)
    }
}

/// Takes the complete characters from the beginning of some bytes. Bytes that are not UTF-8 are dropped.
fn complete(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(whole) => {
                text.push_str(whole);
                bytes.clear();
                return text;
            }
            Err(error) => {
                let valid = error.valid_up_to();
                text.push_str(&String::from_utf8_lossy(&bytes[..valid]));
                match error.error_len() {
                    // Not the beginning of a character: more bytes would not complete it.
                    Some(bad) => drop(bytes.drain(..valid + bad)),
                    None => {
                        bytes.drain(..valid);
                        return text;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pieces: &[&[u8]]) -> (Vec<EntryStep>, String) {
        let mut entry = LineEntry::new("message", "");
        let steps = pieces.iter().map(|bytes| entry.typed(bytes)).collect();
        (steps, entry.text)
    }

    #[test]
    fn a_line_is_typed_and_corrected() {
        for (pieces, text) in [
            (&[b"ab".as_slice(), b"\x7f", b"c"][..], "ac"),
            (&[b"one two  ", b"\x17"], "one "),
            (&[b"one", b"\x17"], ""),
            (&[b"one", b"\x15", b"x"], "x"),
            // A character may come in two reads, and what is not UTF-8 is no text.
            (&[b"\xc3", b"\xa9", b"\xff!"], "é!"),
            // Neither an arrow nor a control character is text.
            (&[b"a", b"\x1b[D", b"\x01", b"\t", b"b"], "ab"),
        ] {
            let (steps, typed) = after(pieces);
            assert_eq!(typed, text, "{pieces:?}");
            assert!(steps.iter().all(|step| *step == EntryStep::Typing), "{pieces:?}");
        }
        assert_eq!(after(&[b"no", b"\n"]).0[1], EntryStep::Entered("no".to_owned()));
        assert_eq!(after(&[b"no\ny"]).0, [EntryStep::Entered("no".to_owned())], "one line at a time");
        assert_eq!(after(&[b"no", b"\x1b"]).0[1], EntryStep::Cancelled);
    }

    #[test]
    fn the_end_of_a_long_line_is_shown() {
        let line = |text: &str, columns| LineEntry::new("message", text).line(columns, Glyphs::Ascii).words();
        assert_eq!(line("short", 40), "message: short");
        assert_eq!(line("abcdefghijklmnopqrstuvwxyz", 24), "message: ...pqrstuvwxyz");
        assert_eq!(line("a\u{202e}b", 40), "message: a\\u{202e}b");
        assert!(line("日本語テキスト日本語テキスト", 24).ends_with("テキスト"));
    }
}
