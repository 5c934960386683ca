//! The text of a message so far, in constant memory.
//!
//! Programs print the same text twice: in pieces and then whole. To find what the whole adds, only the length and a
//! hash of what came before are needed, not the text.

use bowline_protocol::MessageId;

/// The length and hash of a text that comes in pieces.
#[derive(Clone, Debug)]
pub(crate) struct TextSoFar {
    length: usize,
    hash: u64,
}

impl Default for TextSoFar {
    fn default() -> Self {
        Self { length: 0, hash: FNV_OFFSET }
    }
}

/// The relation of a whole text to its pieces so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WholeText<'a> {
    /// The pieces had all of it, or more.
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

impl TextSoFar {
    /// Adds a piece.
    pub(crate) fn add(&mut self, text: &str) {
        self.length += text.len();
        self.hash = fnv(self.hash, text);
    }

    /// Returns whether there was no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns whether the pieces were exactly this.
    pub(crate) fn is(&self, whole: &str) -> bool {
        self.length == whole.len() && self.compare(whole) == WholeText::Known
    }

    /// Returns whether the whole text is longer than the pieces so far.
    pub(crate) fn is_shorter_than(&self, whole: &str) -> bool {
        self.length < whole.len()
    }

    /// Compares with the whole text.
    pub(crate) fn compare<'a>(&self, whole: &'a str) -> WholeText<'a> {
        match whole.get(..self.length) {
            Some(known) if fnv(FNV_OFFSET, known) == self.hash => {
                if whole.len() == self.length {
                    WholeText::Known
                } else {
                    WholeText::Adds(&whole[self.length..])
                }
            }
            // Shorter than the pieces so far: the pieces are more complete.
            None if whole.len() < self.length => WholeText::Known,
            _ => WholeText::Differs,
        }
    }
}

/// Hashes a text at about the speed at which it can be read; the standard hash costs more than reading the line did.
pub(crate) fn fingerprint(text: &str) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(K);
    let bytes = text.as_bytes();
    let mut lanes = [K, K.rotate_left(16), K.rotate_left(32), K.rotate_left(48)];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let (words, rest) = rest.as_chunks::<8>();
    let last = rest.iter().fold(0, |word, byte| (word << 8) | u64::from(*byte));
    let rest = words.iter().fold(last, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    // The length distinguishes a text from the same one with zeros before its end.
    lanes.into_iter().fold(mix(rest, bytes.len() as u64), mix)
}

/// Names messages that the program does not name: `m1`, `m2` and so on.
#[derive(Debug)]
pub(crate) struct MessageNames {
    /// The prefix of the names. Two namers of one stream must have different prefixes.
    prefix: &'static str,
    count: u64,
    current: Option<MessageId>,
}

impl Default for MessageNames {
    fn default() -> Self {
        Self::named("m")
    }
}

impl MessageNames {
    /// Begins to count.
    pub(crate) fn named(prefix: &'static str) -> Self {
        Self { prefix, count: 0, current: None }
    }

    /// Returns the current message, starting one if there is none.
    pub(crate) fn current(&mut self) -> MessageId {
        if let Some(message) = &self.current {
            return message.clone();
        }
        self.next()
    }

    /// Begins a new message.
    pub(crate) fn next(&mut self) -> MessageId {
        self.count += 1;
        let message = self.name();
        self.current = Some(message.clone());
        message
    }

    /// Writes the name by hand, because every message pays for it.
    fn name(&self) -> MessageId {
        let mut text = [b'0'; 32];
        let (mut place, mut rest) = (text.len(), self.count);
        while rest > 0 {
            place -= 1;
            text[place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let start = place.saturating_sub(self.prefix.len());
        text[start..place].copy_from_slice(&self.prefix.as_bytes()[..place - start]);
        MessageId::from(str::from_utf8(&text[start..]).unwrap_or(self.prefix))
    }

    /// Returns whether there is a current message.
    pub(crate) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Continues the count, without a current message.
    pub(crate) fn without_current(self) -> Self {
        Self { current: None, ..self }
    }

    /// Ends the current message; the next text starts a new one.
    pub(crate) fn end(&mut self) -> Option<MessageId> {
        self.current.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_of_a_text_count() {
        let text = "0123456789".repeat(8);
        let mut seen = std::collections::BTreeSet::from([fingerprint("")]);
        for end in 1..=text.len() {
            assert!(seen.insert(fingerprint(&text[..end])), "the first {end} bytes");
            let changed = format!("{}x{}", &text[..end - 1], &text[end..]);
            assert!(seen.insert(fingerprint(&changed)), "byte {end} of all");
        }
        assert_ne!(fingerprint("a"), fingerprint("a\0"));
        assert_ne!(fingerprint("\0a"), fingerprint("a"));
    }

    #[test]
    fn messages_are_counted() {
        let mut names = MessageNames::named("part-");
        let first = names.current();
        assert_eq!((first.as_str(), names.current().as_str()), ("part-1", "part-1"));
        for _ in 0..9 {
            names.next();
        }
        assert_eq!(names.current().as_str(), "part-10");
        names.end();
        assert_eq!(
            MessageNames { count: u64::MAX - 1, ..names }.next().as_str(),
            format!("part-{}", u64::MAX)
        );
    }

    #[test]
    fn the_whole_adds_only_what_is_new() {
        let mut said = TextSoFar::default();
        assert_eq!(said.compare("abc"), WholeText::Adds("abc"));
        said.add("a");
        said.add("é");
        assert_eq!(said.compare("aé"), WholeText::Known);
        assert_eq!(said.compare("aéc"), WholeText::Adds("c"));
        assert_eq!(said.compare("a"), WholeText::Known);
        assert_eq!(said.compare("xyz"), WholeText::Differs);
        // A cut inside a character cannot be a beginning.
        assert_eq!(said.compare("ab\u{1F600}"), WholeText::Differs);
    }
}
