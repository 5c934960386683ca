//! `executable-generate` and `executable-stream`: the output of executable providers.
//!
//! The protocol gives chunks only a total of tokens; fields of an answer that a provider adds to the last chunk
//! (`input_tokens`, `output_tokens`, `finish_reason`, `tool_calls`) are read as in an answer.
//!
//! `error` absent, null or empty all mean that there is none. Where `content` and `delta` of a chunk disagree, `delta`
//! counts, because a reader has already seen it.

use bowline_protocol::kinds::{
    Level, ModelChanged, Notice, StopReason, ToolOwner, UnrecognizedReason, UsageReported,
};
use bowline_protocol::{Basis, Kind, MessageId, Usage, UsageSource};
use serde::Deserialize;
use serde_json::Value;

use super::text_dedup::{TextSoFar, WholeText};
use super::{content, document, tools};
use crate::dialect::{Dialect, Input, Output};
use crate::failure::Report;
use crate::{lenient, usage};

const MESSAGE: &str = "m1";

/// Reads the answer of `generate`.
#[derive(Debug)]
pub(crate) struct ExecutableGenerate;

/// The answer of `generate`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExecutableAnswer {
    content: Value,
    tokens_used: Value,
    input_tokens: Value,
    output_tokens: Value,
    model: Value,
    finish_reason: Value,
    error: Value,
    tool_calls: Value,
}

impl Dialect for ExecutableGenerate {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        let Input::Line(document) = input else { return };
        let found = document::find(document);
        let noise = |text: &str, out: &mut Output<'_>| {
            text.lines().filter(|line| !lenient::is_blank(line)).for_each(|line| out.noise(line));
        };
        let Some(value) = found.value.filter(Value::is_object) else { return noise(document, out) };
        noise(&found.before, out);
        match ExecutableAnswer::deserialize(&value) {
            Ok(answer) if !answer.is_foreign() => answer_of(&answer, out),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, &value.to_string(), None),
        }
        noise(&found.after, out);
    }
}

impl ExecutableAnswer {
    /// Returns whether none of the fields that make an answer are there.
    fn is_foreign(&self) -> bool {
        [&self.content, &self.error, &self.finish_reason, &self.tool_calls].into_iter().all(Value::is_null)
    }
}

fn answer_of(answer: &ExecutableAnswer, out: &mut Output<'_>) {
    out.quiet();
    model(&answer.model, out);
    let text = content::text_of(&answer.content).unwrap_or_default();
    out.text(&MessageId::from(MESSAGE), 0, &text, None);
    // The provider is a model: its tools are for the host to run.
    tools::calls(&answer.tool_calls, ToolOwner::Host, out);
    let sides = [&answer.input_tokens, &answer.output_tokens];
    used(sides, &answer.tokens_used, text.chars().count() as u64, out);
    let error = content::error(&answer.error);
    let finish = answer.finish_reason.as_str();
    if error.is_some() || finish == Some("error") {
        return out.failed(&Report::of(error.unwrap_or_else(|| "the provider reported an error".to_owned())));
    }
    // The exit code decides, so the turn ends with the process.
    out.complete_at_eof(stop(finish));
}

fn stop(finish: Option<&str>) -> Option<StopReason> {
    match finish {
        Some("length" | "max_tokens") => Some(StopReason::MaxTokens),
        Some("tool_use" | "tool_calls") => Some(StopReason::ToolUse),
        Some("stop" | "end_turn") => Some(StopReason::EndTurn),
        Some(_) | None => None,
    }
}

/// Reads the chunks of `stream`.
#[derive(Debug, Default)]
pub(crate) struct ExecutableStream {
    said: TextSoFar,
    chars: u64,
    warned: bool,
    done: bool,
}

/// A chunk of `stream`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExecutableChunk {
    content: Value,
    delta: Value,
    done: Value,
    tokens_used: Value,
    input_tokens: Value,
    output_tokens: Value,
    finish_reason: Value,
    tool_calls: Value,
    error: Value,
    model: Value,
}

impl Dialect for ExecutableStream {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        let Input::Line(line) = input else { return };
        lenient::each_object(line, out, |chunk: ExecutableChunk, out| self.chunk(line, &chunk, out));
    }
}

impl ExecutableStream {
    fn chunk(&mut self, raw: &str, chunk: &ExecutableChunk, out: &mut Output<'_>) {
        if self.done {
            return out.unrecognized(UnrecognizedReason::BadShape, raw, Some("chunk after the last"));
        }
        let nothing =
            [&chunk.content, &chunk.delta, &chunk.done, &chunk.error].into_iter().all(Value::is_null);
        if nothing {
            return out.unrecognized(UnrecognizedReason::UnknownType, raw, None);
        }
        out.quiet();
        model(&chunk.model, out);
        self.text(chunk, out);
        if let Some(error) = content::error(&chunk.error) {
            self.done = true;
            return out.failed(&Report::of(error));
        }
        if chunk.done.as_bool() == Some(true) {
            self.done = true;
            tools::calls(&chunk.tool_calls, ToolOwner::Host, out);
            used([&chunk.input_tokens, &chunk.output_tokens], &chunk.tokens_used, self.chars, out);
            out.completed(stop(chunk.finish_reason.as_str()));
        }
    }

    fn text(&mut self, chunk: &ExecutableChunk, out: &mut Output<'_>) {
        let whole = chunk.content.as_str();
        let text = match (chunk.delta.as_str(), whole) {
            (Some(delta), _) => delta,
            (None, Some(whole)) => match self.said.compare(whole) {
                WholeText::Adds(new) => new,
                WholeText::Known => "",
                WholeText::Differs => return self.disagree(out),
            },
            (None, None) => return,
        };
        self.said.add(text);
        self.chars += text.chars().count() as u64;
        out.text(&MessageId::from(MESSAGE), 0, text, None);
        // An empty accumulated text is how providers that do not accumulate fill the required field.
        if whole.is_some_and(|whole| !whole.is_empty() && !self.said.is(whole)) {
            self.disagree(out);
        }
    }

    /// Reports once that the chunks contradict each other.
    fn disagree(&mut self, out: &mut Output<'_>) {
        if !std::mem::replace(&mut self.warned, true) {
            out.emit(Kind::Notice(Notice {
                level: Level::Warn,
                text: "`content` and `delta` of the chunks disagree; `delta` counts".to_owned(),
                code: Some("content_delta_disagree".to_owned()),
            }));
        }
    }
}

/// Reports the usage: both sides if they are given, else an estimate from the total.
fn used([input, output]: [&Value; 2], total: &Value, answer_chars: u64, out: &mut Output<'_>) {
    let sides = serde_json::json!({ "input_tokens": input, "output_tokens": output });
    match usage::read(&sides) {
        Some(usage) => out.emit(usage::reported_event(usage, Basis::PerTurn)),
        None => only_total(total, answer_chars, out),
    }
}

/// Reports a usage of which only the total is known: the answer is estimated and the rest is the prompt.
fn only_total(tokens_used: &Value, answer_chars: u64, out: &mut Output<'_>) {
    let Some(total) = tokens_used.as_u64().filter(|total| *total > 0) else { return };
    let output = usage::estimate(0, answer_chars).output.min(total);
    let usage = Usage { input: total - output, output, ..Usage::default() };
    let report = UsageReported { source: UsageSource::Estimated, ..usage::reported(usage, Basis::PerTurn) };
    out.emit(Kind::UsageReported(report));
}

fn model(model: &Value, out: &mut Output<'_>) {
    if let Some(model) = model.as_str().filter(|model| !model.is_empty()) {
        out.emit(Kind::ModelChanged(ModelChanged { model: model.to_owned(), reason: None }));
    }
}
