//! Calls of tools: their beginning, their end, and the files that they changed.

pub(super) mod tasks;

use std::collections::VecDeque;

use bowline_protocol::kinds::{
    DiffAvailable, FileOperation, FilesTouched, PlanStep, PlanUpdated, StepStatus, ToolFinished, ToolKind,
    ToolOwner, ToolStarted, ToolStatus, TouchSource, TouchedFile,
};
use bowline_protocol::{Excerpt, Kind, ToolId};

use super::wire::ClaudeObject;
use super::wire::user::{Hunk, ToolResultDetails};
use crate::dialect::Output;
use crate::dialects::loose_json::LooseText;
use crate::dialects::tools;

/// The most calls that are remembered. Programs make a few at a time; the rest are those that never ended.
const MOST_CALLS: usize = 1024;

/// The number of ended calls that are remembered, so that a repeated result is not counted again.
const ENDED_CALLS: usize = 256;

/// The calls of a process.
#[derive(Debug, Default)]
pub(super) struct ClaudeToolCalls {
    running: VecDeque<(String, ToolKind)>,
    ended: VecDeque<String>,
}

/// How a call ended, from the line around its result.
#[derive(Debug)]
pub(super) struct ToolEnding<'a> {
    /// How.
    pub(super) status: ToolStatus,
    /// The result of the tool.
    pub(super) output: Option<&'a str>,
    /// The program's own data about it.
    pub(super) details: Option<&'a ToolResultDetails<'a>>,
}

impl ClaudeToolCalls {
    /// Handles a block that calls a tool.
    pub(super) fn start(&mut self, block: &ClaudeObject<'_>, parent: Option<&str>, out: &mut Output<'_>) {
        let name = block.text("name").unwrap_or("tool".into());
        let id = block.text("id").unwrap_or(name.clone());
        // One call, one `ToolStarted`, however often the program prints the block.
        if self.is_running(&id) || self.ended.iter().any(|ended| *ended == id) {
            return;
        }
        let kind = tools::kind_of(&name);
        if self.running.len() >= MOST_CALLS {
            self.running.pop_front();
        }
        self.running.push_back((id.clone().into_owned(), kind));
        let raw = block.raw("input").map_or("", |raw| raw.get());
        let fits = raw.len() <= Excerpt::LIMIT;
        out.emit(Kind::ToolStarted(ToolStarted {
            id: ToolId::from(&*id),
            name: name.clone().into_owned(),
            kind,
            owner: ToolOwner::Cli,
            input: if fits { block.json("input") } else { None },
            input_head: (!fits).then(|| Excerpt::of(raw)),
            parent: parent.map(ToolId::from),
        }));
        // A sub-agent's plan is its own and must not replace the agent's.
        if name == "TodoWrite" && parent.is_none() {
            plan(block, out);
        }
    }

    /// Handles the result of a call. Returns whether it was the first one.
    pub(super) fn end(&mut self, id: Option<&str>, ending: &ToolEnding<'_>, out: &mut Output<'_>) -> bool {
        let id = id.unwrap_or("tool");
        if self.ended.iter().any(|ended| ended == id) {
            return false;
        }
        if self.ended.len() >= ENDED_CALLS {
            self.ended.pop_front();
        }
        self.ended.push_back(id.to_owned());
        // By id: results of parallel calls arrive out of order (seen in 2.1.325).
        let place = self.running.iter().position(|(running, _)| running == id);
        let kind = place.and_then(|place| self.running.remove(place)).map(|(_, kind)| kind);
        let exit_code = ending.output.filter(|_| kind == Some(ToolKind::Execute)).and_then(exit_code);
        out.emit(Kind::ToolFinished(ToolFinished {
            id: ToolId::from(id),
            status: ending.status,
            output: ending.output.map(Excerpt::of),
            exit_code,
        }));
        if ending.status == ToolStatus::Completed
            && let Some(details) = ending.details
        {
            changes(kind, details, out);
        }
        true
    }

    fn is_running(&self, id: &str) -> bool {
        self.running.iter().any(|(running, _)| running == id)
    }
}

/// Reads the exit code of a failed command: its output then begins with `Exit code 3`.
fn exit_code(output: &str) -> Option<i32> {
    output.strip_prefix("Exit code ")?.split_ascii_whitespace().next()?.parse().ok()
}

/// Emits the file that an edit has changed, and how.
fn changes(kind: Option<ToolKind>, details: &ToolResultDetails<'_>, out: &mut Output<'_>) {
    // Other tools name files too: `ExitPlanMode` the one that keeps its plan.
    if kind != Some(ToolKind::Edit) && details.patch.is_none() {
        return;
    }
    let Some(path) = details.file_path.get().or(details.notebook_path.get()) else { return };
    let created = details.type_name.get() == Some("create");
    let operation = if created { FileOperation::Create } else { FileOperation::Write };
    out.emit(Kind::FilesTouched(FilesTouched {
        seen_by: TouchSource::Agent,
        files: vec![TouchedFile { path: path.to_owned(), operation }],
        room: None,
    }));
    let hunks = details.patch.iter().flat_map(|patch| &patch.0);
    let hunks: Vec<_> = hunks.filter_map(|hunk| hunk.0.as_ref()).collect();
    if !hunks.is_empty() {
        out.emit(Kind::DiffAvailable(diff(path, &hunks)));
    }
}

/// Writes a patch as a unified diff.
fn diff(path: &str, hunks: &[&Hunk<'_>]) -> DiffAvailable {
    let (mut added, mut removed) = (0, 0);
    let mut diff = format!("--- {path}\n+++ {path}\n");
    for hunk in hunks {
        let [from, before, to, after] = [&hunk.old_start, &hunk.old_lines, &hunk.new_start, &hunk.new_lines]
            .map(|number| number.whole().unwrap_or_default());
        diff.push_str(&format!("@@ -{from},{before} +{to},{after} @@\n"));
        for line in hunk.lines.0.iter().filter_map(LooseText::get) {
            added += u64::from(line.starts_with('+'));
            removed += u64::from(line.starts_with('-'));
            diff.push_str(line);
            diff.push('\n');
        }
    }
    DiffAvailable {
        summary: None,
        files_changed: Some(1),
        lines_added: Some(added),
        lines_removed: Some(removed),
        diff: Some(Excerpt::of(&diff)),
    }
}

/// Reads the plan that `TodoWrite` writes.
fn plan(block: &ClaudeObject<'_>, out: &mut Output<'_>) {
    let Some(input) = block.object("input") else { return };
    let steps: Vec<PlanStep> = input
        .objects("todos")
        .iter()
        .map(|todo| PlanStep {
            text: todo.text_or_empty("content").into_owned(),
            status: match todo.text_or_empty("status").as_ref() {
                "in_progress" => StepStatus::InProgress,
                "completed" => StepStatus::Completed,
                "cancelled" => StepStatus::Cancelled,
                _ => StepStatus::Pending,
            },
        })
        .collect();
    out.emit(Kind::PlanUpdated(PlanUpdated { steps }));
}
