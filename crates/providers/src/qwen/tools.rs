//! The tool calls of the agent, from their arguments to their results.

use bowline_protocol::kinds::{
    FileOperation, FilesTouched, ToolKind, ToolStatus, ToolUpdated, TouchSource, TouchedFile,
};
use bowline_protocol::{Excerpt, Kind, ToolId};
use serde_json::Value;

use crate::dialect::Output;
use crate::dialects::{content, tools};

/// The tools that run.
#[derive(Debug, Default)]
pub(super) struct QwenTools {
    running: Vec<QwenRunningTools>,
}

/// A tool that runs.
#[derive(Debug)]
struct QwenRunningTools {
    id: String,
    kind: ToolKind,
    /// The file that it changes, if it is one of the tools that do.
    path: Option<String>,
}

/// How many running tools are remembered.
const MOST: usize = 1024;

impl QwenTools {
    /// Returns whether a sub-agent works.
    pub(super) fn has_sub_agent(&self) -> bool {
        self.running.iter().any(|tool| tool.kind == ToolKind::Agent)
    }

    /// Emits a tool call once, however often the program reports it.
    pub(super) fn started(
        &mut self,
        id: &str,
        name: &str,
        input: &Value,
        parent: Option<&str>,
        out: &mut Output<'_>,
    ) {
        if self.running.iter().any(|tool| tool.id == id) {
            return out.quiet();
        }
        if self.running.len() >= MOST {
            self.running.remove(0);
        }
        let kind = tools::kind_of(name);
        let changes = matches!(kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move);
        let path = ["file_path", "absolute_path", "notebook_path", "path"]
            .iter()
            .find_map(|key| input.get(*key)?.as_str())
            .filter(|_| changes);
        self.running.push(QwenRunningTools { id: id.to_owned(), kind, path: path.map(str::to_owned) });
        let mut started = tools::started(id, name, Some(input));
        if let Kind::ToolStarted(started) = &mut started {
            started.parent = parent.map(ToolId::from);
        }
        out.emit(started);
    }

    /// Handles the result of a call and returns the call's id.
    pub(super) fn finished<'b>(&mut self, block: &'b Value, out: &mut Output<'_>) -> &'b str {
        let id = block.get("tool_use_id").and_then(Value::as_str).unwrap_or("tool");
        let output = block.get("content").and_then(content::text_of);
        let said = output.as_deref().unwrap_or_default();
        let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let status = match failed {
            false => ToolStatus::Completed,
            // The result of a tool marks a denial only by its text; the turn is a success with exit code 0 (0.24.4).
            true if is_refusal(said) => ToolStatus::Denied,
            true if said.contains("Operation cancelled") || said.contains("[Operation Cancelled]") => {
                ToolStatus::Cancelled
            }
            true => ToolStatus::Failed,
        };
        let place = self.running.iter().position(|tool| tool.id == id);
        let path = place.and_then(|place| self.running.remove(place).path);
        out.emit(tools::finished(id, status, output.as_deref()));
        if let (ToolStatus::Completed, Some(path)) = (status, path) {
            let created = said.starts_with("Successfully created") || said.starts_with("Created new file");
            let operation = if created { FileOperation::Create } else { FileOperation::Write };
            let files = vec![TouchedFile { path, operation }];
            out.emit(Kind::FilesTouched(FilesTouched { seen_by: TouchSource::Agent, files, room: None }));
        }
        id
    }
}

/// Handles a progress report of a running tool.
pub(super) fn progress(event: &Value, out: &mut Output<'_>) {
    let id = event.get("tool_use_id").and_then(Value::as_str).unwrap_or("tool");
    let content = event.get("content").unwrap_or(&Value::Null);
    let title = content.get("message").and_then(Value::as_str).or(content.as_str());
    let title = title.map(|title| Excerpt::with_limit(title, 2048).text);
    let id = ToolId::from(id);
    out.emit(Kind::ToolUpdated(ToolUpdated {
        id,
        input_delta: None,
        input: None,
        output_delta: None,
        title,
    }));
}

/// Returns whether a tool failed because it was not allowed.
fn is_refusal(output: &str) -> bool {
    output.contains("permission was declined")
        || output.starts_with("Qwen Code requires permission to use")
        || output.contains("denied by permission rule")
        || output.contains("requires user approval but cannot execute in non-interactive mode")
}
