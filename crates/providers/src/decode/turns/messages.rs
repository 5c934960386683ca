//! The text of a turn: pieces, retractions, and the ends of messages. Decides which messages are commentary.

use bowline_protocol::kinds::{MessageFinished, Phase, TextDelta, TextRetracted, ThinkingDelta};
use bowline_protocol::{Kind, RawSpan, Source};

use super::TurnTracker;
use crate::decode::dialect::{Commentary, UnnumberedEvent};

/// The maximum number of undecided messages. Older ones count as part of the answer.
const UNDECIDED: usize = 64;

impl TurnTracker {
    /// Handles a piece of text.
    pub(super) fn text_delta(
        &mut self,
        delta: &TextDelta,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        // Only the estimate needs them, and only where the program has not reported what it used.
        let is_counted = self.count.usage().is_none();
        let chars = if is_counted { chars(&delta.text) } else { 0 };
        // Text of a sub-agent does not show that the agent's own request got through.
        if delta.parent.is_none() {
            self.waiting = None;
        }
        let plain = self.plain;
        let by_what_follows = matches!(self.commentary, Commentary::AllButLast | Commentary::AskedForTools);
        let open = self.ensure_open(raw, out);
        open.lively = true;
        open.said_chars += chars;
        // Only of plain text is the end worth anything.
        if plain {
            open.last_words.add(&delta.text);
        }
        // The first piece of the next message decides about those before it: they were not the last.
        let another = open.heard(delta, chars);
        if another && by_what_follows && !open.undecided.is_empty() {
            let mut undecided = std::mem::take(&mut open.undecided);
            self.decide(undecided.drain(..), Phase::Commentary, raw, out);
            // Keep the room for the next message.
            self.open.get_or_insert_default().undecided = undecided;
        }
    }

    /// Takes the characters of a message that was retracted as a whole out of the estimate.
    pub(super) fn text_retracted(&mut self, retracted: &TextRetracted) {
        if retracted.from_block == 0
            && let Some(open) = &mut self.open
            && let Some(message) = open.messages.get_mut(&retracted.message)
        {
            open.said_chars -= std::mem::take(&mut message.chars);
        }
    }

    /// Handles a piece of thinking.
    pub(super) fn thinking_delta(
        &mut self,
        thought: &ThinkingDelta,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        if thought.parent.is_none() {
            self.waiting = None;
        }
        self.ensure_open(raw, out).lively = true;
    }

    /// Handles the end of a message. A message ends only if it has text, and only once.
    pub(super) fn message_finished(
        &mut self,
        mut finished: MessageFinished,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        let Some(open) = &mut self.open else { return };
        // Unknown: it had no text, or it is finished already. Either way there is nothing to end.
        let Some((message, before_tool)) = open.messages.finish(&finished.message) else { return };
        let foreign = message.foreign;
        open.finished(message.id);
        if finished.phase == Phase::Final && before_tool {
            finished.phase = Phase::Commentary;
        }
        let decided = match self.commentary {
            Commentary::Told => true,
            Commentary::AskedForTools => finished.phase == Phase::Final,
            Commentary::BeforeTools | Commentary::AllButLast => finished.phase == Phase::Commentary,
        };
        // Commentary is about the agent's own answer. A sub-agent's messages end at once.
        if decided || foreign {
            return self.append(Source::Agent, raw, Kind::MessageFinished(finished), out);
        }
        open.undecided.push(finished);
        let first = open.undecided.len().saturating_sub(UNDECIDED);
        if first > 0 {
            let decided: Vec<_> = open.undecided.drain(..first).collect();
            self.decide(decided, Phase::Final, raw, out);
        }
    }

    /// Emits the ends of messages, after their phase is known.
    pub(super) fn decide(
        &mut self,
        messages: impl IntoIterator<Item = MessageFinished>,
        phase: Phase,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        for finished in messages {
            let finished = MessageFinished { phase, ..finished };
            self.append(Source::Bowline, raw, Kind::MessageFinished(finished), out);
        }
    }
}

/// Counts the characters of a text. Most pieces are ASCII, and that check is much cheaper than counting.
fn chars(text: &str) -> u64 {
    let chars = if text.is_ascii() { text.len() } else { text.chars().count() };
    chars as u64
}
