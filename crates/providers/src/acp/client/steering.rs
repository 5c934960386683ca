//! How a message gets into a running prompt.
//!
//! Qwen Code fetches messages: it asks for them after each batch of tools. Until then they wait here.

use bowline_protocol::PromptId;
use serde_json::{Value, json};

use crate::dialect::{AckToken, HostPrompt, Output};

/// How many messages may wait.
const AT_MOST: usize = 64;

/// How a message gets into a running prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SteeringMethod {
    None,
    /// By the request `_session/steering`.
    Request,
    /// The agent fetches it.
    Fetched,
}

impl SteeringMethod {
    /// Reads the agent's introduction.
    pub(super) fn of(agent: &Value) -> Self {
        if agent.pointer("/_meta/steering/supported") == Some(&json!(true)) {
            Self::Request
        } else if agent.pointer("/agentInfo/name") == Some(&json!("qwen-code")) {
            // Qwen Code 0.24.4 does not announce that it asks for messages.
            Self::Fetched
        } else {
            Self::None
        }
    }
}

/// The messages that the agent has not fetched, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct HeldMessages(Vec<(AckToken, HostPrompt)>);

impl HeldMessages {
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= AT_MOST
    }

    pub(super) fn hold(&mut self, token: AckToken, prompt: &HostPrompt) {
        self.0.push((token, prompt.clone()));
    }

    /// Removes a message. Returns whether it was there.
    pub(super) fn take_back(&mut self, prompt: &PromptId) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, held)| held.id != *prompt);
        self.0.len() < before
    }

    /// Hands all messages to the agent, and returns the response to its request.
    pub(super) fn fetch(&mut self, out: &mut Output<'_>) -> Value {
        let mut messages = Vec::new();
        // Acknowledged now and not when it was ordered: until the agent fetches it, the message can still be taken back.
        for (token, prompt) in self.0.drain(..) {
            out.acknowledged(token, Ok(()));
            out.prompt_read(&prompt);
            messages.push(prompt.text);
        }
        // Never `items` beside it: Qwen 0.24.4 then drops the messages, even if `items` is empty.
        json!({ "messages": messages, "hasQueuedPrompt": false })
    }

    /// The turn is over, and the agent has not asked for these.
    pub(super) fn lose(&mut self, out: &mut Output<'_>) {
        for (_, prompt) in self.0.drain(..) {
            out.prompt_lost(&prompt.id);
        }
    }
}
