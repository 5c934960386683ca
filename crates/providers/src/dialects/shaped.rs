//! One program, several shapes of output: lines of JSON, one JSON document, or plain text.
//!
//! A program's reader ([`ShapedDialect`]) only interprets its JSON. This module decides which shape the output has, from the
//! arguments if they are known, else from the output itself. While that is open, lines are held back, never lost:
//! they become the answer, or noise before it.

mod held;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use bowline_protocol::kinds::{Level, TextRetracted, UnrecognizedReason};
use bowline_protocol::{Kind, RawSpan};
use serde::de::IgnoredAny;

use self::held::HeldLines;
use super::text::TextDialect;
use crate::decode::End;
use crate::dialect::{Dialect, Input, Output, Shape};
use crate::failure::Report;
use crate::lenient;

/// The reader of a program's output, whatever the shape.
pub(crate) trait ShapedDialect: fmt::Debug + Send {
    /// Handles a line that is, or should be, a JSON object. The reader reports noise itself.
    fn line(&mut self, line: &str, out: &mut Output<'_>);

    /// Handles a complete JSON document: an object or an array.
    fn document(&mut self, document: &str, out: &mut Output<'_>);

    /// Handles a line of plain text and returns the part of it that belongs to the answer, if any.
    fn text_line<'a>(&mut self, line: &'a str, out: &mut Output<'_>) -> Option<Cow<'a, str>> {
        let _ = out;
        Some(Cow::Borrowed(line))
    }

    /// Returns whether a plain text was not an answer but the reason of a failure. Gets the end of the text.
    fn text_was_error(&mut self, tail: &str, end: &End) -> Option<Report> {
        let _ = (tail, end);
        None
    }

    /// Handles a line of standard error.
    fn stderr(&mut self, line: &str, out: &mut Output<'_>) {
        let _ = (line, out);
    }

    /// Handles a line that was sent to the program.
    fn sent(&mut self, line: &str, out: &mut Output<'_>) {
        let _ = (line, out);
    }

    /// Handles the end of the output.
    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        let _ = (end, out);
    }
}

/// A reader of output that may have any shape.
#[derive(Debug)]
pub(crate) struct Shaped<S> {
    speaker: S,
    state: ShapedState,
    /// Whether the arguments determine the shape.
    told: bool,
    /// Whether a program with the option for lines may print plain text nevertheless.
    may_be_text: bool,
}

#[derive(Debug)]
enum ShapedState {
    /// It has not shown yet.
    Open(HeldLines),
    Lines,
    /// A document that is not complete yet.
    Document(Document),
    Text(PlainText),
}

/// A document so far.
#[derive(Debug, Default)]
struct Document {
    held: HeldLines,
    /// Whether the first line that may begin it is a complete object.
    is_object: Option<bool>,
}

/// Plain text, and its end so far.
#[derive(Debug, Default)]
struct PlainText {
    text: TextDialect,
    tail: String,
}

/// How much plain text is held back in the hope of JSON.
const HELD_LINES: usize = 32;
const HELD_BYTES: usize = 8 * 1024;

/// How much of it is held back where lines of JSON were asked for and versions exist that print text only.
const HELD_BYTES_OF_LINES: usize = 1024 * 1024;

/// The longest document that is put together.
const LONGEST_DOCUMENT: usize = 64 * 1024 * 1024;

/// How much of the end of a plain text is kept for the case that it was an error.
const TAIL: usize = 4 * 1024;

impl<S: ShapedDialect> Shaped<S> {
    /// Makes a reader for output of this shape.
    pub(crate) fn new(speaker: S, shape: Shape) -> Self {
        let state = match shape {
            Shape::Unknown => ShapedState::Open(HeldLines::default()),
            Shape::Lines => ShapedState::Lines,
            Shape::Document => ShapedState::Document(Document::default()),
            Shape::Text => ShapedState::Text(PlainText::default()),
        };
        Self { speaker, state, told: shape != Shape::Unknown, may_be_text: false }
    }

    /// Returns the reader of the program's JSON.
    pub(crate) fn speaker(&self) -> &S {
        &self.speaker
    }

    /// Returns the reader of the program's JSON, for a client that tells it what it sends.
    pub(crate) fn speaker_mut(&mut self) -> &mut S {
        &mut self.speaker
    }

    /// Makes a reader for a program of which some versions print plain text whatever its options are. Lines without any
    /// JSON and an exit code of 0 are its answer.
    pub(crate) fn lines_or_text(speaker: S, shape: Shape) -> Self {
        let mut made = Self::new(speaker, shape);
        if shape == Shape::Lines {
            (made.state, made.may_be_text) = (ShapedState::Open(HeldLines::default()), true);
        }
        made
    }

    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        match &mut self.state {
            ShapedState::Lines => self.speaker.line(line, out),
            ShapedState::Text(plain) => {
                if let Some(line) = self.speaker.text_line(line, out) {
                    plain.line(&line, out);
                }
            }
            ShapedState::Open(held) => {
                // Blank lines before the output decide nothing, and are no part of an answer.
                if lenient::is_blank(line) && held.count() == 0 {
                    return;
                }
                out.quiet_for_now();
                held.add(line, out.span());
                match beginning(line) {
                    Beginning::Object => self.become_lines(out),
                    // Noise, so far: lines were requested.
                    _ if self.may_be_text => {
                        if held.bytes() > HELD_BYTES_OF_LINES {
                            self.become_lines(out);
                        }
                    }
                    Beginning::Unfinished | Beginning::Array => self.become_document(out),
                    // Plain text must reach the user while it is printed, so the wait for JSON has an end.
                    Beginning::Other if held.count() >= HELD_LINES || held.len() >= HELD_BYTES => {
                        self.become_text(out)
                    }
                    Beginning::Other => {}
                }
            }
            ShapedState::Document(document) => {
                out.quiet_for_now();
                // Objects of a document are indented; one that begins a line is a line of JSON. Where the arguments promise a
                // document, it takes two.
                let may_be_lines =
                    if self.told { document.is_object == Some(true) } else { document.held.count() > 0 };
                document.add(line, out.span());
                if document.held.bytes() > LONGEST_DOCUMENT
                    || may_be_lines && beginning(line) == Beginning::Object
                {
                    self.become_lines(out);
                }
            }
        }
    }

    fn become_lines(&mut self, out: &mut Output<'_>) {
        let held = self.take_held();
        self.state = ShapedState::Lines;
        held.replay(None, out, |line, out| self.speaker.line(line, out));
    }

    fn become_text(&mut self, out: &mut Output<'_>) {
        let held = self.take_held();
        let mut plain = PlainText::default();
        for (span, line) in held.lines() {
            out.at(span, |out| {
                if let Some(line) = self.speaker.text_line(line, out) {
                    plain.line(&line, out);
                }
            });
        }
        self.state = ShapedState::Text(plain);
    }

    /// Begins a document with the last held line; what was held before it is noise.
    fn become_document(&mut self, out: &mut Output<'_>) {
        let held = self.take_held();
        let mut document = Document::default();
        if let Some((span, line)) = held.lines().last() {
            // In order: the noise before the document precedes the events of the document.
            held.replay(Some(line), out, noise);
            document.add(line, span);
        }
        self.state = ShapedState::Document(document);
    }

    fn take_held(&mut self) -> HeldLines {
        match &mut self.state {
            ShapedState::Open(held) => std::mem::take(held),
            ShapedState::Document(document) => std::mem::take(&mut document.held),
            ShapedState::Lines | ShapedState::Text(_) => HeldLines::default(),
        }
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        match &self.state {
            // Nothing was printed, or only blank lines: the exit decides.
            ShapedState::Open(held) if held.count() == 0 => {}
            // A failed program printed an error, not an answer: as lines, the text becomes evidence of the failure.
            ShapedState::Open(_) if self.may_be_text && end.exit.is_some_and(|exit| !exit.is_success()) => {
                self.become_lines(out);
            }
            ShapedState::Open(_) => {
                if self.may_be_text {
                    out.notice(
                        Level::Warn,
                        "the program printed plain text instead of JSON; all of it is the answer",
                    );
                }
                self.become_text(out);
                out.complete_at_eof(None);
            }
            ShapedState::Document(_) => self.document(out),
            ShapedState::Lines | ShapedState::Text(_) => {}
        }
        if let ShapedState::Text(plain) = &self.state
            && let Some(report) = self.speaker.text_was_error(&plain.tail, end)
        {
            let message = TextDialect::MESSAGE.into();
            // The text was emitted as it came. Only the end of the output shows that it was an error.
            out.emit(Kind::TextRetracted(TextRetracted { message, from_block: 0 }));
            out.failed(&report);
        }
        // Last: the reader judges the end with everything that was held handed on.
        self.speaker.end(end, out);
    }

    /// Reads what was held as a document, or as whatever else it turns out to be.
    fn document(&mut self, out: &mut Output<'_>) {
        let held = self.take_held();
        // Warnings may stand before a document.
        let start = held.lines().find(|(_, line)| may_begin(line));
        let Some((span, first)) = start else {
            self.state = ShapedState::Open(held);
            return if self.told { self.become_lines(out) } else { self.become_text(out) };
        };
        let document = held.text_from(first).trim();
        let nothing_before = held.lines().next().is_some_and(|(_, line)| may_begin(line));
        // `is_eof` means that the JSON is right as far as it goes: the program was stopped in the middle of it.
        let cut_short = serde_json::from_str::<IgnoredAny>(document).is_err_and(|error| error.is_eof());
        if cut_short && (self.told || nothing_before) && held.count() > 1 {
            // Its beginning is understood, and that it has no end.
            out.quiet();
            out.at(span, |out| out.unrecognized(UnrecognizedReason::BadShape, document, None));
            self.state = ShapedState::Lines;
            return;
        }
        if lenient::value(document).is_none() {
            let looks_like_text = !self.told && first.trim_start().starts_with('[');
            self.state = ShapedState::Open(held);
            return if looks_like_text { self.become_text(out) } else { self.become_lines(out) };
        }
        held.replay(Some(first), out, noise);
        let span = span.zip(held.last()).map(|(first, last)| RawSpan { end: last.end, ..first });
        out.at(span, |out| self.speaker.document(document, out));
        self.state = ShapedState::Lines;
    }
}

impl Document {
    fn add(&mut self, line: &str, span: Option<RawSpan>) {
        if self.is_object.is_none() && may_begin(line) {
            self.is_object = Some(beginning(line) == Beginning::Object);
        }
        self.held.add(line, span);
    }
}

impl<S: ShapedDialect> Dialect for Shaped<S> {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(line) => self.line(line, out),
            Input::Stderr(line) => self.speaker.stderr(line, out),
            Input::Sent(line) => self.speaker.sent(line, out),
            Input::Eof(end) => self.end(end, out),
        }
    }
}

impl PlainText {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        self.text.line(&crate::ansi::strip(line), out);
        self.tail.push_str(line);
        self.tail.push('\n');
        if self.tail.len() > 2 * TAIL {
            let from = self.tail.ceil_char_boundary(self.tail.len() - TAIL);
            self.tail.drain(..from);
        }
    }
}

/// Returns whether a line may begin a document.
fn may_begin(line: &str) -> bool {
    line.trim_start().starts_with(['{', '['])
}

fn noise(line: &str, out: &mut Output<'_>) {
    if !lenient::is_blank(line) {
        out.noise(line);
    }
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    /// A complete object.
    Object,
    /// A complete array.
    Array,
    /// The first line of an object or array.
    Unfinished,
    Other,
}

fn beginning(line: &str) -> Beginning {
    let repaired;
    let mut text = line.trim();
    // A terminal sequence before the brace; the repair costs a copy, so other lines do without.
    if text.starts_with('\u{1B}') {
        repaired = lenient::repair(line);
        text = repaired.trim();
    }
    let complete = || serde_json::from_str::<IgnoredAny>(text).is_ok() || lenient::value(text).is_some();
    match text.as_bytes().first() {
        Some(b'{') if complete() => Beginning::Object,
        Some(b'[') if complete() => Beginning::Array,
        // A document goes on after its first brace, and its first line holds little else.
        Some(b'{') if text.len() == 1 || text.ends_with([',', '{', '[']) => Beginning::Unfinished,
        Some(b'[') if text.len() == 1 || text.ends_with([',', '{', '[']) => Beginning::Unfinished,
        _ => Beginning::Other,
    }
}
