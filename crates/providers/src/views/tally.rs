//! The outcome of a stream: model, usage, cost and counts.
//!
//! A fold without any text, so that views which print text as it comes need not keep it. The text is in `answer`.

use std::collections::{BTreeMap, HashSet};
use std::mem::{Discriminant, discriminant};

use bowline_protocol::kinds::{Outcome, SessionStarted, StopReason, ToolOwner, TurnEnded, UsageReported};
use bowline_protocol::{
    Category, Code, Event, Failure, Kind, MessageId, NativeSessionId, Source, Timestamp, ToolId, Usage,
    UsageSource,
};
use serde::Serialize;

use super::Setup;
use super::calls::LateCall;
use crate::decode::NOVEL;

/// The state of a stream so far, without its text.
#[derive(Debug, Default)]
pub struct Tally {
    /// How the last turn ended; nothing while it runs.
    pub outcome: Option<Outcome>,
    /// Why the model stopped in the last turn.
    pub stop: Option<StopReason>,
    /// Why the last turn failed.
    pub failure: Option<Failure>,
    /// The agent's own name for the session.
    pub native_session: Option<NativeSessionId>,
    /// The provider, as the stream names it.
    pub provider: Option<String>,
    /// The model that the agent itself answered with last.
    pub model: Option<String>,
    /// The requested model.
    pub asked_model: Option<String>,
    /// The usage of all ended turns.
    pub usage: Option<Usage>,
    /// Where that usage comes from: estimated as soon as one turn was.
    pub usage_source: Option<UsageSource>,
    /// The cost of all ended turns in US dollars.
    pub cost_usd: Option<f64>,
    /// Whether some turn has usage of unknown cost.
    pub(crate) cost_is_partial: bool,
    /// Calls that the host has to run and that have not ended.
    pub(crate) waiting: Vec<LateCall>,
    /// How many turns began.
    pub turns: u32,
    /// How many tool calls began.
    pub tools: u64,
    /// The number of fields and types that no recording of the program has.
    pub novel: u64,
    /// The number of pieces of its output that were not understood.
    pub unrecognized: u64,
    /// How many events of each kind there were.
    counts: KindCounts,
    /// When the first event was read.
    pub(crate) first_at: Option<Timestamp>,
    /// When the last event was read.
    pub(crate) last_at: Option<Timestamp>,
    turn: CurrentTurn,
}

/// Events by kind. Every event is counted, so the kinds that we know are found by comparing numbers, not names.
#[derive(Debug, Default)]
struct KindCounts {
    known: Vec<KnownKind>,
    /// Kinds of newer versions, by name.
    unknown: BTreeMap<Box<str>, u64>,
}

/// One of the kinds that this version knows, of which there are a few dozen.
#[derive(Debug)]
struct KnownKind {
    kind: Discriminant<Kind>,
    name: Box<str>,
    count: u64,
}

impl KindCounts {
    fn add(&mut self, kind: &Kind) {
        let name = kind.type_name();
        if matches!(kind, Kind::Unknown(_)) {
            match self.unknown.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.unknown.insert(name.into(), 1)),
            }
            return;
        }
        let kind = discriminant(kind);
        match self.known.iter_mut().find(|known| known.kind == kind) {
            Some(known) => known.count += 1,
            None => self.known.push(KnownKind { kind, name: name.into(), count: 1 }),
        }
    }

    fn by_name(&self) -> BTreeMap<&str, u64> {
        let known = self.known.iter().map(|known| (&*known.name, known.count));
        known.chain(self.unknown.iter().map(|(name, count)| (&**name, *count))).collect()
    }
}

/// State of the current turn only, so that memory does not grow with the stream.
#[derive(Debug, Default)]
struct CurrentTurn {
    tools: HashSet<ToolId>,
    /// Messages of sub-agents, which may run on another model.
    foreign: HashSet<MessageId>,
    reported: bool,
    estimated: bool,
}

/// Where the name of a model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelSource {
    /// The agent reported it.
    Reported,
    /// The caller asked for it, and the agent did not report another.
    Asked,
}

/// How a response ended, in the coarse terms that foreign formats share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The agent was done.
    Stop,
    /// It reached its limit of output tokens.
    Length,
    /// It waits for a tool that the host has to run.
    ToolUse,
    /// It was stopped.
    Cancelled,
    /// It failed, or its end was never reported.
    Failed,
}

impl Tally {
    /// Handles one event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds are only counted")]
    pub fn event(&mut self, event: &Event) {
        self.first_at.get_or_insert(event.at);
        self.last_at = Some(event.at);
        self.counts.add(&event.kind);
        if let Kind::Unrecognized(what) = &event.kind {
            self.unrecognized += what.count.unwrap_or(1);
        }
        match &event.kind {
            Kind::SessionStarted(started) => self.session_started(started, event.source),
            Kind::TurnStarted(_) => {
                self.turns += 1;
                // Programs use tool and message ids again in later turns.
                self.turn = CurrentTurn::default();
                // The outcome is the last turn's: an earlier failure must not stay on a turn that runs.
                (self.outcome, self.stop, self.failure) = (None, None, None);
            }
            Kind::TurnEnded(ended) => self.turn_ended(ended),
            Kind::TextDelta(said) => self.heard(&said.message, said.parent.as_ref()),
            Kind::ThinkingDelta(thought) => self.heard(&thought.message, thought.parent.as_ref()),
            Kind::MessageFinished(finished) => {
                self.answered_by(finished.model.as_ref(), Some(&finished.message))
            }
            Kind::UsageReported(report) => self.usage_reported(report),
            Kind::ModelChanged(changed) => self.model = Some(changed.model.clone()),
            Kind::ToolStarted(tool) => {
                if self.turn.tools.insert(tool.id.clone()) {
                    self.tools += 1;
                }
                if tool.owner == ToolOwner::Host && self.waiting.iter().all(|call| call.id != tool.id) {
                    self.waiting.push(LateCall::of(tool));
                }
            }
            Kind::ToolUpdated(update) => {
                if let Some(call) = self.waiting.iter_mut().find(|call| call.id == update.id) {
                    call.update(update);
                }
            }
            Kind::ToolFinished(tool) => self.waiting.retain(|call| call.id != tool.id),
            Kind::Notice(notice) => self.novel += u64::from(notice.code.as_deref() == Some(NOVEL)),
            _ => {}
        }
    }

    /// Returns how the stream ended. A cut-off answer wins over a waiting tool: its arguments may be cut off too.
    pub(crate) fn finish(&self) -> Finish {
        match self.outcome {
            Some(Outcome::Completed) if self.stop == Some(StopReason::MaxTokens) => Finish::Length,
            Some(Outcome::Completed) if !self.waiting.is_empty() => Finish::ToolUse,
            Some(Outcome::Completed) => Finish::Stop,
            Some(Outcome::Cancelled) => Finish::Cancelled,
            Some(Outcome::Failed | Outcome::Truncated) | None => Finish::Failed,
        }
    }

    /// Returns why there is no complete answer; nothing when there is one. The message is never empty, because some
    /// formats read an empty error as success.
    pub fn trouble(&self) -> Option<Failure> {
        let (code, message) = match self.outcome {
            Some(Outcome::Completed) => return None,
            Some(Outcome::Cancelled) => (Code::Cancelled, "the turn was cancelled"),
            Some(Outcome::Failed) => (Code::Unknown, "the agent reported a failed turn without a reason"),
            Some(Outcome::Truncated) => (Code::Truncated, "the output ended before the turn ended"),
            None if self.turns > 0 => (Code::Truncated, "the output ended before the turn ended"),
            None => (Code::Truncated, "the agent did not start a turn"),
        };
        let mut failure =
            self.failure.clone().unwrap_or_else(|| Failure::new(Category::Unknown, code.clone(), message));
        if failure.message.trim().is_empty() {
            failure.message = message.into();
        }
        if self.outcome == Some(Outcome::Cancelled) {
            failure.code = code;
        }
        Some(failure)
    }

    /// Returns the provider's name: the one that was asked for, else the one in the stream, else nothing.
    pub(crate) fn provider(&self, setup: &Setup) -> String {
        setup.provider.clone().or_else(|| self.provider.clone()).unwrap_or_default()
    }

    /// Returns how many events of a kind there were.
    pub(crate) fn count(&self, kind: &str) -> u64 {
        self.events().get(kind).copied().unwrap_or(0)
    }

    /// Returns how many events of each kind there were, by name.
    pub(crate) fn events(&self) -> BTreeMap<&str, u64> {
        self.counts.by_name()
    }

    fn session_started(&mut self, started: &SessionStarted, source: Source) {
        if started.provider.is_some() && self.provider.is_some() && started.provider != self.provider {
            // Another agent continues: the names of the previous one do not apply to it.
            (self.native_session, self.model) = (None, None);
        }
        replace_if_known(&mut self.native_session, started.native_session.as_ref());
        replace_if_known(&mut self.provider, started.provider.as_ref());
        match source {
            // The event that starts a session has the requested model. Only the agent reports the one it used.
            Source::Bowline => self.asked_model.clone_from(&started.model),
            Source::Agent => replace_if_known(&mut self.model, started.model.as_ref()),
        }
    }

    /// Returns the model that answered, else the requested one.
    pub fn named_model(&self) -> Option<&str> {
        self.model.as_deref().or(self.asked_model.as_deref())
    }

    /// Returns where [`Self::named_model`] comes from.
    pub fn model_source(&self) -> Option<ModelSource> {
        match (&self.model, &self.asked_model) {
            (Some(_), _) => Some(ModelSource::Reported),
            (None, Some(_)) => Some(ModelSource::Asked),
            (None, None) => None,
        }
    }

    fn turn_ended(&mut self, ended: &TurnEnded) {
        self.outcome = Some(ended.outcome);
        self.stop = ended.stop;
        self.failure = ended.failure.as_deref().cloned();
        if let Some(usage) = &ended.usage {
            self.usage = Some(self.usage.unwrap_or_default().plus(usage));
            let estimated = self.turn.estimated && !self.turn.reported;
            // One estimated turn makes the whole sum an estimate.
            if estimated || self.usage_source == Some(UsageSource::Estimated) {
                self.usage_source = Some(UsageSource::Estimated);
            } else {
                self.usage_source = Some(UsageSource::Reported);
            }
        }
        if let Some(cost) = ended.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        } else if ended.usage.is_some_and(|usage| usage.total() > 0) {
            // Tokens without a price: the sum so far is a lower bound.
            self.cost_is_partial = true;
        }
    }

    fn usage_reported(&mut self, report: &UsageReported) {
        match report.source {
            // An empty report is not a report of usage.
            UsageSource::Reported => self.turn.reported |= report.usage.total() > 0,
            UsageSource::Estimated => self.turn.estimated = true,
        }
        self.answered_by(report.model.as_ref(), report.message.as_ref());
    }

    fn heard(&mut self, message: &MessageId, parent: Option<&ToolId>) {
        if parent.is_some() && !self.turn.foreign.contains(message) {
            self.turn.foreign.insert(message.clone());
        }
    }

    fn answered_by(&mut self, model: Option<&String>, message: Option<&MessageId>) {
        let foreign = !self.turn.foreign.is_empty()
            && message.is_some_and(|message| self.turn.foreign.contains(message));
        if !foreign {
            replace_if_known(&mut self.model, model);
        }
    }
}

fn replace_if_known<T: Clone + PartialEq>(place: &mut Option<T>, value: Option<&T>) {
    if value.is_some() && place.as_ref() != value {
        *place = value.cloned();
    }
}
