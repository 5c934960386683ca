//! `qwen`: what Qwen Code prints, whatever the shape.
//!
//! Its lines look like Claude Code's. Every turn begins with `init` and ends with `result`, except that limits of
//! turns, calls and time end it with an exit code only. The result repeats the text; its usage counts the whole
//! session, with calls that the stream does not show.

use std::collections::HashMap;

use bowline_protocol::kinds::{
    Level, ModelChanged, Retrying, SessionStarted, StopReason, TurnOrigin, TurnStarted, UnrecognizedReason,
    UsageReported, UserOrigin,
};
use bowline_protocol::{
    Basis, Category, Excerpt, Exit, Kind, MessageId, Millis, NativeSessionId, Timestamp, ToolId, Usage,
    UsageSource,
};
use serde::Deserialize;
use serde_json::Value;

use super::approvals::Control;
use super::failures::{self, RetryNotice};
use super::messages::{ERROR, HeldTextVerdict, PartialToolCall, QwenMessages};
use super::session;
use super::tools::{self, QwenTools};
use super::wire::{self, QwenBlockKind, QwenLine};
use crate::decode::{Cause, End};
use crate::dialect::{Dialect, Input, Output};
use crate::dialects::content;
use crate::dialects::shaped::ShapedDialect;
use crate::dialects::stream_json::Documented;
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;
use crate::{ansi, lenient};

/// Reads Qwen Code.
#[derive(Debug, Default)]
pub(crate) struct Qwen {
    /// For the forms of the adapter protocol, which this program does not print but others in its name do.
    generic: Documented,
    /// The messages of the agent.
    speech: QwenMessages,
    /// The messages of its sub-agents, by the tool call that runs them.
    others: HashMap<String, QwenMessages>,
    work: QwenTools,
    control: Control,
    /// Whether anything of its JSON was read.
    speaks_json: bool,
    /// Whether the session was named.
    named: bool,
    /// Whether the program calls every turn a success, as 0.15.10 does.
    always_succeeds: bool,
    /// Retries, and their reports on standard error: standard output has none.
    retried: Option<(Category, String)>,
}

/// How many sub-agents are remembered.
const MOST_OTHERS: usize = 1024;

impl ShapedDialect for Qwen {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        if let Some(piece) = wire::piece(line) {
            self.retried = None;
            return self.speech_of(piece.parent.as_deref()).piece(piece.sort, &piece.text, out);
        }
        let mut place = 0;
        let mut foreign = false;
        lenient::each_object(line, out, |object: QwenLine, out| {
            let known = self.object(line, &object, out);
            if !known && place == 0 {
                foreign = true;
            }
            place += 1;
        });
        if foreign {
            self.generic.0.handle(Input::Line(line), out);
        }
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        let Some(Value::Array(objects)) = lenient::value(document) else {
            // One object: a line of its own, or an object of the adapter protocol.
            return self.line(&document.replace('\n', " "), out);
        };
        out.quiet();
        for object in objects {
            let raw = object.to_string();
            match QwenLine::deserialize(object) {
                Ok(line) if self.object(&raw, &line, out) => {}
                Ok(_) => self.generic.0.handle(Input::Line(&raw), out),
                Err(_) => out.noise(&raw),
            }
        }
    }

    fn text_was_error(&mut self, tail: &str, _: &End) -> Option<Report> {
        let text = ansi::strip(tail);
        let text = text.trim();
        (text.starts_with(ERROR) && text.ends_with(']')).then(|| failures::report(text))
    }

    fn stderr(&mut self, line: &str, out: &mut Output<'_>) {
        let line = ansi::strip(line);
        // 0.24.4 waits 60 s after a 429, up to 10 times. `system/retry` on stdout comes only sometimes, and without the reason.
        let Some(notice) = RetryNotice::read(&line) else { return };
        let report = failures::report(notice.reason);
        let evidence = Evidence { report: Some(&report), ..Evidence::default() };
        let category = failure::classify(&evidence, &Moment::utc(Timestamp::EPOCH)).category;
        let message = Excerpt::with_limit(notice.reason, 2048).text;
        // If a deadline stops the program in the meantime, this is the reason of the failure.
        out.waits_for(category, &message);
        self.retried = Some((category, message.clone()));
        // The JSON formats report the same retry on standard output, without its reason.
        if !self.speaks_json {
            out.emit(Kind::Retrying(Retrying {
                attempt: Some(notice.attempt),
                max_attempts: Some(notice.most),
                delay_ms: notice.delay,
                category,
                message,
            }));
        }
    }

    fn sent(&mut self, line: &str, out: &mut Output<'_>) {
        if let Ok(line) = serde_json::from_str::<QwenLine>(line) {
            self.control.sent(&line, out);
        }
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        self.control.end(out);
        if !out.awaits_verdict() {
            return;
        }
        let left = failures::left_on_stderr(out.stderr);
        let failed = end.exit.is_some_and(|exit| !exit.is_success());
        // The limits of turns and calls end the program without a `result` (exit codes 53 and 55 in 0.24.4).
        let told = if failed { HeldTextVerdict::Failed(left.trim()) } else { HeldTextVerdict::Nothing };
        let error = self.speech.settle(told, out);
        match end.cause {
            Cause::Cancelled => return,
            _ if out.gave_up(end) => return,
            Cause::TimedOut => return out.failed(&failures::timed_out(&left)),
            Cause::Exited => {}
        }
        if failed && left.lines().last().is_some_and(failures::is_cancelled) {
            return out.cancelled();
        }
        if let Some(error) = error {
            return out.failed(&failures::report(&error));
        }
        match end.exit {
            // Success without a result, and Ctrl-C, are the account's to judge.
            None | Some(Exit::Code(0) | Exit::Signal(2)) => {}
            Some(Exit::Code(130)) if left.is_empty() => out.cancelled(),
            Some(Exit::Code(code)) => {
                let said = if left.is_empty() { format!("exit code {code}") } else { left };
                let mut report = failures::report(&said);
                failures::by_exit(code, &mut report);
                out.failed(&report.settled("", end.exit));
            }
            Some(Exit::Signal(signal)) => {
                let said = if left.is_empty() { format!("ended by signal {signal}") } else { left };
                out.failed(&failures::report(&said).settled("", end.exit));
            }
        }
    }
}

impl Qwen {
    /// Handles a line of one of the program's own types. Returns `false` for any other.
    fn object(&mut self, raw: &str, line: &QwenLine, out: &mut Output<'_>) -> bool {
        match line.type_name.as_str() {
            Some("system") => self.system(raw, line, out),
            Some("stream_event") => self.event(raw, line, out),
            Some("assistant") if line.message.is_object() => self.assistant(line, out),
            Some("user") if line.message.is_object() => self.user(line, out),
            Some("result") => self.result(line, out),
            Some("control_request") => self.control.request(raw, line, out),
            Some("control_response") => self.control.response(line, out),
            Some("control_cancel_request") => self.control.cancel_request(line, out),
            _ => return false,
        }
        self.speaks_json = true;
        true
    }

    fn speech_of(&mut self, parent: Option<&str>) -> &mut QwenMessages {
        let Some(parent) = parent else { return &mut self.speech };
        if self.others.len() >= MOST_OTHERS && !self.others.contains_key(parent) {
            self.others.clear();
        }
        self.others.entry(parent.to_owned()).or_insert_with(|| QwenMessages::of(Some(ToolId::from(parent))))
    }

    fn system(&mut self, raw: &str, line: &QwenLine, out: &mut Output<'_>) {
        let data = |key: &str| line.data.get(key);
        match line.subtype.as_str() {
            Some("init") => {
                session::started(line, out);
                self.named = true;
                self.always_succeeds = line.qwen_code_version.as_str().is_some_and(session::always_succeeds);
                // The program prints it at every turn. It has no event where the prompt has opened the turn already.
                out.emit(Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn: None }));
                out.quiet();
            }
            Some("retry") => self.retry(line, out),
            Some("model_fallback") => {
                let model = data("toModel").and_then(Value::as_str).unwrap_or("unknown").to_owned();
                let reason =
                    data("fromModel").and_then(Value::as_str).map(|from| format!("fallback from {from}"));
                out.emit(Kind::ModelChanged(ModelChanged { model, reason }));
            }
            Some("compact_boundary" | "chat_compressed" | "chat_compression") => {
                session::compacted(line, out)
            }
            other => {
                let name = other.map(|other| format!("system/{other}"));
                out.unrecognized(UnrecognizedReason::UnknownType, raw, name.as_deref());
            }
        }
    }

    fn retry(&mut self, line: &QwenLine, out: &mut Output<'_>) {
        let data = &line.data;
        let number =
            |key: &str| data.get(key).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        let keep = data.get("preserveText").and_then(Value::as_bool).unwrap_or(false);
        let (category, message) = self.retried.clone().unwrap_or_else(|| {
            let reason = data.get("reason").and_then(Value::as_str).unwrap_or("retry");
            (Category::Unknown, reason.to_owned())
        });
        out.emit(Kind::Retrying(Retrying {
            attempt: number("attempt"),
            max_attempts: number("maxRetries"),
            delay_ms: data.get("delayMs").and_then(Value::as_u64).map(Millis),
            category,
            message,
        }));
        self.speech.retry(keep, out);
    }

    fn event(&mut self, raw: &str, line: &QwenLine, out: &mut Output<'_>) {
        let event = &line.event;
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let parent = line.parent_tool_use_id.as_str();
        let block = event.get("content_block").unwrap_or(&Value::Null);
        let kind = text(event, "type");
        match kind.as_deref() {
            Some("message_start") => {
                let message = event.get("message").unwrap_or(&Value::Null);
                let id = text(message, "id").unwrap_or_else(|| "m1".to_owned());
                self.speech_of(parent).message_start(&id, text(message, "model").as_deref(), out);
            }
            Some("content_block_start") => match text(block, "type").as_deref() {
                Some("text") => self.speech_of(parent).block_start(QwenBlockKind::Text, None, out),
                Some("thinking") => self.speech_of(parent).block_start(QwenBlockKind::Thinking, None, out),
                Some("tool_use") => {
                    let name = text(block, "name").unwrap_or_else(|| "tool".to_owned());
                    let id = text(block, "id").unwrap_or_else(|| name.clone());
                    let call = PartialToolCall { id, name, input: String::new() };
                    // A tool call proves that the held text was the model's: an error is the last thing in a turn.
                    self.speech.release(out);
                    self.speech_of(parent).block_start(QwenBlockKind::Tool, Some(call), out);
                }
                other => out.unrecognized(UnrecognizedReason::UnknownType, raw, other),
            },
            Some("content_block_stop") => {
                if let Some(call) = self.speech_of(parent).block_stop(out)
                    && let Some(input) = lenient::value(&call.input)
                {
                    self.work.started(&call.id, &call.name, &input, parent, out);
                }
            }
            Some("message_stop") => self.speech_of(parent).message_stop(out),
            Some("tool_progress") => tools::progress(event, out),
            // The state of a goal that a person may set: not part of the conversation.
            Some("goal_state" | "active_goal") => out.quiet(),
            // A piece that the quick reader would not take: repaired or of an unknown sort.
            Some("content_block_delta") => {
                let delta = event.get("delta").unwrap_or(&Value::Null);
                let piece = match text(delta, "type").as_deref() {
                    Some("text_delta") => text(delta, "text").map(|piece| (QwenBlockKind::Text, piece)),
                    Some("thinking_delta") => {
                        text(delta, "thinking").map(|piece| (QwenBlockKind::Thinking, piece))
                    }
                    Some("input_json_delta") => {
                        text(delta, "partial_json").map(|piece| (QwenBlockKind::Tool, piece))
                    }
                    Some(_) | None => None,
                };
                match piece {
                    Some((sort, piece)) => self.speech_of(parent).piece(sort, &piece, out),
                    None => out.unrecognized(UnrecognizedReason::BadShape, raw, kind.as_deref()),
                }
            }
            other => out.unrecognized(UnrecognizedReason::UnknownType, raw, other),
        }
    }

    fn assistant(&mut self, line: &QwenLine, out: &mut Output<'_>) {
        out.quiet();
        self.retried = None;
        out.overcome();
        let message = &line.message;
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let parent = line.parent_tool_use_id.as_str();
        let id = text(message, "id").unwrap_or_else(|| "m1".to_owned());
        let model = text(message, "model");
        let usage = message.get("usage").and_then(wire::usage).unwrap_or_default();
        let spent = usage.total() > 0;
        let content = message.get("content").unwrap_or(&Value::Null);
        let bare = content.as_str().map(|text| vec![serde_json::json!({"type": "text", "text": text})]);
        for block in bare.as_ref().or(content.as_array()).into_iter().flatten() {
            match text(block, "type").as_deref() {
                Some("text") => {
                    let said = text(block, "text").unwrap_or_default();
                    self.speech_of(parent).whole(&id, QwenBlockKind::Text, &said, spent, out);
                }
                Some("thinking") => {
                    let thought = text(block, "thinking").unwrap_or_default();
                    self.speech_of(parent).whole(&id, QwenBlockKind::Thinking, &thought, spent, out);
                }
                Some("tool_use") => {
                    self.speech_of(parent).whole(&id, QwenBlockKind::Tool, "", spent, out);
                    let name = text(block, "name").unwrap_or_else(|| "tool".to_owned());
                    let call = text(block, "id").unwrap_or_else(|| name.clone());
                    self.work.started(&call, &name, block.get("input").unwrap_or(&Value::Null), parent, out);
                }
                other => out.unrecognized(UnrecognizedReason::UnknownType, &block.to_string(), other),
            }
        }
        self.speech_of(parent).whole_message_end(&id, model.as_deref(), out);
        // A message that comes in several lines has its numbers on the last one.
        if spent && parent.is_none() {
            out.emit(Kind::UsageReported(UsageReported {
                message: Some(MessageId::from(id)),
                model,
                ..spent_tokens(usage, Basis::PerCall)
            }));
        }
    }

    fn user(&mut self, line: &QwenLine, out: &mut Output<'_>) {
        out.quiet();
        let parent = line.parent_tool_use_id.as_str();
        let content = line.message.get("content").unwrap_or(&Value::Null);
        let results = content.as_array().into_iter().flatten();
        for block in results.filter(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"))
        {
            // The tools ran, so the request succeeded. A later retry cannot take back its text.
            self.speech_of(parent).answered();
            let id = self.work.finished(block, out);
            if let Some(mut speech) = self.others.remove(id) {
                speech.end(out);
            }
        }
        if let Some(text) = content::text_of(content).filter(|text| !text.is_empty()) {
            // Messages of the agent to a sub-agent, and repetitions of prompts.
            let origin = if parent.is_some() { UserOrigin::Synthetic } else { UserOrigin::Replayed };
            out.user(origin, &text, parent.map(ToolId::from).as_ref());
        }
    }

    fn result(&mut self, line: &QwenLine, out: &mut Output<'_>) {
        out.quiet();
        // A run that fails before it begins has no other line that names it.
        if let (false, Some(id)) = (std::mem::replace(&mut self.named, true), line.session_id.as_str()) {
            let native_session = Some(NativeSessionId::from(id));
            out.emit(Kind::SessionStarted(SessionStarted { native_session, ..SessionStarted::default() }));
        }
        self.retried = None;
        out.overcome();
        let subtype = line.subtype.as_str().unwrap_or_default();
        // Exit code and `is_error` are not enough for 0.15.10, which reports a 401 as a success: see `always_succeeds`.
        let failed = line.is_error.as_bool().unwrap_or(false) || subtype.starts_with("error");
        let reason = content::error(&line.error);
        // The failure of a sub-agent looks like a result too. It has taken no time, and its tool has not ended.
        let working = self.work.has_sub_agent();
        if failed && working && line.duration_ms.as_u64() == Some(0) {
            let reason = reason.unwrap_or_else(|| "a sub-agent failed".to_owned());
            return out.notice(Level::Warn, Excerpt::with_limit(&reason, 4096).text);
        }
        let text = line.result.as_str().unwrap_or_default();
        let structured = !line.structured_result.is_null();
        let told = match (failed, self.always_succeeds) {
            (true, _) => HeldTextVerdict::Failed(reason.as_deref().unwrap_or(text)),
            (false, true) => HeldTextVerdict::Ended,
            (false, false) => HeldTextVerdict::Answered(text),
        };
        let error = self.speech.settle(told, out);
        if !failed && error.is_none() && !text.is_empty() && (structured || !self.speech.said) {
            self.speech.end(out);
            self.speech.whole("result", QwenBlockKind::Text, text, true, out);
            self.speech.whole_message_end("result", None, out);
        }
        let error = error.or_else(|| self.speech.settle(told, out));
        self.speech.end(out);
        self.others.clear();
        if let Some(usage) = wire::usage(&line.usage) {
            let cost_usd = line.total_cost_usd.as_f64();
            out.emit(Kind::UsageReported(UsageReported {
                cost_usd,
                // Over the whole session, resumed processes included (22, 44, 66, 88 in 0.24.4), with calls for its memory.
                ..spent_tokens(usage, Basis::Cumulative)
            }));
        }
        out.num_turns(line.num_turns.as_u64());
        let interrupted = self.control.take_interrupted();
        match (failed, error) {
            (false, None) => out.completed(Some(StopReason::EndTurn)),
            // 0.15.10 calls it a success that the API refused it.
            (false, Some(error)) => out.failed(&failures::report(&error)),
            (true, error) => {
                let said = Some(text.to_owned()).filter(|text| !text.is_empty());
                let reason = reason.or(said).or(error).unwrap_or_else(|| subtype.to_owned());
                if interrupted || failures::is_cancelled(&reason) {
                    return out.cancelled();
                }
                let mut report = failures::report(&reason);
                failures::by_subtype(subtype, &mut report);
                out.failed(&report);
            }
        }
    }
}

fn spent_tokens(usage: Usage, basis: Basis) -> UsageReported {
    UsageReported { usage, basis, source: UsageSource::Reported, cost_usd: None, model: None, message: None }
}
