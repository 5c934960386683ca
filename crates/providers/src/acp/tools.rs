//! Tool calls, from the first sight of one to its end.
//!
//! A call may be seen first as `tool_call`, as the subject of a permission request, or as an update that ends it. Its
//! arguments and its output are sent whole again and again as they grow.

pub(super) mod call;
pub(super) mod diffs;
pub(super) mod targets;

use std::collections::HashMap;

use bowline_protocol::kinds::{
    FileOperation, FilesTouched, ToolFinished, ToolStatus, TouchSource, TouchedFile,
};
use bowline_protocol::{Excerpt, Kind, ToolId};
use serde_json::Value;

use self::call::{AcpToolCallState, FILES, PlannedAction, ToolCallPhase};
use super::wire::{AcpToolCall, tree};
use crate::dialect::Output;

/// How many calls are remembered. Of more, those that have ended are forgotten.
const LIMIT: usize = 4096;

/// The calls of the turn.
#[derive(Debug, Default)]
pub(crate) struct AcpToolCalls {
    calls: HashMap<Box<str>, AcpToolCallState>,
    /// Files that the client has written for the agent and that the end of a call will speak of again.
    written: Vec<String>,
}

/// Where a call is spoken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcpToolPlace {
    /// In `tool_call` or `tool_call_update`.
    Update,
    /// In a permission request, whose arguments may be those of the request and not of the tool.
    Permission,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolReport {
    Nothing,
    Finished(ToolStatus),
}

impl AcpToolCalls {
    /// Handles an update of a call. An unknown call starts here.
    pub(crate) fn hear(
        &mut self,
        id: &str,
        update: &AcpToolCall<'_>,
        parent: Option<&ToolId>,
        place: AcpToolPlace,
        out: &mut Output<'_>,
    ) -> ToolReport {
        let meta = tree(update.meta);
        if !self.calls.contains_key(id) {
            self.make_room();
            let call = AcpToolCallState::begin(id, update, &meta, parent, self.calls.len(), out);
            self.calls.insert(id.into(), call);
        }
        let Some(call) = self.calls.get_mut(id) else { return ToolReport::Nothing };
        if call.state == ToolCallPhase::Ended {
            out.quiet();
            return ToolReport::Nothing;
        }
        let tool = ToolId::from(id);
        call.retitle(&tool, update.title.filled(), out);
        if place == AcpToolPlace::Update || call.input.is_none() {
            call.arguments(&tool, update.raw_input, out);
        }
        if update.status.get() == Some("in_progress") && place == AcpToolPlace::Update {
            call.state = ToolCallPhase::Running;
        }
        let status = if place == AcpToolPlace::Update { end_of(update.status.or_empty()) } else { None };
        call.locate(&tree(update.locations));
        call.content(&tool, &tree(update.content), status, out);
        call.terminal(&tool, &meta, status, out);
        // Claude Code reports this when a tool did not run because a permission was missing.
        if meta.pointer("/claudeCode/nonExecutionKind").and_then(Value::as_str) == Some("permission-rule") {
            call.refused.get_or_insert(ToolStatus::Denied);
        }
        out.quiet();
        let Some(status) = status else { return ToolReport::Nothing };
        let output = tree(update.raw_output);
        self.reviewed(&output);
        ToolReport::Finished(self.end(id, status, &output, out))
    }

    /// Returns whether a call is known.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// Returns what a call is about to do, as far as the agent has reported it.
    pub(crate) fn plan(&self, id: &str) -> PlannedAction {
        self.calls.get(id).map(AcpToolCallState::plan).unwrap_or_default()
    }

    /// Remembers that a call was refused.
    pub(crate) fn refuse(&mut self, id: &str, status: ToolStatus) {
        if let Some(call) = self.calls.get_mut(id) {
            call.refused = Some(status);
        }
    }

    /// Remembers what Codex's reviewer, which is a tool call of its own, said of another call.
    fn reviewed(&mut self, output: &Value) {
        let denied = output.pointer("/review/status").and_then(Value::as_str) == Some("denied");
        if let Some(target) = output.get("targetItemId").and_then(Value::as_str).filter(|_| denied) {
            self.refuse(target, ToolStatus::Denied);
        }
    }

    fn end(&mut self, id: &str, status: ToolStatus, output: &Value, out: &mut Output<'_>) -> ToolStatus {
        let Some(call) = self.calls.get_mut(id) else { return status };
        let status = match (status, call.refused) {
            (ToolStatus::Failed, Some(refused)) => refused,
            (told, _) => told,
        };
        call.state = ToolCallPhase::Ended;
        let exit = ["/exit_code", "/exitCode", "/metadata/exit"]
            .iter()
            .find_map(|path| output.pointer(path)?.as_i64());
        out.emit(Kind::ToolFinished(ToolFinished {
            id: ToolId::from(id),
            status,
            output: output_text(output).map(|text| Excerpt::of(&text)).or_else(|| call.printed()),
            exit_code: exit.and_then(|code| i32::try_from(code).ok()).or(call.exit_code),
        }));
        let mut files = if status == ToolStatus::Completed { call.touched() } else { Vec::new() };
        call.forget();
        files.retain(|file| match self.written.iter().position(|path| *path == file.path) {
            Some(place) => {
                self.written.swap_remove(place);
                false
            }
            None => true,
        });
        touched(files, out);
        status
    }

    /// Ends the turn: denied calls without a further update end here; others are still running.
    pub(crate) fn end_turn(&mut self, out: &mut Output<'_>) {
        let mut refused: Vec<(usize, Box<str>, ToolStatus)> = self
            .calls
            .iter()
            .filter(|(_, call)| call.state != ToolCallPhase::Ended)
            .filter_map(|(id, call)| Some((call.number, id.clone(), call.refused?)))
            .collect();
        refused.sort_unstable_by_key(|(number, ..)| *number);
        for (_, id, status) in refused {
            self.end(&id, status, &Value::Null, out);
        }
        self.calls.clear();
        self.written.clear();
    }

    /// Handles a file that the client wrote for the agent.
    pub(crate) fn wrote(&mut self, path: &str, out: &mut Output<'_>) {
        if self.written.len() < FILES {
            self.written.push(path.to_owned());
        }
        touched(vec![TouchedFile { path: path.to_owned(), operation: FileOperation::Write }], out);
    }

    /// Handles the output so far of a terminal that the client runs for a call, and how it exited.
    pub(crate) fn terminal_says(&mut self, terminal: &str, answer: &Value, out: &mut Output<'_>) {
        let Some((id, call)) = self.calls.iter_mut().find(|(_, call)| {
            call.terminal.as_deref() == Some(terminal) && call.state != ToolCallPhase::Ended
        }) else {
            return;
        };
        let exit = answer.get("exitStatus").unwrap_or(answer).get("exitCode").and_then(Value::as_i64);
        call.exit_code = exit.and_then(|code| i32::try_from(code).ok()).or(call.exit_code);
        if let Some(output) = answer.get("output").and_then(Value::as_str) {
            call.printed_so_far(&ToolId::from(id.as_ref()), output, out);
        }
    }

    fn make_room(&mut self) {
        if self.calls.len() >= LIMIT {
            self.calls.retain(|_, call| call.state != ToolCallPhase::Ended);
        }
        if self.calls.len() >= LIMIT {
            self.calls.clear();
        }
    }
}

fn touched(files: Vec<TouchedFile>, out: &mut Output<'_>) {
    if !files.is_empty() {
        out.emit(Kind::FilesTouched(FilesTouched { seen_by: TouchSource::Agent, files, room: None }));
    }
}

/// Emits a file that the client read for the agent.
pub(crate) fn read_file(path: String, out: &mut Output<'_>) {
    touched(vec![TouchedFile { path, operation: FileOperation::Read }], out);
}

/// Returns how a call ended, if its status is final. The last two are not in the protocol yet.
fn end_of(status: &str) -> Option<ToolStatus> {
    match status {
        "completed" => Some(ToolStatus::Completed),
        "failed" => Some(ToolStatus::Failed),
        "cancelled" | "canceled" => Some(ToolStatus::Cancelled),
        "rejected" | "denied" => Some(ToolStatus::Denied),
        _ => None,
    }
}

/// Finds what a tool printed in its raw output.
fn output_text(output: &Value) -> Option<String> {
    let keys = ["output", "aggregated_output", "formatted_output", "text", "stdout", "error", "message"];
    let text = output.as_str().or_else(|| keys.iter().find_map(|key| output.get(key)?.as_str()));
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}
