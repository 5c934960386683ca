//! Items: messages, thoughts and the work of tools, each with a beginning and an end.

use std::collections::HashSet;

use bowline_protocol::Kind;
use bowline_protocol::kinds::{Level, ToolFinished, UnrecognizedReason};
use serde_json::{Map, Value};

use super::StreamJsonText;
use crate::dialect::Output;
use crate::dialects::{content, tools};

/// The items of a turn.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// Tools that have begun and not ended.
    running: HashSet<String>,
}

/// The names of tool items. Any other item is not a tool.
const TOOLS: [&str; 8] = [
    "command_execution",
    "file_change",
    "mcp_tool_call",
    "collab_tool_call",
    "web_search",
    "todo_list",
    "local_shell_call",
    "function_call",
];

/// The fields of an item's state, as opposed to the tool's arguments.
const STATE: [&str; 9] =
    ["id", "type", "status", "aggregated_output", "exit_code", "result", "error", "server", "tool"];

impl Items {
    pub(super) fn take(
        &mut self,
        raw: &str,
        phase: &str,
        item: &Value,
        speech: &mut StreamJsonText,
        out: &mut Output<'_>,
    ) {
        let complete = phase == "item.completed";
        let string = |key: &str| item.get(key).and_then(Value::as_str);
        let text = string("text").or_else(|| item.get("agent_message")?.get("text")?.as_str());
        match string("type") {
            // Only when it is complete: started and updated would say it again.
            Some("agent_message" | "assistant_message") | None => match text {
                Some(text) if complete => speech.say_whole(text, out),
                Some(_) => out.quiet(),
                None => out.unrecognized(UnrecognizedReason::BadShape, raw, Some(phase)),
            },
            Some("message") if string("role") == Some("assistant") => {
                match item.get("content").and_then(content::text_of) {
                    Some(text) if complete => speech.say_whole(&text, out),
                    Some(_) | None => out.quiet(),
                }
            }
            Some("reasoning") => match text {
                Some(text) if complete => speech.think(text, out),
                Some(_) | None => out.quiet(),
            },
            Some("error") => out.notice(Level::Warn, string("message").unwrap_or_default()),
            Some(name) if TOOLS.contains(&name) => {
                speech.end(out);
                self.tool(phase, name, item, out);
            }
            Some(other) => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(other)),
        }
    }

    fn tool(&mut self, phase: &str, name: &str, item: &Value, out: &mut Output<'_>) {
        let string = |key: &str| item.get(key).and_then(Value::as_str);
        let id = string("id").unwrap_or(name);
        if self.running.insert(id.to_owned()) {
            // Items of tools that are quick come only when they are complete.
            let asked: Map<String, Value> =
                item.as_object().into_iter().flatten().fold(Map::new(), |mut asked, (key, value)| {
                    if !STATE.contains(&key.as_str()) {
                        asked.insert(key.clone(), value.clone());
                    }
                    asked
                });
            out.emit(tools::started(id, string("tool").unwrap_or(name), Some(&Value::Object(asked))));
        }
        if phase != "item.completed" {
            return out.quiet();
        }
        self.running.remove(id);
        let exit_code =
            item.get("exit_code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let mut finished = tools::finished(
            id,
            tools::status(string("status") == Some("failed")),
            string("aggregated_output"),
        );
        if let Kind::ToolFinished(ToolFinished { exit_code: place, .. }) = &mut finished {
            *place = exit_code;
        }
        out.emit(finished);
    }
}
