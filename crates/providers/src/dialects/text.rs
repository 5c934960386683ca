//! `text`: everything that the program prints is the answer.
//!
//! The answer is what stands between the first and the last character that is not white space, without terminal
//! sequences. White space is held back until something follows it, so the end is trimmed without waiting for it.

use bowline_protocol::MessageId;

use crate::ansi;
use crate::dialect::{Dialect, Input, Output};

/// The most white space that is held back. A program that prints more of it means it.
const HELD_BACK: usize = 64 * 1024;

/// Shorter lines are said in one piece with the white space before them.
const COPIED: usize = 4 * 1024;

/// Reads plain text.
#[derive(Debug, Default)]
pub(crate) struct TextDialect {
    begun: bool,
    held_back: String,
}

impl Dialect for TextDialect {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(line) => self.line(&ansi::strip(line), out),
            Input::Stderr(_) | Input::Sent(_) | Input::Eof(_) => {}
        }
    }
}

impl TextDialect {
    /// The message that all of the text belongs to.
    pub(crate) const MESSAGE: &str = "m1";

    /// Handles a line without terminal sequences.
    pub(crate) fn line(&mut self, line: &str, out: &mut Output<'_>) {
        out.quiet();
        out.plain();
        if self.begun {
            self.held_back.push('\n');
        }
        let line = if self.begun { line } else { line.trim_start() };
        let body = line.trim_end();
        if body.is_empty() && self.held_back.len() + line.len() < HELD_BACK {
            if self.begun {
                self.held_back.push_str(line);
            }
            return;
        }
        self.begun = true;
        let message = MessageId::from(Self::MESSAGE);
        // Separately, so that a long line is not copied for the sake of the line end before it.
        let before = std::mem::take(&mut self.held_back);
        self.held_back.push_str(&line[body.len()..]);
        if body.len() < COPIED {
            out.text(&message, 0, &(before + body), None);
        } else {
            out.text(&message, 0, &before, None);
            out.text(&message, 0, body, None);
        }
    }
}
