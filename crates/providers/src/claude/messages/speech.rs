//! The text of the agent and its sub-agents, each text once.
//!
//! A text comes in pieces (`stream_event`), then as a whole block (`assistant`), then as the `result`. A message ends
//! with its `message_stop`, or when another one begins. Streamed text that its block never confirmed was
//! abandoned: newer versions report that with `abandoned_blocks`, older ones just start again.

use bowline_protocol::kinds::{MessageFinished, Phase, TextRetracted};
use bowline_protocol::{Kind, MessageId, ToolId};

use crate::dialect::Output;
use crate::dialects::speech::BlockKind;
use crate::dialects::text_dedup::{MessageNames, TextSoFar, WholeText};

/// The most sub-agents that are listened to at the same time.
const MOST_SPEAKERS: usize = 64;

/// The current messages: one for the agent itself, one for each sub-agent.
#[derive(Debug, Default)]
pub(crate) struct ClaudeMessages {
    current: Vec<OpenClaudeMessage>,
    /// Whether the agent itself has given an answer in this turn that is no commentary.
    answered: bool,
    /// The names of messages that the program had no id for.
    unnamed: MessageNames,
}

/// A current message.
#[derive(Debug)]
struct OpenClaudeMessage {
    parent: Option<ToolId>,
    id: MessageId,
    model: Option<String>,
    next_block: u32,
    open: Option<OpenBlock>,
    /// The last block of text that is complete.
    last_text: TextSoFar,
    /// Whether there is any text that could be retracted.
    spoke: bool,
    calls_tools: bool,
}

/// A block that comes in pieces.
#[derive(Debug)]
struct OpenBlock {
    index: u32,
    sort: Option<BlockKind>,
    said: TextSoFar,
    /// Whether the whole block has been emitted.
    confirmed: bool,
}

/// The message that a line is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Which<'a> {
    /// The call of the sub-agent.
    pub(crate) parent: Option<&'a str>,
    /// The message's id; absent from the streamed lines of older versions.
    pub(crate) id: Option<&'a str>,
    /// The model.
    pub(crate) model: Option<&'a str>,
}

impl ClaudeMessages {
    /// Handles the beginning of a streamed message.
    pub(crate) fn begin(&mut self, which: Which<'_>, out: &mut Output<'_>) {
        self.message(which, out);
    }

    /// Handles the beginning of a streamed block.
    pub(crate) fn begin_block(&mut self, which: Which<'_>, index: u32, out: &mut Output<'_>) {
        self.message(which, out).open(index);
    }

    /// Handles a piece of a streamed block.
    pub(crate) fn piece(
        &mut self,
        which: Which<'_>,
        index: u32,
        sort: BlockKind,
        text: &str,
        out: &mut Output<'_>,
    ) {
        let message = self.message(which, out);
        // The reader may have missed `content_block_start`: a new index begins a block all the same.
        if message.open.as_ref().is_none_or(|open| open.index != index) {
            message.open(index);
        }
        if let Some(open) = &mut message.open {
            open.sort = Some(sort);
            open.said.add(text);
        }
        message.say(index, sort, text, out);
    }

    /// Handles the end of a streamed block.
    pub(crate) fn end_block(&mut self, which: Which<'_>, out: &mut Output<'_>) {
        let message = self.message(which, out);
        // One that was not confirmed stays open: it may yet turn out to be abandoned.
        if message.open.as_ref().is_some_and(|open| open.confirmed) {
            message.close_block();
        }
    }

    /// Handles the end of a streamed message.
    pub(crate) fn end(&mut self, which: Which<'_>, out: &mut Output<'_>) {
        if let Some(place) = self.place(which) {
            let mut message = self.current.remove(place);
            message.close_block();
            self.finish(message, None, out);
        }
    }

    /// Retracts the text of a message from a block on, and ends it.
    pub(crate) fn abandon(&mut self, which: Which<'_>, from: u32, out: &mut Output<'_>) {
        if let Some(place) = self.place(which) {
            let mut message = self.current.remove(place);
            // The open block goes without closing: closing it would make its text the last text of the message.
            message.open = None;
            message.retract(from, out);
            self.finish(message, None, out);
        }
    }

    /// Handles a whole block of text or thinking: emits the part that was not emitted yet.
    pub(crate) fn block(&mut self, which: Which<'_>, sort: BlockKind, text: &str, out: &mut Output<'_>) {
        let message = self.message(which, out);
        // With partial messages the whole block comes before its own `content_block_stop`, so the streamed block is still open.
        let (index, mut said) = message.claim(Some(sort));
        match said.compare(text) {
            WholeText::Known => {}
            WholeText::Adds(rest) => {
                said.add(rest);
                message.say(index, sort, rest, out);
            }
            // Thoughts may be shown shorter than they were; the pieces are kept.
            WholeText::Differs if sort == BlockKind::Thinking => {}
            WholeText::Differs => {
                message.retract(index, out);
                said = TextSoFar::default();
                said.add(text);
                message.say(index, sort, text, out);
            }
        }
        if sort == BlockKind::Text {
            message.last_text = said;
        }
    }

    /// Handles a whole block that calls a tool: the message is then not an answer.
    pub(crate) fn call(&mut self, which: Which<'_>, out: &mut Output<'_>) {
        let message = self.message(which, out);
        message.claim(None);
        message.calls_tools = true;
    }

    /// Handles a whole block without content for an event.
    pub(crate) fn skip(&mut self, which: Which<'_>, out: &mut Output<'_>) {
        self.message(which, out).claim(None);
    }

    /// Ends the agent's message because an error took its place. Text that was only streamed is not an answer.
    pub(crate) fn broken(&mut self, out: &mut Output<'_>) {
        if let Some(place) = self.current.iter().position(|message| message.parent.is_none()) {
            let message = self.current.remove(place);
            self.leave(message, out);
        }
    }

    /// Ends the agent's message because the program did not take it for an answer.
    pub(crate) fn reject(&mut self, out: &mut Output<'_>) {
        if let Some(message) = self.take_own() {
            self.finish(message, Some(Phase::Commentary), out);
        }
    }

    /// Ends the agent's message at the end of its turn. Says the result if it is not what was said last and nothing
    /// else was an answer.
    pub(crate) fn conclude(&mut self, result: &str, out: &mut Output<'_>) {
        if let Some(message) = self.take_own() {
            // A message with a tool call is commentary, unless the program itself returns its text as the result.
            let is_result = !result.is_empty() && message.last_text.is(result);
            self.finish(message, is_result.then_some(Phase::Final), out);
        }
        // `json` prints no `assistant` line: there the result is the only place of the text.
        if !self.answered && !result.is_empty() {
            let id = self.unnamed.next();
            out.text(&id, 0, result, None);
        }
    }

    /// Forgets the text: the turn is over, and has finished every message.
    pub(crate) fn turn_over(&mut self) {
        self.current.clear();
        self.answered = false;
    }

    /// Returns the message, which a new id begins.
    fn message(&mut self, which: Which<'_>, out: &mut Output<'_>) -> &mut OpenClaudeMessage {
        let place = match self.place(which) {
            Some(place) if self.current[place].is(which.id) => place,
            other => {
                if let Some(place) = other {
                    let message = self.current.remove(place);
                    self.leave(message, out);
                } else if self.current.len() >= MOST_SPEAKERS {
                    let message = self.current.remove(0);
                    self.leave(message, out);
                }
                let id = which.id.map_or_else(|| self.unnamed.next(), MessageId::from);
                self.current.push(OpenClaudeMessage {
                    parent: which.parent.map(ToolId::from),
                    id,
                    model: None,
                    next_block: 0,
                    open: None,
                    last_text: TextSoFar::default(),
                    spoke: false,
                    calls_tools: false,
                });
                self.current.len() - 1
            }
        };
        let message = &mut self.current[place];
        if message.model.is_none() {
            message.model = which.model.map(str::to_owned);
        }
        message
    }

    fn place(&self, which: Which<'_>) -> Option<usize> {
        self.current.iter().position(|message| message.parent.as_ref().map(ToolId::as_str) == which.parent)
    }

    fn take_own(&mut self) -> Option<OpenClaudeMessage> {
        let place = self.current.iter().position(|message| message.parent.is_none())?;
        let mut message = self.current.remove(place);
        message.close_block();
        Some(message)
    }

    /// Ends a message that another one replaces.
    fn leave(&mut self, mut message: OpenClaudeMessage, out: &mut Output<'_>) {
        match message.open.take() {
            // Older versions have no `abandoned_blocks`: a new message without a confirming block is the sign of a broken stream.
            Some(open) if !open.confirmed && !open.said.is_empty() => message.retract(open.index, out),
            Some(_) | None => {}
        }
        self.finish(message, None, out);
    }

    fn finish(&mut self, message: OpenClaudeMessage, phase: Option<Phase>, out: &mut Output<'_>) {
        let usual = if message.calls_tools { Phase::Commentary } else { Phase::Final };
        let phase = phase.unwrap_or(usual);
        if phase == Phase::Final && message.parent.is_none() && !message.last_text.is_empty() {
            self.answered = true;
        }
        let OpenClaudeMessage { id, model, .. } = message;
        out.emit(Kind::MessageFinished(MessageFinished { message: id, phase, model }));
    }
}

impl OpenClaudeMessage {
    /// Returns whether this is the message of that id; lines without one are about the current message.
    fn is(&self, id: Option<&str>) -> bool {
        id.is_none_or(|id| self.id.as_str() == id)
    }

    fn open(&mut self, index: u32) {
        self.close_block();
        self.next_block = self.next_block.max(index.saturating_add(1));
        self.open = Some(OpenBlock { index, sort: None, said: TextSoFar::default(), confirmed: false });
    }

    fn close_block(&mut self) {
        if let Some(open) = self.open.take()
            && open.sort == Some(BlockKind::Text)
        {
            self.last_text = open.said;
        }
    }

    /// Finds the place of a whole block: the one that was streamed, or the next one. Returns its text so far.
    fn claim(&mut self, sort: Option<BlockKind>) -> (u32, TextSoFar) {
        if let Some(open) = &mut self.open
            && !open.confirmed
            && (open.sort.is_none() || open.sort == sort)
        {
            open.confirmed = true;
            return (open.index, open.said.clone());
        }
        let index = self.next_block;
        self.next_block = index.saturating_add(1);
        (index, TextSoFar::default())
    }

    fn say(&mut self, index: u32, sort: BlockKind, text: &str, out: &mut Output<'_>) {
        self.spoke |= sort == BlockKind::Text;
        sort.emit(&self.id, index, text, self.parent.as_ref(), out);
    }

    fn retract(&mut self, from_block: u32, out: &mut Output<'_>) {
        self.last_text = TextSoFar::default();
        if !self.spoke {
            return;
        }
        out.emit(Kind::TextRetracted(TextRetracted { message: self.id.clone(), from_block }));
    }
}
