//! `json`: one JSON object with the answer in one of the usual fields.
//!
//! Text around the object is noise. Output without any object is plain text.

use bowline_protocol::kinds::{SessionStarted, UnrecognizedReason, UsageReported};
use bowline_protocol::{Basis, Kind, MessageId, NativeSessionId};
use serde_json::{Map, Value};

use super::{content, document};
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
    let found = document::find(document);
    for noise in [&found.before, &found.after] {
        noise.lines().filter(|line| !lenient::is_blank(line)).for_each(|line| out.noise(line));
    }
    match found.value {
        Some(Value::Object(object)) => answer(&object, out),
        Some(array) => list(&array, out),
        // `null` is JSON, and has no content.
        None if lenient::value(document.trim()) == Some(Value::Null) => out.quiet(),
        None => {
            let text = ansi::strip(document);
            out.quiet();
            say(text.trim(), out);
        }
    }
}

/// Handles a list: of text blocks, or of objects of which the last that speaks is the answer.
fn list(array: &Value, out: &mut Output<'_>) {
    if let Some(text) = content::blocks(array) {
        return say(&text, out);
    }
    let objects = array.as_array().into_iter().flatten().filter_map(Value::as_object);
    match objects.rev().find(|object| content::find(object).is_some()) {
        Some(object) => answer(object, out),
        None if array.as_array().is_none_or(Vec::is_empty) => out.quiet(),
        None => out.unrecognized(UnrecognizedReason::UnknownType, &array.to_string(), None),
    }
}

fn answer(object: &Map<String, Value>, out: &mut Output<'_>) {
    let string =
        |names: &[&str]| names.iter().find_map(|name| object.get(*name)?.as_str()).map(str::to_owned);
    let native_session =
        string(&["session_id", "sessionId", "sessionID", "thread_id"]).map(NativeSessionId::from);
    let model = string(&["model"]);
    let text = content::find(object);
    let failed = object.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let error = object.get("error").and_then(content::error);
    let usage = object.get("usage").and_then(usage::read);
    let says_nothing = text.is_none() && error.is_none() && usage.is_none() && native_session.is_none();
    if says_nothing && !failed && !object.is_empty() {
        let raw = Value::Object(object.clone()).to_string();
        return out.unrecognized(UnrecognizedReason::UnknownType, &raw, string(&["type"]).as_deref());
    }
    out.quiet();
    if native_session.is_some() || model.is_some() {
        let started = SessionStarted { native_session, model: model.clone(), ..SessionStarted::default() };
        out.emit(Kind::SessionStarted(started));
    }
    // The result is an error message if the program reports a failure.
    if !failed && let Some(text) = &text {
        say(text, out);
    }
    if let Some(usage) = usage {
        let cost_usd = object.get("total_cost_usd").and_then(Value::as_f64);
        out.emit(Kind::UsageReported(UsageReported {
            cost_usd,
            model,
            ..usage::reported(usage, Basis::PerTurn)
        }));
    }
    if failed || error.is_some() {
        out.failed(&Report::of(error.or(text).unwrap_or_default()));
    }
}

fn say(text: &str, out: &mut Output<'_>) {
    out.text(&MessageId::from("m1"), 0, text, None);
}
