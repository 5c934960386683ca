//! Thoughts that leak into the text as `[Thought: …]` at its beginning.
//!
//! Some versions print a part that is a thought that way; where the part only says that it is one, the mark is
//! `[Thought: true]` and has no content.

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Thinking,
    Text,
}

/// Tells thoughts and text of one message apart.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// How many brackets are open, inside of a thought.
    depth: u32,
    /// Whether the message has said text: a thought stands before it.
    text_began: bool,
}

const MARK: &str = "[Thought:";

impl Thoughts {
    /// Takes the next piece of a message and gives its parts to `take`.
    pub(super) fn split<'a>(&mut self, mut piece: &'a str, mut take: impl FnMut(Sort, &'a str)) {
        while !self.text_began && (self.depth > 0 || piece.starts_with(MARK)) {
            let begins = self.depth == 0;
            if begins {
                piece = &piece[MARK.len()..];
                self.depth = 1;
            }
            let end = self.end(piece);
            let thought = &piece[..end.unwrap_or(piece.len())];
            let thought = if begins { thought.trim_start() } else { thought };
            // Only a mark, without a thought.
            let empty = begins && end.is_some() && ["true", "false", ""].contains(&thought);
            if !empty {
                take(Sort::Thinking, thought);
            }
            let Some(end) = end else { return };
            piece = piece[end + 1..].trim_start();
        }
        if !piece.is_empty() {
            self.text_began = true;
            take(Sort::Text, piece);
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

#[cfg(test)]
mod tests {
    use super::Sort::{Text, Thinking};
    use super::*;

    fn check(pieces: &[&str], expect: &[(Sort, &str)]) {
        let mut thoughts = Thoughts::default();
        let mut found = Vec::new();
        for piece in pieces {
            thoughts.split(piece, |sort, part| found.push((sort, part.to_owned())));
        }
        let expect: Vec<(Sort, String)> =
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
}
