//! The program's requests that wait for an answer, and the answers in its words.

use bowline_protocol::Json;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::approvals::{self, forms};
use super::super::wire::ClaudeObject;
use crate::dialect::{ApprovalAnswer, QuestionReply};

/// The message of the program to the model about an action that is denied without a message: it takes no denial without one.
const DENIED: &str = "The user denied permission for this action.";

/// The same for questions that are dismissed.
const DISMISSED: &str = "The user dismissed the questions.";

/// The subject of a request.
#[derive(Debug)]
pub(super) enum ClaudeRequest {
    /// A permission for a tool with this input.
    Permission { input: Json, lasting: Vec<Value> },
    /// Questions of the tool `AskUserQuestion`, with its input.
    Questions { input: Json, questions: Vec<ClaudeQuestion> },
    /// A form of an MCP server.
    Form { fields: Vec<forms::FormField> },
}

/// A question, and the reply to it.
#[derive(Debug)]
pub(super) struct ClaudeQuestion {
    text: String,
    reply: Option<QuestionReply>,
}

/// The answer that allows a tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PermissionGrant<'a> {
    behavior: &'static str,
    updated_input: &'a Json,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    updated_permissions: &'a [Value],
}

impl ClaudeRequest {
    /// Reads a request for the permission to use a tool.
    pub(super) fn permission(request: &ClaudeObject<'_>) -> Self {
        let session = |suggestion: ClaudeObject<'_>| {
            let mut fields = Map::new();
            for (name, _) in suggestion.fields() {
                fields.extend(suggestion.value(name).map(|value| (name.to_owned(), value)));
            }
            // Most suggestions are for the settings of the project, where they would outlive the session.
            fields.insert("destination".into(), json!("session"));
            Value::Object(fields)
        };
        let lasting = approvals::lasting(request).into_iter().map(session).collect();
        Self::Permission { input: input(request), lasting }
    }

    /// Reads a request of the tool `AskUserQuestion`.
    pub(super) fn questions(request: &ClaudeObject<'_>, texts: Vec<String>) -> Self {
        let open = |text| ClaudeQuestion { text, reply: None };
        Self::Questions { input: input(request), questions: texts.into_iter().map(open).collect() }
    }

    /// Reads an elicitation.
    pub(super) fn form(request: &ClaudeObject<'_>) -> Self {
        Self::Form { fields: forms::fields(request) }
    }

    /// Returns the number of its questions.
    pub(super) fn questions_count(&self) -> usize {
        match self {
            Self::Permission { .. } => 0,
            Self::Questions { questions, .. } => questions.len(),
            Self::Form { .. } => 1,
        }
    }

    /// Returns the response that carries a decision.
    pub(super) fn decision(&self, answer: &ApprovalAnswer) -> Result<Json, &'static str> {
        let Self::Permission { input, lasting } = self else {
            return Err("it is a question, which takes a reply");
        };
        let (input, permissions) = match answer {
            ApprovalAnswer::AllowOnce => (input, &[][..]),
            // `updatedPermissions` of our own would also be accepted (2.1.325), but its scope would be our guess.
            ApprovalAnswer::AllowForSession if lasting.is_empty() => {
                return Err("the agent suggests no rule that could hold for the session");
            }
            ApprovalAnswer::AllowForSession => (input, &lasting[..]),
            ApprovalAnswer::AllowChanged(changed) if !changed.as_str().starts_with('{') => {
                return Err("the input of a tool is a JSON object");
            }
            ApprovalAnswer::AllowChanged(changed) => (changed, &[][..]),
            // The model reads the message as the result of its tool, and the turn goes on (2.1.325).
            ApprovalAnswer::Deny { message } => return Ok(denial(message.as_deref().unwrap_or(DENIED))),
        };
        Ok(body(&PermissionGrant {
            behavior: "allow",
            updated_input: input,
            updated_permissions: permissions,
        }))
    }

    /// Returns the response that denies or dismisses it.
    pub(super) fn refusal(&self) -> Json {
        match self {
            Self::Permission { .. } => denial(DENIED),
            Self::Questions { .. } => denial(DISMISSED),
            Self::Form { .. } => body(&json!({ "action": "decline" })),
        }
    }

    /// Takes the reply to one of its questions. Returns the response when all have theirs: a request has one response.
    pub(super) fn reply(
        &mut self,
        place: usize,
        reply: &QuestionReply,
    ) -> Result<Option<Json>, &'static str> {
        match (&mut *self, reply) {
            (Self::Permission { .. }, _) => Err("it is an approval, which takes a decision"),
            (Self::Form { .. }, QuestionReply::Dismissed) => Ok(Some(self.refusal())),
            (Self::Form { fields }, QuestionReply::Answers(answers)) => {
                let content = forms::filled(fields, answers)?;
                Ok(Some(body(&json!({ "action": "accept", "content": content }))))
            }
            (Self::Questions { input, questions }, _) => {
                // A second response to a request is ignored in silence (2.1.325), so a question has one reply here, too.
                let open = questions.get_mut(place).filter(|open| open.reply.is_none());
                open.ok_or("the question is answered")?.reply = Some(reply.clone());
                if questions.iter().any(|open| open.reply.is_none()) {
                    return Ok(None);
                }
                let chosen: Map<String, Value> =
                    questions.iter().filter_map(ClaudeQuestion::chosen).collect();
                // All were dismissed, which is a denial and not an approval without answers.
                if chosen.is_empty() {
                    return Ok(Some(self.refusal()));
                }
                // Not a field of the tool's own: what the request brought has to stay as it is.
                let mut input: Map<String, Value> = input.read().unwrap_or_default();
                input.insert("answers".into(), Value::Object(chosen));
                Ok(Some(body(&json!({ "behavior": "allow", "updatedInput": input }))))
            }
        }
    }
}

impl ClaudeQuestion {
    /// Returns the question with the answer to it. Several choices are one text.
    fn chosen(&self) -> Option<(String, Value)> {
        match self.reply.as_ref()? {
            QuestionReply::Dismissed => None,
            QuestionReply::Answers(answers) => Some((self.text.clone(), json!(answers.join(", ")))),
        }
    }
}

fn input(request: &ClaudeObject<'_>) -> Json {
    request.json("input").unwrap_or_else(|| body(&json!({})))
}

fn denial(message: &str) -> Json {
    body(&json!({ "behavior": "deny", "message": message }))
}

pub(super) fn body(value: &impl Serialize) -> Json {
    Json::of(value).expect("the keys of all maps are strings")
}
