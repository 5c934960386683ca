//! `role-lines`: one message a line, `{"role": …, "content": …}`, as chat wrappers print them; or all of them in one
//! `{"messages": […]}`. Output without any JSON is plain text.

use bowline_protocol::kinds::{
    MessageFinished, Phase, ToolOwner, ToolStatus, UnrecognizedReason, UserOrigin,
};
use bowline_protocol::{Basis, Kind};
use serde::Deserialize;
use serde_json::Value;

use super::shaped::ShapedDialect;
use super::text_dedup::MessageNames;
use super::{content, tools};
use crate::dialect::Output;
use crate::{lenient, usage};

/// Reads role lines.
#[derive(Debug, Default)]
pub(crate) struct RoleLines {
    messages: MessageNames,
}

/// A line with a role. Anything may be missing or of another kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RoleLine {
    pub(crate) role: Value,
    pub(crate) content: Value,
    pub(crate) reasoning_content: Value,
    pub(crate) tool_calls: Value,
    pub(crate) tool_call_id: Value,
    pub(crate) usage: Value,
    pub(crate) error: Value,
    #[serde(rename = "type")]
    pub(crate) type_name: Value,
    pub(crate) message: Value,
    pub(crate) messages: Value,
}

impl ShapedDialect for RoleLines {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        lenient::each_object(line, out, |object: RoleLine, out| self.object(line, &object, out));
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        match lenient::value(document) {
            Some(Value::Array(messages)) => self.list(&messages, out),
            Some(value @ Value::Object(_)) => match RoleLine::deserialize(&value) {
                Ok(line) => self.object(document, &line, out),
                Err(_) => out.unrecognized(UnrecognizedReason::BadShape, document, None),
            },
            Some(_) | None => out.unrecognized(UnrecognizedReason::BadShape, document, None),
        }
    }
}

impl RoleLines {
    fn object(&mut self, raw: &str, line: &RoleLine, out: &mut Output<'_>) {
        if message(line, Phase::Final, &mut self.messages, out) {
            return;
        }
        match line.messages.as_array().filter(|_| line.type_name.is_null()) {
            Some(messages) => self.list(messages, out),
            None => other(raw, line, out),
        }
    }

    /// Handles a list of messages.
    fn list(&mut self, messages: &[Value], out: &mut Output<'_>) {
        out.quiet();
        for message in messages {
            let raw = message.to_string();
            // A derived reader would take an array for an object.
            match Some(message).filter(|it| it.is_object()).map(RoleLine::deserialize) {
                // A list in a list is not a message: it would nest without end.
                Some(Ok(line)) if line.messages.is_null() => self.object(&raw, &line, out),
                Some(_) | None => out.unrecognized(UnrecognizedReason::BadShape, &raw, None),
            }
        }
    }
}

/// Handles a line with a role; says no to any other. `phase` is that of an assistant's message.
pub(crate) fn message(
    line: &RoleLine,
    phase: Phase,
    messages: &mut MessageNames,
    out: &mut Output<'_>,
) -> bool {
    match line.role.as_str() {
        Some("assistant") => assistant(line, phase, messages, out),
        Some("user") => {
            out.user(UserOrigin::Replayed, &content::text_of(&line.content).unwrap_or_default(), None);
        }
        Some("tool") => {
            let output = content::text_of(&line.content);
            let id = line.tool_call_id.as_str().unwrap_or("tool");
            out.emit(tools::finished(id, ToolStatus::Completed, output.as_deref()));
        }
        // The operator's own prompt, repeated.
        Some("system" | "developer") => out.quiet(),
        Some(_) | None => return false,
    }
    true
}

fn assistant(line: &RoleLine, phase: Phase, messages: &mut MessageNames, out: &mut Output<'_>) {
    out.quiet();
    let message = messages.next();
    if let Some(thinking) = line.reasoning_content.as_str() {
        out.thinking(&message, 0, thinking, None);
    }
    if let Some(text) = content::text_of(&line.content).filter(|text| !text.is_empty()) {
        out.text(&message, 0, &text, None);
        out.emit(Kind::MessageFinished(MessageFinished { message, phase, model: None }));
    }
    messages.end();
    tools::calls(&line.tool_calls, ToolOwner::Cli, out);
    if let Some(usage) = usage::read(&line.usage) {
        out.emit(usage::reported_event(usage, Basis::PerCall));
    }
}

/// Handles a line without a role: an error, or something unknown.
fn other(raw: &str, line: &RoleLine, out: &mut Output<'_>) {
    let is_error = line.type_name.as_str() == Some("error");
    match content::error(&line.error).or_else(|| is_error.then(|| content::error(&line.message)).flatten()) {
        Some(error) => out.remember_error(&error),
        None => out.unrecognized(UnrecognizedReason::UnknownType, raw, line.type_name.as_str()),
    }
}
