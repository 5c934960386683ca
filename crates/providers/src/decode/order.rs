//! The orders of a host to a client, besides decisions: prompts, and how the client took them.
//!
//! A client translates and decides nothing. It returns [`Sent`] at once. The acknowledgement of the agent comes later, in the
//! [`ClientOutput`](super::dialect::ClientOutput).

use std::collections::BTreeMap;

use bowline_protocol::{Attachment, PermissionMode, PromptId};

/// A prompt for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPrompt {
    /// The id of the prompt in the session.
    pub id: PromptId,
    /// The text.
    pub text: String,
    /// Files that go with it.
    pub attachments: Vec<Attachment>,
    /// The contents of the images among them, by path. The agent reads the other files itself.
    pub images: BTreeMap<String, Vec<u8>>,
}

impl HostPrompt {
    /// Makes a prompt of text only.
    pub fn of(id: PromptId, text: impl Into<String>) -> Self {
        Self { id, text: text.into(), attachments: Vec::new(), images: BTreeMap::new() }
    }
}

/// The result of handing something to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The bytes are in [`ClientOutput`](super::dialect::ClientOutput), and the agent does not acknowledge them.
    Done,
    /// The bytes are in [`ClientOutput`](super::dialect::ClientOutput). The agent acknowledges or rejects them, with this token.
    Awaiting(AckToken),
    /// Nothing was sent, for this reason.
    Cannot(&'static str),
}

/// The effect of a change of an option on the permissions of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionPermission {
    /// Nothing, or it allows the agent less.
    Unchanged,
    /// From the change on, the agent acts by this permission mode.
    Is(PermissionMode),
    /// It may allow the agent more than any permission mode, for this reason.
    Unknown(&'static str),
}

impl Sent {
    /// Returns whether something was sent.
    pub fn is_sent(self) -> bool {
        !matches!(self, Self::Cannot(_))
    }
}

/// Names something that waits for the agent's acknowledgement. Unique within a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AckToken(pub u64);

/// The agent's acknowledgement of something that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The token of what was sent.
    pub token: AckToken,
    /// Whether the agent accepted it. Otherwise the reason, in its own words.
    pub result: Result<(), String>,
}
