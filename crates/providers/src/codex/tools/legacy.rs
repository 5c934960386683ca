//! The tools of older versions: pairs of `…_begin` and `…_end`.

use bowline_protocol::kinds::{ToolKind, ToolStatus, TouchedFile};
use bowline_protocol::{Excerpt, Json};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::dialect::exec::ExecState;
use super::super::dialect::legacy::{McpInvocation, Msg};
use super::super::wire::{McpResult, part};
use super::CodexToolCall;
use super::parts::{self, CommandLine, mcp_name, raw};
use crate::dialect::Output;
use crate::dialects::loose_json::{List, LooseFlag, LooseText, Maybe};
use crate::dialects::tools;

/// Handles the beginning or end of a tool's work; `false` if we do not know the tool.
pub(crate) fn tool(name: &str, msg: &Msg<'_>, state: &mut ExecState, out: &mut Output<'_>) -> bool {
    let id = msg.call_id.or_empty();
    let outcome = |good: bool| if good { ToolStatus::Completed } else { ToolStatus::Failed };
    match name {
        "exec_command_begin" => {
            let input = Json::of(&CommandLine { command: &words(msg.command), cwd: msg.cwd.get() }).ok();
            state.calls.start(id, CodexToolCall::new("exec_command", ToolKind::Execute, input), None, out);
        }
        "exec_command_output_delta" => {
            // The piece is base64, and the end repeats all of it.
            out.quiet();
        }
        "exec_command_end" => {
            let heads = [&msg.aggregated_output, &msg.formatted_output, &msg.stdout, &msg.stderr];
            let output = heads.into_iter().filter_map(|head| head.0.clone()).find(|head| head.bytes > 0);
            let status = outcome(msg.exit_code.0.unwrap_or(0) == 0);
            end(id, "exec_command", ToolKind::Execute, status, output, msg.exit_code.0, state, out);
        }
        "patch_apply_begin" => {
            state.calls.start(
                id,
                CodexToolCall::new("apply_patch", ToolKind::Edit, raw(msg.changes)),
                None,
                out,
            );
        }
        "patch_apply_end" => {
            let good = msg.success.0.unwrap_or(true);
            let heads = if good { [&msg.stdout, &msg.stderr] } else { [&msg.stderr, &msg.stdout] };
            let output = heads.into_iter().filter_map(|head| head.0.clone()).find(|head| head.bytes > 0);
            end(id, "apply_patch", ToolKind::Edit, outcome(good), output, None, state, out);
            if good {
                parts::touched(patched(msg.changes), out);
            }
        }
        "mcp_tool_call_begin" => {
            let nothing = McpInvocation::default();
            let McpInvocation { server, tool, arguments } = msg.invocation.0.as_ref().unwrap_or(&nothing);
            let name = mcp_name(server.or_empty(), tool.or_empty());
            state.calls.start(
                id,
                CodexToolCall::new(name, tools::kind_of(tool.or_empty()), raw(*arguments)),
                None,
                out,
            );
        }
        "mcp_tool_call_end" => {
            let (status, output) = mcp_result(msg.result);
            end(id, "mcp_tool_call", ToolKind::Other, status, output, None, state, out);
        }
        "web_search_begin" => {
            state.calls.start(
                id,
                CodexToolCall::new("web_search", ToolKind::Fetch, Json::of(&msg.query.or_empty()).ok()),
                None,
                out,
            );
        }
        "web_search_end" => {
            end(id, "web_search", ToolKind::Fetch, ToolStatus::Completed, None, None, state, out)
        }
        "image_generation_begin" => {
            state.calls.start(id, CodexToolCall::new("image_generation", ToolKind::Other, None), None, out);
        }
        "image_generation_end" => {
            end(id, "image_generation", ToolKind::Other, ToolStatus::Completed, None, None, state, out);
        }
        // collab_agent_spawn_begin, collab_agent_interaction_end, collab_waiting_begin, …
        name if name.starts_with("collab_") => {
            let tool = name.trim_end_matches("_begin").trim_end_matches("_end");
            if name.ends_with("_begin") {
                let input = msg.prompt.get().and_then(|prompt| Json::of(&prompt).ok());
                state.calls.start(id, CodexToolCall::new(tool.to_owned(), ToolKind::Agent, input), None, out);
            } else {
                end(id, tool, ToolKind::Agent, ToolStatus::Completed, None, None, state, out);
            }
        }
        _ => return false,
    }
    state.progress();
    true
}

#[expect(clippy::too_many_arguments, reason = "the parts of one event, each told once")]
fn end(
    id: &str,
    name: &str,
    kind: ToolKind,
    status: ToolStatus,
    output: Option<Excerpt>,
    exit_code: Option<i64>,
    state: &mut ExecState,
    out: &mut Output<'_>,
) {
    // Nothing if it runs already, as it should.
    state.calls.start(id, CodexToolCall::new(name, kind, None), None, out);
    state.calls.finish(id, status, output, exit_code, out);
    state.speech.tool_ended();
}

/// Joins the words of a command.
pub(crate) fn words(command: Option<&RawValue>) -> String {
    let sentence = part::<LooseText<'_>>(command);
    let words = part::<List<LooseText<'_>>>(command);
    sentence.owned().unwrap_or_else(|| words.0.iter().map(LooseText::or_empty).collect::<Vec<_>>().join(" "))
}

/// Reads `{"path":{"add":{…}}}`, or with the word in a field: `{"path":{"type":"add",…}}`.
fn patched(changes: Option<&RawValue>) -> Vec<TouchedFile> {
    let changes: serde_json::Map<String, Value> = part(changes);
    let mut files = Vec::new();
    for (path, change) in &changes {
        let word = change.get("type").and_then(Value::as_str);
        let key = || change.as_object()?.keys().next().map(String::as_str);
        let kind = word.or_else(key).unwrap_or("update");
        let moved =
            change.get("move_path").or_else(|| change.get(kind)?.get("move_path")).and_then(Value::as_str);
        parts::file(path, kind, moved, &mut files);
    }
    files
}

/// Reads `{"Ok":{"content":[…],"isError":true}}` and `{"Err":"…"}`.
fn mcp_result(result: Option<&RawValue>) -> (ToolStatus, Option<Excerpt>) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Result<'a> {
        #[serde(borrow, rename = "Ok")]
        good: Option<&'a RawValue>,
        #[serde(borrow, rename = "Err")]
        bad: LooseText<'a>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Good {
        #[serde(alias = "isError")]
        is_error: LooseFlag,
    }
    let result: Maybe<Result<'_>> = part(result);
    let Some(result) = result.0 else { return (ToolStatus::Completed, None) };
    if let Some(error) = result.bad.get() {
        let status = if parts::is_refusal(error) { ToolStatus::Denied } else { ToolStatus::Failed };
        return (status, Some(Excerpt::of(error)));
    }
    let failed = part::<Maybe<Good>>(result.good).0.is_some_and(|good| good.is_error.0 == Some(true));
    let status = if failed { ToolStatus::Failed } else { ToolStatus::Completed };
    (status, part::<Maybe<McpResult<'_>>>(result.good).0.and_then(|good| good.head()))
}
