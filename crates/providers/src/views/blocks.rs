//! The text of one message, block by block.

/// Blocks in order of their number, whatever the order in which their pieces came.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// The one with the lowest number. Most messages have no other, and need no list for it.
    first: Option<(u32, String)>,
    others: Vec<(u32, String)>,
}

impl Blocks {
    /// Appends a piece to a block.
    pub(crate) fn push(&mut self, block: u32, text: &str) {
        match &mut self.first {
            None => self.first = Some((block, text.to_owned())),
            Some((number, said)) if *number == block => said.push_str(text),
            Some(first) if block < first.0 => {
                let second = std::mem::replace(first, (block, text.to_owned()));
                self.others.insert(0, second);
            }
            Some(_) => match self.others.binary_search_by_key(&block, |(number, _)| *number) {
                Ok(at) => self.others[at].1.push_str(text),
                Err(at) => self.others.insert(at, (block, text.to_owned())),
            },
        }
    }

    /// Retracts a block and those after it.
    pub(crate) fn retract(&mut self, from: u32) {
        self.others.retain(|(block, _)| *block < from);
        self.first.take_if(|(block, _)| *block >= from);
    }

    /// Returns whether there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.texts().all(str::is_empty)
    }

    /// Returns the text of each block, in order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.first.iter().chain(&self.others).map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_in_order_whatever_the_order_of_their_pieces() {
        let mut blocks = Blocks::default();
        for (block, text) in [(3, "d"), (1, "b"), (3, "D"), (2, "c"), (1, "B"), (0, "a"), (2, "C"), (0, "A")]
        {
            blocks.push(block, text);
        }
        let check = |blocks: &Blocks, expect: &[&str]| {
            assert_eq!(blocks.texts().collect::<Vec<_>>(), expect);
            assert_eq!(blocks.is_empty(), expect.is_empty());
        };
        check(&blocks, &["aA", "bB", "cC", "dD"]);
        blocks.retract(2);
        check(&blocks, &["aA", "bB"]);
        blocks.push(5, "e");
        check(&blocks, &["aA", "bB", "e"]);
        blocks.retract(0);
        check(&blocks, &[]);
        blocks.push(1, "again");
        check(&blocks, &["again"]);
        blocks.retract(1);
        blocks.push(4, "");
        assert!(blocks.is_empty());
    }
}
