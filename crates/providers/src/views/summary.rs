//! One object about the whole stream, for scripts.
//!
//! Every key is always there, `null` when the value is unknown, so that a script need not check twice.

use std::collections::BTreeMap;
use std::io;

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{
    Category, Code, Event, Failure, Kind, Millis, NativeSessionId, Remedy, SessionId, Timestamp, Usage,
    UsageSource,
};
use serde::Serialize;

use super::answer::{AnswerFold, Joined, Keep};
use super::tally::ModelSource;
use super::{Setup, View, line};

/// Makes the view.
pub(crate) fn make(setup: &Setup) -> Box<dyn View> {
    Box::new(Summary {
        answer: AnswerFold::new(Keep::Everything),
        ours: setup.ours,
        session: None,
        provider: None,
    })
}

/// Writes a failure as the summary shows it: what a program acts on, with `null` for what is unknown.
pub fn failure_object(failure: &Failure) -> String {
    serde_json::to_string(&FailureObject::of(failure)).expect("a failure is plain data")
}

/// Folds a stream into the object.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) answer: AnswerFold,
    ours: bool,
    /// The session that the last event was of: of several attempts, the last.
    session: Option<SessionId>,
    /// The last entry that was tried: an entry of the router's file, or a provider.
    provider: Option<String>,
}

/// The totals of a run, beside its events. `A` is one attempt.
#[derive(Clone, Copy, Debug)]
pub struct RunFacts<'a, A> {
    /// The usage of all attempts.
    pub usage: Option<Usage>,
    /// Where that usage comes from.
    pub usage_source: Option<UsageSource>,
    /// The cost of all attempts in US dollars, where the agents report it.
    pub cost_usd: Option<f64>,
    /// Their cost in US dollars, reported by the agents or else by the price list.
    pub cost: Option<f64>,
    /// How long they took.
    pub took: Millis,
    /// How many lines were too long to be read.
    pub too_long: u64,
    /// The exit code of `bowline run`.
    pub exit_code: u8,
    /// The attempts, if the router made them.
    pub attempts: &'a [A],
}

/// The object of `-o json`. The order of the fields is the order of the keys.
#[derive(Debug, Serialize)]
#[serde(bound(serialize = "A: Serialize"))]
pub struct SummaryObject<'a, A = ()> {
    /// Absent if it is too long to hold, and not on file.
    text: Option<Joined<'a>>,
    /// The same.
    all_text: Option<Joined<'a>>,
    outcome: Option<Outcome>,
    /// Absent for decoded recordings, which have no session of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a SessionId>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    native_session: Option<&'a NativeSessionId>,
    model: Option<&'a str>,
    /// Absent if no model was requested, as in decoded recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    model_source: Option<Option<ModelSource>>,
    usage: Option<UsageObject>,
    cost_usd: Option<f64>,
    failure: Option<FailureObject<'a>>,
    events: BTreeMap<&'a str, u64>,
    tools: u64,
    unrecognized: u64,
    novel: u64,
    /// From here on: absent for decoded recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    too_long: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<&'a [A]>,
}

#[derive(Debug, Serialize)]
struct UsageObject {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total: u64,
    source: Option<UsageSource>,
}

/// A failure as the summary shows it: what a program acts on, with `null` for what is unknown.
#[derive(Debug, Serialize)]
pub struct FailureObject<'a> {
    category: Category,
    code: &'a Code,
    message: &'a str,
    retry: bool,
    fallback: bool,
    retry_after_ms: Option<Millis>,
    resets_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Remedy]>::is_empty")]
    remedies: &'a [Remedy],
}

impl Summary {
    /// Makes the fold over the events of a run of ours.
    pub(super) fn of_run() -> Self {
        Self { answer: AnswerFold::new(Keep::Everything), ours: true, session: None, provider: None }
    }

    /// Handles one event.
    pub(super) fn with_text(&mut self, event: &Event) {
        self.answer.event(event);
        self.remember(event);
    }

    /// Handles one event, without its text.
    pub(super) fn without_text(&mut self, event: &Event) {
        self.answer.tally.event(event);
        self.remember(event);
    }

    fn remember(&mut self, event: &Event) {
        if self.ours && self.session.as_ref() != Some(&event.session) {
            self.session = Some(event.session.clone());
        }
        if self.ours {
            self.asked(&event.kind);
        }
    }

    /// Remembers the provider that is tried.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds do not say it")]
    fn asked(&mut self, kind: &Kind) {
        match kind {
            Kind::SessionStarted(started) if started.provider.is_some() => {
                self.provider.clone_from(&started.provider);
            }
            // It comes after that, with the name that the caller knows.
            Kind::RouteChosen(chosen) => self.provider = Some(chosen.provider.clone()),
            _ => {}
        }
    }
}

impl View for Summary {
    fn event(&mut self, event: &Event, _: &mut String) {
        self.with_text(event);
    }

    fn finish(&mut self, out: &mut String) {
        line(out, &self.object());
    }

    fn write_end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &self.object())?;
        out.write_all(b"\n")
    }
}

impl Summary {
    fn object(&self) -> SummaryObject<'_> {
        self.object_without()
    }

    /// Returns the object of a run: its totals are those of all attempts.
    pub(super) fn object_of<'a, A>(&'a self, run: &RunFacts<'a, A>) -> SummaryObject<'a, A> {
        let mut object = self.object_without();
        object.usage = run.usage.map(|usage| UsageObject::of(&usage, run.usage_source));
        object.cost_usd = run.cost_usd.map(to_a_billionth);
        object.too_long = Some(run.too_long);
        object.cost = Some(run.cost.map(to_a_billionth));
        object.took_ms = Some(run.took);
        object.exit_code = Some(run.exit_code);
        object.attempts = Some(run.attempts);
        object
    }

    fn object_without<'a, A>(&'a self) -> SummaryObject<'a, A> {
        let tally = &self.answer.tally;
        SummaryObject {
            text: Some(self.answer.text()),
            all_text: Some(self.answer.all_text()),
            outcome: tally.outcome,
            session: self.session.as_ref(),
            provider: self.provider.as_deref(),
            native_session: tally.native_session.as_ref(),
            model: tally.named_model(),
            model_source: self.ours.then(|| tally.model_source()),
            usage: tally.usage.map(|usage| UsageObject::of(&usage, tally.usage_source)),
            // The cost of a part is not the cost of all of it, and after a fallback it is often absent.
            cost_usd: tally.cost_usd.filter(|_| !tally.cost_is_partial).map(to_a_billionth),
            failure: tally.failure.as_ref().map(FailureObject::of),
            events: tally.events(),
            tools: tally.tools,
            unrecognized: tally.unrecognized,
            novel: tally.novel,
            too_long: None,
            cost: None,
            took_ms: None,
            exit_code: None,
            attempts: None,
        }
    }
}

impl<A> SummaryObject<'_, A> {
    /// Omits the answer: the held text is incomplete.
    pub(super) fn forget_text(&mut self) {
        (self.text, self.all_text) = (None, None);
    }

    /// The same for all text beside the answer.
    pub(super) fn forget_all_text(&mut self) {
        self.all_text = None;
    }
}

impl UsageObject {
    fn of(usage: &Usage, source: Option<UsageSource>) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            total: usage.total(),
            source,
        }
    }
}

/// Rounds dollars to a billionth: below that there is only the dust of floats.
pub(super) fn to_a_billionth(cost: f64) -> f64 {
    (cost * 1e9).round() / 1e9
}

impl<'a> FailureObject<'a> {
    /// Makes it of a failure.
    pub fn of(failure: &'a Failure) -> Self {
        Self {
            category: failure.category,
            code: &failure.code,
            message: &failure.message,
            retry: failure.retry,
            fallback: failure.fallback,
            retry_after_ms: failure.retry_after_ms,
            resets_at: failure.resets_at,
            hint: failure.hint.as_deref(),
            remedies: &failure.remedies,
        }
    }
}
