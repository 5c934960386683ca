//! What a dialect is: the part that knows how one program speaks.
//!
//! A dialect is told one line at a time and answers with events. It cannot fail: a line that it does not understand
//! is an event too. It decides nothing about turns beyond naming their ends; [`crate::decode`] keeps that account, so
//! that "every turn ends once" and "every message is finished" hold for every dialect alike.

use std::fmt;

use bowline_protocol::kinds::{
    Level, Notice, StopReason, TextDelta, ThinkingDelta, Unrecognized, UnrecognizedReason, UserMessage,
    UserOrigin,
};
use bowline_protocol::{Category, Excerpt, Exit, Kind, MessageId, RawSpan, Source, ToolId};

use serde::{Deserialize, Serialize};

use crate::decode::End;
use crate::failure::Report;
use crate::moment::Moment;
use crate::turns::Turns;

/// How one program speaks.
pub trait Dialect: fmt::Debug + Send {
    /// Takes the next piece of output and says what it means.
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>);

    /// Begins to talk, in dialects in which we have the first word.
    fn open(&mut self, _out: &mut Output<'_>) {}

    /// Asks the program in its own words to stop the turn. Says whether it could be asked.
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
    /// Nobody said: it shows in the output.
    #[default]
    Unknown,
    /// Lines of JSON.
    Lines,
    /// One JSON document.
    Document,
    /// Plain text.
    Text,
}

/// What tells an answer from the words that accompany the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commentary {
    /// Only what the program marks as such, or nothing: the lines of Gemini and of ACP tell no message that ended in a
    /// call of tools from one that did not (Gemini's JSON document has only what stands behind the last tool), and the
    /// specifications' own formats have no word for it.
    Told,
    /// A message that asked for tools, by the program's own word, once something is said after it. If nothing is, it is
    /// the answer: a program may stop after its tools.
    AskedForTools,
    /// What it says before it calls a tool: its own result leaves that out.
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
    /// Returns the word used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Eof => "eof",
        }
    }
}

/// An event that has no number yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The turn, counted from 1 within this decoder.
    pub turn: Option<u32>,
    /// Who says so.
    pub source: Source,
    /// The bytes behind it.
    pub raw: Option<RawSpan>,
    /// What happened.
    pub kind: Kind,
}

/// What is to be written to the program.
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
    pub(crate) turns: &'a mut Turns,
    pub(crate) drafts: &'a mut Vec<Draft>,
    pub(crate) stdin: &'a mut Words,
    pub(crate) raw: Option<RawSpan>,
    pub(crate) stderr: &'a str,
    pub(crate) now: &'a Moment,
    /// How the program ended, at the end of the output.
    pub(crate) exit: Option<Exit>,
    /// Whether the dialect has accounted for the piece in hand, by an event or by [`Self::quiet`].
    pub(crate) answered: bool,
}

impl Output<'_> {
    /// Says that something happened.
    pub fn emit(&mut self, kind: Kind) {
        self.answered = true;
        self.turns.agent(kind, self.raw, self.drafts);
    }

    /// Says a piece of the agent's text. Long pieces become several events, each of a size that a reader can hold.
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

    /// Says a piece of the agent's thinking.
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

    /// Says that the conversation got a message on the user's side. A very long one is cut, and says so.
    pub fn user(&mut self, origin: UserOrigin, text: &str, parent: Option<&ToolId>) {
        let Excerpt { text: head, bytes } = Excerpt::of(text);
        let cut = (head.len() as u64) < bytes;
        let bytes = cut.then_some(bytes);
        self.emit(Kind::UserMessage(UserMessage { origin, text: head, bytes, parent: parent.cloned() }));
        if parent.is_none() {
            self.turns.count_prompt(text.chars().count() as u64);
        }
    }

    /// Says that the piece was understood and that there is nothing to tell.
    pub fn quiet(&mut self) {
        self.answered = true;
        self.turns.recognised(self.drafts);
    }

    /// Says that the piece is understood so far that it will be dealt with later.
    pub(crate) fn quiet_for_now(&mut self) {
        self.answered = true;
    }

    /// Says whether the end of the output would have to be judged: a turn is open, or there never was one.
    pub(crate) fn awaits_verdict(&self) -> bool {
        self.turns.awaits_verdict()
    }

    /// Says why a request is retried, where the retry itself is told elsewhere.
    pub(crate) fn waits_for(&mut self, category: Category, message: &str) {
        self.turns.waits_for(category, message, self.raw);
    }

    /// Says that something came of the last retry. What the agent says or does tells the same.
    pub(crate) fn overcome(&mut self) {
        self.turns.overcome();
    }

    /// Says whether the program was given up while it retried: then the account knows why the turn failed.
    pub(crate) fn gave_up(&self, end: &End) -> bool {
        self.turns.given_up(end).is_some()
    }

    /// Returns the place of the piece in hand.
    pub(crate) fn span(&self) -> Option<RawSpan> {
        self.raw
    }

    /// Speaks about another piece, which was held back.
    pub(crate) fn at(&mut self, raw: Option<RawSpan>, speak: impl FnOnce(&mut Self)) {
        let here = std::mem::replace(&mut self.raw, raw);
        speak(self);
        self.raw = here;
    }

    /// Says that the answer is plain text, so that the reason of a failure may stand in it.
    pub(crate) fn plain(&mut self) {
        self.turns.plain = true;
    }

    /// Adds a remark.
    pub fn notice(&mut self, level: Level, text: impl Into<String>) {
        self.emit(Kind::Notice(Notice { level, text: text.into(), code: None }));
    }

    /// Keeps a piece that is not in the dialect's form at all.
    pub fn noise(&mut self, text: &str) {
        self.unrecognized(UnrecognizedReason::Noise, text, None);
    }

    /// Keeps a piece that could not be understood.
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

    /// Remembers an error that the program spoke of without saying that the turn is over. It becomes the reason
    /// of the failure if the turn does not end well.
    pub fn remember_error(&mut self, message: &str) {
        self.turns.remember_error(message, self.raw, self.drafts);
        self.notice(Level::Error, Excerpt::with_limit(message, 4096).text);
    }

    /// Ends the turn: the program says that it is done.
    pub fn completed(&mut self, stop: Option<StopReason>) {
        self.answered = true;
        self.turns.completed(stop, self.raw, self.drafts);
    }

    /// Ends the turn: the program says that it failed.
    pub fn failed(&mut self, report: &Report) {
        self.answered = true;
        self.turns.failed(report, self.stderr, self.exit, self.raw, self.now, self.drafts);
    }

    /// Ends the turn: the program says that it was interrupted.
    pub fn cancelled(&mut self) {
        self.answered = true;
        self.turns.cancelled(self.raw, self.drafts);
    }

    /// Forgets remembered errors: what they spoke of has been overcome.
    pub fn forget_errors(&mut self) {
        self.turns.forget_errors();
    }

    /// Says that the answer is complete, so that the end of the output and exit code 0 are a success from here on,
    /// also in a dialect whose turns end by an event.
    pub fn complete_at_eof(&mut self, stop: Option<StopReason>) {
        self.answered = true;
        self.turns.complete_at_eof(stop, self.raw, self.drafts);
    }

    /// Takes back [`Self::complete_at_eof`]: more is to come.
    pub fn incomplete_at_eof(&mut self) {
        self.turns.incomplete_at_eof();
    }

    /// Sends bytes to the program.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.bytes.extend_from_slice(bytes);
    }

    /// Sends a line to the program, and shows it to whoever reads what both sides say.
    pub(crate) fn say(&mut self, line: &[u8], reader: &mut dyn Dialect) {
        self.write(line);
        let line = String::from_utf8_lossy(line);
        // It comes from us, not from the line in hand.
        self.at(None, |out| reader.handle(Input::Sent(line.trim_end()), out));
    }

    /// Says that the prompt is among the bytes that are sent now. From here on the program may work at it.
    pub(crate) fn prompts(&mut self) {
        self.stdin.prompt = true;
    }

    /// Says that nothing more will be written to the program.
    pub fn hang_up(&mut self) {
        self.stdin.last = true;
    }
}

/// How much of an unrecognised line an event carries. The whole of it lies in the raw file.
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
