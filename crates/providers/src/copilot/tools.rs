//! Tools, sub-agents, files, and the agent's requests for approvals.

use std::collections::{HashMap, HashSet};

use bowline_protocol::kinds::{
    ApprovalAsked, ApprovalDecided, DiffAvailable, FileOperation, QuestionAnswered, QuestionAsked, ToolOwner,
    ToolStatus, ToolUpdated,
};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, Decider, Decision, EnforcedBy, Excerpt, Kind, QuestionId, Risk, ToolId,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::{CodeChanges, CopilotData, CopilotLine, Outcome};
use crate::dialect::Output;
use crate::dialects::{loose_json, tools};

/// How many sub-agents, and how many changed files, are remembered.
const REMEMBERED: usize = 1024;

/// State of the work.
#[derive(Debug, Default)]
pub(super) struct CopilotTools {
    /// The calls that sub-agents work for.
    agents: HashMap<String, ToolId>,
    /// The reported files.
    files: HashSet<String>,
}

impl CopilotTools {
    /// Returns the call of the sub-agent that a line is about.
    pub(super) fn parent(&self, line: &CopilotLine<'_>) -> Option<ToolId> {
        if let Some(call) = line.data.0.parent_tool_call_id.text() {
            return Some(ToolId::from(call));
        }
        let agent = line.agent_id.text()?;
        Some(self.agents.get(agent).cloned().unwrap_or_else(|| ToolId::from(agent)))
    }

    /// Handles a line about work. Returns `false` for any other.
    pub(super) fn take(&mut self, line: &CopilotLine<'_>, out: &mut Output<'_>) -> bool {
        let data = &line.data.0;
        match line.type_name.str() {
            "tool.execution_start" => self.started(line, out),
            "tool.execution_partial_result" => {
                updated(data, Some(Excerpt::of(data.partial_output.str())), None, out);
            }
            "tool.execution_progress" => updated(data, None, data.progress_message.string(), out),
            "tool.execution_complete" => self.finished(data, out),
            "subagent.started" => self.agent(line),
            // The call that the sub-agent works for reports its end.
            "subagent.completed"
            | "subagent.failed"
            | "subagent.selected"
            | "subagent.deselected"
            | "subagent.configured" => {}
            // The arguments come whole when the tool starts, and what a user wants run starts like any other.
            "assistant.tool_call_delta" | "tool.user_requested" => {}
            // The output of a command comes in partial results too, and whole at its end.
            "tool.shell_output" => {}
            "permission.requested" => permission_asked(data, out),
            "permission.completed" => permission_decided(data, out),
            "user_input.requested" | "elicitation.requested" => question_asked(data, out),
            "user_input.completed" | "elicitation.completed" => {
                let id = QuestionId::from(data.request_id.text().unwrap_or("question"));
                let answers = data.answer.string().into_iter().collect();
                out.emit(Kind::QuestionAnswered(QuestionAnswered { id, answers }));
            }
            _ => return false,
        }
        true
    }

    fn started(&mut self, line: &CopilotLine<'_>, out: &mut Output<'_>) {
        let data = &line.data.0;
        let name = data.tool_name.text().unwrap_or("tool");
        let arguments = data.arguments.map(RawValue::get);
        let mut started = tools::written(tool(data), name, arguments, ToolOwner::Cli);
        if let Kind::ToolStarted(tool) = &mut started {
            tool.parent = self.parent(line);
        }
        out.emit(started);
    }

    fn finished(&mut self, data: &CopilotData<'_>, out: &mut Output<'_>) {
        let result: Outcome<'_> = loose_json::part(data.result);
        let error: Outcome<'_> = loose_json::part(data.error);
        let status = match (data.success.truth(), error.code.str()) {
            // The code first: a denied call is `success: false` like a failed one (1.0.102).
            (_, "denied" | "rejected") => ToolStatus::Denied,
            (_, "aborted" | "cancelled") => ToolStatus::Cancelled,
            (Some(false), _) => ToolStatus::Failed,
            (Some(true) | None, _) => ToolStatus::Completed,
        };
        let output = result.content.text().or(error.message.text());
        out.emit(tools::finished(tool(data), status, output));
        if status == ToolStatus::Completed {
            self.touched(data.file_edits, out);
            // The long form is for people: for an edit, its diff.
            if let Some(diff) = result.detailed_content.text().filter(|_| data.file_edits.is_some()) {
                out.emit(tools::diff(diff, None, None));
            }
        }
    }

    /// Emits changed files: paths, or objects that name one.
    fn touched(&mut self, files: Option<&RawValue>, out: &mut Output<'_>) {
        for file in loose_json::part::<Vec<Value>>(files) {
            let text = |keys: &[&str]| keys.iter().find_map(|key| file.get(*key)?.as_str());
            let Some(path) = file.as_str().or_else(|| text(&["path", "filePath", "file", "fileName"])) else {
                continue;
            };
            if self.files.len() >= REMEMBERED {
                self.files.clear();
            }
            self.files.insert(path.to_owned());
            let operation = match text(&["operation", "kind", "type", "changeType"]) {
                Some("create" | "created" | "add" | "added") => FileOperation::Create,
                Some("delete" | "deleted" | "remove" | "removed") => FileOperation::Delete,
                Some("move" | "moved" | "rename" | "renamed") => FileOperation::Move,
                Some(_) | None => FileOperation::Write,
            };
            out.emit(tools::touched(path, operation));
        }
    }

    /// Handles the sum of all changes: files that no tool has named, and how many lines.
    pub(super) fn changes(&mut self, changes: &CodeChanges<'_>, out: &mut Output<'_>) {
        let files: Vec<Value> = loose_json::part(changes.files_modified);
        let count = files.len() as u64;
        for path in files.iter().filter_map(Value::as_str).filter(|path| !self.files.contains(*path)) {
            out.emit(tools::touched(path, FileOperation::Write));
        }
        let (added, removed) = (changes.lines_added.whole(), changes.lines_removed.whole());
        if count > 0 || added.unwrap_or(0) > 0 || removed.unwrap_or(0) > 0 {
            out.emit(Kind::DiffAvailable(DiffAvailable {
                summary: None,
                files_changed: Some(count),
                lines_added: added,
                lines_removed: removed,
                diff: None,
            }));
        }
    }

    fn agent(&mut self, line: &CopilotLine<'_>) {
        if let (Some(agent), Some(call)) = (line.agent_id.text(), line.data.0.tool_call_id.text()) {
            if self.agents.len() >= REMEMBERED {
                self.agents.clear();
            }
            self.agents.insert(agent.to_owned(), ToolId::from(call));
        }
    }
}

fn tool<'a>(data: &'a CopilotData<'_>) -> &'a str {
    data.tool_call_id.text().unwrap_or("tool")
}

fn updated(
    data: &CopilotData<'_>,
    output_delta: Option<Excerpt>,
    title: Option<String>,
    out: &mut Output<'_>,
) {
    let id = ToolId::from(tool(data));
    out.emit(Kind::ToolUpdated(ToolUpdated { id, input_delta: None, input: None, output_delta, title }));
}

fn permission_asked(data: &CopilotData<'_>, out: &mut Output<'_>) {
    let asked = &data.permission_request.0;
    let kind = asked.kind.text().unwrap_or("permission");
    let category = match kind {
        "shell" => ApprovalCategory::Shell,
        "write" => ApprovalCategory::Edit,
        "read" => ApprovalCategory::Read,
        "url" => ApprovalCategory::Network,
        _ => ApprovalCategory::Other,
    };
    let words = [&asked.intention, &asked.full_command_text, &asked.file_name, &asked.path, &asked.url];
    let summary = words.into_iter().find_map(|words| words.text()).unwrap_or(kind);
    let paths = [&asked.file_name, &asked.path].into_iter().filter_map(|path| path.text());
    let id = ApprovalId::from(data.request_id.text().unwrap_or("permission"));
    out.emit(Kind::ApprovalAsked(ApprovalAsked {
        tool: asked.tool_call_id.text().map(ToolId::from),
        paths: paths.map(str::to_owned).collect(),
        ..ApprovalAsked::of_agent(id, category, Risk::Med, Excerpt::with_limit(summary, 1024).text)
    }));
}

fn permission_decided(data: &CopilotData<'_>, out: &mut Output<'_>) {
    let result: Outcome<'_> = loose_json::part(data.result);
    let kind = result.kind.str();
    out.emit(Kind::ApprovalDecided(ApprovalDecided {
        id: ApprovalId::from(data.request_id.text().unwrap_or("permission")),
        decision: if kind.starts_with("approved") { Decision::Allow } else { Decision::Deny },
        by: if kind.contains("interactively") { Decider::Human } else { Decider::Policy },
        rule: None,
        reason: Some(kind.to_owned()).filter(|kind| !kind.is_empty()),
        changed_input: None,
        enforced_by: EnforcedBy::Agent,
    }));
}

fn question_asked(data: &CopilotData<'_>, out: &mut Output<'_>) {
    let choices: Vec<Value> = loose_json::part(data.choices);
    out.emit(Kind::QuestionAsked(QuestionAsked {
        id: QuestionId::from(data.request_id.text().unwrap_or("question")),
        text: data.question.string().or(data.message.string()).unwrap_or_default(),
        choices: choices.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        several: false,
    }));
}
