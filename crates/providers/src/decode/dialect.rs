//! The contract of a dialect: the part that knows the output format of one program.
//!
//! A dialect receives one line at a time and returns events. It cannot fail: a line that it does not understand
//! is an event too. It reports the ends of turns and decides nothing else about them. [`crate::decode`] tracks the turns, so
//! that "every turn ends once" and "every message is finished" hold for every dialect alike.

use std::fmt;

use bowline_protocol::kinds::{
    Level, Notice, StopReason, TextDelta, ThinkingDelta, Unrecognized, UnrecognizedReason, UserMessage,
    UserOrigin,
};
use bowline_protocol::{Category, Excerpt, Exit, Kind, MessageId, RawSpan, Source, ToolId};

use serde::{Deserialize, Serialize};

use crate::decode::End;
use crate::decode::turns::TurnTracker;
use crate::failure::Report;
use crate::moment::Moment;

/// Reads, and in two-way formats writes, the format of one program.
pub trait Dialect: fmt::Debug + Send {
    /// Handles the next piece of output.
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>);

    /// Sends the first message, in dialects in which the client begins.
    fn open(&mut self, _out: &mut Output<'_>) {}

    /// Sends the program's own request to stop the turn. Returns whether there is one.
    fn interrupt(&mut self, _out: &mut Output<'_>) -> bool {
        false
    }
}

/// A piece of output. Bytes that are not UTF-8 have been replaced by U+FFFD.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A line of standard output without its end, or the data of one server-sent event, or, for
    /// [`Framing::Document`], everything.
    Line(&'a str),
    /// A line of standard error without its end.
    Stderr(&'a str),
    /// A line that was written to the program's standard input, without its end. Two-way dialects need it to know
    /// what an answer answers.
    Sent(&'a str),
    /// There will be no more: this is how the program ended.
    Eof(&'a End),
}

/// How a dialect's output is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// At line ends.
    Lines,
    /// At line ends, where runs of `data:` lines are server-sent events.
    LinesOrEvents,
    /// Not at all: the dialect gets everything at once, at the end.
    Document,
}

/// Which shape a program's output has, as far as we know.
///
/// Many programs print the same things as lines of JSON, as one JSON document or as plain text, by their arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Unknown: the output decides.
    #[default]
    Unknown,
    /// Lines of JSON.
    Lines,
    /// One JSON document.
    Document,
    /// Plain text.
    Text,
}

/// How an answer is separated from the text that accompanies the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commentary {
    /// Only messages that the program marks, if any. The lines of Gemini and ACP do not show which messages ended in a
    /// tool call (Gemini's JSON document has only the text after the last tool), and the
    /// specifications' own formats have no field for it.
    Told,
    /// A message that the program reports as asking for tools, as soon as more text follows. Without more text it is
    /// the answer: a program may stop after its tools.
    AskedForTools,
    /// Text before a tool call: the program's own result leaves it out.
    BeforeTools,
    /// Every message but the last: the program gives only that one as its answer.
    AllButLast,
}

/// When the lines of a dialect show that the program works. It decides what silence proves about a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutput {
    /// A line before the first model call, and one for each step as it happens. No line means no model call.
    Announced,
    /// A line for each step as it happens, and none before the model answers. No line means no tool call, but a model
    /// call may be under way.
    Immediate,
    /// Perhaps only at the end, or never: the program may buffer its output, or not report its tools.
    Late,
}

/// How a turn ends in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// By something that the program prints. Without it, exit code 0 is not a success.
    Event,
    /// By the end of the output and exit code 0.
    Eof,
}

impl Terminal {
    /// Returns the name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Eof => "eof",
        }
    }
}

/// An event without a number.
#[derive(Clone, Debug, PartialEq)]
pub struct UnnumberedEvent {
    /// The turn, counted from 1 within this decoder.
    pub turn: Option<u32>,
    /// The source of the event.
    pub source: Source,
    /// The bytes it was read from.
    pub raw: Option<RawSpan>,
    /// The event itself.
    pub kind: Kind,
}

/// Bytes to write to the program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether these are the last ones: then its standard input is closed.
    pub last: bool,
    /// Whether the prompt is among them.
    pub prompt: bool,
}

/// Where a dialect puts what it understood of one piece of output.
#[derive(Debug)]
pub struct Output<'a> {
    pub(crate) turns: &'a mut TurnTracker,
    pub(crate) drafts: &'a mut Vec<UnnumberedEvent>,
    pub(crate) stdin: &'a mut Words,
    pub(crate) raw: Option<RawSpan>,
    pub(crate) stderr: &'a str,
    pub(crate) now: &'a Moment,
    /// How the program ended, at the end of the output.
    pub(crate) exit: Option<Exit>,
    /// Whether the dialect has handled the current piece, by an event or by [`Self::quiet`].
    pub(crate) answered: bool,
}

impl Output<'_> {
    /// Emits an event.
    pub fn emit(&mut self, kind: Kind) {
        self.answered = true;
        self.turns.agent(kind, self.raw, self.drafts);
    }

    /// Emits a piece of the agent's text. Long pieces become several events, each small enough for a reader to hold.
    pub fn text(&mut self, message: &MessageId, block: u32, text: &str, parent: Option<&ToolId>) {
        for piece in pieces(text) {
            self.emit(Kind::TextDelta(TextDelta {
                message: message.clone(),
                block,
                text: piece.to_owned(),
                parent: parent.cloned(),
            }));
        }
        self.answered = true;
    }

    /// Emits a piece of the agent's thinking.
    pub fn thinking(&mut self, message: &MessageId, block: u32, text: &str, parent: Option<&ToolId>) {
        for piece in pieces(text) {
            self.emit(Kind::ThinkingDelta(ThinkingDelta {
                message: message.clone(),
                block,
                text: piece.to_owned(),
                parent: parent.cloned(),
            }));
        }
        self.answered = true;
    }

    /// Emits a message on the user's side of the conversation. A very long one is cut and marked as cut.
    pub fn user(&mut self, origin: UserOrigin, text: &str, parent: Option<&ToolId>) {
        let Excerpt { text: head, bytes } = Excerpt::of(text);
        let cut = (head.len() as u64) < bytes;
        let bytes = cut.then_some(bytes);
        self.emit(Kind::UserMessage(UserMessage { origin, text: head, bytes, parent: parent.cloned() }));
        if parent.is_none() {
            self.turns.count_prompt(text.chars().count() as u64);
        }
    }

    /// Marks the piece as understood, without an event.
    pub fn quiet(&mut self) {
        self.answered = true;
        self.turns.recognised(self.drafts);
    }

    /// Marks the piece as understood so far. The dialect handles it later.
    pub(crate) fn quiet_for_now(&mut self) {
        self.answered = true;
    }

    /// Returns whether the end of the output has to be judged: a turn is open, or there never was one.
    pub(crate) fn awaits_verdict(&self) -> bool {
        self.turns.awaits_verdict()
    }

    /// Records the reason of a retry whose event is emitted elsewhere.
    pub(crate) fn waits_for(&mut self, category: Category, message: &str) {
        self.turns.waits_for(category, message, self.raw);
    }

    /// Records that the last retry had an effect. Text and tool calls of the agent imply it.
    pub(crate) fn overcome(&mut self) {
        self.turns.overcome();
    }

    /// Returns whether the program was stopped while it retried: then the reason of the retry is the reason of the failure.
    pub(crate) fn gave_up(&self, end: &End) -> bool {
        self.turns.given_up(end).is_some()
    }

    /// Returns the place of the current piece.
    pub(crate) fn span(&self) -> Option<RawSpan> {
        self.raw
    }

    /// Emits events about another piece, which was held back.
    pub(crate) fn at(&mut self, raw: Option<RawSpan>, speak: impl FnOnce(&mut Self)) {
        let here = std::mem::replace(&mut self.raw, raw);
        speak(self);
        self.raw = here;
    }

    /// Declares that the answer is plain text, which may contain the reason of a failure.
    pub(crate) fn plain(&mut self) {
        self.turns.plain = true;
    }

    /// Emits a notice.
    pub fn notice(&mut self, level: Level, text: impl Into<String>) {
        self.emit(Kind::Notice(Notice { level, text: text.into(), code: None }));
    }

    /// Keeps a piece that does not have the dialect's form.
    pub fn noise(&mut self, text: &str) {
        self.unrecognized(UnrecognizedReason::Noise, text, None);
    }

    /// Keeps a piece that was not understood.
    pub fn unrecognized(&mut self, reason: UnrecognizedReason, text: &str, type_name: Option<&str>) {
        self.answered = true;
        self.turns.unrecognized(
            Unrecognized {
                reason,
                count: None,
                head: Excerpt::with_limit(text, UNRECOGNIZED_HEAD),
                type_name: type_name.map(|name| Excerpt::with_limit(name, 200).text),
            },
            self.raw,
            self.drafts,
        );
    }

    /// Remembers an error that the program reported without ending the turn. It becomes the reason
    /// of the failure if the turn does not complete.
    pub fn remember_error(&mut self, message: &str) {
        self.turns.remember_error(message, self.raw, self.drafts);
        self.notice(Level::Error, Excerpt::with_limit(message, 4096).text);
    }

    /// Ends the turn as completed: the verdict of the program.
    pub fn completed(&mut self, stop: Option<StopReason>) {
        self.answered = true;
        self.turns.completed(stop, self.raw, self.drafts);
    }

    /// Records the program's own count of model turns, reported with the verdict that follows.
    pub fn num_turns(&mut self, count: Option<u64>) {
        self.turns.num_turns = count.and_then(|count| u32::try_from(count).ok());
    }

    /// Ends the turn as failed: the verdict of the program.
    pub fn failed(&mut self, report: &Report) {
        self.answered = true;
        self.turns.failed(report, self.stderr, self.exit, self.raw, self.now, self.drafts);
    }

    /// Ends the turn as cancelled: the verdict of the program.
    pub fn cancelled(&mut self) {
        self.answered = true;
        self.turns.cancelled(self.raw, self.drafts);
    }

    /// Forgets remembered errors: the program has recovered from them.
    pub fn forget_errors(&mut self) {
        self.turns.forget_errors();
    }

    /// Declares the answer complete: from now on the end of the output with exit code 0 is a success,
    /// also in a dialect whose turns end by an event.
    pub fn complete_at_eof(&mut self, stop: Option<StopReason>) {
        self.answered = true;
        self.turns.complete_at_eof(stop, self.raw, self.drafts);
    }

    /// Reverts [`Self::complete_at_eof`]: more output follows.
    pub fn incomplete_at_eof(&mut self) {
        self.turns.incomplete_at_eof();
    }

    /// Sends bytes to the program.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.bytes.extend_from_slice(bytes);
    }

    /// Sends a line to the program, and hands it to the reader of both directions.
    pub(crate) fn say(&mut self, line: &[u8], reader: &mut dyn Dialect) {
        self.write(line);
        let line = String::from_utf8_lossy(line);
        // Our own line has no span in the output.
        self.at(None, |out| reader.handle(Input::Sent(line.trim_end()), out));
    }

    /// Declares that the bytes sent now contain the prompt. From now on the program may work on it.
    pub(crate) fn prompts(&mut self) {
        self.stdin.prompt = true;
    }

    /// Closes the program's standard input after the bytes so far.
    pub fn hang_up(&mut self) {
        self.stdin.last = true;
    }
}

/// The maximum size of an unrecognized line in an event. The raw file has all of it.
pub(crate) const UNRECOGNIZED_HEAD: usize = 1024;

/// Cuts a text into pieces of at most [`Excerpt::LIMIT`] bytes, between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(rest.floor_char_boundary(Excerpt::LIMIT));
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters_and_nothing_is_lost() {
        let text = "é".repeat(Excerpt::LIMIT);
        let cut: Vec<&str> = pieces(&text).collect();
        assert_eq!(cut.len(), 2);
        assert!(cut.iter().all(|piece| piece.len() <= Excerpt::LIMIT));
        assert_eq!(cut.concat(), text);
        assert_eq!(pieces("").count(), 0);
    }
}
