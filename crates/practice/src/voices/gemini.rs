//! The output of Gemini CLI 0.61.0 with `-o stream-json`. It does not report thinking.

use serde_json::{Value, json};

use super::{Block, Ending, Parting, Voice};
use crate::clock;
use crate::stage::Stage;
use crate::tools::{Call, Outcome, Tool};

/// Gemini's voice.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    open: Option<Block>,
    text: String,
    letters: usize,
}

impl Gemini {
    fn finish(&mut self, stage: &mut Stage) {
        if self.letters > 0 {
            stage.count(std::mem::take(&mut self.letters));
        }
    }
}

impl Voice for Gemini {
    fn begin(&mut self, stage: &mut Stage) {
        stage.out.json(&json!({"type": "init", "timestamp": clock::timestamp(), "session_id": stage.session,
            "model": stage.model}));
        stage.out.json(&json!({"type": "message", "timestamp": clock::timestamp(), "role": "user",
            "content": stage.prompt}));
    }

    fn open(&mut self, block: Block, _: &mut Stage) {
        self.open = Some(block);
        self.text.clear();
    }

    fn delta(&mut self, text: &str, stage: &mut Stage) {
        if self.open == Some(Block::Text) {
            self.text.push_str(text);
            let line = format!(
                "{{\"type\":\"message\",\"timestamp\":\"{}\",\"role\":\"assistant\",\"content\":{},\"delta\":true}}",
                clock::timestamp(),
                Value::from(text)
            );
            stage.out.line(&line);
        }
    }

    fn close(&mut self, stage: &mut Stage) {
        self.letters += self.text.len().max(1);
        if self.open.take() == Some(Block::Text) {
            stage.last_text = std::mem::take(&mut self.text);
        }
    }

    fn call(&mut self, call: &Call, stage: &mut Stage) {
        self.letters += 40;
        self.finish(stage);
        let parameters = match &call.tool {
            Tool::Read { path } => json!({"file_path": path}),
            Tool::Edit { path, old, new } => {
                json!({"file_path": path, "instruction": "Improve it", "old_string": old, "new_string": new})
            }
            Tool::Write { path, content } => json!({"file_path": path, "content": content}),
            Tool::Run { command } => json!({"command": command, "description": "Runs a command"}),
        };
        let name = name(&call.tool);
        stage.out.json(&json!({"type": "tool_use", "timestamp": clock::timestamp(), "tool_name": name,
            "tool_id": format!("{name}__{}", call.id), "parameters": parameters}));
    }

    fn outcome(&mut self, call: &Call, outcome: &Outcome, stage: &mut Stage) {
        let name = name(&call.tool);
        let mut line = json!({"type": "tool_result", "timestamp": clock::timestamp(),
            "tool_id": format!("{name}__{}", call.id), "status": "success"});
        let error = match outcome {
            Outcome::Done(done) if done.exit_code != 0 => {
                Some(("tool_execution_failed", format!("{}\nExit Code: {}", done.output, done.exit_code)))
            }
            Outcome::Done(done) => {
                if !done.output.is_empty() {
                    line["output"] = Value::from(done.output.as_str());
                }
                None
            }
            Outcome::Failed(why) => Some(("edit_no_occurrence_found", why.clone())),
            // Without a person to answer, tools that need approval are not registered at all.
            Outcome::Refused(_) => Some((
                "tool_not_registered",
                format!(
                    "Tool \"{name}\" not found. Did you mean one of: \"read_file\", \"update_topic\", \"grep_search\"?"
                ),
            )),
        };
        if let Some((kind, message)) = error {
            line["status"] = Value::from("error");
            line["output"] = Value::from(message.as_str());
            line["error"] = json!({"type": kind, "message": message});
        }
        stage.out.json(&line);
    }

    fn whole(&mut self, text: &str, stage: &mut Stage) {
        stage.out.json(&json!({"type": "message", "timestamp": clock::timestamp(), "role": "assistant",
            "content": text}));
        self.letters += text.len();
        text.clone_into(&mut stage.last_text);
    }

    fn end(&mut self, ending: &Ending, stage: &mut Stage) {
        self.finish(stage);
        let used = stage.usage;
        let input = used.input + used.cache_read + used.cache_write;
        let tokens = json!({"total_tokens": used.total(), "input_tokens": input, "output_tokens": used.output,
            "cached": used.cache_read, "input": input - used.cache_read});
        let mut stats = tokens.clone();
        stats["duration_ms"] = Value::from(u64::try_from(stage.elapsed().as_millis()).unwrap_or(u64::MAX));
        stats["tool_calls"] = Value::from(stage.calls);
        stats["models"] = json!({stage.model.as_str(): tokens});
        let mut line =
            json!({"type": "result", "timestamp": clock::timestamp(), "status": "success", "stats": stats});
        let words = ending.words();
        let error = match ending {
            Ending::Done => None,
            Ending::Error { status, .. } => {
                let body = json!({"error": {"code": status, "message": words, "status": grpc(*status)}});
                Some(("unknown", format!("[API Error: {body}]")))
            }
            Ending::MaxTurns(_) => Some(("FatalTurnLimitedError", words)),
            Ending::MaxCost(_) => Some(("unknown", words)),
        };
        if let Some((kind, message)) = error {
            line["status"] = Value::from("error");
            line["error"] = json!({"type": kind, "message": message});
        }
        stage.out.json(&line);
    }

    fn part(&mut self, signal: i32, _: &mut Stage) -> Parting {
        super::usual(signal)
    }
}

fn name(tool: &Tool) -> &'static str {
    match tool {
        Tool::Read { .. } => "read_file",
        Tool::Edit { .. } => "replace",
        Tool::Write { .. } => "write_file",
        Tool::Run { .. } => "run_shell_command",
    }
}

fn grpc(status: u16) -> &'static str {
    match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}
