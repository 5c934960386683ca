//! How messages are put together.
//!
//! With partial messages a block comes in pieces and then whole; without, only whole. The index of a block is of no
//! use: it restarts within a message, and the wholes of one message carry different ids. So blocks are numbered in the
//! order in which they begin, and wholes are matched with the blocks that ended, in order.
//!
//! The program appends an error of the API to the answer as text, `[API Error: …]`. Text that may be one is held back until the
//! `result` decides, or until something follows it: an error is the last text of a turn. That a message has used
//! no tokens makes an error of it too; that it has used some proves nothing.

pub(super) mod retold;

use std::collections::VecDeque;

use bowline_protocol::kinds::{MessageFinished, Phase, TextRetracted};
use bowline_protocol::{Kind, MessageId, ToolId};

use self::retold::Retold;
use super::wire::QwenBlockKind;
use crate::dialect::Output;
use crate::dialects::text_dedup::{TextSoFar, WholeText};

/// How the text of an error begins.
pub(super) const ERROR: &str = "[API Error: ";

/// The messages of the agent, or of one of its sub-agents.
#[derive(Debug, Default)]
pub(super) struct QwenMessages {
    parent: Option<ToolId>,
    /// The current message in pieces.
    message: Option<MessageId>,
    /// Its model.
    model: Option<String>,
    next_block: u32,
    open: Option<QwenBlock>,
    /// Blocks that came in pieces and have not come whole.
    ended: VecDeque<QwenBlock>,
    /// Text that may be an error, and its place as text.
    held: Option<HeldError>,
    /// Retries since the last whole block.
    retries: usize,
    /// Whether the current message in pieces has text that counts.
    has_text: bool,
    /// Messages that came whole and belong to the request that may still be made again.
    wholes: Vec<MessageId>,
    /// The block of the next whole text. It differs after text was taken back, so that readers can tell the new text from the old.
    whole_block: u32,
    /// Whether there was any text in this turn.
    pub(super) said: bool,
}

/// A block that comes in pieces.
#[derive(Debug)]
struct QwenBlock {
    number: u32,
    sort: QwenBlockKind,
    /// All text so far, emitted or not.
    came: TextSoFar,
    retold: Retold,
    tool: Option<PartialToolCall>,
}

/// A tool call whose arguments come in pieces.
#[derive(Debug, Default)]
pub(super) struct PartialToolCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: String,
}

/// The end of a text, from the first mark of an error on, with the line ends before it.
#[derive(Debug)]
struct HeldError {
    message: MessageId,
    block: u32,
    text: String,
    /// The message's model, once that is known.
    model: Option<String>,
    /// Whether the message has used tokens.
    spent: bool,
}

/// The decision at the end of a turn about the text that is held back.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeldTextVerdict<'a> {
    /// The turn failed, for this reason.
    Failed(&'a str),
    /// The turn went well, and this is its answer.
    Answered(&'a str),
    /// By a version that reports every turn as a success: the turn ended, and this is its last text.
    Ended,
    /// Nothing.
    Nothing,
}

impl HeldError {
    fn new(message: MessageId, block: u32, text: &str) -> Self {
        Self { message, block, text: text.to_owned(), model: None, spent: false }
    }

    /// Returns where in the text an error begins, if the report makes one of its end.
    fn error_at(&self, told: HeldTextVerdict<'_>, alone: bool) -> Option<usize> {
        // An error may quote another one.
        let same = |reason: &str| {
            let reason = reason.trim();
            let rest = self.text.trim_end().strip_suffix(reason)?;
            (!reason.is_empty() && reason.starts_with(ERROR)).then_some(rest.len())
        };
        let last = || self.text.rfind(ERROR);
        match told {
            HeldTextVerdict::Failed(reason) => {
                same(reason).or_else(|| last().filter(|_| !self.spent || alone))
            }
            HeldTextVerdict::Answered(answer) if answer.trim_start().starts_with(ERROR) => {
                same(answer).or_else(last)
            }
            HeldTextVerdict::Ended => last().filter(|_| self.text.trim_end().ends_with(']')),
            HeldTextVerdict::Answered(_) | HeldTextVerdict::Nothing => last().filter(|_| !self.spent),
        }
    }
}

/// The longest arguments of a tool that are put together from pieces; longer ones come whole.
const LONGEST_INPUT: usize = 1024 * 1024;

/// How many blocks may wait for their whole.
const MOST_ENDED: usize = 256;

impl QwenMessages {
    /// Makes the speech of a sub-agent.
    pub(super) fn of(parent: Option<ToolId>) -> Self {
        Self { parent, ..Self::default() }
    }

    /// A message begins that comes in pieces.
    pub(super) fn message_start(&mut self, id: &str, model: Option<&str>, out: &mut Output<'_>) {
        self.message_stop(out);
        self.message = Some(MessageId::from(id));
        self.model = model.map(str::to_owned);
    }

    /// The message that came in pieces is complete.
    pub(super) fn message_stop(&mut self, out: &mut Output<'_>) {
        out.quiet();
        if let Some(block) = self.open.take() {
            self.keep(block);
        }
        // Pieces that never came whole: their text is out already, and a later message must not match them.
        self.ended.clear();
        (self.next_block, self.has_text) = (0, false);
        // An error that is held back belongs to the message, and may turn out to be text.
        if self.held.is_none() {
            self.finish_message(out);
        }
    }

    fn finish_message(&mut self, out: &mut Output<'_>) {
        if let Some(message) = self.message.take() {
            let model = self.model.take();
            out.emit(Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model }));
        }
    }

    /// A block begins.
    pub(super) fn block_start(
        &mut self,
        sort: QwenBlockKind,
        tool: Option<PartialToolCall>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        if let Some(block) = self.open.take() {
            self.keep(block);
        }
        // Not the program's index: it restarts at 0 within one message (0.24.4).
        let number = self.next_block;
        self.next_block += 1;
        self.open =
            Some(QwenBlock { number, sort, came: TextSoFar::default(), retold: Retold::default(), tool });
    }

    /// The open block is complete. Returns the tool call that it is, if it is one.
    pub(super) fn block_stop(&mut self, out: &mut Output<'_>) -> Option<PartialToolCall> {
        out.quiet();
        let mut block = self.open.take()?;
        let tool = block.tool.take();
        self.keep(block);
        tool
    }

    fn keep(&mut self, block: QwenBlock) {
        if self.ended.len() >= MOST_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(block);
    }

    /// Handles a piece of the open block.
    pub(super) fn piece(&mut self, sort: QwenBlockKind, text: &str, out: &mut Output<'_>) {
        out.quiet();
        if self.open.as_ref().is_none_or(|block| block.sort != sort) {
            self.block_start(sort, None, out);
        }
        // An error is the last text of a message.
        self.release(out);
        let message = self.message.get_or_insert_with(|| fallback_id(self.parent.as_ref())).clone();
        let Some(block) = &mut self.open else { return };
        match sort {
            QwenBlockKind::Tool => {
                if let Some(tool) =
                    block.tool.as_mut().filter(|tool| tool.input.len() + text.len() <= LONGEST_INPUT)
                {
                    tool.input.push_str(text);
                }
            }
            QwenBlockKind::Thinking => {
                block.came.add(text);
                out.thinking(&message, block.number, text, self.parent.as_ref());
            }
            QwenBlockKind::Text => {
                block.came.add(text);
                // A sub-agent's error text goes to the agent as a result, so it is not held back.
                let (text, error) = if self.parent.is_none() { split_error(text) } else { (text, None) };
                self.held = error.map(|error| HeldError::new(message.clone(), block.number, error));
                if text.is_empty() {
                    return;
                }
                (self.said, self.has_text) = (true, true);
                if block.retold.is_comparing() {
                    let new = block.retold.new_of(text);
                    return out.text(&message, block.number, &new, self.parent.as_ref());
                }
                block.retold.heard(text);
                out.text(&message, block.number, text, self.parent.as_ref());
            }
        }
    }

    /// The request is sent again. `keep` is whether the text so far still counts.
    pub(super) fn retry(&mut self, keep: bool, out: &mut Output<'_>) {
        self.retries = self.retries.saturating_add(1);
        if !keep {
            self.take_back_wholes(out);
        }
        if !self.has_text {
            return;
        }
        let open = self.open.as_mut().filter(|block| block.sort == QwenBlockKind::Text);
        if keep {
            if let Some(block) = open {
                block.retold.retry();
            }
            return;
        }
        if let Some(block) = open {
            block.retold.clear();
            // Start another block, so that readers do not mix this text with the retracted one.
            block.number = self.next_block;
            self.next_block += 1;
        }
        self.has_text = false;
        if let Some(message) = self.message.clone() {
            out.emit(Kind::TextRetracted(TextRetracted { message, from_block: 0 }));
        }
    }

    /// Retracts the messages that came whole since the request was made.
    fn take_back_wholes(&mut self, out: &mut Output<'_>) {
        let wholes = std::mem::take(&mut self.wholes);
        if wholes.is_empty() {
            return;
        }
        // Text that is held back is dropped.
        self.held = self.held.take().filter(|held| !wholes.contains(&held.message));
        self.whole_block += 1;
        for message in wholes {
            out.emit(Kind::TextRetracted(TextRetracted { message, from_block: 0 }));
        }
    }

    /// The request was answered: the text so far stays.
    pub(super) fn answered(&mut self) {
        self.wholes.clear();
    }

    /// Handles a block that is whole, of a message with this id. `spent` is whether the message has used tokens.
    pub(super) fn whole(
        &mut self,
        id: &str,
        sort: QwenBlockKind,
        text: &str,
        spent: bool,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        let retries = std::mem::take(&mut self.retries);
        // In order: the whole line of a block has another message id than its pieces, so nothing else links them.
        let pieces = self.ended.pop_front().or_else(|| self.open.take());
        if let Some(block) = pieces.filter(|block| block.sort == sort) {
            if let Some(held) = &mut self.held {
                held.spent |= spent;
            }
            if let (WholeText::Adds(new), Some(message)) = (block.came.compare(text), self.message.clone()) {
                self.release(out);
                self.say(&message, block.number, sort, new, out);
            }
            return;
        }
        // An error is the last text of a turn.
        self.release(out);
        let message = MessageId::from(id);
        let may_be_error = sort == QwenBlockKind::Text && self.parent.is_none();
        let (text, error) = if may_be_error { split_error(text) } else { (text, None) };
        // Without partial messages, 0.24.4 prints the text of every attempt in one block: "first half first half …".
        let text = if sort == QwenBlockKind::Text { retold::once(text, retries) } else { text };
        let block = self.whole_block;
        self.say(&message, block, sort, text, out);
        if sort == QwenBlockKind::Text
            && !text.is_empty()
            && self.wholes.len() < MOST_ENDED
            && !self.wholes.contains(&message)
        {
            self.wholes.push(message.clone());
        }
        self.held = error.map(|error| HeldError { spent, ..HeldError::new(message, block, error) });
    }

    fn say(
        &mut self,
        message: &MessageId,
        block: u32,
        sort: QwenBlockKind,
        text: &str,
        out: &mut Output<'_>,
    ) {
        match sort {
            QwenBlockKind::Text if text.is_empty() => {}
            QwenBlockKind::Text => {
                self.said = true;
                out.text(message, block, text, self.parent.as_ref());
            }
            QwenBlockKind::Thinking => out.thinking(message, block, text, self.parent.as_ref()),
            QwenBlockKind::Tool => {}
        }
    }

    /// Ends the message of a whole line, unless its pieces are still coming.
    pub(super) fn whole_message_end(&mut self, id: &str, model: Option<&str>, out: &mut Output<'_>) {
        if let Some(held) = self.held.as_mut().filter(|held| held.message.as_str() == id) {
            held.model = model.map(str::to_owned);
        } else if self.message.is_none() && self.held.is_none() {
            let (message, model) = (MessageId::from(id), model.map(str::to_owned));
            out.emit(Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model }));
        }
    }

    /// Emits the text that was held back: it was the model's, and no error.
    pub(super) fn release(&mut self, out: &mut Output<'_>) {
        let Some(HeldError { message, block, text, model, .. }) = self.held.take() else { return };
        if !text.is_empty() {
            self.said = true;
            out.text(&message, block, &text, self.parent.as_ref());
        }
        if self.message.as_ref() != Some(&message) {
            out.emit(Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model }));
        }
    }

    /// Decides about the held text at the end of a turn: emits text, and returns an error.
    pub(super) fn settle(&mut self, told: HeldTextVerdict<'_>, out: &mut Output<'_>) -> Option<String> {
        // Read before `release`, which sets `said`.
        let alone = !self.said;
        let held = self.held.as_mut()?;
        let error = held.error_at(told, alone).map(|at| held.text.split_off(at));
        if error.is_some() {
            // The line ends that set the error off are no text.
            held.text.truncate(held.text.trim_end_matches('\n').len());
        }
        self.release(out);
        error.map(|error| error.trim().to_owned())
    }

    /// The turn is over.
    pub(super) fn end(&mut self, out: &mut Output<'_>) {
        self.message_stop(out);
        *self = Self::of(self.parent.take());
    }
}

/// Splits what may be an error off the end of a text.
fn split_error(text: &str) -> (&str, Option<&str>) {
    match text.find(ERROR) {
        Some(at) => {
            let at = text[..at].trim_end_matches('\n').len();
            (&text[..at], Some(&text[at..]))
        }
        None => (text, None),
    }
}

/// The message of pieces before which none was announced: sub-agents announce none.
fn fallback_id(parent: Option<&ToolId>) -> MessageId {
    parent.map_or_else(|| MessageId::from("m1"), |parent| MessageId::from(format!("{}-m1", parent.as_str())))
}
