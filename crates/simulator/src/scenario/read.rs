//! Parses the text of a scenario file, or reports the mistake in it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::error::ScenarioMistake;
use super::names::{self, NUMBER, OF_REQUEST};
use super::{
    Call, Fault, FaultKind, FaultTime, Reply, ReplyText, Scenario, ScenarioError, Step, StepAction,
    StepCondition, StopReason, Usage,
};

/// The most times that a text is repeated.
const MOST_REPEATS: usize = 100_000;

/// The limit of a repeated text, in bytes: the simulator builds an answer in memory.
const LONGEST_TEXT: usize = 64_000_000;

/// The file, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    #[serde(default)]
    values: BTreeMap<String, String>,
    step: Vec<Spanned<StepFields>>,
}

/// A step, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepFields {
    after: Option<StepCondition>,
    wait: Option<Span>,
    times: Option<Spanned<u32>>,
    think: Option<String>,
    text: Option<String>,
    repeat: Option<Spanned<u32>>,
    deltas: Option<Vec<String>>,
    every: Option<Span>,
    #[serde(default)]
    call: Vec<Spanned<Call>>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    fault: Option<FaultKind>,
    message: Option<String>,
    status: Option<Spanned<u16>>,
    retry_after: Option<Span>,
}

/// A span of time, such as `20ms` or `2s`.
#[derive(Clone, Copy)]
struct Span(Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a span of time such as \"20ms\" or \"2s\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                let span: jiff::SignedDuration =
                    text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))?;
                let span = Duration::try_from(span).map_err(|_| {
                    E::invalid_value(de::Unexpected::Str(text), &"a span that is not negative")
                })?;
                Ok(Span(span))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// Reads a scenario.
pub(super) fn scenario(name: &str, file: &str, text: &str) -> Result<Scenario, ScenarioError> {
    if !is_name(name) {
        return Err(ScenarioError::Name { file: file.to_owned(), name: name.to_owned() });
    }
    let wrong = |span: Range<usize>, message: String| {
        ScenarioError::Wrong(Box::new(ScenarioMistake::at(file, text, span, message)))
    };
    let written: File = toml::from_str(text)
        .map_err(|error| wrong(error.span().unwrap_or(0..0), one_line(error.message())))?;
    if written.step.is_empty() {
        return Err(wrong(0..0, "a scenario has at least one `[[step]]`".into()));
    }
    let unknown = |from: usize, name: &str, known: Vec<&str>| {
        let known: Vec<String> = known.iter().map(|name| format!("`{{{name}}}`")).collect();
        let known = known.join(", ");
        let message = format!(
            "unknown name `{{{name}}}`: known are {known}; for the braces themselves write `{{{{{name}}}}}`"
        );
        wrong(names::place(text, from, name), message)
    };
    for name in written.values.values().flat_map(|value| names::of_text(value)) {
        if !OF_REQUEST.contains(&name) {
            return Err(unknown(0, name, OF_REQUEST.to_vec()));
        }
    }
    let last = written.step.len() - 1;
    let mut steps = Vec::new();
    for (index, step) in written.step.into_iter().enumerate() {
        let span = step.span();
        let repeats = step.get_ref().repeat.is_some();
        let step =
            read_step(step.into_inner(), span.clone()).map_err(|(span, message)| wrong(span, message))?;
        if index == last && step.times.is_some() && matches!(step.act, StepAction::Fault(_)) {
            return Err(wrong(span, "after a fault with `times` there has to be a step that answers".into()));
        }
        if let StepAction::Reply(reply) = &step.act {
            let mut known: Vec<&str> =
                OF_REQUEST.into_iter().chain(written.values.keys().map(String::as_str)).collect();
            known.extend(repeats.then_some(NUMBER));
            let mut used = names::texts(reply).into_iter().flat_map(names::of_text);
            if let Some(name) = used.find(|name| !known.contains(name)) {
                return Err(unknown(span.start, name, known));
            }
        }
        steps.push(step);
    }
    Ok(Scenario { name: name.to_owned(), about: written.about, values: written.values, steps })
}

/// Returns whether a name can be used in a marker, a route and a header.
pub(crate) fn is_name(name: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) && name.chars().all(known)
}

/// The mistake, and its position.
type MistakeAt = (Range<usize>, String);

fn read_step(step: StepFields, span: Range<usize>) -> Result<Step, MistakeAt> {
    let head = |message: &str| Err((span.clone(), message.to_owned()));
    let times = match &step.times {
        Some(times) if *times.get_ref() == 0 => {
            return Err((times.span(), "`times` is at least 1; leave the step out instead".into()));
        }
        Some(times) => Some(*times.get_ref()),
        None => None,
    };
    let (after, wait) = (step.after, step.wait.map_or(Duration::ZERO, |wait| wait.0));
    if let Some(kind) = step.fault {
        if step.think.is_some() || step.text.is_some() || step.deltas.is_some() || !step.call.is_empty() {
            return head("a step has a `fault`, or an answer (`text`, `deltas`, `think`, `call`), not both");
        }
        for (key, given) in [
            ("usage", step.usage.is_some()),
            ("stop", step.stop.is_some()),
            ("repeat", step.repeat.is_some()),
            ("every", step.every.is_some()),
        ] {
            if given {
                return head(&format!("`{key}` is for answers, and this step is a fault"));
            }
        }
        if let Some(status) = step.status.as_ref().filter(|it| !(400..600).contains(it.get_ref())) {
            return Err((status.span(), "the status of a fault lies between 400 and 599".into()));
        }
        if kind.when() != FaultTime::Answered && (step.status.is_some() || step.retry_after.is_some()) {
            return head("`status` and `retry_after` are for faults that answer");
        }
        let fault = Fault {
            kind,
            message: step.message,
            status: step.status.map(Spanned::into_inner),
            retry_after: step.retry_after.map(|span| span.0),
        };
        return Ok(Step { after, wait, times, act: StepAction::Fault(fault) });
    }
    for (key, given) in [
        ("message", step.message.is_some()),
        ("status", step.status.is_some()),
        ("retry_after", step.retry_after.is_some()),
        ("times", times.is_some()),
    ] {
        if given {
            return head(&format!("`{key}` is for a `fault`, and this step is an answer"));
        }
    }
    if step.text.is_some() && step.deltas.is_some() {
        return head("a step has `text` or `deltas`, not both");
    }
    if step.repeat.is_some() && step.text.is_none() {
        return head("`repeat` is for `text`");
    }
    if let (Some(repeat), Some(text)) = (&step.repeat, &step.text) {
        let most = (LONGEST_TEXT / text.len().max(1)).min(MOST_REPEATS);
        if !(1..=most).contains(&(*repeat.get_ref() as usize)) {
            let message = format!(
                "`repeat` lies between 1 and {most} for this text: no more than {MOST_REPEATS} times, and no more than \
                 {} MB",
                LONGEST_TEXT / 1_000_000
            );
            return Err((repeat.span(), message));
        }
    }
    let say = match (step.text, step.deltas) {
        (Some(text), _) => ReplyText::Text { text, repeat: step.repeat.map_or(1, Spanned::into_inner) },
        (None, Some(deltas)) => ReplyText::Deltas(deltas),
        (None, None) => ReplyText::Nothing,
    };
    for call in &step.call {
        check_call(call)?;
    }
    let calls = step.call.into_iter().map(Spanned::into_inner).collect();
    let every = step.every.map_or(Duration::ZERO, |every| every.0);
    let reply = Reply { think: step.think, say, every, calls, usage: step.usage, stop: step.stop };
    Ok(Step { after, wait, times, act: StepAction::Reply(reply) })
}

fn check_call(call: &Spanned<Call>) -> Result<(), MistakeAt> {
    if call.get_ref().forms.is_empty() {
        return Err((call.span(), "a call has at least one of `forms`".into()));
    }
    for form in &call.get_ref().forms {
        let inputs = [form.input.is_some(), form.text.is_some(), form.filled];
        if inputs.iter().filter(|given| **given).count() != 1 {
            let tool = &form.tool;
            return Err((
                call.span(),
                format!("the form for `{tool}` needs one of `input`, `text` and `filled = true`"),
            ));
        }
    }
    Ok(())
}

/// Messages of the parser may have several lines.
fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
