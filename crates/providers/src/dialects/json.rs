//! `json`: one JSON object with the answer in one of the usual fields.
//!
//! Noise around the object is noise. What holds no object at all is taken as plain text.

use bowline_protocol::kinds::SessionStarted;
use bowline_protocol::{Basis, Kind, MessageId, NativeSessionId, UsageSource, kinds::UsageReported};
use serde_json::{Map, Value};

use super::content;
use crate::dialect::{Dialect, Input, Output};
use crate::failure::Report;
use crate::{ansi, lenient, usage};

/// Reads one JSON object.
#[derive(Debug)]
pub(crate) struct Json;

impl Dialect for Json {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(document) => document_of(document, out),
            Input::Stderr(_) | Input::Sent(_) | Input::Eof(_) => {}
        }
    }
}

fn document_of(document: &str, out: &mut Output<'_>) {
    let Found { before, value, after } = find(document);
    for noise in [before, after] {
        noise.lines().filter(|line| !lenient::is_blank(line)).for_each(|line| out.noise(line));
    }
    match value {
        Some(Value::Object(object)) => answer(&object, out),
        Some(array) => {
            out.quiet();
            if let Some(text) = content::blocks(&array) {
                say(&text, out);
            }
        }
        None => {
            let text = ansi::strip(document);
            out.quiet();
            say(text.trim(), out);
        }
    }
}

fn answer(object: &Map<String, Value>, out: &mut Output<'_>) {
    out.quiet();
    let string =
        |names: &[&str]| names.iter().find_map(|name| object.get(*name)?.as_str()).map(str::to_owned);
    let native_session =
        string(&["session_id", "sessionId", "sessionID", "thread_id"]).map(NativeSessionId::from);
    let model = string(&["model"]);
    if native_session.is_some() || model.is_some() {
        let started = SessionStarted { native_session, model: model.clone(), ..SessionStarted::default() };
        out.emit(Kind::SessionStarted(started));
    }
    let text = content::find(object);
    let failed = object.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let error = object.get("error").and_then(content::error);
    // What a program calls its result is an error message when it says that it failed.
    if !failed && let Some(text) = &text {
        say(text, out);
    }
    if let Some(usage) = object.get("usage").and_then(usage::read) {
        out.emit(Kind::UsageReported(UsageReported {
            usage,
            basis: Basis::PerTurn,
            source: UsageSource::Reported,
            cost_usd: object.get("total_cost_usd").and_then(Value::as_f64),
            model,
            message: None,
        }));
    }
    if failed || error.is_some() {
        out.failed(&Report::of(error.or(text).unwrap_or_default()));
    }
}

fn say(text: &str, out: &mut Output<'_>) {
    out.text(&MessageId::from("m1"), 0, text, None);
}

/// A JSON value in a document, and what stands around it.
struct Found<'a> {
    before: &'a str,
    value: Option<Value>,
    after: &'a str,
}

/// Finds the object, or array, of a document: the last one that has an answer or an error, else the last one.
fn find(document: &str) -> Found<'_> {
    let nothing = Found { before: "", value: None, after: "" };
    let trimmed = document.trim();
    if !trimmed.contains(['{', '[']) {
        return nothing;
    }
    if let Some(value @ (Value::Object(_) | Value::Array(_))) = lenient::value(trimmed) {
        return Found { value: Some(value), ..nothing };
    }
    let mut best: Option<(bool, Found<'_>)> = None;
    let mut failures = 0;
    let mut from = 0;
    while failures < MOST_ATTEMPTS
        && let Some(at) = next_object(document, from)
    {
        let mut values =
            serde_json::Deserializer::from_str(&document[at..]).into_iter::<Map<String, Value>>();
        let Some(Ok(object)) = values.next() else {
            failures += 1;
            from = line_after(document, at);
            continue;
        };
        let end = at + values.byte_offset();
        let speaks =
            content::find(&object).is_some() || object.get("error").and_then(content::error).is_some();
        if speaks || best.as_ref().is_none_or(|(best_speaks, _)| !best_speaks) {
            let value = Some(Value::Object(object));
            best = Some((speaks, Found { before: &document[..at], value, after: &document[end..] }));
        }
        from = end;
    }
    best.map_or(nothing, |(_, found)| found)
}

/// How often a `{` may turn out not to begin an object before the search is given up, so that a hostile document
/// costs a bounded number of parses.
const MOST_ATTEMPTS: usize = 256;

/// Finds the next `{` that is the first visible character from `from` on, or of a later line. One in the middle of
/// a line is quoted by a log.
fn next_object(document: &str, mut from: usize) -> Option<usize> {
    while from < document.len() {
        let rest = &document[from..];
        let visible = rest.trim_start();
        if visible.starts_with('{') {
            return Some(document.len() - visible.len());
        }
        from = line_after(document, document.len() - visible.len());
    }
    None
}

fn line_after(document: &str, at: usize) -> usize {
    memchr::memchr(b'\n', &document.as_bytes()[at..]).map_or(document.len(), |end| at + end + 1)
}
