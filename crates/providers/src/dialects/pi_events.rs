//! `pi-events`: protocol A of the external CLI provider.
//!
//! An assistant message that stops for a reason other than a tool ends the answer; `agent_end` reports it early, and the
//! end of the output at last. A message that ends in an error may be retried, so the error counts only when
//! nothing better follows.

use bowline_protocol::kinds::{
    Phase, Retrying, SessionStarted, StopReason, UnrecognizedReason, UsageReported, UserOrigin,
};
use bowline_protocol::{Basis, Category, Kind, Millis, NativeSessionId};
use serde::Deserialize;
use serde_json::Value;

use super::speech::{BlockKind, MessageBlocks, ToolOutputs};
use super::{content, tools};
use crate::dialect::{Dialect, Input, Output};
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;
use crate::{lenient, usage};

/// Reads pi-style events.
#[derive(Debug, Default)]
pub(crate) struct PiEvents {
    speech: MessageBlocks,
    outputs: ToolOutputs,
    /// How the last assistant message ended.
    ending: Option<PiEventsEnding>,
}

#[derive(Debug)]
enum PiEventsEnding {
    Done(StopReason),
    Failed(String),
    Aborted,
}

/// A line. Anything may be missing or of another kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PiEventsLine {
    #[serde(rename = "type")]
    type_name: Value,
    id: Value,
    cwd: Value,
    message: Value,
    assistant_message_event: Value,
    tool_call_id: Value,
    tool_name: Value,
    args: Value,
    partial_result: Value,
    result: Value,
    is_error: Value,
    will_retry: Value,
    attempt: Value,
    max_attempts: Value,
    delay_ms: Value,
    error_message: Value,
}

impl Dialect for PiEvents {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line("[DONE]") => out.quiet(),
            Input::Line(line) => {
                lenient::each_object(line, out, |object: PiEventsLine, out| self.object(line, &object, out))
            }
            // The protocol has no other event for the end of a turn that was aborted.
            Input::Eof(_) if matches!(self.ending, Some(PiEventsEnding::Aborted)) => out.cancelled(),
            Input::Stderr(_) | Input::Sent(_) | Input::Eof(_) => {}
        }
    }
}

impl PiEvents {
    fn object(&mut self, raw: &str, line: &PiEventsLine, out: &mut Output<'_>) {
        let type_name = line.type_name.as_str().unwrap_or_default();
        match type_name {
            "session" => out.emit(Kind::SessionStarted(SessionStarted {
                native_session: line.id.as_str().map(NativeSessionId::from),
                cwd: line.cwd.as_str().map(str::to_owned),
                ..SessionStarted::default()
            })),
            "message_start" => self.message_start(&line.message, out),
            "message_update" => self.update(raw, &line.assistant_message_event, out),
            "message_end" => self.message_end(&line.message, out),
            "tool_execution_start" => {
                let name = line.tool_name.as_str().unwrap_or("tool");
                out.incomplete_at_eof();
                out.emit(tools::started(tool_id(line), name, Some(&line.args)));
            }
            "tool_execution_update" => {
                let text = result_text(&line.partial_result).unwrap_or_default();
                self.outputs.update(tool_id(line), &text, out);
            }
            "tool_execution_end" => {
                self.outputs.end(tool_id(line));
                let failed = line.is_error.as_bool().unwrap_or(false);
                let output = result_text(&line.result);
                out.emit(tools::finished(tool_id(line), tools::status(failed), output.as_deref()));
            }
            "agent_end" => self.agent_end(line, out),
            "auto_retry_start" => retrying(line, out),
            "agent_start" | "turn_start" | "turn_end" | "agent_settled" | "auto_retry_end"
            | "entry_appended" | "queue_update" => out.quiet(),
            _ => out.unrecognized(
                UnrecognizedReason::UnknownType,
                raw,
                Some(type_name).filter(|name| !name.is_empty()),
            ),
        }
    }

    fn message_start(&mut self, message: &Value, out: &mut Output<'_>) {
        out.quiet();
        if message.get("role").and_then(Value::as_str) == Some("assistant") {
            self.speech.begin(out);
            self.ending = None;
            out.incomplete_at_eof();
        }
    }

    /// Handles a piece of the current message.
    fn update(&mut self, raw: &str, event: &Value, out: &mut Output<'_>) {
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let block = event
            .get("contentIndex")
            .and_then(Value::as_u64)
            .and_then(|at| u32::try_from(at).ok())
            .unwrap_or(0);
        match text("type") {
            Some("text_delta") => {
                self.speech.say(block, text("delta").unwrap_or_default(), BlockKind::Text, out)
            }
            Some("thinking_delta") => {
                self.speech.say(block, text("delta").unwrap_or_default(), BlockKind::Thinking, out)
            }
            // The end of a block repeats it whole: what its pieces left out is added.
            Some("text_end") => {
                self.speech.whole(block, text("content").unwrap_or_default(), BlockKind::Text, out)
            }
            Some("thinking_end") => {
                self.speech.whole(block, text("content").unwrap_or_default(), BlockKind::Thinking, out)
            }
            Some("start" | "text_start" | "thinking_start" | "done" | "error") => out.quiet(),
            // The program runs its tools itself and reports that in `tool_execution_*`.
            Some("toolcall_start" | "toolcall_delta" | "toolcall_end") => out.quiet(),
            other => out.unrecognized(UnrecognizedReason::UnknownType, raw, other),
        }
    }

    fn message_end(&mut self, message: &Value, out: &mut Output<'_>) {
        out.quiet();
        match message.get("role").and_then(Value::as_str) {
            Some("user") => {
                let text = message.get("content").and_then(content::text_of).unwrap_or_default();
                out.user(UserOrigin::Replayed, &text, None);
            }
            // A message without a role is the assistant's: only that one is updated in pieces.
            Some("assistant") | None => self.assistant_end(message, out),
            Some(_) => {}
        }
    }

    fn assistant_end(&mut self, message: &Value, out: &mut Output<'_>) {
        let mut calls_tools = false;
        if let Some(text) = message.get("content").and_then(Value::as_str) {
            self.speech.correct(0, text, out);
            self.speech.whole(0, text, BlockKind::Text, out);
        }
        for (place, block) in
            message.get("content").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
            match text("type") {
                "text" => {
                    self.speech.correct(place, text("text"), out);
                    self.speech.whole(place, text("text"), BlockKind::Text, out);
                }
                "thinking" => self.speech.whole(place, text("thinking"), BlockKind::Thinking, out),
                "toolCall" => calls_tools = true,
                _ => {}
            }
        }
        let model = message.get("model").and_then(Value::as_str).map(str::to_owned);
        let id = self.speech.message();
        if let Some(usage) = message.get("usage").and_then(usage::read) {
            out.emit(Kind::UsageReported(UsageReported {
                cost_usd: message.get("usage").and_then(|usage| usage.get("cost")?.get("total")?.as_f64()),
                model: model.clone(),
                message: Some(id),
                ..usage::reported(usage, Basis::PerCall)
            }));
        }
        // The specification has no commentary messages.
        self.speech.finish(Phase::Final, model.as_deref(), out);
        self.settle(message, calls_tools, out);
    }

    /// Decides what it would mean if the output ended after this message.
    fn settle(&mut self, message: &Value, calls_tools: bool, out: &mut Output<'_>) {
        out.incomplete_at_eof();
        out.forget_errors();
        self.ending = match message.get("stopReason").and_then(Value::as_str) {
            Some("toolUse") => None,
            Some("error") => {
                let error = message
                    .get("errorMessage")
                    .and_then(Value::as_str)
                    .unwrap_or("the program reported an error");
                out.remember_error(error);
                Some(PiEventsEnding::Failed(error.to_owned()))
            }
            Some("aborted") => Some(PiEventsEnding::Aborted),
            Some("length") => Some(PiEventsEnding::Done(StopReason::MaxTokens)),
            None if calls_tools => None,
            Some(_) | None => Some(PiEventsEnding::Done(StopReason::EndTurn)),
        };
        if let Some(PiEventsEnding::Done(stop)) = &self.ending {
            out.complete_at_eof(Some(*stop));
        }
    }

    fn agent_end(&mut self, line: &PiEventsLine, out: &mut Output<'_>) {
        out.quiet();
        if line.will_retry.as_bool() == Some(true) {
            return;
        }
        match self.ending.take() {
            Some(PiEventsEnding::Done(stop)) => out.completed(Some(stop)),
            Some(PiEventsEnding::Failed(error)) => out.failed(&Report::of(error)),
            Some(PiEventsEnding::Aborted) => out.cancelled(),
            // There was no text; the exit code decides.
            None => out.complete_at_eof(None),
        }
    }
}

fn tool_id(line: &PiEventsLine) -> &str {
    line.tool_call_id.as_str().unwrap_or("tool")
}

/// Returns the text of a tool's result: `{"content":[{"type":"text","text":…}]}`, or a bare string.
fn result_text(result: &Value) -> Option<String> {
    result.as_str().map(str::to_owned).or_else(|| content::text_of(result.get("content")?))
}

fn retrying(line: &PiEventsLine, out: &mut Output<'_>) {
    let message = line.error_message.as_str().unwrap_or_default();
    let number = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
    let evidence = Evidence { text: message, ..Evidence::default() };
    let category: Category =
        failure::classify(&evidence, &Moment::utc(bowline_protocol::Timestamp::EPOCH)).category;
    out.forget_errors();
    out.emit(Kind::Retrying(Retrying {
        attempt: number(&line.attempt),
        max_attempts: number(&line.max_attempts),
        delay_ms: line.delay_ms.as_u64().map(Millis),
        category,
        message: message.to_owned(),
    }));
}
