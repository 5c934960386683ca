//! The output of pi 0.87.1 with `--mode json`.

use serde_json::{Value, json};

use super::{Block, Ending, Parting, Voice};
use crate::clock;
use crate::patch::Hunk;
use crate::stage::{Stage, Usage};
use crate::tools::{Call, Outcome, Tool};

/// Pi's voice.
#[derive(Debug, Default)]
pub(super) struct Pi {
    /// A turn is open: pi's turns are answers of the model with their tools.
    turn: bool,
    /// The blocks of the current message.
    message: Option<Vec<Value>>,
    open: Option<Block>,
    text: String,
    letters: usize,
    /// The last finished message.
    last: Value,
}

impl Pi {
    fn start(&mut self, stage: &mut Stage) {
        if self.message.is_some() {
            return;
        }
        if !self.turn {
            stage.out.json(&json!({"type": "turn_start"}));
            self.turn = true;
        }
        let message = assistant(&[], Usage::default(), "pending", stage);
        stage.out.json(&json!({"type": "message_start", "message": message}));
        self.message = Some(Vec::new());
    }

    fn index(&self) -> usize {
        self.message.as_ref().map_or(0, Vec::len)
    }

    fn update(event: &Value, stage: &mut Stage) {
        let line = json!({"type": "message_update", "usage": usage(Usage::default()), "assistantMessageEvent": event});
        stage.out.json(&line);
    }

    /// Ends the current message.
    fn finish(&mut self, reason: &str, stage: &mut Stage) {
        self.close(stage);
        let Some(content) = self.message.take() else { return };
        let used = stage.count(std::mem::take(&mut self.letters));
        self.last = assistant(&content, used, reason, stage);
        stage.out.json(&json!({"type": "message_end", "message": self.last}));
    }

    fn end_turn(&mut self, results: &Value, stage: &mut Stage) {
        self.turn = false;
        stage.out.json(&json!({"type": "turn_end", "message": self.last, "toolResults": results}));
    }
}

impl Voice for Pi {
    fn begin(&mut self, stage: &mut Stage) {
        stage.out.json(&json!({"type": "session", "version": 3, "id": stage.session,
            "timestamp": clock::timestamp(), "cwd": stage.cwd}));
        stage.out.json(&json!({"type": "agent_start"}));
        stage.out.json(&json!({"type": "turn_start"}));
        self.turn = true;
        let message = json!({"role": "user", "content": [{"type": "text", "text": stage.prompt}],
            "timestamp": clock::millis()});
        for kind in ["message_start", "message_end"] {
            stage.out.json(&json!({"type": kind, "message": message}));
        }
    }

    fn open(&mut self, block: Block, stage: &mut Stage) {
        // Text after a text is another message, so that the last one is the answer.
        let said = self.message.iter().flatten().any(|block| block["type"] == "text");
        if block == Block::Text && said {
            self.finish("stop", stage);
        }
        self.start(stage);
        self.open = Some(block);
        self.text.clear();
        let kind = match block {
            Block::Text => "text_start",
            Block::Thinking => "thinking_start",
        };
        Self::update(&json!({"type": kind, "contentIndex": self.index()}), stage);
    }

    fn delta(&mut self, text: &str, stage: &mut Stage) {
        let kind = match self.open {
            Some(Block::Text) => "text_delta",
            Some(Block::Thinking) => "thinking_delta",
            None => return,
        };
        self.text.push_str(text);
        // Written by hand: benchmarks print hundreds of thousands of these.
        let line = format!(
            "{{\"type\":\"message_update\",\"usage\":{{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":0,\"cost\":{{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"total\":0}}}},\"assistantMessageEvent\":{{\"type\":\"{kind}\",\"contentIndex\":{},\"delta\":{}}}}}",
            self.index(),
            Value::from(text)
        );
        stage.out.line(&line);
    }

    fn close(&mut self, stage: &mut Stage) {
        let Some(block) = self.open.take() else { return };
        let text = std::mem::take(&mut self.text);
        self.letters += text.len();
        let (kind, content) = match block {
            Block::Text => ("text_end", json!({"type": "text", "text": text})),
            Block::Thinking => ("thinking_end", json!({"type": "thinking", "thinking": text})),
        };
        Self::update(&json!({"type": kind, "contentIndex": self.index(), "content": text}), stage);
        if let Some(message) = &mut self.message {
            message.push(content);
        }
        if block == Block::Text {
            stage.last_text = text;
        }
    }

    fn call(&mut self, call: &Call, stage: &mut Stage) {
        self.close(stage);
        self.start(stage);
        let (name, index, arguments) = (name(&call.tool), self.index(), arguments(&call.tool));
        let block = json!({"type": "toolCall", "id": call.id, "name": name, "arguments": arguments});
        Self::update(
            &json!({"type": "toolcall_start", "contentIndex": index, "id": call.id, "toolName": name}),
            stage,
        );
        let text = arguments.to_string();
        Self::update(&json!({"type": "toolcall_delta", "contentIndex": index, "delta": text}), stage);
        Self::update(&json!({"type": "toolcall_end", "contentIndex": index, "toolCall": block}), stage);
        self.letters += text.len();
        if let Some(message) = &mut self.message {
            message.push(block);
        }
        self.finish("toolUse", stage);
        stage.out.json(&json!({"type": "tool_execution_start", "toolCallId": call.id, "toolName": name,
            "args": arguments}));
    }

    fn outcome(&mut self, call: &Call, outcome: &Outcome, stage: &mut Stage) {
        let name = name(&call.tool);
        let (text, details, is_error) = match outcome {
            Outcome::Failed(why) | Outcome::Refused(why) => (why.clone(), json!({}), true),
            Outcome::Done(done) => match (&call.tool, &done.after) {
                (Tool::Edit { path, .. } | Tool::Write { path, .. }, Some(after)) => {
                    let hunk = Hunk::between(done.before.as_deref().unwrap_or_default(), after);
                    let details = json!({"diff": hunk.lines.join("\n"), "patch": hunk.unified(path),
                        "firstChangedLine": hunk.new_start});
                    (format!("Successfully changed {path}."), details, false)
                }
                _ => (done.output.clone(), json!({}), done.exit_code != 0),
            },
        };
        let content = json!([{"type": "text", "text": text}]);
        stage.out.json(&json!({"type": "tool_execution_end", "toolCallId": call.id, "toolName": name,
            "result": {"content": content, "details": details}, "isError": is_error}));
        let message = json!({"role": "toolResult", "toolCallId": call.id, "toolName": name, "content": content,
            "details": details, "isError": is_error, "timestamp": clock::millis()});
        for kind in ["message_start", "message_end"] {
            stage.out.json(&json!({"type": kind, "message": message}));
        }
        self.end_turn(&json!([message]), stage);
    }

    fn whole(&mut self, text: &str, stage: &mut Stage) {
        // It has one message at a time, so the open one ends before this one and continues after it.
        let open = self.open;
        if open.is_some() {
            self.finish("stop", stage);
        }
        let content = [json!({"type": "text", "text": text})];
        let used = stage.count(text.len());
        let message = assistant(&content, used, "stop", stage);
        for kind in ["message_start", "message_end"] {
            stage.out.json(&json!({"type": kind, "message": message}));
        }
        text.clone_into(&mut stage.last_text);
        if let Some(block) = open {
            self.open(block, stage);
        }
    }

    fn end(&mut self, ending: &Ending, stage: &mut Stage) {
        self.finish("stop", stage);
        if *ending != Ending::Done {
            let mut message = assistant(&[], Usage::default(), "error", stage);
            let words = ending.words();
            message["errorMessage"] = Value::from(match ending {
                Ending::Error { status, .. } => {
                    format!("{status}: {}", json!({"message": words, "code": null}))
                }
                Ending::Done | Ending::MaxTurns(_) | Ending::MaxCost(_) => words,
            });
            for kind in ["message_start", "message_end"] {
                stage.out.json(&json!({"type": kind, "message": message}));
            }
            self.last = message;
        }
        if self.turn {
            self.end_turn(&json!([]), stage);
        }
        stage.out.json(&json!({"type": "agent_end", "messages": [self.last], "willRetry": false}));
        stage.out.json(&json!({"type": "agent_settled"}));
    }

    fn part(&mut self, _: i32, _: &mut Stage) -> Parting {
        Parting::Signal
    }

    fn code(&self, _: &Ending) -> u8 {
        // With JSON it always exits with 0; the stream has the failure.
        0
    }
}

fn assistant(content: &[Value], used: Usage, reason: &str, stage: &Stage) -> Value {
    json!({"role": "assistant", "content": content, "api": "practice", "provider": "practice", "model": stage.model,
        "usage": usage(used), "stopReason": reason, "timestamp": clock::millis()})
}

fn usage(used: Usage) -> Value {
    let price = |tokens: Usage| tokens.cost();
    let none = Usage::default();
    json!({"input": used.input, "output": used.output, "cacheRead": used.cache_read, "cacheWrite": used.cache_write,
        "totalTokens": used.total(), "cost": {"input": price(Usage { input: used.input, ..none }),
        "output": price(Usage { output: used.output, ..none }),
        "cacheRead": price(Usage { cache_read: used.cache_read, ..none }),
        "cacheWrite": price(Usage { cache_write: used.cache_write, ..none }), "total": price(used)}})
}

fn name(tool: &Tool) -> &'static str {
    match tool {
        Tool::Read { .. } => "read",
        Tool::Edit { .. } => "edit",
        Tool::Write { .. } => "write",
        Tool::Run { .. } => "bash",
    }
}

fn arguments(tool: &Tool) -> Value {
    match tool {
        Tool::Read { path } => json!({"path": path}),
        Tool::Edit { path, old, new } => json!({"path": path, "edits": [{"oldText": old, "newText": new}]}),
        Tool::Write { path, content } => json!({"path": path, "content": content}),
        Tool::Run { command } => json!({"command": command}),
    }
}
