//! The parts of a message: text, reasoning, and tools that have ended.

use std::collections::HashMap;

use bowline_protocol::kinds::{
    FileOperation, MessageFinished, Phase, PlanStep, PlanUpdated, StepStatus, TextRetracted, ToolFinished,
    ToolKind, ToolOwner, ToolStatus,
};
use bowline_protocol::{Excerpt, Kind, MessageId, ToolId};
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::{OpencodePart, OpencodeToolState};
use crate::dialect::Output;
use crate::dialects::text_dedup::{TextSoFar, WholeText};
use crate::dialects::tools;

/// The number of parts of one step that are remembered, so that a repeated one is not emitted again.
const PARTS: usize = 4096;

/// The parts of the step that runs.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The message's own name, and how many steps it has had.
    name: String,
    steps: u32,
    message: Option<MessageId>,
    /// The place and the text of each part, by its id.
    seen: HashMap<String, (u32, TextSoFar)>,
}

impl Parts {
    /// Begins a step. Each is a call of the model, so each is a message of ours, even if it shares its name.
    pub(super) fn step(&mut self, name: &str, out: &mut Output<'_>) {
        self.finish(Phase::Final, out);
        if self.name == name {
            self.steps += 1;
        } else {
            (self.name, self.steps) = (name.to_owned(), 1);
        }
        self.seen.clear();
        self.message = None;
    }

    /// Ends the step and returns its message.
    pub(super) fn finish(&mut self, phase: Phase, out: &mut Output<'_>) -> Option<MessageId> {
        let message = self.message.take()?;
        let finished = MessageFinished { message: message.clone(), phase, model: None };
        out.emit(Kind::MessageFinished(finished));
        Some(message)
    }

    /// Handles a block of text, which comes whole.
    pub(super) fn text(&mut self, part: &OpencodePart<'_>, out: &mut Output<'_>) {
        let message = self.message(part);
        let (block, said) = self.seen(part.id.str());
        let text = part.text.str();
        let new = match said.compare(text) {
            WholeText::Known => return,
            WholeText::Adds(new) => new,
            WholeText::Differs => {
                *said = TextSoFar::default();
                out.emit(Kind::TextRetracted(TextRetracted { message: message.clone(), from_block: block }));
                text
            }
        };
        said.add(new);
        out.text(&message, block, new, None);
    }

    /// Handles a block of reasoning, which comes whole.
    pub(super) fn reasoning(&mut self, part: &OpencodePart<'_>, out: &mut Output<'_>) {
        let message = self.message(part);
        let (block, said) = self.seen(part.id.str());
        if let WholeText::Adds(new) = said.compare(part.text.str()) {
            said.add(new);
            out.thinking(&message, block, new, None);
        }
    }

    /// Handles a tool call, which is reported when it has ended.
    pub(super) fn tool(&mut self, part: &OpencodePart<'_>, out: &mut Output<'_>) {
        self.message(part);
        let (_, said) = self.seen(part.id.text().unwrap_or(part.call_id.str()));
        if !said.is_empty() {
            return;
        }
        // A mark, not a text: a repeated part must not give a second call.
        said.add("told");
        let name = part.tool.text().unwrap_or("tool");
        let id = part.call_id.text().or(part.id.text()).unwrap_or(name);
        let state = &part.state.0;
        let metadata =
            state.metadata.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()).unwrap_or_default();
        // 1.18.33 reports a tool only when it has ended, so its start and its end are emitted together.
        out.emit(tools::written(id, name, state.input.map(RawValue::get), ToolOwner::Cli));
        let status = status(state);
        out.emit(Kind::ToolFinished(ToolFinished {
            id: ToolId::from(id),
            status,
            output: state.output.text().or(state.error.text()).map(Excerpt::of),
            exit_code: metadata.get("exit").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()),
        }));
        if status == ToolStatus::Completed {
            done(name, state, &metadata, out);
        }
    }

    /// Returns the message that a part belongs to.
    fn message(&mut self, part: &OpencodePart<'_>) -> MessageId {
        let name = part.message_id.text().unwrap_or("message");
        if self.name != name {
            (self.name, self.steps) = (name.to_owned(), 1);
            self.message = None;
            self.seen.clear();
        }
        let steps = self.steps.max(1);
        let id = || if steps == 1 { name.to_owned() } else { format!("{name}#{steps}") };
        self.message.get_or_insert_with(|| MessageId::from(id())).clone()
    }

    fn seen(&mut self, part: &str) -> (u32, &mut TextSoFar) {
        if self.seen.len() >= PARTS && !self.seen.contains_key(part) {
            self.seen.clear();
        }
        let place = u32::try_from(self.seen.len()).unwrap_or(u32::MAX);
        let (place, said) = self.seen.entry(part.to_owned()).or_insert_with(|| (place, TextSoFar::default()));
        (*place, said)
    }
}

fn status(state: &OpencodeToolState<'_>) -> ToolStatus {
    // The program's texts for a tool that was not allowed: by the answer to its question, or by a rule.
    const DENIED: [&str; 3] =
        ["rejected permission", "specified a rule which prevents", "The user dismissed this question"];
    match state.status.str() {
        "error" if DENIED.iter().any(|words| state.error.str().contains(words)) => ToolStatus::Denied,
        "error" if state.error.str() == "Tool execution aborted" => ToolStatus::Cancelled,
        "error" => ToolStatus::Failed,
        _ => ToolStatus::Completed,
    }
}

/// Emits the work of a tool that succeeded: files, diffs, plans.
fn done(name: &str, state: &OpencodeToolState<'_>, metadata: &Value, out: &mut Output<'_>) {
    let input =
        || state.input.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()).unwrap_or_default();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    match tools::kind_of(name) {
        ToolKind::Edit => {
            for file in metadata.get("files").and_then(Value::as_array).into_iter().flatten() {
                let path = text(file, "movePath").or_else(|| text(file, "filePath"));
                let operation = match file.get("type").and_then(Value::as_str) {
                    Some("add") => FileOperation::Create,
                    Some("delete") => FileOperation::Delete,
                    Some("move") => FileOperation::Move,
                    Some(_) | None => FileOperation::Write,
                };
                path.into_iter().for_each(|path| out.emit(tools::touched(&path, operation)));
            }
            let diff = metadata.get("filediff").unwrap_or(&Value::Null);
            let path = text(diff, "file")
                .or_else(|| text(metadata, "filepath"))
                .or_else(|| text(&input(), "filePath"));
            let is_new = metadata.get("exists").and_then(Value::as_bool) == Some(false);
            let operation = if is_new { FileOperation::Create } else { FileOperation::Write };
            path.into_iter().for_each(|path| out.emit(tools::touched(&path, operation)));
            if let Some(patch) = text(metadata, "diff").or_else(|| text(diff, "patch")) {
                let count = |key: &str| diff.get(key).and_then(Value::as_u64);
                out.emit(tools::diff(&patch, count("additions"), count("deletions")));
            }
        }
        ToolKind::Think if name == "todowrite" => {
            let todos = input();
            let todos = todos.get("todos").and_then(Value::as_array).into_iter().flatten();
            let steps =
                todos.filter_map(|todo| Some(PlanStep { text: text(todo, "content")?, status: step(todo) }));
            out.emit(Kind::PlanUpdated(PlanUpdated { steps: steps.collect() }));
        }
        ToolKind::Read
        | ToolKind::Delete
        | ToolKind::Move
        | ToolKind::Search
        | ToolKind::Execute
        | ToolKind::Think
        | ToolKind::Fetch
        | ToolKind::Agent
        | ToolKind::SwitchMode
        | ToolKind::Other => {}
    }
}

fn step(todo: &Value) -> StepStatus {
    match todo.get("status").and_then(Value::as_str) {
        Some("in_progress") => StepStatus::InProgress,
        Some("completed") => StepStatus::Completed,
        Some("cancelled") => StepStatus::Cancelled,
        Some(_) | None => StepStatus::Pending,
    }
}
