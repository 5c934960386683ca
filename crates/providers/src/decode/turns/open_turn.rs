//! The state of one open turn.

use bowline_protocol::kinds::{MessageFinished, StopReason, TextDelta};
use bowline_protocol::{Kind, MessageId, ToolId};

use super::names::{FinishedNames, RenamedMessages};
use super::running::RunningIds;
use super::unfinished::UnfinishedMessages;

/// A turn that runs.
#[derive(Debug, Default)]
pub(super) struct OpenTurn {
    /// The agent's own id of the turn.
    pub(super) native_turn: Option<String>,
    /// Whether the agent has produced output or used a tool in it.
    pub(super) lively: bool,
    /// Unfinished messages with text.
    pub(super) messages: UnfinishedMessages,
    /// Ids of finished messages, and the new ids for text that arrives under a finished id.
    pub(super) names: FinishedNames,
    pub(super) renamed: RenamedMessages,
    /// Finished messages that may still become commentary.
    pub(super) undecided: Vec<MessageFinished>,
    pub(super) running_tools: RunningIds<ToolId>,
    pub(super) errors: Vec<String>,
    /// The end of the text: a program may print the reason of its failure in place of an answer.
    pub(super) last_words: TextTail,
    /// Whether the end of the output now would complete the answer, and the stop reason of the model.
    pub(super) complete_at_eof: Option<Option<StopReason>>,
    /// Whether the turn is work of the agent without a prompt, whose end is the next prompt.
    pub(super) ends_at_prompt: bool,
    pub(super) said_chars: u64,
    pub(super) prompt_chars: u64,
}

impl OpenTurn {
    /// Returns a new id for a message whose id belongs to a finished message. A finished message never changes.
    pub(super) fn rename(&mut self, kind: &mut Kind) {
        let message = if let Kind::TextDelta(delta) = kind {
            // The current message is nearly always the last one.
            if self.names.is_empty() || self.messages.last() == Some(&delta.message) {
                return;
            }
            let known = self.renamed.get(&delta.message).is_some();
            if !known && self.names.contains(&delta.message) {
                // Count over the whole turn, so that an id is never given twice.
                let other = MessageId::from(format!("{}~{}", delta.message, self.names.finished() + 1));
                self.renamed.push(delta.message.clone(), other);
            }
            &mut delta.message
        } else if let Kind::MessageFinished(finished) = kind {
            &mut finished.message
        } else if let Kind::TextRetracted(retracted) = kind {
            &mut retracted.message
        } else {
            return;
        };
        if let Some(other) = self.renamed.get(message) {
            *message = other.clone();
        }
    }

    /// Records that a message is finished.
    pub(super) fn finished(&mut self, message: MessageId) {
        self.renamed.remove(&message);
        self.names.push(message);
    }

    /// Records a piece of a message. Returns whether it starts a message of the agent itself.
    pub(super) fn heard(&mut self, delta: &TextDelta, chars: u64) -> bool {
        let foreign = delta.parent.is_some();
        self.messages.heard(&delta.message, foreign, chars) && !foreign
    }

    /// Returns whether this may be the turn with that id. Only two different ids exclude it.
    pub(super) fn may_be(&self, native_turn: Option<&str>) -> bool {
        self.native_turn.as_deref().zip(native_turn).is_none_or(|(ours, theirs)| ours == theirs)
    }
}

/// The end of a text that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct TextTail(String);

impl TextTail {
    const LENGTH: usize = 2 * 1024;

    pub(super) fn add(&mut self, piece: &str) {
        self.0.push_str(&piece[piece.ceil_char_boundary(piece.len().saturating_sub(Self::LENGTH))..]);
        // Cut seldom, so that many short pieces cost no more than their length.
        if self.0.len() > 4 * Self::LENGTH {
            self.0.drain(..self.0.ceil_char_boundary(self.0.len() - Self::LENGTH));
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}
