//! The client's side: its requests are remembered for their responses, and its responses show its decisions.

use bowline_protocol::Excerpt;
use bowline_protocol::kinds::{ToolStatus, UserOrigin};
use serde_json::Value;

use super::super::approvals;
use super::super::tools;
use super::super::wire::{self, AcpMessage, tree};
use super::Acp;
use super::requests::{AskedRequest, Wanted};
use crate::dialect::Output;

impl Acp {
    /// Handles a message of the client.
    pub(crate) fn sent(&mut self, message: &AcpMessage<'_>, out: &mut Output<'_>) {
        match (message.method.get(), message.id) {
            (Some(method), Some(id)) => {
                let params = tree(message.params);
                let mut asked = AskedRequest::read(method, &params);
                if let AskedRequest::Steer(message) = &mut asked {
                    message.prompt = self.steering.take();
                }
                if matches!(asked, AskedRequest::Prompt) {
                    let text = wire::text_of(params.get("prompt").unwrap_or(&Value::Null));
                    self.prompt_sent(id.get().into(), Excerpt::of(&text).text, out);
                }
                self.replaying |= method == "session/load";
                self.asked.add(id, asked);
            }
            (Some("session/cancel"), None) => self.cancelling = self.prompt.is_some(),
            (Some("$/cancel_request"), None) => {
                let id = tree(message.params).get("requestId").map(Value::to_string);
                self.cancelling |= id.is_some() && id.as_deref() == self.prompt.as_deref();
            }
            (Some(_), None) | (None, None) => {}
            (None, Some(id)) => {
                if let Some(wanted) = self.wanted.take(id) {
                    self.client_answered(id.get(), wanted, message, out);
                }
            }
        }
    }

    /// Handles the client's answer to a request of the agent.
    fn client_answered(&mut self, id: &str, wanted: Wanted, message: &AcpMessage<'_>, out: &mut Output<'_>) {
        let result = tree(message.result);
        let failed = message.error.is_some();
        match wanted {
            Wanted::Permission { tool, options } => {
                let decision = approvals::answered(id, &options, &result, out);
                self.turn.refused |= !approvals::allows(decision);
                if let Some(tool) = tool.filter(|_| !approvals::allows(decision)) {
                    // A client that cancels the prompt answers its open requests without an option.
                    let stopped = self.cancelling && result.pointer("/outcome/optionId").is_none();
                    let status = if stopped { ToolStatus::Cancelled } else { ToolStatus::Denied };
                    self.calls.refuse(&tool, status);
                }
            }
            Wanted::Question => approvals::question_answered(id, &result, out),
            // Our client reports those that it sends itself.
            Wanted::QueuedMessages if !self.ours => {
                for text in queued_messages(&result) {
                    out.user(UserOrigin::Human, &text, None);
                }
            }
            Wanted::Read { path } if !failed => tools::read_file(path, out),
            Wanted::Write { path } if !failed => self.calls.wrote(&path, out),
            Wanted::TerminalOutput { terminal } | Wanted::TerminalExit { terminal } => {
                self.calls.terminal_says(&terminal, &result, out);
            }
            // A file that could not be had shows in the tool call.
            Wanted::Read { .. } | Wanted::Write { .. } | Wanted::QueuedMessages | Wanted::Other => {}
        }
    }
}

/// Returns the texts that Qwen Code takes from the response to its request. With `items` it ignores `messages` (0.24.4).
fn queued_messages(result: &Value) -> Vec<String> {
    let list = |key: &str| result.get(key).and_then(Value::as_array);
    match (list("items"), list("messages")) {
        (Some(items), _) => {
            items.iter().filter_map(|item| Some(wire::text_of(item.get("content")?))).collect()
        }
        (None, Some(messages)) => messages.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        (None, None) => Vec::new(),
    }
}
