//! The output of `codex exec --json` 0.166.0: whole items, no deltas.

use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use super::{Block, Ending, Parting, Voice};
use crate::clock;
use crate::player::to_stderr;
use crate::stage::Stage;
use crate::tools::{Call, Outcome, Tool};

/// Codex's voice.
#[derive(Debug, Default)]
pub(super) struct Codex {
    items: u64,
    open: Option<Block>,
    text: String,
    /// The parts of the answer so far besides text.
    letters: usize,
    /// The item of the running tool.
    working: String,
}

impl Codex {
    fn next(&mut self) -> String {
        self.items += 1;
        format!("item_{}", self.items - 1)
    }

    fn item(kind: &str, item: &Value, stage: &mut Stage) {
        stage.out.json(&json!({"type": kind, "item": item}));
    }

    fn error(message: &str, stage: &mut Stage) {
        stage.out.json(&json!({"type": "error", "message": message}));
        stage.out.json(&json!({"type": "turn.failed", "error": {"message": message}}));
    }

    fn finish(&mut self, stage: &mut Stage) {
        if self.letters > 0 {
            stage.count(std::mem::take(&mut self.letters));
        }
    }
}

impl Voice for Codex {
    fn begin(&mut self, stage: &mut Stage) {
        stage.out.json(&json!({"type": "thread.started", "thread_id": stage.session}));
        stage.out.json(&json!({"type": "turn.started"}));
    }

    fn open(&mut self, block: Block, _: &mut Stage) {
        self.open = Some(block);
        self.text.clear();
    }

    fn delta(&mut self, text: &str, _: &mut Stage) {
        self.text.push_str(text);
    }

    fn close(&mut self, stage: &mut Stage) {
        let Some(block) = self.open.take() else { return };
        let text = std::mem::take(&mut self.text);
        let kind = match block {
            Block::Text => "agent_message",
            Block::Thinking => "reasoning",
        };
        let item = json!({"id": self.next(), "type": kind, "text": text});
        Self::item("item.completed", &item, stage);
        self.letters += text.len();
        if block == Block::Text {
            stage.last_text = text;
        }
    }

    fn call(&mut self, call: &Call, stage: &mut Stage) {
        self.close(stage);
        self.letters += 40;
        self.finish(stage);
        // A denied patch never becomes an item, so its start is written together with its end.
        if let Some(command) = command(&call.tool) {
            self.working = self.next();
            let item = json!({"id": self.working, "type": "command_execution", "command": command,
                "aggregated_output": "", "exit_code": null, "status": "in_progress"});
            Self::item("item.started", &item, stage);
        }
    }

    fn outcome(&mut self, call: &Call, outcome: &Outcome, stage: &mut Stage) {
        if let Some(command) = command(&call.tool) {
            let (output, code) = match outcome {
                Outcome::Done(done) => (done.output.clone(), done.exit_code),
                Outcome::Failed(why) | Outcome::Refused(why) => (why.clone(), 1),
            };
            let status = match outcome {
                Outcome::Done(_) if code == 0 => "completed",
                Outcome::Done(_) | Outcome::Failed(_) => "failed",
                Outcome::Refused(_) => "declined",
            };
            let item = json!({"id": self.working, "type": "command_execution", "command": command,
                "aggregated_output": output, "exit_code": code, "status": status});
            Self::item("item.completed", &item, stage);
            return;
        }
        let (status, kind) = match outcome {
            Outcome::Refused(_) => {
                let line = format!(
                    "{} ERROR codex_core::tools::router: error=patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings\n",
                    clock::timestamp()
                );
                stage.out.flush();
                to_stderr(line.as_bytes());
                return;
            }
            Outcome::Failed(_) => ("failed", "update"),
            Outcome::Done(done) => ("completed", if done.before.is_some() { "update" } else { "add" }),
        };
        let id = self.next();
        let path = match &call.tool {
            Tool::Edit { path, .. } | Tool::Write { path, .. } | Tool::Read { path } => path.as_str(),
            Tool::Run { command } => command.as_str(),
        };
        for (event, status) in [("item.started", "in_progress"), ("item.completed", status)] {
            let item = json!({"id": id, "type": "file_change", "changes": [{"path": path, "kind": kind}],
                "status": status});
            Self::item(event, &item, stage);
        }
    }

    fn whole(&mut self, text: &str, stage: &mut Stage) {
        let item = json!({"id": self.next(), "type": "agent_message", "text": text});
        Self::item("item.completed", &item, stage);
        self.letters += text.len();
        text.clone_into(&mut stage.last_text);
    }

    fn end(&mut self, ending: &Ending, stage: &mut Stage) {
        self.close(stage);
        self.finish(stage);
        let words = ending.words();
        match ending {
            Ending::Done => {
                let used = stage.usage;
                let input = used.input + used.cache_read + used.cache_write;
                stage.out.json(&json!({"type": "turn.completed", "usage": {"input_tokens": input,
                    "cached_input_tokens": used.cache_read, "cache_write_input_tokens": used.cache_write,
                    "output_tokens": used.output, "reasoning_output_tokens": 0}}));
            }
            Ending::Error { status, .. } => {
                let name = match status {
                    400 => "400 Bad Request".to_owned(),
                    401 => "401 Unauthorized".to_owned(),
                    403 => "403 Forbidden".to_owned(),
                    429 => "429 Too Many Requests".to_owned(),
                    500 => "500 Internal Server Error".to_owned(),
                    503 => "503 Service Unavailable".to_owned(),
                    other => other.to_string(),
                };
                Self::error(&format!("unexpected status {name}: {words}"), stage);
            }
            Ending::MaxTurns(_) | Ending::MaxCost(_) => Self::error(&words, stage),
        }
    }

    fn part(&mut self, signal: i32, _: &mut Stage) -> Parting {
        // As Codex 0.166.0: SIGINT means exit code 1, SIGTERM ends it by the signal, and neither has a last line.
        if signal == SIGINT { Parting::Code(1) } else { Parting::Signal }
    }
}

/// Returns the shell command for a tool, for tools that are commands here.
fn command(tool: &Tool) -> Option<String> {
    match tool {
        Tool::Read { path } => Some(format!("/bin/bash -lc 'cat {path}'")),
        Tool::Run { command } => Some(format!("/bin/bash -lc '{command}'")),
        Tool::Edit { .. } | Tool::Write { .. } => None,
    }
}
