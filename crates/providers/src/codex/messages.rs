//! The text of `exec`, whole message by whole message, and the text that a retry repeats.
//!
//! When the connection breaks after a message was printed, Codex sends the request again and prints the same message a second
//! time under another id (0.166.0). Only the first one counts. Text before the end of the last tool belongs to
//! an earlier request and is not repeated.

pub(super) mod stream;

use std::collections::VecDeque;

use bowline_protocol::kinds::{MessageFinished, Phase};
use bowline_protocol::{Kind, MessageId, ToolId};

use crate::dialect::Output;
use crate::dialects::speech::BlockKind;
use crate::dialects::text_dedup::{MessageNames, fingerprint};

/// How many messages a retry may repeat.
const REMEMBERED: usize = 32;

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct CodexMessages {
    /// The names of messages. The current one comes in pieces.
    names: MessageNames,
    /// The text of this request.
    told: VecDeque<RepeatableText>,
    /// The text of the request that is being retried.
    repeatable: Vec<RepeatableText>,
}

/// A text in constant memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RepeatableText {
    sort: BlockKind,
    length: usize,
    hash: u64,
}

impl CodexMessages {
    /// Handles a whole message.
    pub(super) fn whole(
        &mut self,
        sort: BlockKind,
        text: &str,
        phase: Phase,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        let told = RepeatableText { sort, length: text.len(), hash: fingerprint(text) };
        if text.is_empty() || self.repeats(told) {
            return;
        }
        let message = self.names.next();
        self.names.end();
        sort.emit(&message, 0, text, parent, out);
        if sort == BlockKind::Text {
            out.emit(Kind::MessageFinished(MessageFinished { message, phase, model: None }));
        }
    }

    /// Returns the message that comes in pieces.
    pub(super) fn current(&mut self) -> MessageId {
        self.names.current()
    }

    /// The message in pieces is complete.
    pub(super) fn finish(&mut self, message: MessageId, phase: Phase, out: &mut Output<'_>) {
        self.names.end();
        out.emit(Kind::MessageFinished(MessageFinished { message, phase, model: None }));
    }

    /// Returns whether a retry repeats this text, and remembers that it was repeated.
    fn repeats(&mut self, told: RepeatableText) -> bool {
        if self.told.len() == REMEMBERED {
            self.told.pop_front();
        }
        self.told.push_back(told);
        if let Some(place) = self.repeatable.iter().position(|known| *known == told) {
            // A retry repeats in order: what stands before this text will not come again.
            self.repeatable.drain(..=place);
            return true;
        }
        if told.sort == BlockKind::Text {
            // Another answer than before: nothing of the old one will come.
            self.repeatable.clear();
        }
        false
    }

    /// The request is sent again.
    pub(super) fn retried(&mut self) {
        // Appended, since the retry itself may break and be sent again.
        self.repeatable.extend(self.told.drain(..));
    }

    /// A tool ended: the next request has the messages before it in its history.
    pub(super) fn tool_ended(&mut self) {
        self.told.clear();
        self.repeatable.clear();
    }

    /// A turn begins or ends.
    pub(super) fn turn(&mut self) {
        self.tool_ended();
        self.names.end();
    }
}
