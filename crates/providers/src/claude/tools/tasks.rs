//! Tasks beside the conversation.
//!
//! `task_started` reports commands in the foreground too (`is_backgrounded: false`); those are tool calls and nothing
//! else, unless they move to the background later. A task ends with its `task_notification`; one that was stopped may
//! only leave the list of `background_tasks_changed`.

use bowline_protocol::kinds::{BackgroundTaskEnded, BackgroundTaskStarted, ToolStatus};
use bowline_protocol::{Excerpt, Kind, TaskId, ToolId};

use super::super::wire::ClaudeObject;
use crate::dialect::Output;

/// The most tasks that are remembered.
const MOST_TASKS: usize = 256;

/// The tasks of a process.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Vec<Task>);

#[derive(Debug)]
struct Task {
    id: String,
    tool: Option<String>,
    summary: String,
    background: bool,
    status: Option<ToolStatus>,
    /// Whether its end was reported.
    over: bool,
}

impl Tasks {
    /// Takes `task_started`.
    pub(crate) fn started(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        out.quiet();
        let id = line.text_or_empty("task_id").into_owned();
        if id.is_empty() || self.0.iter().any(|task| task.id == id) {
            return;
        }
        if self.0.len() >= MOST_TASKS {
            self.0.remove(0);
        }
        let task = Task {
            id,
            tool: line.text("tool_use_id").map(std::borrow::Cow::into_owned),
            summary: Excerpt::of(&line.text_or_empty("description")).text,
            // A foreground `sleep 20` has a `task_started` too, with `is_backgrounded: false` (2.1.325).
            background: line.flag("is_backgrounded") != Some(false),
            status: None,
            over: false,
        };
        if task.background {
            task.begin(out);
        }
        self.0.push(task);
    }

    /// Takes `task_updated`.
    pub(crate) fn updated(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        out.quiet();
        let id = line.text_or_empty("task_id");
        let Some(task) = self.0.iter_mut().find(|task| task.id == id) else { return };
        let Some(patch) = line.object("patch") else { return };
        if let Some(status) = patch.text("status").and_then(|status| status_of(&status)) {
            task.status = Some(status);
        }
        if patch.is("is_backgrounded") && !task.background {
            task.background = true;
            task.begin(out);
        }
    }

    /// Takes `background_tasks_changed`, the list of all that run.
    pub(crate) fn listed(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        out.quiet();
        let listed = line.objects("tasks");
        let is_listed = |id: &str| listed.iter().any(|task| task.text_or_empty("task_id") == id);
        // A task that is listed before its `task_started` is told then, with the call that began it.
        for task in &mut self.0 {
            if !task.background && is_listed(&task.id) {
                task.background = true;
                task.begin(out);
            }
        }
        for task in &mut self.0 {
            // A task that was stopped may get no `task_notification`: its final status and its absence from the list are the end.
            if task.background && !task.over && task.status.is_some() && !is_listed(&task.id) {
                task.over = true;
                task.end(task.status, None, out);
            }
        }
    }

    /// Handles `task_notification`. Returns whether the agent gets it in a turn of its own.
    pub(crate) fn ended(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) -> bool {
        out.quiet();
        let id = line.text_or_empty("task_id");
        let Some(place) = self.0.iter().position(|task| task.id == id) else { return false };
        let task = self.0.remove(place);
        if task.background && !task.over {
            let status = status_of(&line.text_or_empty("status")).or(task.status);
            task.end(status, line.text("summary").as_deref(), out);
        }
        task.background
    }
}

impl Task {
    fn begin(&self, out: &mut Output<'_>) {
        out.emit(Kind::BackgroundTaskStarted(BackgroundTaskStarted {
            id: TaskId::from(self.id.as_str()),
            summary: self.summary.clone(),
            tool: self.tool.as_deref().map(ToolId::from),
        }));
    }

    fn end(&self, status: Option<ToolStatus>, summary: Option<&str>, out: &mut Output<'_>) {
        out.emit(Kind::BackgroundTaskEnded(BackgroundTaskEnded {
            id: TaskId::from(self.id.as_str()),
            status: status.unwrap_or(ToolStatus::Cancelled),
            summary: summary.map(|summary| Excerpt::of(summary).text),
        }));
    }
}

/// Reads how a task ended; nothing while it runs.
fn status_of(status: &str) -> Option<ToolStatus> {
    match status {
        "completed" => Some(ToolStatus::Completed),
        "failed" => Some(ToolStatus::Failed),
        "stopped" | "killed" | "cancelled" => Some(ToolStatus::Cancelled),
        _ => None,
    }
}
