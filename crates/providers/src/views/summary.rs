//! One object about the whole stream, for scripts.
//!
//! Every key is always there, `null` when nothing is known, so that a script need not ask twice.

use std::collections::BTreeMap;
use std::io;

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{
    Category, Code, Event, Failure, Kind, Millis, NativeSessionId, SessionId, Timestamp, UsageSource,
};
use serde::Serialize;

use super::answer::{Answer, Joined, Keep};
use super::tally::ModelSource;
use super::{Setup, View, line};

/// Makes the view.
pub(crate) fn make(setup: &Setup) -> Box<dyn View> {
    Box::new(Summary {
        answer: Answer::new(Keep::Everything),
        ours: setup.ours,
        session: None,
        provider: None,
    })
}

/// Writes a failure as the summary shows it: what a program acts on, with `null` for what is unknown.
pub fn failure_object(failure: &Failure) -> String {
    serde_json::to_string(&FailureObject::of(failure)).expect("a failure is plain data")
}

#[derive(Debug)]
struct Summary {
    answer: Answer,
    ours: bool,
    /// The session that the last event was of: of several attempts, the last.
    session: Option<SessionId>,
    /// Who was asked last: an entry of the router's file, or a provider.
    provider: Option<String>,
}

/// The order of the fields is the order of the keys.
#[derive(Serialize)]
struct Object<'a> {
    text: Joined<'a>,
    all_text: Joined<'a>,
    outcome: Option<Outcome>,
    /// Absent where nobody ran anything: what is only decoded has no session of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a SessionId>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    native_session: Option<&'a NativeSessionId>,
    model: Option<&'a str>,
    /// Absent where nobody asked for a model: of what is only decoded, the program's word is all there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    model_source: Option<Option<ModelSource>>,
    usage: Option<UsageObject>,
    cost_usd: Option<f64>,
    failure: Option<FailureObject<'a>>,
    events: BTreeMap<&'a str, u64>,
    tools: u64,
    unrecognized: u64,
    novel: u64,
}

#[derive(Serialize)]
struct UsageObject {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total: u64,
    source: Option<UsageSource>,
}

#[derive(Serialize)]
struct FailureObject<'a> {
    category: Category,
    code: &'a Code,
    message: &'a str,
    retry: bool,
    fallback: bool,
    retry_after_ms: Option<Millis>,
    resets_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl Summary {
    /// Remembers who is asked.
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
        self.answer.event(event);
        if self.ours && self.session.as_ref() != Some(&event.session) {
            self.session = Some(event.session.clone());
        }
        if self.ours {
            self.asked(&event.kind);
        }
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
    fn object(&self) -> Object<'_> {
        let tally = &self.answer.tally;
        let usage = tally.usage.map(|usage| UsageObject {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            total: usage.total(),
            source: tally.usage_source,
        });
        Object {
            text: self.answer.text(),
            all_text: self.answer.all_text(),
            outcome: tally.outcome,
            session: self.session.as_ref(),
            provider: self.provider.as_deref(),
            native_session: tally.native_session.as_ref(),
            model: tally.named_model(),
            model_source: self.ours.then(|| tally.model_source()),
            usage,
            // To a billionth of a dollar: below that there is only the dust of floats.
            // What a part cost is not what all of it did, and after a fallback often nothing.
            cost_usd: tally
                .cost_usd
                .filter(|_| !tally.cost_is_partial)
                .map(|cost| (cost * 1e9).round() / 1e9),
            failure: tally.failure.as_ref().map(FailureObject::of),
            events: tally.events(),
            tools: tally.tools,
            unrecognized: tally.unrecognized,
            novel: tally.novel,
        }
    }
}

impl<'a> FailureObject<'a> {
    fn of(failure: &'a Failure) -> Self {
        Self {
            category: failure.category,
            code: &failure.code,
            message: &failure.message,
            retry: failure.retry,
            fallback: failure.fallback,
            retry_after_ms: failure.retry_after_ms,
            resets_at: failure.resets_at,
            hint: failure.hint.as_deref(),
        }
    }
}
