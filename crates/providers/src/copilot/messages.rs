//! Messages and thoughts, in pieces and then whole.

use std::collections::HashMap;

use bowline_protocol::kinds::{MessageFinished, Phase, TextRetracted, UserOrigin};
use bowline_protocol::{Kind, MessageId, ToolId};
use serde_json::value::RawValue;

use super::wire::CopilotData;
use crate::dialect::Output;
use crate::dialects::loose_json;
use crate::dialects::text_dedup::{TextSoFar, WholeText};

/// How many messages and thoughts of one call are remembered.
const REMEMBERED: usize = 256;

/// The text since the last call of the model began. Text of sub-agents may come between.
#[derive(Debug, Default)]
pub(super) struct CopilotMessages {
    messages: HashMap<String, TextSoFar>,
    thoughts: HashMap<String, TextSoFar>,
    /// All thoughts of the call, which its message repeats as one.
    thought: TextSoFar,
    /// The agent's own message that is not complete, which a retry repeats.
    unfinished: Option<MessageId>,
}

impl CopilotMessages {
    /// Handles the beginning of a call of the model.
    pub(super) fn call(&mut self) {
        self.thought = TextSoFar::default();
        self.thoughts.clear();
        self.unfinished = None;
    }

    /// Handles a piece of a message.
    pub(super) fn delta(&mut self, data: &CopilotData<'_>, parent: Option<&ToolId>, out: &mut Output<'_>) {
        let name = data.message_id.text().unwrap_or("message");
        let text = data.delta_content.str();
        let message = MessageId::from(name);
        out.text(&message, 0, text, parent);
        add(&mut self.messages, name, text);
        // Compared first: a piece comes a thousand times, and the id is the same.
        if parent.is_none() && self.unfinished.as_ref() != Some(&message) {
            self.unfinished = Some(message);
        }
    }

    /// Handles a complete message: what its pieces left out is added.
    pub(super) fn message(&mut self, data: &CopilotData<'_>, parent: Option<&ToolId>, out: &mut Output<'_>) {
        let name = data.message_id.text().unwrap_or("message");
        let message = MessageId::from(name);
        if let WholeText::Adds(new) = self.thought.compare(data.reasoning_text.str()) {
            self.thought.add(new);
            out.thinking(&message, 0, new, parent);
        }
        let said = self.messages.remove(name).unwrap_or_default();
        match said.compare(data.content.str()) {
            WholeText::Adds(new) => out.text(&message, 0, new, parent),
            // The pieces stand: a reader has seen them.
            WholeText::Known | WholeText::Differs => {}
        }
        self.unfinished = None;
        // The message itself lists the tools that it asks for.
        let asks: Vec<&RawValue> = loose_json::part(data.tool_requests);
        let commentary = data.phase.text() == Some("commentary") || !asks.is_empty();
        out.emit(Kind::MessageFinished(MessageFinished {
            message,
            phase: if commentary { Phase::Commentary } else { Phase::Final },
            model: data.model.string(),
        }));
    }

    /// Handles a piece of a thought.
    pub(super) fn thought(&mut self, data: &CopilotData<'_>, parent: Option<&ToolId>, out: &mut Output<'_>) {
        let name = data.reasoning_id.text().unwrap_or("reasoning");
        let text = data.delta_content.str();
        out.thinking(&MessageId::from(name), 0, text, parent);
        add(&mut self.thoughts, name, text);
        self.thought.add(text);
    }

    /// Handles a complete thought, which comes after the message that it led to.
    pub(super) fn whole_thought(
        &mut self,
        data: &CopilotData<'_>,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        let name = data.reasoning_id.text().unwrap_or("reasoning");
        let text = data.content.str();
        let new = match self.thoughts.get(name) {
            Some(said) => said.compare(text),
            // The message has this text already.
            None if self.thought.is(text) => WholeText::Known,
            None => WholeText::Adds(text),
        };
        if let WholeText::Adds(new) = new {
            out.thinking(&MessageId::from(name), 0, new, parent);
            add(&mut self.thoughts, name, new);
            self.thought.add(new);
        }
    }

    /// Retracts the text of a failed call.
    pub(super) fn retract(&mut self, out: &mut Output<'_>) {
        if let Some(message) = self.unfinished.take() {
            self.messages.remove(message.as_str());
            out.emit(Kind::TextRetracted(TextRetracted { message, from_block: 0 }));
        }
    }

    /// Handles a message to the agent, which is repeated to us.
    pub(super) fn user(&self, data: &CopilotData<'_>, parent: Option<&ToolId>, out: &mut Output<'_>) {
        // Skills, commands and schedules write in the user's name and mark it.
        let synthetic = data.source.text().is_some_and(|source| source != "user");
        let origin = if synthetic { UserOrigin::Synthetic } else { UserOrigin::Replayed };
        out.user(origin, data.content.str(), parent);
    }
}

/// Adds a piece to what is remembered under a name.
fn add(map: &mut HashMap<String, TextSoFar>, name: &str, text: &str) {
    if let Some(said) = map.get_mut(name) {
        return said.add(text);
    }
    if map.len() >= REMEMBERED {
        map.clear();
    }
    map.entry(name.to_owned()).or_default().add(text);
}
