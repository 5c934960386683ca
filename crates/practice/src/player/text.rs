//! Texts of the play: messages, thinking, and floods of either.

use super::{BATCH, LONGEST_MESSAGE, Player, Show};
use crate::control::Stop;
use crate::voices::Block;

impl Player<'_> {
    /// Writes a message, word by word.
    pub(crate) fn say(&mut self, text: &str) -> Result<(), Stop> {
        self.next_action()?;
        self.speak(Block::Text, text)
    }

    /// Writes thinking.
    pub(crate) fn think(&mut self, text: &str) -> Result<(), Stop> {
        self.next_action()?;
        self.speak(Block::Thinking, text)
    }

    pub(super) fn speak(&mut self, block: Block, text: &str) -> Result<(), Stop> {
        self.with(|voice, stage| voice.open(block, stage));
        for word in text.split_inclusive(' ') {
            self.with(|voice, stage| voice.delta(word, stage));
            self.pause(35)?;
        }
        self.with(|voice, stage| voice.close(stage));
        self.pause(150)
    }

    /// Writes one piece that is a whole message.
    pub(super) fn piece(&mut self, text: &str) -> Result<(), Stop> {
        self.next_action()?;
        self.with(|voice, stage| {
            voice.open(Block::Text, stage);
            voice.delta(text, stage);
            voice.close(stage);
        });
        Ok(())
    }

    /// Writes pieces of the same length: this many, or until this much was printed.
    pub(super) fn pieces(&mut self, length: usize, count: u64, size: u64) -> Result<(), Stop> {
        self.next_action()?;
        let text = "abcdefghi ".repeat(length.div_ceil(10));
        let text = &text[..length];
        let per_message = (LONGEST_MESSAGE / length.max(1)).max(1) as u64;
        let printed = |player: &Self| player.lock().stage.out.said;
        let enough = printed(self).saturating_add(size);
        let mut said = 0;
        while said < count && printed(self) < enough {
            let begin = said;
            let end = (said + per_message).min(count);
            self.with(|voice, stage| voice.open(Block::Text, stage));
            // The end of a message repeats it.
            while said < end && printed(self).saturating_add((said - begin) * length as u64) < enough {
                let batch = (end - said).min(if self.pace > 0.0 { 1 } else { BATCH });
                self.with(|voice, stage| (0..batch).for_each(|_| voice.delta(text, stage)));
                said += batch;
                self.pause(35)?;
            }
            self.with(|voice, stage| voice.close(stage));
        }
        Ok(())
    }

    pub(super) fn message_between_deltas(&mut self) -> Result<(), Stop> {
        self.next_action()?;
        self.with(|voice, stage| {
            voice.open(Block::Text, stage);
            voice.delta("before ", stage);
            voice.whole("a whole message", stage);
            voice.delta("and after", stage);
            voice.close(stage);
        });
        Ok(())
    }

    /// Writes a piece again and again until this much is written.
    pub(super) fn fill(&self, size: u64, piece: &str, write: impl Fn(&mut Show, &[u8])) -> Result<(), Stop> {
        let piece = piece.repeat((64 << 10) / piece.len());
        let mut left = size;
        while left > 0 {
            self.control.check()?;
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            write(&mut self.lock(), &piece.as_bytes()[..part]);
            left -= part as u64;
        }
        Ok(())
    }
}
