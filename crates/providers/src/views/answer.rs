//! The text of a stream, with the answer separated from the rest.
//!
//! The answer is the text of the last turn's messages, without commentary and without sub-agents. Pieces of one message
//! join with nothing between them, separate messages with a newline. [`Tally`] has the outcome of the stream.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use bowline_protocol::kinds::{Outcome, Phase, TextDelta};
use bowline_protocol::{Event, Kind, MessageId};
use serde::{Serialize, Serializer};

use super::blocks::Blocks;
use super::quick_hash::QuickHash;
use super::tally::Tally;

/// Collects the text of a stream, and its tally.
#[derive(Debug)]
pub(crate) struct AnswerFold {
    /// The outcome and the counts of the stream.
    pub(crate) tally: Tally,
    keep: Keep,
    said: Vec<SaidMessage>,
    /// Where the last turn begins in `said`.
    turn_from: usize,
    /// The last turn's messages. Another turn may use the same id again for another message.
    places: HashMap<MessageId, usize, QuickHash>,
    /// The message that the last event was about. Most events are about the same one as the event before.
    latest: Option<(MessageId, usize)>,
    /// The one before it: that it was commentary is often known when the next message begins.
    previous: Option<(MessageId, usize)>,
    /// The places of commentary whose text is still held. Each message enters and leaves the set once, so that a turn
    /// of many messages costs the same for each of them.
    held: BTreeSet<usize>,
}

/// How much text to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Only text that may be the answer.
    Answer,
    /// All text, of all turns.
    Everything,
}

/// One message.
#[derive(Debug)]
pub(crate) struct SaidMessage {
    blocks: Blocks,
    part: MessagePart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagePart {
    Answer,
    Commentary,
    SubAgent,
}

impl AnswerFold {
    /// Makes an empty one.
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            tally: Tally::default(),
            keep,
            said: Vec::new(),
            turn_from: 0,
            places: HashMap::default(),
            latest: None,
            previous: None,
            held: BTreeSet::new(),
        }
    }

    /// Handles one event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these kinds change the text")]
    pub(crate) fn event(&mut self, event: &Event) {
        self.tally.event(event);
        match &event.kind {
            Kind::TurnStarted(_) => self.turn_started(),
            Kind::TextDelta(delta) => self.text_delta(delta),
            Kind::TextRetracted(retracted) => {
                if let Some(said) = self.find(&retracted.message) {
                    said.blocks.retract(retracted.from_block);
                }
            }
            Kind::MessageFinished(finished) => match finished.phase {
                Phase::Commentary => self.commentary(&finished.message),
                Phase::Final => {}
            },
            _ => {}
        }
    }

    /// Returns the answer. If a turn was cut short before its answer, its last text is returned.
    pub(crate) fn text(&self) -> Joined<'_> {
        let turn = &self.said[self.turn_from..];
        let text = Joined::of(turn.iter().filter(|said| said.part == MessagePart::Answer));
        // A completed turn may have an empty answer; its commentary must not take that place.
        if !text.is_empty() || self.tally.outcome == Some(Outcome::Completed) {
            return text;
        }
        let is_last = |said: &&SaidMessage| said.part == MessagePart::Commentary && !said.blocks.is_empty();
        Joined::of(turn.iter().rev().find(is_last).into_iter())
    }

    /// Returns all text that was not retracted, as far as it was kept.
    pub(crate) fn all_text(&self) -> Joined<'_> {
        Joined::of(self.said.iter())
    }

    /// Forgets the text.
    pub(crate) fn forget_text(&mut self) {
        self.said.clear();
        self.forget_places();
        self.turn_from = 0;
    }

    /// Keeps only text that may be the answer, from now on. Drops the rest of the kept text.
    pub(crate) fn keep_answer_only(&mut self) {
        self.keep = Keep::Answer;
        let turn_from = self.turn_from;
        let last = self.said.iter().rposition(|said| said.part == MessagePart::Commentary);
        for (place, said) in self.said.iter_mut().enumerate() {
            // The last commentary stays: it is the answer of a turn that is cut short.
            let may_matter = said.part == MessagePart::Answer || Some(place) == last;
            if place < turn_from || !may_matter {
                said.blocks = Blocks::default();
            }
        }
    }

    fn forget_places(&mut self) {
        self.places.clear();
        (self.latest, self.previous) = (None, None);
        self.held.clear();
    }

    fn turn_started(&mut self) {
        self.forget_places();
        match self.keep {
            Keep::Answer => {
                self.said.clear();
                self.turn_from = 0;
            }
            Keep::Everything => self.turn_from = self.said.len(),
        }
    }

    fn text_delta(&mut self, delta: &TextDelta) {
        let part = if delta.parent.is_some() { MessagePart::SubAgent } else { MessagePart::Answer };
        // Text of sub-agents can never become the answer, so it is not even stored.
        if self.keep == Keep::Answer && part != MessagePart::Answer {
            return;
        }
        let place = match &self.latest {
            Some((latest, place)) if *latest == delta.message => *place,
            _ => {
                let place = *self.places.entry(delta.message.clone()).or_insert(self.said.len());
                if place == self.said.len() {
                    self.said.push(SaidMessage { blocks: Blocks::default(), part });
                }
                self.previous = self.latest.replace((delta.message.clone(), place));
                place
            }
        };
        self.said[place].blocks.push(delta.block, &delta.text);
    }

    fn commentary(&mut self, message: &MessageId) {
        let Some(place) = self.place(message) else { return };
        if self.said[place].part != MessagePart::Answer {
            return;
        }
        if self.keep == Keep::Answer {
            // Only the last of them can still matter.
            while let Some(earlier) = self.held.first().copied().filter(|earlier| *earlier < place) {
                self.held.pop_first();
                self.said[earlier].blocks = Blocks::default();
            }
            self.held.insert(place);
        }
        self.said[place].part = MessagePart::Commentary;
    }

    fn place(&self, message: &MessageId) -> Option<usize> {
        let near = [&self.latest, &self.previous];
        // Two comparisons before the hash: nearly every event is about one of the last two messages.
        let near = near.into_iter().flatten().find(|(id, _)| id == message);
        near.map(|(_, place)| *place).or_else(|| self.places.get(message).copied())
    }

    fn find(&mut self, message: &MessageId) -> Option<&mut SaidMessage> {
        let place = self.place(message)?;
        self.said.get_mut(place)
    }
}

/// Messages joined with newlines, where they lie: a long answer is not copied to be written.
#[derive(Debug)]
pub(crate) struct Joined<'a>(Vec<&'a SaidMessage>);

impl<'a> Joined<'a> {
    /// Skip a message of which nothing is left.
    fn of(messages: impl Iterator<Item = &'a SaidMessage>) -> Self {
        Self(messages.filter(|said| !said.blocks.is_empty()).collect())
    }

    /// Returns whether there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the text ends with the end of a line.
    pub(crate) fn ends_a_line(&self) -> bool {
        let last = self.0.last().and_then(|said| said.blocks.texts().filter(|text| !text.is_empty()).last());
        last.is_some_and(|text| text.ends_with('\n'))
    }
}

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, said) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            said.blocks.texts().try_for_each(|text| f.write_str(text))?;
        }
        Ok(())
    }
}

impl Serialize for Joined<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
