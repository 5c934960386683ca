//! Text that a retry repeats.
//!
//! After a broken stream the program asks again and appends the new answer to the old one: "first half first half …".
//! If it marks the old text as void, that text is taken back. If it marks the text as kept, the new
//! answer is compared with it, and a repetition is dropped. In whole blocks only an exact repetition shows.

/// The most text that is kept for the comparison.
const LONGEST: usize = 64 * 1024;

/// Compares the text of a block with what follows a retry.
#[derive(Debug, Default)]
pub(crate) struct Retold {
    /// The text of the block, unless it is too long.
    said: String,
    too_long: bool,
    /// Text since a retry that repeats the beginning of the earlier text.
    again: Option<String>,
}

impl Retold {
    /// The answer starts again, or continues.
    pub(crate) fn retry(&mut self) {
        // A repetition that was cut short by the next retry stays dropped.
        self.again = (!self.too_long && !self.said.is_empty()).then(String::new);
    }

    /// Forgets the text: it was retracted.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Handles a piece and returns what of it is new.
    pub(crate) fn new_of(&mut self, piece: &str) -> String {
        let new = match self.again.take() {
            None => piece.to_owned(),
            Some(mut again) => {
                again.push_str(piece);
                // Still only a repetition: wait until it differs or passes the old end.
                if self.said.len() > again.len() && self.said.starts_with(&again) {
                    self.again = Some(again);
                    return String::new();
                }
                match again.strip_prefix(self.said.as_str()) {
                    Some(new) => new.to_owned(),
                    // Not a repetition: it continues where it was.
                    None => again,
                }
            }
        };
        self.add(&new);
        new
    }

    fn add(&mut self, text: &str) {
        // Past the limit, repetitions are no longer found. Memory matters more than a repeated text.
        if self.said.len() + text.len() > LONGEST {
            self.too_long = true;
            self.said = String::new();
        } else if !self.too_long {
            self.said.push_str(text);
        }
    }

    /// Returns whether pieces have to pass through [`Self::new_of`] with care.
    pub(crate) fn is_comparing(&self) -> bool {
        self.again.is_some()
    }

    /// Handles a piece that is new.
    pub(crate) fn heard(&mut self, piece: &str) {
        self.add(piece);
    }
}

/// Returns a whole text once, if it is only one text repeated after each of some retries.
pub(crate) fn once(text: &str, retries: usize) -> &str {
    let times = retries.saturating_add(1);
    let length = text.len() / times;
    let is_unit =
        times > 1 && length > 0 && text.len().is_multiple_of(times) && text.is_char_boundary(length);
    if is_unit && text.as_bytes().chunks(length).all(|chunk| chunk == &text.as_bytes()[..length]) {
        return &text[..length];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_is_dropped_and_a_continuation_is_not() {
        let mut retold = Retold::default();
        retold.heard("first half ");
        retold.retry();
        assert_eq!(retold.new_of("first "), "");
        assert_eq!(retold.new_of("half and more"), "and more");
        assert_eq!(retold.new_of(" yet"), " yet");
        retold.retry();
        assert_eq!(retold.new_of("other"), "other");
        retold.retry();
        assert_eq!(retold.new_of("first half and"), "");
        retold.retry();
        assert_eq!(retold.new_of("first half and more yetother end"), " end");
    }

    #[test]
    fn whole_texts_are_told_once() {
        assert_eq!(once("ab ab ab ", 2), "ab ");
        assert_eq!(once("ab ab ab ", 1), "ab ab ab ");
        assert_eq!(once("ab ab", 0), "ab ab");
        assert_eq!(once("éé", 1), "é");
        assert_eq!(once("", 3), "");
    }
}
