//! The agent's text: pieces of text and thought, put into messages.
//!
//! A message ends where its name changes, where a tool is called, and at the end of the turn. Names are our own: agents
//! that name their messages use the same name again, in the next turn or after a tool.

use bowline_protocol::kinds::{MessageFinished, Phase, TextRetracted};
use bowline_protocol::{Kind, MessageId, ToolId};

use crate::dialect::Output;
use crate::dialects::speech::BlockKind;
use crate::dialects::text_dedup::MessageNames;

/// How many sub-agents are kept apart at a time.
const SPEAKERS: usize = 64;

/// How much of a message is kept for the case that it was an error.
const HEAD: usize = 4096;

/// The agent, and its sub-agents by the tool call that runs them.
#[derive(Debug, Default)]
pub(crate) struct AgentMessages {
    names: MessageNames,
    speaking: Vec<AgentMessage>,
}

#[derive(Debug)]
struct AgentMessage {
    parent: Option<ToolId>,
    message: MessageId,
    /// The agent's own name for the message.
    native: Option<Box<str>>,
    block: u32,
    sort: BlockKind,
    /// How many pieces of text there were, the block of the last, and how the text begins.
    pieces: u32,
    text_block: u32,
    head: String,
}

impl AgentMessages {
    /// Emits a piece.
    pub(crate) fn say(
        &mut self,
        sort: BlockKind,
        text: &str,
        native: Option<&str>,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        let known = self.speaking.iter().position(|voice| voice.parent.as_ref() == parent);
        let place = match known {
            Some(place) if self.speaking[place].native.as_deref() == native => place,
            Some(place) => {
                self.finish(place, out);
                self.begin(sort, native, parent, out)
            }
            None => self.begin(sort, native, parent, out),
        };
        let voice = &mut self.speaking[place];
        if voice.sort != sort {
            voice.sort = sort;
            voice.block += 1;
        }
        if sort == BlockKind::Text {
            voice.pieces += 1;
            voice.text_block = voice.block;
            let room = HEAD.saturating_sub(voice.head.len());
            voice.head.push_str(&text[..text.floor_char_boundary(room)]);
        }
        sort.emit(&voice.message, voice.block, text, parent, out);
    }

    fn begin(
        &mut self,
        sort: BlockKind,
        native: Option<&str>,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) -> usize {
        if self.speaking.len() == SPEAKERS {
            self.finish(0, out);
        }
        self.speaking.push(AgentMessage {
            parent: parent.cloned(),
            message: self.names.next(),
            native: native.map(Into::into),
            block: 0,
            sort,
            pieces: 0,
            text_block: 0,
            head: String::new(),
        });
        self.speaking.len() - 1
    }

    fn finish(&mut self, place: usize, out: &mut Output<'_>) {
        self.finish_as(place, Phase::Final, out);
    }

    fn finish_as(&mut self, place: usize, phase: Phase, out: &mut Output<'_>) {
        let voice = self.speaking.remove(place);
        if voice.pieces > 0 {
            let finished = MessageFinished { message: voice.message, phase, model: None };
            out.emit(Kind::MessageFinished(finished));
        }
    }

    /// Ends the message of one sender; its next text is another one.
    pub(crate) fn pause(&mut self, parent: Option<&ToolId>, out: &mut Output<'_>) {
        if let Some(place) = self.speaking.iter().position(|voice| voice.parent.as_ref() == parent) {
            self.finish(place, out);
        }
    }

    /// Returns whether the agent's current message has this name of its own.
    pub(crate) fn is_speaking(&self, native: Option<&str>) -> bool {
        let mut current = self.speaking.iter().filter(|voice| voice.parent.is_none());
        native.is_some() && current.any(|voice| voice.native.as_deref() == native)
    }

    /// Ends the agent's message in the middle: it begins anew.
    pub(crate) fn cut_off(&mut self, out: &mut Output<'_>) {
        if let Some(place) = self.speaking.iter().position(|voice| voice.parent.is_none()) {
            self.finish_as(place, Phase::Commentary, out);
        }
    }

    /// Ends every message.
    pub(crate) fn end(&mut self, out: &mut Output<'_>) {
        while !self.speaking.is_empty() {
            self.finish(0, out);
        }
    }

    /// Retracts the agent's last message if it came in one piece and `is_error` says that it was an error, and
    /// returns it.
    pub(crate) fn take_back(
        &mut self,
        is_error: impl FnOnce(&str) -> bool,
        out: &mut Output<'_>,
    ) -> Option<String> {
        let voice = self.speaking.iter_mut().find(|voice| voice.parent.is_none())?;
        if voice.pieces != 1 || !is_error(&voice.head) {
            return None;
        }
        let (message, from_block) = (voice.message.clone(), voice.text_block);
        let text = std::mem::take(&mut voice.head);
        out.emit(Kind::TextRetracted(TextRetracted { message, from_block }));
        Some(text)
    }
}
