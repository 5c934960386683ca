//! Makes readable portions out of a stream of small pieces of text.
//!
//! A portion ends at a paragraph or a sentence where there is one, when the stream pauses, or when it gets too long.
//! Lengths are characters, as chat services count them. The output, joined, is the input.

use bowline_protocol::{Millis, Timestamp};

/// When a portion is large enough, and where it may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Below this many characters nothing is sent, unless it is forced.
    pub min_chars: usize,
    /// From this many characters on, everything is sent at once.
    pub max_chars: usize,
    /// How long text that is large enough waits for more.
    pub idle_ms: Millis,
    /// Whether a portion may end at a blank line.
    pub paragraph_break: bool,
    /// Whether a portion may end at `.`, `!` or `?` before whitespace.
    pub sentence_break: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_chars: 200,
            max_chars: 4000,
            idle_ms: Millis(800),
            paragraph_break: true,
            sentence_break: true,
        }
    }
}

/// Collects text and gives it out in portions.
#[derive(Clone, Debug, Default)]
pub struct Coalescer {
    limits: Limits,
    buffer: String,
    deadline: Option<Timestamp>,
    // These facts about `buffer` are known from reading each character once, so that feeding single characters does not
    // search the same text again and again.
    chars: usize,
    last: Option<char>,
    /// The offset behind the last blank line.
    paragraph: Option<usize>,
    /// The offset behind the last end of a sentence and its whitespace.
    sentence: Option<usize>,
}

impl Coalescer {
    /// Makes an empty one.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes in text. Returns a portion if one is ready.
    pub fn feed(&mut self, text: &str, now: Timestamp) -> Option<String> {
        self.append(text);
        if self.chars >= self.limits.max_chars {
            return self.flush();
        }
        let portion = if self.chars >= self.limits.min_chars { self.cut() } else { None };
        let waits = self.chars >= self.limits.min_chars && !self.buffer.is_empty();
        self.deadline = waits.then(|| now.after(self.limits.idle_ms));
        portion
    }

    /// Returns when [`tick`](Self::tick) has something to give, if nothing is fed before.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// Returns what has waited long enough.
    pub fn tick(&mut self, now: Timestamp) -> Option<String> {
        if self.deadline.is_some_and(|deadline| deadline <= now) { self.flush() } else { None }
    }

    /// Returns everything that is there, however little.
    pub fn flush(&mut self) -> Option<String> {
        let whole = self.take(self.buffer.len());
        self.deadline = None;
        whole
    }

    /// Takes what lies before the last paragraph break, or else before the last end of a sentence.
    fn cut(&mut self) -> Option<String> {
        let paragraph = self.paragraph.filter(|_| self.limits.paragraph_break);
        let sentence = self.sentence.filter(|_| self.limits.sentence_break);
        self.take(paragraph.or(sentence)?)
    }

    /// Removes the beginning of the buffer. The rest is read anew: it holds no break of the sort that was cut at, so no
    /// text is read again more than twice.
    fn take(&mut self, end: usize) -> Option<String> {
        let rest = self.buffer.split_off(end);
        let taken = std::mem::take(&mut self.buffer);
        (self.chars, self.last, self.paragraph, self.sentence) = (0, None, None, None);
        self.append(&rest);
        (!taken.is_empty()).then_some(taken)
    }

    fn append(&mut self, text: &str) {
        let before = self.buffer.len();
        self.buffer.push_str(text);
        for (offset, now) in text.char_indices() {
            let behind = before + offset + now.len_utf8();
            self.chars += 1;
            if now == '\n' && self.last == Some('\n') {
                self.paragraph = Some(behind);
            }
            if now.is_whitespace() && matches!(self.last, Some('.' | '!' | '?')) {
                self.sentence = Some(behind);
            }
            self.last = Some(now);
        }
    }
}

#[cfg(test)]
mod tests;
