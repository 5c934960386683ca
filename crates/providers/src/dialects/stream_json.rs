//! `stream-json`: the generic reader of JSON lines, for every form in the adapter protocol's event table.
//!
//! One process uses one of these forms; each line shows which one. `content` lines are pieces of one message,
//! `item.completed` and role lines are messages of their own. A result that repeats earlier text adds nothing.
//! Programs with a dialect of their own are read better by that one.

mod items;

use bowline_protocol::kinds::{
    MessageFinished, ModelChanged, Phase, SessionStarted, StopReason, TurnOrigin, TurnStarted,
    UnrecognizedReason, UsageReported,
};
use bowline_protocol::{Basis, Kind, NativeSessionId};
use serde::Deserialize;
use serde_json::{Map, Value};

use self::items::Items;
use super::roles::{self, RoleLine};
use super::text_dedup::{MessageNames, TextSoFar, WholeText};
use super::{content, tools};
use crate::dialect::{Dialect, Input, Output};
use crate::failure::Report;
use crate::{lenient, usage};

/// Reads JSON lines.
#[derive(Debug, Default)]
pub(crate) struct StreamJson {
    speech: StreamJsonText,
    items: Items,
    /// The cost of the session at the last result.
    cost: f64,
}

/// The same, for the documented forms inside another dialect, which names messages of its own.
#[derive(Debug)]
pub(crate) struct Documented(pub(crate) StreamJson);

impl Default for Documented {
    fn default() -> Self {
        let speech = StreamJsonText { messages: MessageNames::named("d"), ..StreamJsonText::default() };
        Self(StreamJson { speech, ..StreamJson::default() })
    }
}

/// The current message.
#[derive(Debug, Default)]
struct StreamJsonText {
    messages: MessageNames,
    /// The text of the current or last message of this turn.
    said: TextSoFar,
    block: u32,
    /// Whether the current message is complete in itself, so that the next piece begins another.
    whole: bool,
    /// The program's own name for the current message.
    native: Option<String>,
}

/// A line. Anything may be missing or of another kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamJsonLine {
    #[serde(rename = "type")]
    type_name: Value,
    subtype: Value,
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
    stats: Value,
    error: Value,
    errors: Value,
    is_error: Value,
    status: Value,
    id: Value,
    thread_id: Value,
    session_id: Value,
    model: Value,
    total_cost_usd: Value,
    num_turns: Value,
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
                lenient::each_object(line, out, |object: StreamJsonLine, out| self.object(line, object, out));
            }
            Input::Stderr(_) | Input::Sent(_) | Input::Eof(_) => {}
        }
    }
}

impl StreamJson {
    fn object(&mut self, raw: &str, line: StreamJsonLine, out: &mut Output<'_>) {
        // Owned, because some arms take the line apart.
        let type_name = line.type_name.as_str().unwrap_or_default().to_owned();
        match type_name.as_str() {
            "content" | "text" | "text_delta" => self.piece(raw, &line, out),
            "turn.started" => {
                let native_turn = line.id.as_str().map(str::to_owned);
                out.emit(Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn }));
            }
            "thread.started" | "init" | "system" => session(&line, out),
            "turn.completed" => {
                if let Some(usage) = usage::read(&line.usage) {
                    out.emit(usage::reported_event(usage, Basis::Cumulative));
                }
                self.end_turn();
                out.completed(None);
            }
            "turn.failed" => {
                self.end_turn();
                out.failed(&Report::of(error_text(&line)));
            }
            "item.started" | "item.updated" | "item.completed" => {
                self.items.take(raw, &type_name, &line.item, &mut self.speech, out);
            }
            "error" => out.remember_error(&error_text(&line)),
            "assistant" | "user" if line.message.is_object() => self.envelope(&line, out),
            "result" => self.result(&line, out),
            "tool_use" => {
                let name = line.tool_name.as_str().unwrap_or("tool");
                self.speech.end(out);
                out.emit(tools::started(line.tool_id.as_str().unwrap_or(name), name, Some(&line.parameters)));
            }
            "tool_result" => {
                let status = tools::status(line.status.as_str() == Some("error"));
                out.emit(tools::finished(
                    line.tool_id.as_str().unwrap_or("tool"),
                    status,
                    line.output.as_str(),
                ));
            }
            "" | "message" if line.role.is_string() => self.role(raw, line, out),
            "" => self.untyped(raw, line, out),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(&type_name)),
        }
    }

    /// Handles a piece of the current message.
    fn piece(&mut self, raw: &str, line: &StreamJsonLine, out: &mut Output<'_>) {
        let text = [&line.content, &line.text, &line.delta].into_iter().find_map(content::text_of);
        match text {
            Some(text) => self.speech.say(&text, out),
            None => out.unrecognized(UnrecognizedReason::BadShape, raw, line.type_name.as_str()),
        }
    }

    /// Ends the turn's text. The turn finishes the open message.
    fn end_turn(&mut self) {
        let messages = std::mem::take(&mut self.speech.messages);
        self.speech = StreamJsonText { messages: messages.without_current(), ..StreamJsonText::default() };
        self.items = Items::default();
    }

    /// Handles a whole message in an envelope: `{"type":"assistant","message":{"content":[…]}}`.
    fn envelope(&mut self, line: &StreamJsonLine, out: &mut Output<'_>) {
        out.quiet();
        let assistant = line.type_name.as_str() == Some("assistant");
        let inner = line.message.get("content").cloned().unwrap_or_default();
        let Some(blocks) = inner.as_array() else {
            let role = if assistant { "assistant" } else { "user" };
            return self.role(
                "",
                StreamJsonLine { role: role.into(), content: inner, ..StreamJsonLine::default() },
                out,
            );
        };
        let id = line.message.get("id").and_then(Value::as_str);
        for block in blocks {
            let text = |key: &str| block.get(key).and_then(Value::as_str);
            match text("type") {
                Some("text") if assistant => {
                    self.speech.say_block(id, text("text").unwrap_or_default(), out);
                }
                Some("thinking") if assistant => {
                    self.speech.think(text("thinking").or(text("text")).unwrap_or_default(), out);
                }
                Some("tool_use") => {
                    let name = text("name").unwrap_or("tool");
                    out.emit(tools::started(text("id").unwrap_or(name), name, block.get("input")));
                }
                Some("tool_result") => {
                    let status =
                        tools::status(block.get("is_error").and_then(Value::as_bool).unwrap_or(false));
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
        self.speech.whole = true;
    }

    /// Handles the result of a turn: only text that was not printed before counts.
    fn result(&mut self, line: &StreamJsonLine, out: &mut Output<'_>) {
        session(line, out);
        let failed = line.is_error.as_bool().unwrap_or(false)
            || line.status.as_str() == Some("error")
            || line.subtype.as_str().is_some_and(|subtype| subtype.starts_with("error"));
        if let (false, Some(text)) = (failed, line.result.as_str()) {
            self.speech.repeat(text, out);
        }
        // The cost is that of the whole session so far.
        let cost = line.total_cost_usd.as_f64();
        let since = cost.map(|cost| (cost - std::mem::replace(&mut self.cost, cost)).max(0.0));
        if let Some(usage) = usage::read(&line.usage).or_else(|| usage::read(&line.stats)) {
            let report = UsageReported { cost_usd: since, ..usage::reported(usage, Basis::PerTurn) };
            out.emit(Kind::UsageReported(report));
        }
        self.end_turn();
        out.num_turns(line.num_turns.as_u64());
        if failed {
            out.failed(&Report::of(error_text(line)))
        } else {
            out.completed(Some(StopReason::EndTurn))
        }
    }

    /// Handles a line with a role.
    fn role(&mut self, raw: &str, line: StreamJsonLine, out: &mut Output<'_>) {
        let piece = line.delta.as_bool() == Some(true);
        if piece && line.role.as_str() == Some("assistant") {
            let text = content::text_of(&line.content).unwrap_or_default();
            return self.speech.say(&text, out);
        }
        self.speech.end(out);
        let StreamJsonLine { role, content, tool_calls, tool_call_id, usage, reasoning_content, .. } = line;
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
            self.speech.said = TextSoFar::default();
            self.speech.said.add(&text);
        }
        if !roles::message(&message, Phase::Final, &mut self.speech.messages, out) {
            return out.unrecognized(UnrecognizedReason::UnknownType, raw, None);
        }
        // Programs that print role lines end a turn only by exiting.
        out.complete_at_eof(None);
    }

    /// Handles a line without a type and a role.
    fn untyped(&mut self, raw: &str, line: StreamJsonLine, out: &mut Output<'_>) {
        if let Some(error) = content::error(&line.error) {
            return out.remember_error(&error);
        }
        if !line.level.is_null() {
            // A structured log line. Its message is not an answer.
            return out.noise(raw);
        }
        let model = line.model.as_str().map(str::to_owned);
        let StreamJsonLine { content, text, response, message, output, result, choices, messages, .. } = line;
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
        self.speech.say(&text, out);
        out.complete_at_eof(None);
    }
}

impl StreamJsonText {
    /// Emits a piece of the current message.
    fn say(&mut self, text: &str, out: &mut Output<'_>) {
        if self.whole {
            self.end(out);
        }
        if !self.messages.is_open() {
            self.said = TextSoFar::default();
        }
        self.said.add(text);
        let message = self.messages.current();
        out.text(&message, self.block, text, None);
    }

    /// Emits a message that is complete in itself.
    fn say_whole(&mut self, text: &str, out: &mut Output<'_>) {
        self.end(out);
        self.say(text, out);
        self.whole = true;
    }

    /// Emits a block of a message with an id, or of one that ends with its line.
    fn say_block(&mut self, native: Option<&str>, text: &str, out: &mut Output<'_>) {
        let same = native.is_some() && self.native.as_deref() == native;
        if self.whole && !same {
            self.end(out);
        }
        self.whole = false;
        self.native = native.map(str::to_owned);
        self.say(text, out);
        self.block += 1;
    }

    fn think(&mut self, text: &str, out: &mut Output<'_>) {
        if self.whole {
            self.end(out);
        }
        let message = self.messages.current();
        out.thinking(&message, self.block, text, None);
    }

    /// Handles the answer once more, as a whole. Adds the part that the last message lacks; another, longer text is a
    /// message of its own.
    fn repeat(&mut self, text: &str, out: &mut Output<'_>) {
        match self.said.compare(text) {
            WholeText::Known => {}
            WholeText::Adds(new) if self.messages.is_open() => {
                self.whole = false;
                self.say(new, out);
            }
            WholeText::Adds(_) => self.say_whole(text, out),
            WholeText::Differs if self.said.is_shorter_than(text) => self.say_whole(text, out),
            WholeText::Differs => {}
        }
    }

    /// Ends the current message.
    fn end(&mut self, out: &mut Output<'_>) {
        self.whole = false;
        self.block = 0;
        self.native = None;
        if let Some(message) = self.messages.end() {
            out.emit(Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model: None }));
        }
    }
}

fn session(line: &StreamJsonLine, out: &mut Output<'_>) {
    let id = [&line.thread_id, &line.session_id].into_iter().find_map(Value::as_str);
    let model = line.model.as_str().map(str::to_owned);
    if id.is_none() && model.is_none() {
        return out.quiet();
    }
    let native_session = id.map(NativeSessionId::from);
    out.emit(Kind::SessionStarted(SessionStarted { native_session, model, ..SessionStarted::default() }));
}

/// Returns the error message of a line, wherever it is.
fn error_text(line: &StreamJsonLine) -> String {
    let several: Vec<&str> = line.errors.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !several.is_empty() {
        return several.join("; ");
    }
    let whole = [&line.error, &line.message, &line.result, &line.text, &line.content];
    let told = whole.into_iter().find_map(content::error);
    told.or_else(|| line.subtype.as_str().map(str::to_owned))
        .unwrap_or_else(|| "the program reported an error".to_owned())
}
