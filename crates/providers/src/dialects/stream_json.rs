//! `stream-json`: the generic reader of JSON lines, for every form in the adapter protocol's event table.
//!
//! One process speaks one of these forms; which one shows line by line. `content` lines are pieces of one message,
//! `item.completed` and role lines are messages of their own. A result that repeats what was said adds nothing.
//! Programs with a dialect of their own are read better by that.

use bowline_protocol::kinds::{
    MessageFinished, ModelChanged, Phase, SessionStarted, StopReason, ToolStatus, TurnOrigin, TurnStarted,
    UnrecognizedReason, UsageReported,
};
use bowline_protocol::{Basis, Kind, NativeSessionId, UsageSource};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::roles::{RoleLine, RoleLines};
use super::said::{Messages, Said, Whole};
use super::{content, tools};
use crate::dialect::{Dialect, Input, Output};
use crate::failure::Report;
use crate::{lenient, usage};

/// Reads JSON lines.
#[derive(Debug, Default)]
pub(crate) struct StreamJson {
    roles: RoleLines,
    messages: Messages,
    /// What was said in this turn.
    said: Said,
}

/// A line. Anything may be missing or of another kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    #[serde(rename = "type")]
    type_name: Value,
    role: Value,
    content: Value,
    text: Value,
    delta: Value,
    message: Value,
    response: Value,
    output: Value,
    result: Value,
    choices: Value,
    messages: Value,
    item: Value,
    usage: Value,
    error: Value,
    is_error: Value,
    status: Value,
    id: Value,
    thread_id: Value,
    session_id: Value,
    model: Value,
    total_cost_usd: Value,
    tool_name: Value,
    tool_id: Value,
    parameters: Value,
    tool_calls: Value,
    tool_call_id: Value,
    reasoning_content: Value,
    level: Value,
}

impl Dialect for StreamJson {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(line) => {
                lenient::each_object(line, out, |object: Line, out| self.object(line, object, out))
            }
            Input::Stderr(_) | Input::Sent(_) | Input::Eof(_) => {}
        }
    }
}

impl StreamJson {
    fn object(&mut self, raw: &str, line: Line, out: &mut Output<'_>) {
        // Owned, because some arms take the line apart.
        let type_name = line.type_name.as_str().unwrap_or_default().to_owned();
        match type_name.as_str() {
            "content" | "text" | "text_delta" => self.piece(raw, &line, out),
            "turn.started" => {
                let native_turn = line.id.as_str().map(str::to_owned);
                out.emit(Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn }));
                out.quiet();
            }
            "thread.started" | "init" | "system" => self.session(&line, out),
            "turn.completed" => {
                self.usage(&line, Basis::Cumulative, out);
                self.end_turn();
                out.completed(None);
            }
            "turn.failed" => {
                self.end_turn();
                out.failed(&Report::of(error_text(&line)));
            }
            "item.started" | "item.updated" | "item.completed" => self.item(raw, &type_name, &line.item, out),
            "error" => out.remember_error(&error_text(&line)),
            "assistant" | "user" if line.message.is_object() => self.envelope(&line, out),
            "result" => self.result(&line, out),
            "tool_use" => {
                let name = line.tool_name.as_str().unwrap_or("tool");
                self.end_message(out);
                out.emit(tools::started(line.tool_id.as_str().unwrap_or(name), name, Some(&line.parameters)));
            }
            "tool_result" => {
                let failed = line.status.as_str() == Some("error");
                let status = if failed { ToolStatus::Failed } else { ToolStatus::Completed };
                out.emit(tools::finished(
                    line.tool_id.as_str().unwrap_or("tool"),
                    status,
                    line.output.as_str(),
                ));
            }
            "" | "message" if line.role.is_string() => self.role(line, out),
            "" => self.untyped(raw, line, out),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(&type_name)),
        }
    }

    /// Takes a piece of the message that is being said.
    fn piece(&mut self, raw: &str, line: &Line, out: &mut Output<'_>) {
        let text = [&line.content, &line.text, &line.delta].into_iter().find_map(content::text_of);
        match text {
            Some(text) => self.say(&text, out),
            None => out.unrecognized(UnrecognizedReason::BadShape, raw, line.type_name.as_str()),
        }
    }

    fn say(&mut self, text: &str, out: &mut Output<'_>) {
        self.said.add(text);
        let message = self.messages.current();
        out.text(&message, 0, text, None);
    }

    /// Says a message that is complete in itself.
    fn say_message(&mut self, text: &str, out: &mut Output<'_>) {
        self.end_message(out);
        self.say(text, out);
        self.end_message(out);
    }

    fn end_message(&mut self, out: &mut Output<'_>) {
        if let Some(message) = self.messages.end() {
            out.emit(Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model: None }));
        }
    }

    fn end_turn(&mut self) {
        self.messages.end();
        self.said = Said::default();
    }

    fn session(&mut self, line: &Line, out: &mut Output<'_>) {
        let id = [&line.thread_id, &line.session_id].into_iter().find_map(Value::as_str);
        let model = line.model.as_str().map(str::to_owned);
        if id.is_none() && model.is_none() {
            return out.quiet();
        }
        let native_session = id.map(NativeSessionId::from);
        out.emit(Kind::SessionStarted(SessionStarted { native_session, model, ..SessionStarted::default() }));
    }

    fn usage(&mut self, line: &Line, basis: Basis, out: &mut Output<'_>) {
        if let Some(usage) = usage::read(&line.usage) {
            out.emit(Kind::UsageReported(UsageReported {
                usage,
                basis,
                source: UsageSource::Reported,
                cost_usd: line.total_cost_usd.as_f64(),
                model: None,
                message: None,
            }));
        }
    }

    /// Takes an item: a message, a thought, or the work of a tool.
    fn item(&mut self, raw: &str, phase: &str, item: &Value, out: &mut Output<'_>) {
        let text =
            item.get("text").or_else(|| item.get("agent_message")?.get("text")).and_then(Value::as_str);
        let id = item.get("id").and_then(Value::as_str).unwrap_or("item");
        let complete = phase == "item.completed";
        match item.get("type").and_then(Value::as_str) {
            // Only when it is complete: started and updated would say it again.
            Some("agent_message" | "assistant_message") | None => match text {
                Some(text) if complete => self.say_message(text, out),
                Some(_) => out.quiet(),
                None => out.unrecognized(UnrecognizedReason::BadShape, raw, Some(phase)),
            },
            Some("reasoning") => {
                out.quiet();
                if let (true, Some(text)) = (complete, text) {
                    let message = self.messages.current();
                    out.thinking(&message, 0, text, None);
                }
            }
            Some("error") => {
                let warning = item.get("message").and_then(Value::as_str).unwrap_or_default();
                out.notice(bowline_protocol::kinds::Level::Warn, warning);
            }
            Some(name) => {
                self.end_message(out);
                if complete {
                    let failed = item.get("status").and_then(Value::as_str) == Some("failed");
                    let status = if failed { ToolStatus::Failed } else { ToolStatus::Completed };
                    let output = item.get("aggregated_output").and_then(Value::as_str);
                    out.emit(tools::finished(id, status, output));
                } else if phase == "item.started" {
                    out.emit(tools::started(id, name, Some(item)));
                } else {
                    out.quiet();
                }
            }
        }
    }

    /// Takes a whole message in an envelope: `{"type":"assistant","message":{"content":[…]}}`.
    fn envelope(&mut self, line: &Line, out: &mut Output<'_>) {
        out.quiet();
        let assistant = line.type_name.as_str() == Some("assistant");
        let inner = line.message.get("content").cloned().unwrap_or_default();
        let Some(blocks) = inner.as_array() else {
            let role = if assistant { "assistant" } else { "user" };
            return self.role(Line { role: role.into(), content: inner, ..Line::default() }, out);
        };
        for block in blocks {
            let text = |key: &str| block.get(key).and_then(Value::as_str);
            match text("type") {
                Some("text") if assistant => self.say_message(text("text").unwrap_or_default(), out),
                Some("thinking") if assistant => {
                    let message = self.messages.current();
                    out.thinking(&message, 0, text("thinking").or(text("text")).unwrap_or_default(), None);
                }
                Some("tool_use") => {
                    let name = text("name").unwrap_or("tool");
                    out.emit(tools::started(text("id").unwrap_or(name), name, block.get("input")));
                }
                Some("tool_result") => {
                    let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
                    let status = if failed { ToolStatus::Failed } else { ToolStatus::Completed };
                    let output = block.get("content").and_then(content::text_of);
                    out.emit(tools::finished(
                        text("tool_use_id").unwrap_or("tool"),
                        status,
                        output.as_deref(),
                    ));
                }
                _ => {}
            }
        }
    }

    /// Takes the result of a turn: its text only if it was not said before.
    fn result(&mut self, line: &Line, out: &mut Output<'_>) {
        self.session(line, out);
        let failed = line.is_error.as_bool().unwrap_or(false) || line.status.as_str() == Some("error");
        if failed {
            self.usage(line, Basis::PerTurn, out);
            self.end_turn();
            return out.failed(&Report::of(error_text(line)));
        }
        if let Some(text) = line.result.as_str() {
            match self.said.compare(text) {
                Whole::Adds(text) if self.said.is_empty() => self.say_message(text, out),
                // Part of it was said in pieces or in other messages: the pieces stand.
                Whole::Known | Whole::Adds(_) | Whole::Differs => {}
            }
        }
        self.usage(line, Basis::PerTurn, out);
        self.end_turn();
        out.completed(Some(StopReason::EndTurn));
    }

    /// Takes a line with a role.
    fn role(&mut self, line: Line, out: &mut Output<'_>) {
        let piece = line.delta.as_bool() == Some(true);
        if piece && line.role.as_str() == Some("assistant") {
            let text = content::text_of(&line.content).unwrap_or_default();
            return self.say(&text, out);
        }
        self.end_message(out);
        let Line { role, content, tool_calls, tool_call_id, usage, reasoning_content, .. } = line;
        let message = RoleLine {
            role,
            content,
            tool_calls,
            tool_call_id,
            usage,
            reasoning_content,
            ..RoleLine::default()
        };
        if let Some(text) = content::text_of(&message.content).filter(|_| message.role == "assistant") {
            self.said.add(&text);
        }
        if !self.roles.message(&message, out) {
            return out.unrecognized(UnrecognizedReason::UnknownType, "", message.role.as_str());
        }
        // Programs that print role lines have no other way to end than to end.
        out.complete_at_eof(None);
    }

    /// Takes a line that says neither what it is nor whose.
    fn untyped(&mut self, raw: &str, line: Line, out: &mut Output<'_>) {
        if let Some(error) = content::error(&line.error) {
            return out.remember_error(&error);
        }
        if !line.level.is_null() {
            // A structured log line. Its message is nobody's answer.
            return out.noise(raw);
        }
        let model = line.model.as_str().map(str::to_owned);
        let Line { content, text, response, message, output, result, choices, messages, .. } = line;
        let fields = [
            ("content", content),
            ("text", text),
            ("response", response),
            ("message", message),
            ("output", output),
            ("result", result),
            ("choices", choices),
            ("messages", messages),
        ];
        let object: Map<String, Value> =
            fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let Some(text) = content::find(&object) else {
            return out.unrecognized(UnrecognizedReason::UnknownType, raw, None);
        };
        if let Some(model) = model {
            out.emit(Kind::ModelChanged(ModelChanged { model, reason: None }));
        }
        self.say(&text, out);
        out.complete_at_eof(None);
    }
}

/// Returns what a line says about an error, wherever it says it.
fn error_text(line: &Line) -> String {
    let whole = [&line.error, &line.message, &line.result, &line.text, &line.content];
    whole.into_iter().find_map(content::error).unwrap_or_else(|| "the program reported an error".to_owned())
}
