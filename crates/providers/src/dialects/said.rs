//! What a message has said so far, in constant memory.
//!
//! Programs say the same text twice: in pieces and then whole. To tell what the whole adds, only its length and a
//! hash of what came before are needed, not the text.

use bowline_protocol::MessageId;

/// The length and hash of a text that comes in pieces.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    length: usize,
    hash: u64,
}

impl Default for Said {
    fn default() -> Self {
        Self { length: 0, hash: FNV_OFFSET }
    }
}

/// What a whole text means for one who has heard its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole<'a> {
    /// All of it has been said, or more.
    Known,
    /// This end of it is new.
    Adds(&'a str),
    /// It is another text.
    Differs,
}

// FNV-1a, because its state does not depend on how the text was cut.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn fnv(mut hash: u64, text: &str) -> u64 {
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
    }
    hash
}

impl Said {
    /// Adds a piece.
    pub(crate) fn add(&mut self, text: &str) {
        self.length += text.len();
        self.hash = fnv(self.hash, text);
    }

    /// Says whether nothing was said.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Says whether exactly this was said.
    pub(crate) fn is(&self, whole: &str) -> bool {
        self.length == whole.len() && self.compare(whole) == Whole::Known
    }

    /// Says whether the whole text is longer than what was said.
    pub(crate) fn is_shorter_than(&self, whole: &str) -> bool {
        self.length < whole.len()
    }

    /// Compares with the whole text.
    pub(crate) fn compare<'a>(&self, whole: &'a str) -> Whole<'a> {
        match whole.get(..self.length) {
            Some(known) if fnv(FNV_OFFSET, known) == self.hash => {
                if whole.len() == self.length {
                    Whole::Known
                } else {
                    Whole::Adds(&whole[self.length..])
                }
            }
            // Shorter than what was said: the pieces are the fuller account.
            None if whole.len() < self.length => Whole::Known,
            _ => Whole::Differs,
        }
    }
}

/// Hashes a text at about the speed at which it can be read; the standard hash costs more than reading the line did.
pub(crate) fn fingerprint(text: &str) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(K);
    let mut lanes = [K, K.rotate_left(16), K.rotate_left(32), K.rotate_left(48)];
    let (blocks, rest) = text.as_bytes().as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let rest = rest.iter().fold(0, |hash, byte| mix(hash, u64::from(*byte)));
    lanes.into_iter().fold(rest, mix)
}

/// Names messages that the program does not name: `m1`, `m2` and so on.
#[derive(Debug)]
pub(crate) struct Messages {
    /// What the names begin with. Two that name messages of one stream must differ in it.
    prefix: &'static str,
    count: u64,
    current: Option<MessageId>,
}

impl Default for Messages {
    fn default() -> Self {
        Self::named("m")
    }
}

impl Messages {
    /// Begins to count.
    pub(crate) fn named(prefix: &'static str) -> Self {
        Self { prefix, count: 0, current: None }
    }

    /// Returns the message that is being said, beginning one if there is none.
    pub(crate) fn current(&mut self) -> MessageId {
        if let Some(message) = &self.current {
            return message.clone();
        }
        self.next()
    }

    /// Begins a new message.
    pub(crate) fn next(&mut self) -> MessageId {
        self.count += 1;
        let message = MessageId::from(format!("{}{}", self.prefix, self.count));
        self.current = Some(message.clone());
        message
    }

    /// Says whether a message is being said.
    pub(crate) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Goes on counting, with no message being said.
    pub(crate) fn without_current(self) -> Self {
        Self { current: None, ..self }
    }

    /// Ends the message that is being said; the next text begins a new one.
    pub(crate) fn end(&mut self) -> Option<MessageId> {
        self.current.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_adds_only_what_is_new() {
        let mut said = Said::default();
        assert_eq!(said.compare("abc"), Whole::Adds("abc"));
        said.add("a");
        said.add("é");
        assert_eq!(said.compare("aé"), Whole::Known);
        assert_eq!(said.compare("aéc"), Whole::Adds("c"));
        assert_eq!(said.compare("a"), Whole::Known);
        assert_eq!(said.compare("xyz"), Whole::Differs);
        // A cut inside a character cannot be a beginning.
        assert_eq!(said.compare("ab\u{1F600}"), Whole::Differs);
    }
}
