//! Text as it comes, each time with everything before it: the output of an executable provider's `stream`.
//!
//! `content` is always the sum of all `delta`s, except after a retraction or a second attempt, which this format cannot
//! express: then a chunk with an empty delta shows the shorter content. A message that turns out to be commentary stays, because
//! it was printed before that was known.

use bowline_protocol::kinds::{TextDelta, TextRetracted};
use bowline_protocol::{Event, Kind, MessageId, Source, Timestamp};
use serde::Serialize;

use super::notices::Notices;
use super::tally::Tally;
use super::{Setup, View, line};

/// Makes the view.
pub(crate) fn make(_: &Setup) -> Box<dyn View> {
    Box::new(Chunks::default())
}

#[derive(Debug, Default)]
struct Chunks {
    tally: Tally,
    content: String,
    /// The length of the content when the turn began; what lies before it can no longer be retracted.
    settled: usize,
    pieces: Vec<ChunkPiece>,
    notices: Notices,
}

/// Where a stretch of the turn's text lies in the content. The newlines between messages belong to no piece.
#[derive(Debug)]
struct ChunkPiece {
    message: MessageId,
    block: u32,
    start: usize,
    end: usize,
}

#[derive(Serialize)]
struct ChunkRecord<'a> {
    content: &'a str,
    delta: &'a str,
    done: bool,
    tokens_used: u64,
    error: &'a str,
    timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<ChunkMetadata<'a>>,
}

#[derive(Serialize)]
struct ChunkMetadata<'a> {
    notices: &'a [String],
}

impl View for Chunks {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the format has no record for the other kinds")]
    fn event(&mut self, event: &Event, out: &mut String) {
        self.tally.event(event);
        self.notices.event(event);
        match &event.kind {
            Kind::TurnStarted(_) => {
                self.settled = self.content.len();
                self.pieces.clear();
            }
            Kind::FallbackTaken(_) => self.begin_again(event.at, out),
            Kind::Retrying(_) if event.source == Source::Bowline => self.begin_again(event.at, out),
            Kind::TextDelta(delta) if delta.parent.is_none() && !delta.text.is_empty() => {
                let before = self.content.len();
                self.append(delta);
                self.chunk(before, event.at, out);
            }
            Kind::TextRetracted(retracted) => self.retract(retracted, event.at, out),
            _ => {}
        }
    }

    fn finish(&mut self, out: &mut String) {
        let error = self.tally.trouble().map(|failure| failure.message).unwrap_or_default();
        let last = ChunkRecord {
            content: &self.content,
            delta: "",
            done: true,
            tokens_used: self.tally.usage.map_or(0, |usage| usage.total()),
            error: &error,
            timestamp: self.tally.last_at.unwrap_or(Timestamp::EPOCH),
            metadata: Some(self.notices.told())
                .filter(|it| !it.is_empty())
                .map(|notices| ChunkMetadata { notices }),
        };
        line(out, &last);
    }
}

impl Chunks {
    /// The request is sent again: its text so far is not a part of the answer.
    fn begin_again(&mut self, at: Timestamp, out: &mut String) {
        if self.content.len() > self.settled {
            self.content.truncate(self.settled);
            self.pieces.clear();
            self.chunk(self.settled, at, out);
        }
    }

    fn chunk(&self, delta_from: usize, timestamp: Timestamp, out: &mut String) {
        let delta = &self.content[delta_from..];
        line(
            out,
            &ChunkRecord {
                content: &self.content,
                delta,
                done: false,
                tokens_used: 0,
                error: "",
                timestamp,
                metadata: None,
            },
        );
    }

    fn append(&mut self, delta: &TextDelta) {
        self.separate(&delta.message);
        let start = self.content.len();
        self.content.push_str(&delta.text);
        let end = self.content.len();
        match self.pieces.last_mut() {
            Some(last) if last.message == delta.message && last.block == delta.block => last.end = end,
            Some(_) | None => {
                let (message, block) = (delta.message.clone(), delta.block);
                self.pieces.push(ChunkPiece { message, block, start, end });
            }
        }
    }

    /// Puts a newline between what is there and the text of another message.
    fn separate(&mut self, message: &MessageId) {
        let goes_on = self.pieces.last().is_some_and(|last| last.message == *message);
        if !goes_on && !self.content.is_empty() {
            self.content.push('\n');
        }
    }

    /// Retracts text. If there was any, prints a chunk with the text that is left.
    fn retract(&mut self, retracted: &TextRetracted, at: Timestamp, out: &mut String) {
        let gone =
            |piece: &ChunkPiece| piece.message == retracted.message && piece.block >= retracted.from_block;
        if !self.pieces.iter().any(gone) {
            return;
        }
        let old = self.content.split_off(self.settled);
        for piece in std::mem::take(&mut self.pieces).into_iter().filter(|piece| !gone(piece)) {
            self.separate(&piece.message);
            let start = self.content.len();
            self.content.push_str(&old[piece.start - self.settled..piece.end - self.settled]);
            self.pieces.push(ChunkPiece { start, end: self.content.len(), ..piece });
        }
        self.chunk(self.content.len(), at, out);
    }
}
