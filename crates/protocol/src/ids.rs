//! Ids, each with its own type, so that a message id cannot be passed where a tool id is expected.
//!
//! The text of an id is shared: every event has the session's id, and every text delta its message's id.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text of an id.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
    )+};
}

ids! {
    /// Names a conversation in Bowline. Chosen by us, never by the agent.
    SessionId,
    /// Names a conversation in the agent's own store: what its resume flag wants.
    NativeSessionId,
    /// Names one message of the agent inside a session.
    MessageId,
    /// Names one call of a tool.
    ToolId,
    /// Names one approval, from the asking to the decision.
    ApprovalId,
    /// Names one question to the user.
    QuestionId,
    /// Names one prompt that a session accepted, from the acceptance to its end.
    PromptId,
    /// Names one task that runs in the background.
    TaskId,
}
