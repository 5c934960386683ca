//! Separates the text that accompanies the work from the answer, for agents that do not mark it.
//!
//! Text right before a tool call ("I will look at the tests") is commentary. That is known only when
//! the tool starts, so its words are held until then. The origin of this rule drops them; here they are marked and
//! passed on, and the chat decides. Agents that mark commentary themselves are believed.

use std::collections::{HashSet, VecDeque};

use bowline_protocol::kinds::{Phase, ToolOwner};
use bowline_protocol::{Event, Kind, MessageId, Millis, Subject, Timestamp, ToolId};

/// An event that may be shown now.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// The event.
    pub event: Event,
    /// Whether it is part of a text that is not the answer.
    pub commentary: bool,
}

/// Holds the agent's text until it is clear whether it is commentary.
///
/// Held events keep their order among themselves; events that pass by may overtake them.
#[derive(Clone, Debug, Default)]
pub struct CommentaryFilter {
    hold: Option<Millis>,
    held: VecDeque<HeldEvent>,
    /// Messages of sub-agents that are not finished. Only the pieces of a message show its sender.
    foreign: HashSet<MessageId>,
}

#[derive(Clone, Debug)]
struct HeldEvent {
    message: MessageId,
    passed: Passed,
}

/// The decision about an event.
enum Course {
    /// It belongs to the text of this message, and waits with it.
    Hold(MessageId),
    /// It shows that the text of this message is commentary.
    Tell(MessageId),
    /// It passes what is held.
    Pass,
    /// The held text is commentary, and goes first.
    AfterCommentary,
    /// The held text is the answer, and goes first.
    AfterAnswer,
}

impl CommentaryFilter {
    /// Makes one that holds text for as long as it takes, or at most for a given time.
    pub fn new(hold: Option<Millis>) -> Self {
        Self { hold, ..Self::default() }
    }

    /// Takes in an event. Returns those that may be shown now, in order.
    pub fn push(&mut self, event: Event) -> Vec<Passed> {
        let mut released = match self.course(&event) {
            Course::Hold(message) => {
                self.hold(message, event);
                return Vec::new();
            }
            Course::Tell(message) => {
                self.hold(message.clone(), event);
                return self.tell(&message);
            }
            Course::Pass => Vec::new(),
            Course::AfterCommentary => {
                self.held.drain(..).map(|held| Passed { commentary: true, ..held.passed }).collect()
            }
            Course::AfterAnswer => self.flush(),
        };
        released.push(Passed { event, commentary: false });
        released
    }

    /// Returns when [`tick`](Self::tick) has something to give.
    pub fn deadline(&self) -> Option<Timestamp> {
        Some(self.held.front()?.passed.event.at.after(self.hold?))
    }

    /// Returns what has been held long enough.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Passed> {
        if self.deadline().is_some_and(|deadline| deadline <= now) { self.flush() } else { Vec::new() }
    }

    /// Returns all that is held, as the answer. To be called at the end of a stream, however it ended.
    pub fn flush(&mut self) -> Vec<Passed> {
        self.held.drain(..).map(|held| held.passed).collect()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the subject decides about the other kinds")]
    fn course(&mut self, event: &Event) -> Course {
        match &event.kind {
            Kind::TextDelta(delta) => match self.heard(&delta.message, delta.parent.as_ref()) {
                TextAuthor::Agent => Course::Hold(delta.message.clone()),
                TextAuthor::SubAgent => Course::Pass,
            },
            Kind::ThinkingDelta(delta) => {
                self.heard(&delta.message, delta.parent.as_ref());
                Course::Pass
            }
            Kind::TextRetracted(retracted) if !self.foreign.contains(&retracted.message) => {
                Course::Hold(retracted.message.clone())
            }
            // The last event of a sub-agent's message, so its id need not be kept.
            Kind::MessageFinished(finished) if !self.foreign.remove(&finished.message) => {
                match finished.phase {
                    Phase::Commentary => Course::Tell(finished.message.clone()),
                    Phase::Final => Course::Hold(finished.message.clone()),
                }
            }
            Kind::ToolStarted(tool) => match (&tool.parent, tool.owner) {
                (Some(_), ToolOwner::Cli | ToolOwner::Host) => Course::Pass,
                (None, ToolOwner::Cli) => Course::AfterCommentary,
                (None, ToolOwner::Host) => Course::AfterAnswer,
            },
            Kind::UserMessage(message) if message.parent.is_none() => Course::AfterAnswer,
            Kind::TurnStarted(_) | Kind::TurnEnded(_) => {
                self.foreign.clear();
                Course::AfterAnswer
            }
            other => match other.subject() {
                // Text of a sub-agent, and gauges that come at any time and do not affect the text before.
                Subject::Message | Subject::Tool | Subject::Usage => Course::Pass,
                Subject::Session
                | Subject::Turn
                | Subject::Work
                | Subject::Question
                | Subject::Agent
                | Subject::Route
                | Subject::Process
                | Subject::Stream => Course::AfterAnswer,
            },
        }
    }

    fn heard(&mut self, message: &MessageId, parent: Option<&ToolId>) -> TextAuthor {
        if parent.is_none() {
            return TextAuthor::Agent;
        }
        if !self.foreign.contains(message) {
            self.foreign.insert(message.clone());
        }
        TextAuthor::SubAgent
    }

    fn hold(&mut self, message: MessageId, event: Event) {
        self.held.push_back(HeldEvent { message, passed: Passed { event, commentary: false } });
    }

    /// Marks the words of a message as commentary. Returns what is decided now: words of other messages that are not
    /// keep their place in front of it.
    fn tell(&mut self, message: &MessageId) -> Vec<Passed> {
        for held in self.held.iter_mut().filter(|held| held.message == *message) {
            held.passed.commentary = true;
        }
        let decided = self.held.iter().take_while(|held| held.passed.commentary).count();
        self.held.drain(..decided).map(|held| held.passed).collect()
    }
}

enum TextAuthor {
    Agent,
    SubAgent,
}

#[cfg(test)]
mod tests;
