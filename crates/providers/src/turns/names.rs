//! The names of the last messages that were finished, for programs that use a name again.

use std::collections::VecDeque;

use bowline_protocol::MessageId;

use crate::dialects::said::fingerprint;

/// How many names are remembered in a turn.
const REMEMBERED: usize = 64;

/// The last names, oldest first. Names are found by a number first: a turn may have 100,000 messages, and each of them
/// asks whether its name was used before.
#[derive(Debug, Default)]
pub(super) struct FinishedNames(VecDeque<(u64, MessageId)>);

impl FinishedNames {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, name: &MessageId) -> bool {
        let number = fingerprint(name.as_str());
        // Different names may have the same number.
        self.0.iter().any(|(known, id)| *known == number && id == name)
    }

    /// Takes note of a name, and forgets the oldest when there are too many.
    pub(super) fn push(&mut self, name: MessageId) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((fingerprint(name.as_str()), name));
    }
}
