//! `simple`: protocol B of the external CLI provider, for programs without events of their own.

use bowline_protocol::kinds::{MessageFinished, Phase, UnrecognizedReason};
use bowline_protocol::{Basis, Kind};
use serde::Deserialize;
use serde_json::Value;

use super::text_dedup::MessageNames;
use super::{content, tools};
use crate::dialect::{Dialect, Input, Output};
use crate::{lenient, usage};

/// Reads simple events.
#[derive(Debug, Default)]
pub(crate) struct SimpleEvents {
    messages: MessageNames,
}

/// A line. Anything may be missing or of another kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SimpleLine {
    #[serde(rename = "type")]
    type_name: Value,
    delta: Value,
    id: Value,
    name: Value,
    arguments: Value,
    content: Value,
    #[serde(rename = "isError")]
    is_error: Value,
    error: Value,
    message: Value,
    usage: Value,
}

impl Dialect for SimpleEvents {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            // The sentinel with which event streams of model APIs end.
            Input::Line("[DONE]") => out.quiet(),
            Input::Line(line) => {
                lenient::each_object(line, out, |object: SimpleLine, out| self.object(line, &object, out))
            }
            Input::Stderr(_) | Input::Sent(_) | Input::Eof(_) => {}
        }
    }
}

impl SimpleEvents {
    fn object(&mut self, raw: &str, line: &SimpleLine, out: &mut Output<'_>) {
        let type_name = line.type_name.as_str();
        match type_name {
            Some(kind @ ("text" | "thinking")) => {
                let Some(delta) = line.delta.as_str().or(line.content.as_str()) else {
                    return out.unrecognized(UnrecognizedReason::BadShape, raw, type_name);
                };
                let message = self.messages.current();
                if kind == "text" {
                    out.text(&message, 0, delta, None);
                } else {
                    out.thinking(&message, 0, delta, None);
                }
            }
            Some("tool_call") => {
                self.end_message(out);
                let name = line.name.as_str().unwrap_or("tool");
                out.emit(tools::started(line.id.as_str().unwrap_or(name), name, Some(&line.arguments)));
            }
            Some("tool_result") => {
                self.end_message(out);
                let failed = line.is_error.as_bool().unwrap_or(false);
                let told = Some(&line.content).filter(|content| !content.is_null());
                let output =
                    told.map(|content| content::text_of(content).unwrap_or_else(|| content.to_string()));
                out.emit(tools::finished(
                    line.id.as_str().unwrap_or("tool"),
                    tools::status(failed),
                    output.as_deref(),
                ));
            }
            Some("done") => {
                self.end_message(out);
                if let Some(usage) = usage::read(&line.usage) {
                    out.emit(usage::reported_event(usage, Basis::PerTurn));
                }
                // The exit code decides.
                out.quiet();
            }
            Some("error") => {
                let error = [&line.error, &line.message, &line.content].into_iter().find_map(content::error);
                out.remember_error(&error.unwrap_or_else(|| "the program reported an error".to_owned()));
            }
            Some(_) | None => out.unrecognized(UnrecognizedReason::UnknownType, raw, type_name),
        }
    }

    fn end_message(&mut self, out: &mut Output<'_>) {
        if let Some(message) = self.messages.end() {
            out.emit(Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model: None }));
        }
    }
}
