//! The names of the last messages that were finished, and other names for messages of programs that use a name again.

use std::collections::VecDeque;

use bowline_protocol::MessageId;

use crate::dialects::text_dedup::fingerprint;

/// How many names are remembered in a turn.
const REMEMBERED: usize = 64;

/// The last names. Names are found by a number first: a turn may have 100,000 messages, and each of them asks whether its
/// name was used before. The numbers are short and lie side by side, so that one look at them is a few instructions.
#[derive(Debug)]
pub(super) struct FinishedNames {
    numbers: [u16; REMEMBERED],
    names: Vec<MessageId>,
    /// Where the oldest name is, once there are as many as are remembered.
    oldest: usize,
    /// How many messages were finished in the turn.
    finished: usize,
}

impl Default for FinishedNames {
    fn default() -> Self {
        Self { numbers: [0; REMEMBERED], names: Vec::new(), oldest: 0, finished: 0 }
    }
}

impl FinishedNames {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns how many messages were finished in the turn, also those whose names are forgotten.
    pub(super) fn finished(&self) -> usize {
        self.finished
    }

    pub(super) fn contains(&self, name: &MessageId) -> bool {
        let number = Self::number(name);
        // Without a branch for each of them. Where there is no name yet, the number is no proof, as for different names
        // with the same number.
        let hit = self.numbers.iter().fold(false, |hit, known| hit | (*known == number));
        hit && self.names.contains(name)
    }

    /// Returns the number of a name: the best mixed bits of its hash.
    fn number(name: &MessageId) -> u16 {
        (fingerprint(name.as_str()) >> 48) as u16
    }

    /// Records a name, and forgets the oldest if there are too many.
    pub(super) fn push(&mut self, name: MessageId) {
        let number = Self::number(&name);
        self.finished += 1;
        if self.names.len() < REMEMBERED {
            self.numbers[self.names.len()] = number;
            self.names.push(name);
        } else {
            self.numbers[self.oldest] = number;
            self.names[self.oldest] = name;
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
    }
}

/// The messages that go on under another name, because the program uses that of one that is finished. As many are remembered as
/// finished names: each message of such a program is looked for here. What is said for one that is forgotten is another message, and
/// the end of the turn finishes the first.
#[derive(Debug, Default)]
pub(super) struct RenamedMessages(VecDeque<(MessageId, MessageId)>);

impl RenamedMessages {
    /// Returns the name under which a message goes on.
    pub(super) fn get(&self, name: &MessageId) -> Option<&MessageId> {
        // Most programs never use a name again.
        if self.0.is_empty() {
            return None;
        }
        self.0.iter().find(|(known, _)| known == name).map(|(_, other)| other)
    }

    /// Records another name, and forgets the oldest if there are too many.
    pub(super) fn push(&mut self, name: MessageId, other: MessageId) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((name, other));
    }

    /// Forgets the message that goes on under this name.
    pub(super) fn remove(&mut self, other: &MessageId) {
        if !self.0.is_empty() {
            self.0.retain(|(_, known)| known != other);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_names_are_known() {
        let name = |number: usize| MessageId::from(format!("m{number}"));
        let mut names = FinishedNames::default();
        assert!(names.is_empty() && !names.contains(&name(0)));
        for number in 0..3 * REMEMBERED {
            assert!(!names.contains(&name(number)), "{number}");
            names.push(name(number));
            assert!(names.contains(&name(number)), "{number}");
            assert_eq!((names.finished(), names.names.len()), (number + 1, (number + 1).min(REMEMBERED)));
            assert!(names.contains(&name((number + 1).saturating_sub(REMEMBERED))), "{number}");
            if let Some(forgotten) = number.checked_sub(REMEMBERED) {
                assert!(!names.contains(&name(forgotten)), "{number}");
            }
        }
    }
}
