//! The reports of a dialect on a piece of output: events, verdicts, and bytes for the program.
//!
//! [`Output`] adds the place of the piece and passes the report on to the turn tracker. It keeps nothing itself.

use bowline_protocol::kinds::{
    Level, Notice, StopReason, TextDelta, ThinkingDelta, Unrecognized, UnrecognizedReason, UserMessage,
    UserOrigin,
};
use bowline_protocol::{Category, Excerpt, Exit, Kind, MessageId, PromptId, QuestionId, RawSpan, ToolId};

use super::End;
use super::decision::{DecisionRequest, ToolGate};
use super::dialect::{ClientOutput, Dialect, Input, UnnumberedEvent};
use super::host_request::HostRequest;
use super::order::{AckToken, Acknowledgement, HostPrompt};
use super::turns::TurnTracker;
use crate::failure::Report;
use crate::moment::Moment;

/// Where a dialect puts what it understood of one piece of output.
#[derive(Debug)]
pub struct Output<'a> {
    pub(crate) turns: &'a mut TurnTracker,
    pub(crate) drafts: &'a mut Vec<UnnumberedEvent>,
    pub(crate) stdin: &'a mut ClientOutput,
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
            // Of the whole text, not of the excerpt: it is for the estimate of tokens.
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
        // Restored below: the events that follow are about the current piece again.
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

    /// Marks the open turn as work of the agent without a prompt. The next prompt ends it, or a verdict before.
    pub(crate) fn ends_at_prompt(&mut self) {
        self.turns.ends_at_prompt();
    }

    /// Ends work without a prompt: a prompt follows.
    pub(crate) fn close_at_prompt(&mut self) {
        self.turns.close_at_prompt(self.raw, self.drafts);
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

    /// Reports a request of the agent that waits for a decision. The answer comes with [`Dialect::decide`].
    pub(crate) fn awaits_decision(&mut self, request: DecisionRequest) {
        self.stdin.requests.push(request);
    }

    /// Reports a tool that waits at its gate. The answer comes with [`Dialect::pass_gate`] or [`Dialect::decide`].
    pub(crate) fn at_gate(&mut self, gate: ToolGate) {
        self.stdin.gates.push(gate);
    }

    /// Reports a request of the agent that the host carries out now. The result comes with [`Dialect::host_done`].
    pub(crate) fn asks_host(&mut self, request: HostRequest) {
        self.stdin.host.push(request);
    }

    /// Reports a question of the agent that waits for a reply. The reply comes with [`Dialect::reply`].
    pub(crate) fn awaits_reply(&mut self, question: QuestionId) {
        self.stdin.questions.push(question);
    }

    /// Reports that the native session is open: from now on the client takes prompts.
    pub(crate) fn ready(&mut self) {
        self.stdin.ready = true;
    }

    /// Reports that the agent accepted or rejected what was sent with this token.
    pub(crate) fn acknowledged(&mut self, token: AckToken, result: Result<(), String>) {
        self.stdin.acknowledged.push(Acknowledgement { token, result });
    }

    /// Reports that the agent reads a prompt that was sent with [`Dialect::steer`], and emits it as a message of the user. If no
    /// turn is open, the prompt opens one. Call it before the reader handles the agent's echo, which is then dropped.
    pub(crate) fn prompt_read(&mut self, prompt: &HostPrompt) {
        self.turns.prompt(&prompt.text, self.drafts);
        self.stdin.read.push(prompt.id.clone());
    }

    /// Reports that the agent will not read a prompt that was sent with [`Dialect::steer`]: the turn is over.
    pub(crate) fn prompt_lost(&mut self, prompt: &PromptId) {
        self.stdin.lost.push(prompt.clone());
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
