//! The text of one message, block by block.

/// Blocks in order of their number, whatever the order in which their pieces came.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Vec<(u32, String)>);

impl Blocks {
    /// Appends a piece to a block.
    pub(crate) fn push(&mut self, block: u32, text: &str) {
        match self.0.binary_search_by_key(&block, |(number, _)| *number) {
            Ok(at) => self.0[at].1.push_str(text),
            Err(at) => self.0.insert(at, (block, text.to_owned())),
        }
    }

    /// Takes back a block and those after it.
    pub(crate) fn retract(&mut self, from: u32) {
        self.0.retain(|(block, _)| *block < from);
    }

    /// Says whether there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, text)| text.is_empty())
    }

    /// Returns the text of each block, in order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, text)| text.as_str())
    }
}
