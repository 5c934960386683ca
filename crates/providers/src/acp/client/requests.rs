//! Requests of the agent that wait for the caller: permissions for a decision, forms for a reply.

use bowline_protocol::{ApprovalId, ApprovalOption, QuestionId};
use serde_json::{Value, json};

use super::choices;
use crate::dialect::{ApprovalAnswer, QuestionReply};
use crate::dialects::elicitation;

/// How many requests may wait. More are denied at once, so that an agent cannot fill the memory.
const AT_MOST: usize = 1024;

/// The requests that wait, with the agent's ids as it wrote them.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    permissions: Vec<(ApprovalId, Value, Vec<ApprovalOption>)>,
    forms: Vec<(QuestionId, Value, Value)>,
}

impl OpenRequests {
    pub(super) fn is_full(&self) -> bool {
        self.permissions.len() + self.forms.len() >= AT_MOST
    }

    /// Adds a permission, with the answers that the agent offers.
    pub(super) fn add_permission(&mut self, approval: ApprovalId, id: Value, options: Vec<ApprovalOption>) {
        self.permissions.push((approval, id, options));
    }

    /// Adds a form, with its schema.
    pub(super) fn add_form(&mut self, question: QuestionId, id: Value, schema: Value) {
        self.forms.push((question, id, schema));
    }

    /// The agent took a request back.
    pub(super) fn withdrawn(&mut self, id: Option<&Value>) {
        // Only claude-agent-acp 0.99.1 and codex-acp 2.6.0 send `$/cancel_request`; the others end the tool or the prompt instead.
        self.permissions.retain(|(_, open, _)| Some(open) != id);
        self.forms.retain(|(_, open, _)| Some(open) != id);
    }

    /// Takes a permission out, and returns its id and the response.
    pub(super) fn decide(
        &mut self,
        approval: &ApprovalId,
        answer: &ApprovalAnswer,
    ) -> Option<(Value, Value)> {
        // Not the first one: Copilot 1.0.102 and claude-agent-acp 0.99.1 have several permissions open at once.
        let place = self.permissions.iter().position(|(open, ..)| open == approval)?;
        let (_, id, options) = self.permissions.remove(place);
        Some((id, choices::response(&options, answer)))
    }

    /// Takes a form out, and returns its id and the response. If it does not take the reply, it returns why, and the form is still open.
    pub(super) fn reply(
        &mut self,
        question: &QuestionId,
        reply: &QuestionReply,
    ) -> Result<(Value, Value), &'static str> {
        let place = self.forms.iter().position(|(open, ..)| open == question);
        let place = place.ok_or("the agent no longer waits for it")?;
        if let QuestionReply::Answers(answers) = reply
            && let Some(why) = elicitation::refusal(&self.forms[place].2, answers)
        {
            return Err(why);
        }
        // Removed only now: a reply that does not fit the form leaves it open.
        let (_, id, schema) = self.forms.remove(place);
        let response = match reply {
            QuestionReply::Answers(answers) => {
                json!({ "action": "accept", "content": elicitation::content(&schema, answers) })
            }
            QuestionReply::Dismissed => json!({ "action": "decline" }),
        };
        Ok((id, response))
    }

    /// Takes all requests out, and returns their ids with the responses that cancel them.
    pub(super) fn cancel(&mut self) -> Vec<(Value, Value)> {
        let permissions = self.permissions.drain(..).map(|(_, id, _)| (id, cancelled()));
        let forms = self.forms.drain(..).map(|(_, id, _)| (id, json!({ "action": "cancel" })));
        permissions.chain(forms).collect()
    }
}

/// Returns whether a question is a form. A page of the web is no question that could be answered here, and was not offered.
pub(super) fn is_form(params: &Value) -> bool {
    params.get("mode").and_then(Value::as_str).is_none_or(|mode| mode == "form")
}

/// Returns the response to a permission request of a prompt that was cancelled.
pub(super) fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}
