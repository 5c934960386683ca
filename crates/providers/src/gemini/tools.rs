//! The tool calls of the agent, from their arguments to their results.

use bowline_protocol::Kind;
use bowline_protocol::kinds::{FileOperation, FilesTouched, ToolKind, ToolStatus, TouchSource, TouchedFile};
use serde_json::Value;

use super::wire::GeminiLine;
use crate::dialect::Output;
use crate::dialects::{content, tools};

/// The tools that run.
#[derive(Debug, Default)]
pub(super) struct GeminiTools {
    running: Vec<GeminiRunningTools>,
}

/// A tool that runs.
#[derive(Debug)]
struct GeminiRunningTools {
    id: String,
    name: String,
    /// The file that it changes, if it is one of the tools that do.
    path: Option<String>,
}

/// How many running tools are remembered.
const MOST: usize = 1024;

impl GeminiTools {
    /// Handles the beginning of a call.
    pub(super) fn started(&mut self, line: &GeminiLine, out: &mut Output<'_>) {
        let name = line.tool_name.as_str().unwrap_or("tool");
        let id = line.tool_id.as_str().unwrap_or(name);
        // One call, one `ToolStarted`, also if the line is repeated.
        if self.running.iter().any(|tool| tool.id == id) {
            return out.quiet();
        }
        if self.running.len() >= MOST {
            self.running.remove(0);
        }
        self.running.push(GeminiRunningTools {
            id: id.to_owned(),
            name: name.to_owned(),
            path: changed_file(name, &line.parameters),
        });
        out.emit(tools::started(id, name, Some(&line.parameters)));
    }

    /// Handles the result of a call.
    pub(super) fn finished(&mut self, line: &GeminiLine, out: &mut Output<'_>) {
        let id = line.tool_id.as_str().unwrap_or("tool");
        let place = self.running.iter().position(|tool| tool.id == id);
        let tool = place.map(|place| self.running.remove(place));
        let name = tool.as_ref().map_or("", |tool| tool.name.as_str());
        let status = status_of(name, line);
        let reason = content::error(&line.error);
        let output = match (line.output.as_str(), &reason) {
            // `output` of a failed call is a short form (`File not found.`); the error's message has the details.
            (Some(output), Some(reason)) if reason.len() > output.len() => Some(reason.as_str()),
            (Some(output), _) => Some(output),
            (None, reason) => reason.as_deref(),
        };
        out.emit(tools::finished(id, status, output));
        if let (ToolStatus::Completed, Some(path)) = (status, tool.and_then(|tool| tool.path)) {
            let files = vec![TouchedFile { path, operation: FileOperation::Write }];
            out.emit(Kind::FilesTouched(FilesTouched { seen_by: TouchSource::Agent, files, room: None }));
        }
    }
}

/// Returns how a tool call ended.
fn status_of(name: &str, line: &GeminiLine) -> ToolStatus {
    let reason = line.error.get("type").and_then(Value::as_str).unwrap_or_default();
    match (line.status.as_str(), reason) {
        (Some("success"), _) => ToolStatus::Completed,
        (Some("cancelled"), _) => ToolStatus::Cancelled,
        (_, "policy_violation") => ToolStatus::Denied,
        // A tool that needs an approval, without a person to give it, is not even declared. An unknown one does
        // not exist.
        (_, "tool_not_registered") if tools::kind_of(name) != ToolKind::Other => ToolStatus::Denied,
        _ => ToolStatus::Failed,
    }
}

/// Returns the file that a tool call would change.
fn changed_file(name: &str, parameters: &Value) -> Option<String> {
    let changes = matches!(tools::kind_of(name), ToolKind::Edit | ToolKind::Delete | ToolKind::Move);
    let path = ["file_path", "absolute_path", "path"].iter().find_map(|key| parameters.get(*key)?.as_str());
    path.filter(|_| changes).map(str::to_owned)
}
