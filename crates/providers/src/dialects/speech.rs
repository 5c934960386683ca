//! The current message, block by block, and the output of running tools: for programs that print text in
//! pieces and then whole.

use std::collections::HashMap;

use bowline_protocol::kinds::{MessageFinished, Phase, TextRetracted, ToolUpdated};
use bowline_protocol::{Excerpt, Kind, MessageId, ToolId};

use super::text_dedup::{MessageNames, TextSoFar, WholeText};
use crate::dialect::Output;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Text,
    Thinking,
}

impl BlockKind {
    /// Emits a piece of a block of this kind. `parent` is the call of the sub-agent whose text it is.
    pub(crate) fn emit(
        self,
        message: &MessageId,
        block: u32,
        text: &str,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        match self {
            Self::Text => out.text(message, block, text, parent),
            Self::Thinking => out.thinking(message, block, text, parent),
        }
    }
}

/// The current message.
#[derive(Debug, Default)]
pub(crate) struct MessageBlocks {
    messages: MessageNames,
    /// The text of each block so far, by its place.
    blocks: HashMap<u32, TextSoFar>,
}

impl MessageBlocks {
    /// Begins a new message, and finishes the one before.
    pub(crate) fn begin(&mut self, out: &mut Output<'_>) {
        self.finish(Phase::Final, None, out);
        self.messages.next();
    }

    /// Returns the current message.
    pub(crate) fn message(&mut self) -> MessageId {
        self.messages.current()
    }

    /// Emits a piece of a block.
    pub(crate) fn say(&mut self, block: u32, text: &str, sort: BlockKind, out: &mut Output<'_>) {
        if self.blocks.len() >= BLOCKS && !self.blocks.contains_key(&block) {
            self.blocks.clear();
        }
        self.blocks.entry(block).or_default().add(text);
        let message = self.messages.current();
        sort.emit(&message, block, text, None, out);
    }

    /// Handles a block that is repeated whole: adds the part that its pieces left out.
    pub(crate) fn whole(&mut self, block: u32, text: &str, sort: BlockKind, out: &mut Output<'_>) {
        out.quiet();
        let said = self.blocks.entry(block).or_default();
        match said.compare(text) {
            WholeText::Adds(new) => self.say(block, new, sort, out),
            // The pieces stand: a reader has seen them.
            WholeText::Known | WholeText::Differs => {}
        }
    }

    /// Retracts a block, and those after it, that the complete message gives as a longer, other text.
    pub(crate) fn correct(&mut self, block: u32, text: &str, out: &mut Output<'_>) {
        let other = self
            .blocks
            .get(&block)
            .is_some_and(|said| said.compare(text) == WholeText::Differs && said.is_shorter_than(text));
        if other {
            self.blocks.retain(|place, _| *place < block);
            let message = self.messages.current();
            out.emit(Kind::TextRetracted(TextRetracted { message, from_block: block }));
        }
    }

    /// Finishes the message.
    pub(crate) fn finish(&mut self, phase: Phase, model: Option<&str>, out: &mut Output<'_>) {
        self.blocks.clear();
        if let Some(message) = self.messages.end() {
            let model = model.map(str::to_owned);
            out.emit(Kind::MessageFinished(MessageFinished { message, phase, model }));
        }
    }
}

/// How many blocks of one message are remembered. No message has more.
const BLOCKS: usize = 4096;

/// How many running tools are remembered. No program runs more at once.
const RUNNING_TOOLS: usize = 1024;

/// The output of each running tool, for programs that repeat it whole with every update.
#[derive(Debug, Default)]
pub(crate) struct ToolOutputs(HashMap<String, TextSoFar>);

impl ToolOutputs {
    /// Handles a tool's output so far. Only the new end is emitted.
    pub(crate) fn update(&mut self, id: &str, text: &str, out: &mut Output<'_>) {
        if self.0.len() >= RUNNING_TOOLS && !self.0.contains_key(id) {
            self.0.clear();
        }
        let said = self.0.entry(id.to_owned()).or_default();
        let new = match said.compare(text) {
            WholeText::Adds(new) => new,
            WholeText::Known => return out.quiet(),
            WholeText::Differs => {
                *said = TextSoFar::default();
                text
            }
        };
        said.add(new);
        out.emit(Kind::ToolUpdated(ToolUpdated {
            id: ToolId::from(id),
            input_delta: None,
            input: None,
            output_delta: Some(Excerpt::of(new)),
            title: None,
        }));
    }

    /// Forgets a tool that has ended.
    pub(crate) fn end(&mut self, id: &str) {
        self.0.remove(id);
    }
}
