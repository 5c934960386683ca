//! The text of `app-server`, piece by piece, and whole when an item is complete.
//!
//! The ids of items are the model's and are used again in other turns, so every item with text becomes a message
//! with an id of our own. After a broken connection the answer starts again: pieces without an end are retracted at once, a complete
//! message when the retry has repeated it.

use std::collections::{BTreeMap, HashMap};

use bowline_protocol::kinds::{MessageFinished, Phase, TextRetracted};
use bowline_protocol::{Kind, MessageId, ToolId};

use crate::dialect::Output;
use crate::dialects::text_dedup::{MessageNames, TextSoFar, WholeText};

/// How many messages are open, or remembered, at most.
const REMEMBERED: usize = 256;

/// The current messages.
#[derive(Debug, Default)]
pub(crate) struct MessageStream {
    messages: MessageNames,
    /// In order, so that the same output gives the same events.
    open: BTreeMap<Box<str>, OpenMessage>,
    /// The finished text of this request.
    told: Vec<(TextSoFar, MessageId)>,
    /// The text of the request that is being retried.
    repeatable: Vec<(TextSoFar, MessageId)>,
}

/// A current message.
#[derive(Debug)]
struct OpenMessage {
    message: MessageId,
    /// The text of each block so far.
    blocks: HashMap<u32, TextSoFar>,
    /// Whether it has text.
    said: bool,
    /// Whether it belongs to a sub-agent.
    foreign: bool,
}

/// The block of a thought's own words, behind those of its summary.
pub(crate) const RAW_THOUGHT: u32 = 1 << 16;

impl MessageStream {
    /// Handles a piece of text.
    pub(crate) fn text(&mut self, item: &str, text: &str, parent: Option<&ToolId>, out: &mut Output<'_>) {
        let open = self.open(item);
        open.said = true;
        open.foreign = parent.is_some();
        open.blocks.entry(0).or_default().add(text);
        out.text(&open.message, 0, text, parent);
    }

    /// Handles a piece of a thought: a block of an item.
    pub(crate) fn thought(
        &mut self,
        (item, block): (&str, u32),
        text: &str,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        let open = self.open(item);
        open.blocks.entry(block).or_default().add(text);
        out.thinking(&open.message, block, text, parent);
    }

    /// Handles a complete text. Only the part that the pieces left out is emitted.
    pub(crate) fn whole(
        &mut self,
        item: &str,
        text: &str,
        phase: Phase,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        let known = self.open(item).blocks.get(&0).cloned().unwrap_or_default();
        match known.compare(text) {
            WholeText::Known => {}
            WholeText::Adds(rest) => self.text(item, rest, parent, out),
            WholeText::Differs => {
                let message = self.open(item).message.clone();
                out.emit(Kind::TextRetracted(TextRetracted { message, from_block: 0 }));
                self.open(item).blocks.clear();
                self.text(item, text, parent, out);
            }
        }
        let Some(OpenMessage { message, mut blocks, said, .. }) = self.open.remove(item) else { return };
        if !said {
            return;
        }
        out.emit(Kind::MessageFinished(MessageFinished { message: message.clone(), phase, model: None }));
        // A retry of the session's request repeats the session's text only, never a sub-agent's.
        if parent.is_none() {
            self.finished(text, blocks.remove(&0).unwrap_or_default(), message, out);
        }
    }

    /// Handles a complete part of a thought.
    pub(crate) fn whole_thought(
        &mut self,
        (item, block): (&str, u32),
        text: &str,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        let known = self.open(item).blocks.get(&block).cloned().unwrap_or_default();
        if let WholeText::Adds(rest) = known.compare(text) {
            self.thought((item, block), rest, parent, out);
        }
    }

    /// An item of thoughts is complete.
    pub(crate) fn close(&mut self, item: &str) {
        self.open.remove(item);
    }

    /// The request is sent again: its text so far is void.
    pub(crate) fn retried(&mut self, out: &mut Output<'_>) {
        for (_, OpenMessage { message, .. }) in self.open.extract_if(.., |_, open| open.said && !open.foreign)
        {
            out.emit(Kind::TextRetracted(TextRetracted { message: message.clone(), from_block: 0 }));
            // Retracted, then finished: every message that began must end.
            out.emit(Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model: None }));
        }
        self.repeatable.append(&mut self.told);
    }

    /// A message of the user joins the turn: the answer so far has no end of its own (0.166.0) and begins anew.
    pub(crate) fn cut_off(&mut self, out: &mut Output<'_>) {
        for (_, OpenMessage { message, said, .. }) in self.open.extract_if(.., |_, open| !open.foreign) {
            if said {
                let phase = Phase::Commentary;
                out.emit(Kind::MessageFinished(MessageFinished { message, phase, model: None }));
            }
        }
    }

    /// A tool ended: the next request has the messages before it in its history.
    pub(crate) fn tool_ended(&mut self) {
        self.told.clear();
        self.repeatable.clear();
    }

    /// A turn begins or ends.
    pub(crate) fn turn(&mut self) {
        self.open.clear();
        self.tool_ended();
    }

    /// Retracts the text that the retry has just repeated.
    fn finished(&mut self, text: &str, said: TextSoFar, message: MessageId, out: &mut Output<'_>) {
        if let Some(place) = self.repeatable.iter().position(|(known, _)| known.is(text)) {
            for (_, message) in self.repeatable.drain(..=place).skip(place) {
                out.emit(Kind::TextRetracted(TextRetracted { message, from_block: 0 }));
            }
        } else {
            self.repeatable.clear();
        }
        if self.told.len() < REMEMBERED {
            self.told.push((said, message));
        }
    }

    fn open(&mut self, item: &str) -> &mut OpenMessage {
        // Items that never complete would grow the map for ever in a long session.
        if self.open.len() > REMEMBERED {
            self.open.clear();
        }
        // Looked for first, so that a piece of a known message costs no copy of its id.
        if !self.open.contains_key(item) {
            let message = self.messages.next();
            self.open.insert(
                item.into(),
                OpenMessage { message, blocks: HashMap::new(), said: false, foreign: false },
            );
        }
        self.open.get_mut(item).expect("it was inserted")
    }
}
