//! The output of an agent of the Agent Client Protocol, in the forms of claude-agent-acp 0.99.1. Requests of the host that
//! are not about a turn are answered in `server`.

use serde_json::{Value, json};

use super::{Block, Ending, Parting, Voice, usual};
use crate::stage::{Stage, Usage};
use crate::tools::{Call, Outcome, Tool};

/// The size of the context that it reports.
const CONTEXT: u64 = 200_000;

/// JSON-RPC: an error inside the agent.
pub(crate) const INTERNAL_ERROR: i64 = -32603;

/// The ids of the answers that it offers with a permission request.
const ALLOW_ONCE: &str = "allow_once";
const ALLOW_ALWAYS: &str = "allow_always";
const REJECT_ONCE: &str = "reject_once";

/// The field of the form in which a question is asked.
const ANSWER: &str = "answer";

/// The host's answer to a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostGrant {
    Once,
    /// For the rest of the session.
    Always,
    Refused,
}

/// Reads the host's answer. Everything but a known permission is a refusal: an error, an unknown option, a cancellation.
pub(crate) fn grant(answer: &Value) -> HostGrant {
    match answer.pointer("/result/outcome/optionId").and_then(Value::as_str) {
        Some(ALLOW_ONCE) => HostGrant::Once,
        Some(ALLOW_ALWAYS) => HostGrant::Always,
        Some(_) | None => HostGrant::Refused,
    }
}

/// The host's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostAnswer {
    Given(String),
    /// An answer that is none of the choices. The schema of the question forbids it, so it is a mistake of the host.
    NoChoice(String),
    /// Declined, cancelled, or an error.
    None,
}

/// Reads the host's answer to a question.
pub(crate) fn answer(answer: &Value, choices: &[String]) -> HostAnswer {
    let result = &answer["result"];
    match result["content"][ANSWER].as_str().filter(|_| result["action"] == "accept") {
        Some(text) if choices.is_empty() || choices.iter().any(|choice| choice == text) => {
            HostAnswer::Given(text.to_owned())
        }
        Some(text) => HostAnswer::NoChoice(text.to_owned()),
        None => HostAnswer::None,
    }
}

/// Writes the update of a session.
pub(crate) fn update(update: &Value, stage: &mut Stage) {
    stage.out.json(&json!({"jsonrpc": "2.0", "method": "session/update",
        "params": {"sessionId": stage.session, "update": update}}));
}

/// Writes the response to a request.
pub(crate) fn respond(id: &Value, result: &Value, stage: &mut Stage) {
    stage.out.json(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

/// Writes an error as the response to a request.
pub(crate) fn respond_error(id: &Value, error: &Value, stage: &mut Stage) {
    stage.out.json(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
}

/// The voice of an agent behind the protocol.
#[derive(Debug, Default)]
pub(super) struct AcpVoice {
    open: Option<Block>,
    message: String,
    text: String,
    letters: usize,
    /// The last tool that it requested a permission for.
    asked: String,
}

impl AcpVoice {
    fn finish(&mut self, stage: &mut Stage) {
        if self.letters > 0 {
            stage.count(std::mem::take(&mut self.letters));
        }
    }

    /// Reports what the turn used, before its response.
    fn settle(&mut self, stage: &mut Stage) -> Value {
        self.finish(stage);
        let used = stage.usage;
        let mut all = stage.earlier;
        all.add(used);
        let gauge = json!({"sessionUpdate": "usage_update", "used": used.total().min(CONTEXT), "size": CONTEXT,
            "cost": {"amount": all.cost(), "currency": "USD"}});
        update(&gauge, stage);
        usage(used)
    }
}

impl Voice for AcpVoice {
    fn begin(&mut self, _: &mut Stage) {}

    fn open(&mut self, block: Block, stage: &mut Stage) {
        self.open = Some(block);
        self.message = format!("msg_practice{:06}", stage.next_id());
        self.text.clear();
    }

    fn delta(&mut self, text: &str, stage: &mut Stage) {
        let name = match self.open {
            Some(Block::Text) => "agent_message_chunk",
            Some(Block::Thinking) => "agent_thought_chunk",
            None => return,
        };
        self.text.push_str(text);
        // By hand, as in the other voices: a flood has millions of these lines.
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{}\",\"update\":\
             {{\"sessionUpdate\":\"{name}\",\"content\":{{\"type\":\"text\",\"text\":{}}},\"messageId\":\"{}\"}}}}}}",
            stage.session,
            Value::from(text),
            self.message
        );
        stage.out.line(&line);
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
        let mut tool = described(call);
        tool["sessionUpdate"] = "tool_call".into();
        update(&tool, stage);
    }

    fn ask(&mut self, call: &Call, stage: &mut Stage) -> Option<String> {
        self.asked.clone_from(&call.id);
        let always = format!("Yes, and don't ask again for {} in this session", call.tool.name());
        let options = json!([{"optionId": ALLOW_ONCE, "name": "Yes", "kind": ALLOW_ONCE},
            {"optionId": ALLOW_ALWAYS, "name": always, "kind": ALLOW_ALWAYS},
            {"optionId": REJECT_ONCE, "name": "No", "kind": REJECT_ONCE}]);
        stage
            .out
            .json(&json!({"jsonrpc": "2.0", "id": stage.request, "method": "session/request_permission",
            "params": {"sessionId": stage.session, "toolCall": described(call), "options": options}}));
        Some(stage.request.to_string())
    }

    fn question(&mut self, text: &str, choices: &[String], stage: &mut Stage) {
        let mut field = json!({"type": "string"});
        if !choices.is_empty() {
            field["enum"] = json!(choices);
        }
        let form = json!({"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]});
        stage.out.json(&json!({"jsonrpc": "2.0", "id": stage.request, "method": "elicitation/create",
            "params": {"sessionId": stage.session, "mode": "form", "message": text, "requestedSchema": form}}));
    }

    fn withdraw(&mut self, stage: &mut Stage) {
        stage.out.json(&json!({"jsonrpc": "2.0", "method": "$/cancel_request",
            "params": {"requestId": stage.request}}));
    }

    fn starts(&mut self, call: &Call, stage: &mut Stage) {
        let started =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": "in_progress"});
        update(&started, stage);
    }

    fn outcome(&mut self, call: &Call, outcome: &Outcome, stage: &mut Stage) {
        let (status, output) = match outcome {
            Outcome::Done(done) if call.tool.path().is_none() => {
                let status = if done.exit_code == 0 { "completed" } else { "failed" };
                (status, json!({"output": done.output, "exit_code": done.exit_code}))
            }
            Outcome::Done(done) => {
                let text = if done.after.is_some() { "The file has been updated." } else { &done.output };
                ("completed", Value::from(text))
            }
            Outcome::Failed(why) | Outcome::Refused(why) => ("failed", Value::from(why.as_str())),
        };
        let mut ended = json!({"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": status,
            "rawOutput": output});
        // A refusal of the host shows in its answer; one by the rules is marked.
        if matches!(outcome, Outcome::Refused(_)) && self.asked != call.id {
            ended["_meta"] = json!({"claudeCode": {"nonExecutionKind": "permission-rule"}});
        }
        update(&ended, stage);
    }

    fn whole(&mut self, text: &str, stage: &mut Stage) {
        let message = format!("msg_practice{:06}", stage.next_id());
        let chunk = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text},
            "messageId": message});
        update(&chunk, stage);
        self.letters += text.len();
        text.clone_into(&mut stage.last_text);
    }

    fn end(&mut self, ending: &Ending, stage: &mut Stage) {
        let usage = self.settle(stage);
        let id = stage.answers.clone();
        let words = ending.words();
        match ending {
            Ending::Done => respond(&id, &json!({"stopReason": "end_turn", "usage": usage}), stage),
            Ending::MaxTurns(_) => {
                respond(&id, &json!({"stopReason": "max_turn_requests", "usage": usage}), stage);
            }
            // Gemini 0.61.0 uses the HTTP status itself as the code.
            Ending::Error { status, .. } => {
                respond_error(&id, &json!({"code": status, "message": words}), stage);
            }
            Ending::MaxCost(_) => {
                respond_error(&id, &json!({"code": INTERNAL_ERROR, "message": words}), stage);
            }
        }
    }

    fn cancelled(&mut self, stage: &mut Stage) {
        self.open = None;
        let usage = self.settle(stage);
        let id = stage.answers.clone();
        respond(&id, &json!({"stopReason": "cancelled", "usage": usage}), stage);
    }

    fn part(&mut self, signal: i32, _: &mut Stage) -> Parting {
        usual(signal)
    }
}

/// Returns a tool call as it is planned.
fn described(call: &Call) -> Value {
    let (kind, title, input, content) = match &call.tool {
        Tool::Read { path } => ("read", format!("Read {path}"), json!({"file_path": path}), json!([])),
        Tool::Edit { path, old, new } => (
            "edit",
            format!("Edit {path}"),
            json!({"file_path": path, "old_string": old, "new_string": new}),
            json!([{"type": "diff", "path": path, "oldText": old, "newText": new}]),
        ),
        Tool::Write { path, content } => (
            "edit",
            format!("Write {path}"),
            json!({"file_path": path, "content": content}),
            json!([{"type": "diff", "path": path, "oldText": null, "newText": content}]),
        ),
        Tool::Run { command } => ("execute", command.clone(), json!({"command": command}), json!([])),
    };
    let locations: Vec<Value> = call.tool.path().map(|path| json!({"path": path})).into_iter().collect();
    json!({"toolCallId": call.id, "name": call.tool.name(), "rawInput": input, "status": "pending",
        "title": title, "kind": kind, "content": content, "locations": locations})
}

fn usage(used: Usage) -> Value {
    json!({"inputTokens": used.input, "outputTokens": used.output, "cachedReadTokens": used.cache_read,
        "cachedWriteTokens": used.cache_write, "totalTokens": used.total()})
}
