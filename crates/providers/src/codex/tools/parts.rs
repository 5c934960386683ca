//! The content of an item: the name and arguments of a tool, its result, files, plans, and the user's message.

use std::borrow::Cow;

use bowline_protocol::kinds::{
    CompactTrigger, ContextCompacted, FileOperation, FilesTouched, PlanStep, PlanUpdated, StepStatus,
    ToolKind, ToolStatus, TouchSource, TouchedFile, UserOrigin,
};
use bowline_protocol::{Excerpt, Json, Kind};
use serde::de::SeqAccess;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::wire::{Change, CodexItemText, Item, part};
use crate::dialect::Output;
use crate::dialects::loose_json::{self, List, LooseFlag, LooseText, Maybe, Pick};
use crate::dialects::{content, tools};

/// Returns which tool an item is the work of.
pub(crate) fn tool<'a>(item: &'a Item<'_>) -> Option<(Cow<'a, str>, ToolKind)> {
    let named = |name: &'a str, kind| Some((Cow::Borrowed(name), kind));
    match item.type_name.or_empty() {
        "command_execution" | "commandExecution" => named("command_execution", ToolKind::Execute),
        "file_change" | "fileChange" => named("file_change", ToolKind::Edit),
        "web_search" | "webSearch" => named("web_search", ToolKind::Fetch),
        "mcp_tool_call" | "mcpToolCall" => {
            let tool = item.tool.or_empty();
            Some((mcp_name(item.server.or_empty(), tool).into(), tools::kind_of(tool)))
        }
        "collab_tool_call" | "collabToolCall" | "collabAgentToolCall" => {
            named(item.tool.get().unwrap_or("agent"), ToolKind::Agent)
        }
        // A tool of the host, which answers `item/tool/call`.
        "dynamicToolCall" => {
            let tool = item.tool.get().unwrap_or("tool");
            named(tool, tools::kind_of(tool))
        }
        "imageView" => named("image_view", ToolKind::Read),
        "imageGeneration" => named("image_generation", ToolKind::Other),
        "sleep" => named("sleep", ToolKind::Other),
        _ => None,
    }
}

/// Returns the arguments of a tool's work.
pub(crate) fn input(item: &Item<'_>) -> Option<Json> {
    match item.type_name.or_empty() {
        "command_execution" | "commandExecution" => {
            Json::of(&CommandLine { command: item.command.or_empty(), cwd: item.cwd.get() }).ok()
        }
        "file_change" | "fileChange" => Json::of(&CodexFileChanges { changes: item.changes }).ok(),
        "web_search" | "webSearch" => {
            Json::of(&Search { query: item.query.or_empty(), action: item.action }).ok()
        }
        "collab_tool_call" | "collabToolCall" | "collabAgentToolCall" => {
            let receiver_thread_ids = item.receiver_thread_ids;
            Json::of(&Collab { prompt: item.prompt.get(), receiver_thread_ids }).ok()
        }
        "imageView" => Json::of(&Image { path: item.path.or_empty() }).ok(),
        _ => raw(item.arguments),
    }
}

/// Returns the name of a tool of an MCP server.
pub(crate) fn mcp_name(server: &str, tool: &str) -> String {
    if server.is_empty() { tool.to_owned() } else { format!("{server}.{tool}") }
}

/// Keeps a part of the line as it was written.
pub(crate) fn raw(raw: Option<&RawValue>) -> Option<Json> {
    raw.map(|raw| Json::from_raw(raw.to_owned()))
}

#[derive(Serialize)]
pub(crate) struct CommandLine<'a> {
    pub(crate) command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<&'a str>,
}

#[derive(Serialize)]
struct CodexFileChanges<'a> {
    changes: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Search<'a> {
    query: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Collab<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver_thread_ids: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Image<'a> {
    path: &'a str,
}

/// Returns how a completed item ended.
pub(crate) fn status(item: &Item<'_>) -> ToolStatus {
    match item.status.or_empty() {
        "declined" => ToolStatus::Denied,
        "failed" | "errored" => {
            // `exec` runs with approval policy `never`: 0.166.0 refuses an MCP tool without `readOnlyHint`, as a plain failure.
            let refused = item.error.and_then(message).is_some_and(|error| is_refusal(&error));
            if refused { ToolStatus::Denied } else { ToolStatus::Failed }
        }
        "interrupted" | "cancelled" | "canceled" | "aborted" => ToolStatus::Cancelled,
        // A search has no status at all.
        _ => ToolStatus::Completed,
    }
}

/// Returns whether an MCP call was not made because it had no approval.
pub(crate) fn is_refusal(error: &str) -> bool {
    ["requires approval", "rejected MCP tool call", "rejected by user", "user cancelled MCP tool call"]
        .iter()
        .any(|phrase| error.contains(phrase))
}

pub(crate) fn output(item: &Item<'_>) -> Option<Excerpt> {
    if let Some(head) = &item.aggregated_output.0 {
        return Some(head.clone()).filter(|head| head.bytes > 0);
    }
    let whole = |text: String| (!text.is_empty()).then(|| Excerpt::of(&text));
    // A tool with `isError` has its text in `result` and no `error`; a refused one has only `error`.
    (item.error.and_then(message).and_then(whole))
        .or_else(|| item.result.0.as_ref()?.head())
        .or_else(|| whole(content_items(item.content_items?)?))
        .or_else(|| whole(states(item.agents_states?)?))
}

fn message(error: &RawValue) -> Option<String> {
    content::error(&serde_json::from_str::<Value>(error.get()).ok()?)
}

/// Returns what the host gave back for its tool.
fn content_items(items: &RawValue) -> Option<String> {
    let texts = serde_json::from_str::<List<Maybe<CodexItemText<'_>>>>(items.get()).ok()?;
    Some(texts.0.iter().filter_map(|item| item.0.as_ref()?.text.get()).collect::<Vec<_>>().join("\n"))
}

/// Returns the last text of sub-agents.
fn states(states: &RawValue) -> Option<String> {
    let states: serde_json::Map<String, Value> = serde_json::from_str(states.get()).ok()?;
    let said = states.values().filter_map(|state| state.get("message")?.as_str());
    Some(said.collect::<Vec<_>>().join("\n"))
}

/// The files that changes touch.
#[derive(Debug, Default)]
struct Files(Vec<TouchedFile>);

impl<'de> Pick<'de> for Files {
    fn seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut files = Vec::new();
        while let Some(change) = seq.next_element::<loose_json::Object<Change<'_>>>()? {
            let Change { path, kind } = change.0;
            if let Some(path) = path.get() {
                file(path, kind.type_name.or_empty(), kind.move_path.get(), &mut files);
            }
        }
        Ok(Self(files))
    }
}

loose_json::picked!(impl<> Files;);

/// Returns which files a change touches.
pub(crate) fn files(changes: Option<&RawValue>) -> Vec<TouchedFile> {
    part::<Files>(changes).0
}

/// Adds what happened to one file.
pub(crate) fn file(path: &str, kind: &str, moved_to: Option<&str>, files: &mut Vec<TouchedFile>) {
    let mut add = |path: &str, operation| files.push(TouchedFile { path: path.to_owned(), operation });
    match (kind, moved_to) {
        ("add", _) => add(path, FileOperation::Create),
        ("delete", _) => add(path, FileOperation::Delete),
        (_, Some(new)) => {
            add(path, FileOperation::Move);
            add(new, FileOperation::Create);
        }
        (_, None) => add(path, FileOperation::Write),
    }
}

/// Emits the files that the agent reports as touched.
pub(crate) fn touched(files: Vec<TouchedFile>, out: &mut Output<'_>) {
    if !files.is_empty() {
        out.emit(Kind::FilesTouched(FilesTouched { seen_by: TouchSource::Agent, files, room: None }));
    }
}

/// The conversation was shortened. Codex reports neither by how much nor on whose request.
pub(crate) fn compacted(trigger: CompactTrigger) -> Kind {
    Kind::ContextCompacted(ContextCompacted { trigger, tokens_before: None, tokens_after: None })
}

/// Emits the plan: `{"text","completed"}` in `exec`, `{"step","status"}` elsewhere.
pub(crate) fn plan(steps: Option<&RawValue>, out: &mut Output<'_>) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PlanEntry<'a> {
        #[serde(borrow, alias = "step")]
        text: LooseText<'a>,
        completed: LooseFlag,
        #[serde(borrow)]
        status: LooseText<'a>,
    }
    let step = |entry: &PlanEntry<'_>| PlanStep {
        text: entry.text.or_empty().to_owned(),
        status: match (entry.status.get(), entry.completed.0) {
            (Some("completed"), _) | (None, Some(true)) => StepStatus::Completed,
            (Some("in_progress" | "inProgress"), _) => StepStatus::InProgress,
            _ => StepStatus::Pending,
        },
    };
    let entries = part::<List<Maybe<PlanEntry<'_>>>>(steps);
    let steps = entries.0.iter().filter_map(|entry| entry.0.as_ref()).map(step).collect();
    out.emit(Kind::PlanUpdated(PlanUpdated { steps }));
}

/// Emits the user's message, as Codex repeats it.
pub(crate) fn user_message(item: &Item<'_>, out: &mut Output<'_>) {
    let parts = part::<List<Maybe<CodexItemText<'_>>>>(item.content);
    let texts: Vec<&str> = parts.0.iter().filter_map(|part| part.0.as_ref()?.text.get()).collect();
    out.user(UserOrigin::Replayed, item.text.get().unwrap_or(&texts.join("\n")), None);
}
