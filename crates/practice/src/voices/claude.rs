//! The output of Claude Code 2.1.325 with `--output-format stream-json --include-partial-messages`, or `json`.

use std::fmt::Write;

use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use super::{Block, Ending, Parting, Voice};
use crate::clock;
use crate::patch::Hunk;
use crate::stage::{Stage, Usage};
use crate::tools::{Call, Done, Outcome, Tool};

/// Claude's voice.
#[derive(Debug)]
pub(super) struct Claude {
    /// Print only the result, as one document.
    pub(super) document: bool,
    begun: bool,
    message: Option<Message>,
    /// The end of every line; the same for all lines of a message, so that deltas are cheap.
    tail: String,
    /// The host was asked for permission, so a denial is not the program's own.
    asked: bool,
    /// A tool is running.
    pub(super) working: Option<Call>,
    /// The number of results.
    pub(super) results: u64,
}

/// The current answer of the model.
#[derive(Debug)]
struct Message {
    id: String,
    request: String,
    blocks: u64,
    open: Option<Block>,
    text: String,
    letters: usize,
    /// It has a text already.
    said: bool,
}

impl Claude {
    pub(super) fn lines() -> Self {
        let (begun, message, tail, working) = (false, None, String::new(), None);
        Self { document: false, begun, message, tail, asked: false, working, results: 0 }
    }

    pub(super) fn document() -> Self {
        Self { document: true, ..Self::lines() }
    }

    pub(super) fn print(&self, value: &Value, stage: &mut Stage) {
        if !self.document {
            stage.out.json(value);
        }
    }

    fn event(&self, event: &Value, stage: &mut Stage) {
        if !self.document {
            let line = format!("{{\"type\":\"stream_event\",\"event\":{event}{}", self.tail);
            self.stamped(&line, stage);
        }
    }

    /// Prints a line that lacks the end of its id.
    fn stamped(&self, line: &str, stage: &mut Stage) {
        let id = stage.next_id();
        stage.out.bytes(line.as_bytes());
        stage.out.bytes(format!("{id:012x}\"}}").as_bytes());
        stage.out.end_line();
    }

    /// Returns the current message, and starts one if there is none.
    fn message(&mut self, stage: &mut Stage) -> &mut Message {
        if self.message.is_none() {
            let number = stage.next_id();
            let id = format!("msg_practice{number:08}");
            self.tail = format!(
                ",\"session_id\":{},\"parent_tool_use_id\":null,\"api_message_id\":\"{id}\",\"uuid\":\"7072616b-7469-4373-8000-",
                Value::from(stage.session.as_str())
            );
            let status = json!({"type": "system", "subtype": "status", "status": "requesting",
                "session_id": stage.session, "uuid": clock::uuid()});
            self.print(&status, stage);
            let start = json!({"type": "message_start", "message": {"id": id, "type": "message", "role": "assistant",
                "model": stage.model, "content": [], "stop_reason": null, "stop_sequence": null,
                "usage": usage(Usage { input: 12, cache_write: 340, cache_read: 15_600, output: 1 })}});
            self.event(&start, stage);
            let request = format!("req_practice{number:08}");
            self.message = Some(Message {
                id,
                request,
                blocks: 0,
                open: None,
                text: String::new(),
                letters: 0,
                said: false,
            });
        }
        self.message.as_mut().expect("it was made above")
    }

    /// Ends the current message, if there is one.
    fn finish_message(&mut self, reason: &str, stage: &mut Stage) {
        if self.message.as_ref().is_some_and(|message| message.open.is_some()) {
            self.close(stage);
        }
        let Some(message) = self.message.take() else { return };
        let used = stage.count(message.letters);
        let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": usage(used)});
        self.event(&delta, stage);
        self.event(&json!({"type": "message_stop"}), stage);
    }

    fn start_block(&mut self, content: &Value, stage: &mut Stage) {
        let message = self.message(stage);
        let index = message.blocks;
        message.blocks += 1;
        self.event(&json!({"type": "content_block_start", "index": index, "content_block": content}), stage);
    }

    /// Prints the assistant line that repeats a finished block whole.
    fn repeat(&self, id: &str, request: &str, content: &Value, stage: &mut Stage) {
        let line = json!({"type": "assistant", "message": {"id": id, "type": "message", "role": "assistant",
            "model": stage.model, "content": [content], "stop_reason": null, "stop_sequence": null,
            "usage": usage(Usage { input: 12, cache_write: 340, cache_read: 15_600, output: 1 }),
            "context_management": null}, "parent_tool_use_id": null, "session_id": stage.session,
            "uuid": clock::uuid(), "timestamp": clock::timestamp(), "request_id": request});
        self.print(&line, stage);
    }

    pub(super) fn user(&self, content: &Value, rest: &[(&str, Value)], stage: &mut Stage) {
        let mut line = json!({"type": "user", "message": {"role": "user", "content": [content]},
            "parent_tool_use_id": null, "session_id": stage.session, "uuid": clock::uuid(),
            "timestamp": clock::timestamp()});
        for (key, value) in rest {
            line[*key] = value.clone();
        }
        self.print(&line, stage);
    }
}

impl Voice for Claude {
    fn begin(&mut self, stage: &mut Stage) {
        self.begun = true;
        let servers: Vec<Value> =
            stage.mcp_servers.iter().map(|name| json!({"name": name, "status": "disabled"})).collect();
        let mode = match stage.mode {
            crate::options::Mode::Ask => "default",
            crate::options::Mode::Read => "plan",
            crate::options::Mode::Edit => "acceptEdits",
            crate::options::Mode::Yolo => "bypassPermissions",
        };
        let line = json!({"type": "system", "subtype": "init", "cwd": stage.cwd, "session_id": stage.session,
            "tools": stage.tools, "mcp_servers": servers, "model": stage.model, "permissionMode": mode,
            "slash_commands": [], "apiKeySource": "none", "claude_code_version": "2.1.325", "output_style": "default",
            "agents": [], "skills": [], "plugins": [], "uuid": clock::uuid()});
        self.print(&line, stage);
    }

    fn open(&mut self, block: Block, stage: &mut Stage) {
        // Text after a text is another message.
        if block == Block::Text && self.message.as_ref().is_some_and(|message| message.said) {
            self.finish_message("end_turn", stage);
        }
        let content = match block {
            Block::Text => json!({"type": "text", "text": ""}),
            Block::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
        };
        self.start_block(&content, stage);
        let message = self.message(stage);
        message.open = Some(block);
        message.text.clear();
    }

    fn delta(&mut self, text: &str, stage: &mut Stage) {
        let Some(Message { blocks, open: Some(block), text: whole, .. }) = &mut self.message else { return };
        whole.push_str(text);
        let (kind, key) = match block {
            Block::Text => ("text_delta", "text"),
            Block::Thinking => ("thinking_delta", "thinking"),
        };
        if self.document {
            return;
        }
        // Written by hand: benchmarks print hundreds of thousands of these.
        let mut line = String::with_capacity(text.len() + 320);
        _ = write!(
            line,
            "{{\"type\":\"stream_event\",\"event\":{{\"type\":\"content_block_delta\",\"index\":{},\"delta\":{{\"type\":\"{kind}\",\"{key}\":{}}}}}{}",
            *blocks - 1,
            Value::from(text),
            self.tail
        );
        self.stamped(&line, stage);
    }

    fn close(&mut self, stage: &mut Stage) {
        let Some(Message { id, request, blocks, open, text, letters, said }) = &mut self.message else {
            return;
        };
        let Some(block) = open.take() else { return };
        *letters += text.len();
        *said |= block == Block::Text;
        let (id, request, index, text) = (id.clone(), request.clone(), *blocks - 1, std::mem::take(text));
        let content = match block {
            Block::Text => json!({"type": "text", "text": text}),
            Block::Thinking => {
                let delta = json!({"type": "signature_delta", "signature": "cHJhY3RpY2U="});
                self.event(&json!({"type": "content_block_delta", "index": index, "delta": delta}), stage);
                json!({"type": "thinking", "thinking": text, "signature": "cHJhY3RpY2U="})
            }
        };
        self.repeat(&id, &request, &content, stage);
        self.event(&json!({"type": "content_block_stop", "index": index}), stage);
        if block == Block::Text {
            stage.last_text = text;
        }
    }

    fn call(&mut self, call: &Call, stage: &mut Stage) {
        // The block is written whole only. The real program also streams its input; there is no recording of that yet.
        let input = input(&call.tool);
        let content = json!({"type": "tool_use", "id": call.id, "name": call.tool.name(), "input": input});
        let message = self.message(stage);
        message.letters += input.to_string().len();
        let (id, request) = (message.id.clone(), message.request.clone());
        self.repeat(&id, &request, &content, stage);
        self.finish_message("tool_use", stage);
        self.working = Some(call.clone());
    }

    fn ask(&mut self, call: &Call, stage: &mut Stage) -> Option<String> {
        if self.document {
            return None;
        }
        let question = format!("practice-{}", call.id);
        let about = call.tool.path().and_then(|path| path.rsplit('/').next()).unwrap_or("a command");
        self.print(
            &json!({"type": "control_request", "request_id": question, "request": {"subtype": "can_use_tool",
            "tool_name": call.tool.name(), "display_name": call.tool.name(), "input": input(&call.tool),
            "description": about, "permission_suggestions": [], "tool_use_id": call.id}}),
            stage,
        );
        self.asked = true;
        Some(question)
    }

    fn outcome(&mut self, call: &Call, outcome: &Outcome, stage: &mut Stage) {
        self.working = None;
        let asked = std::mem::take(&mut self.asked);
        let accepted = json!({"decision": "accept", "source": "config", "reason_type": "mode"});
        let (text, is_error, result, meta) = match outcome {
            Outcome::Done(done) => {
                let (text, result) = told(&call.tool, done);
                let meta = json!([{"id": call.id, "permission_decision": accepted}]);
                (text, done.exit_code != 0, result, meta)
            }
            Outcome::Failed(why) => {
                let meta = json!([{"id": call.id, "permission_decision": accepted}]);
                let text = format!("<tool_use_error>{why}</tool_use_error>");
                (text, true, Value::from(format!("Error: {why}")), meta)
            }
            Outcome::Refused(why) => {
                let line = json!({"type": "system", "subtype": "permission_denied", "tool_name": call.tool.name(),
                    "tool_use_id": call.id, "message": why, "uuid": clock::uuid(), "session_id": stage.session});
                if !asked {
                    self.print(&line, stage);
                }
                let meta = json!([{"id": call.id, "non_execution_kind": "user-rejected",
                    "permission_decision": {"decision": "reject", "source": "config"}}]);
                (why.clone(), true, Value::from(format!("Error: {why}")), meta)
            }
        };
        let mut content = json!({"tool_use_id": call.id, "type": "tool_result", "content": text});
        if is_error || matches!(call.tool, Tool::Run { .. }) {
            content["is_error"] = Value::from(is_error);
        }
        self.user(&content, &[("tool_use_result", result), ("tool_result_meta", meta)], stage);
    }

    fn whole(&mut self, text: &str, stage: &mut Stage) {
        let number = stage.next_id();
        let (id, request) = (format!("msg_practice{number:08}"), format!("req_practice{number:08}"));
        self.repeat(&id, &request, &json!({"type": "text", "text": text}), stage);
        stage.count(text.len());
        stage.last_text = text.to_owned();
    }

    fn end(&mut self, ending: &Ending, stage: &mut Stage) {
        let reason = if *ending == Ending::Done { "end_turn" } else { "tool_use" };
        self.finish_message(reason, stage);
        if let Ending::Error { status, .. } = ending {
            self.api_error(*status, &ending.words(), stage);
        }
        self.result(ending, stage);
    }

    fn part(&mut self, signal: i32, stage: &mut Stage) -> Parting {
        // SIGTERM and SIGHUP end it without output, and so does SIGINT before the first answer; `json` never has any.
        if signal != SIGINT {
            return super::usual(signal);
        }
        let streaming = self.message.as_ref().is_some_and(|message| message.open.is_some());
        if self.begun && !self.document && self.results == 0 && (streaming || self.working.is_some()) {
            self.interrupted(stage);
        }
        // Claude Code 2.1.325 exits with 0 after SIGINT, so exit code 0 without a result is not a success.
        Parting::Code(0)
    }
}

/// Returns usage in the form of a message.
pub(super) fn usage(used: Usage) -> Value {
    json!({"input_tokens": used.input, "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read, "cache_creation": {"ephemeral_5m_input_tokens": used.cache_write,
        "ephemeral_1h_input_tokens": 0}, "output_tokens": used.output, "service_tier": "standard"})
}

/// Returns the input of a tool.
pub(super) fn input(tool: &Tool) -> Value {
    match tool {
        Tool::Read { path } => json!({"file_path": path}),
        Tool::Edit { path, old, new } => {
            json!({"replace_all": false, "file_path": path, "old_string": old, "new_string": new})
        }
        Tool::Write { path, content } => json!({"file_path": path, "content": content}),
        Tool::Run { command } => json!({"command": command, "description": "Runs a command"}),
    }
}

/// Returns the result of a tool, for the model and for the user.
fn told(tool: &Tool, done: &Done) -> (String, Value) {
    let before = done.before.as_deref().unwrap_or_default();
    let patch = |after: &str| {
        let hunk = Hunk::between(before, after);
        json!([{"oldStart": hunk.old_start, "oldLines": hunk.old_lines, "newStart": hunk.new_start,
            "newLines": hunk.new_lines, "lines": hunk.lines}])
    };
    let after = done.after.as_deref().unwrap_or_default();
    match tool {
        Tool::Read { path } => {
            let numbered: Vec<String> =
                done.output.lines().zip(1..).map(|(line, number)| format!("{number}\t{line}")).collect();
            let lines = numbered.len();
            let file = json!({"filePath": path, "content": done.output, "numLines": lines, "startLine": 1,
                "totalLines": lines});
            (numbered.join("\n"), json!({"type": "text", "file": file}))
        }
        Tool::Edit { path, old, new } => {
            let text = format!("The file {path} has been updated successfully.");
            let result = json!({"filePath": path, "oldString": old, "newString": new, "originalFile": before,
                "structuredPatch": patch(after), "userModified": false, "replaceAll": false});
            (text, result)
        }
        Tool::Write { path, content } => {
            let (verb, kind) =
                if done.before.is_some() { ("updated", "update") } else { ("created", "create") };
            let patch = if done.before.is_some() { patch(after) } else { json!([]) };
            let text = format!("File {verb} successfully at: {path}");
            let result = json!({"type": kind, "filePath": path, "content": content, "structuredPatch": patch,
                "originalFile": done.before});
            (text, result)
        }
        Tool::Run { .. } => {
            let mut text = done.output.trim_end().to_owned();
            if done.exit_code != 0 {
                text = format!("Exit code {}\n{text}", done.exit_code);
                return (text.clone(), Value::from(format!("Error: {text}")));
            }
            let result = json!({"stdout": text, "stderr": "", "interrupted": false, "isImage": false,
                "noOutputExpected": false});
            (text, result)
        }
    }
}
