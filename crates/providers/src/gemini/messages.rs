//! Thoughts that leak into the text as `[Thought: …]` at its beginning.
//!
//! Some versions print a part that is a thought that way; where the part is only marked as one, the mark is
//! `[Thought: true]` and has no content.

/// The kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThoughtPart {
    Thinking,
    Text,
}

/// Separates thoughts from the text of one message.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// How many brackets are open, inside of a thought.
    depth: u32,
    /// Whether the message has text: a thought stands before it.
    text_began: bool,
    /// The beginning of what may be a mark, until that shows.
    held: String,
}

const MARK: &str = "[Thought:";

/// The content of a mark that has no thought in it.
const EMPTY: [&str; 3] = ["true]", "false]", "]"];

impl Thoughts {
    /// Returns whether all that follows is text.
    pub(super) fn are_over(&self) -> bool {
        self.text_began
    }

    /// Returns whether something is held back.
    pub(super) fn are_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns whether a thought has begun and not ended.
    pub(super) fn are_open(&self) -> bool {
        self.depth > 0
    }

    /// Handles the next piece of a message and gives its parts to `take`.
    pub(super) fn split(&mut self, piece: &str, mut take: impl FnMut(ThoughtPart, &str)) {
        if self.held.is_empty() {
            return self.parts(piece, &mut take);
        }
        let piece = std::mem::take(&mut self.held) + piece;
        self.parts(&piece, &mut take);
    }

    /// Handles the end of the message, or of a line: what was held back is what it looks like.
    pub(super) fn finish(&mut self, mut take: impl FnMut(ThoughtPart, &str)) {
        let held = std::mem::take(&mut self.held);
        match held.strip_prefix(MARK).map(str::trim_start) {
            Some(thought) => {
                self.depth = 1;
                if !thought.is_empty() {
                    take(ThoughtPart::Thinking, thought);
                }
            }
            None if !held.is_empty() => {
                self.text_began = true;
                take(ThoughtPart::Text, &held);
            }
            None => {}
        }
    }

    fn parts(&mut self, mut piece: &str, take: &mut impl FnMut(ThoughtPart, &str)) {
        while !self.text_began {
            if self.depth == 0 {
                if is_open(piece) {
                    return piece.clone_into(&mut self.held);
                }
                let Some(inside) = piece.strip_prefix(MARK) else { break };
                piece = inside.trim_start();
                self.depth = 1;
                // Only a mark, without a thought.
                if let Some(rest) = EMPTY.iter().find_map(|empty| piece.strip_prefix(empty)) {
                    self.depth = 0;
                    piece = rest.trim_start();
                    continue;
                }
            }
            let end = self.end(piece);
            take(ThoughtPart::Thinking, &piece[..end.unwrap_or(piece.len())]);
            let Some(end) = end else { return };
            piece = piece[end + 1..].trim_start();
        }
        if !piece.is_empty() {
            self.text_began = true;
            take(ThoughtPart::Text, piece);
        }
    }

    /// Finds the bracket that ends the thought.
    fn end(&mut self, piece: &str) -> Option<usize> {
        for (at, byte) in piece.bytes().enumerate() {
            match byte {
                b'[' => self.depth = self.depth.saturating_add(1),
                b']' => self.depth -= 1,
                _ => {}
            }
            if self.depth == 0 {
                return Some(at);
            }
        }
        None
    }
}

/// Returns whether a text may yet become a mark, or a mark without a thought.
fn is_open(text: &str) -> bool {
    let begins = |whole: &str, text: &str| text.len() < whole.len() && whole.starts_with(text);
    match text.strip_prefix(MARK).map(str::trim_start) {
        Some(inside) => EMPTY.iter().any(|empty| begins(empty, inside)),
        None => !text.is_empty() && begins(MARK, text),
    }
}

#[cfg(test)]
mod tests {
    use super::ThoughtPart::{Text, Thinking};
    use super::*;

    fn check(pieces: &[&str], expect: &[(ThoughtPart, &str)]) {
        let mut thoughts = Thoughts::default();
        let mut found = Vec::new();
        for piece in pieces {
            thoughts.split(piece, |sort, part| found.push((sort, part.to_owned())));
        }
        thoughts.finish(|sort, part| found.push((sort, part.to_owned())));
        let expect: Vec<(ThoughtPart, String)> =
            expect.iter().map(|(sort, part)| (*sort, (*part).to_owned())).collect();
        assert_eq!(found, expect, "{pieces:?}");
    }

    #[test]
    fn thoughts_stand_before_the_text() {
        check(&["plain"], &[(Text, "plain")]);
        check(&["[Thought: true]Hello"], &[(Text, "Hello")]);
        check(&["[Thought: true]", "Hello"], &[(Text, "Hello")]);
        check(&["[Thought: I see]\n\nHello"], &[(Thinking, "I see"), (Text, "Hello")]);
        check(&["[Thought: a[0] is]", " x"], &[(Thinking, "a[0] is"), (Text, " x")]);
        check(
            &["[Thought: half", " and half] rest"],
            &[(Thinking, "half"), (Thinking, " and half"), (Text, "rest")],
        );
        check(&["[Thought: a][Thought: b]c"], &[(Thinking, "a"), (Thinking, "b"), (Text, "c")]);
        check(&["Look: ", "[Thought: no]"], &[(Text, "Look: "), (Text, "[Thought: no]")]);
        check(&[""], &[]);
    }

    #[test]
    fn a_mark_may_come_in_pieces() {
        check(&["[Tho", "ught: I see]", "Hello"], &[(Thinking, "I see"), (Text, "Hello")]);
        check(&["[", "Thought:", " ", "I see] Hello"], &[(Thinking, "I see"), (Text, "Hello")]);
        check(&["[Thought: tr", "ue]Hello"], &[(Text, "Hello")]);
        check(&["[Thought: tr", "uly] Hello"], &[(Thinking, "truly"), (Text, "Hello")]);
        check(&["[Thought: a]", "[", "Thought: b]c"], &[(Thinking, "a"), (Thinking, "b"), (Text, "c")]);
        check(&["[Tho", "mas] said"], &[(Text, "[Thomas] said")]);
        check(&["", "[Tho", ""], &[(Text, "[Tho")]);
        check(&["[Thought: tr"], &[(Thinking, "tr")]);
        check(&["[Thought:"], &[]);
    }
}
