//! Requests of the server, and the responses to them: approvals wait for a decision, questions for a reply.
//!
//! The reader reports each question of a request as a question of its own, with the id `REQUEST/QUESTION`. The server gets one
//! response, when the last of them has its reply.

use std::collections::VecDeque;

use bowline_protocol::{ApprovalCategory, ApprovalId, QuestionId, Risk};
use serde_json::{Map, Value, json};

use super::super::approvals::question_id;
use crate::dialect::{ActionDoer, ApprovalAnswer, DecisionRequest, QuestionReply, RequestedAct};
use crate::dialects::elicitation;

/// A request of the server that waits for the caller.
#[derive(Debug)]
pub(super) struct OpenRequest {
    /// As the server wrote it: `0` and `"0"` are two requests.
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
    waits_for: AwaitedAnswer,
}

#[derive(Debug)]
enum AwaitedAnswer {
    Decision(ApprovalId),
    Replies(Vec<OpenQuestion>),
}

/// A question of a request.
#[derive(Debug)]
struct OpenQuestion {
    id: QuestionId,
    /// The id that the server wants back.
    native: String,
    reply: Option<QuestionReply>,
}

impl OpenRequest {
    pub(super) fn approval(id: Value, method: String, params: Value, approval: ApprovalId) -> Self {
        Self { id, method, params, waits_for: AwaitedAnswer::Decision(approval) }
    }

    /// Makes a request of the questions in it; nothing if it has none. Then there is nothing to wait for.
    pub(super) fn questions(id: &Value, method: &str, params: &Value) -> Option<Self> {
        let request = name(id);
        let string =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let open = |native: String| OpenQuestion { id: question_id(&request, &native), native, reply: None };
        let questions: Vec<OpenQuestion> = match method {
            "item/tool/requestUserInput" => {
                let asked = params.get("questions").and_then(Value::as_array).into_iter().flatten();
                asked.filter(|it| it.is_object()).map(|it| open(string(it, "id"))).collect()
            }
            // A form has several fields and one response, so it is one question. Its id is the name of the MCP server.
            "mcpServer/elicitation/request" if !is_about_a_tool(params) => {
                vec![open(string(params, "serverName"))]
            }
            _ => Vec::new(),
        };
        let (id, method, params) = (id.clone(), method.to_owned(), params.clone());
        // A request without a question would wait for ever: there is no reply that could complete it.
        (!questions.is_empty()).then_some(Self {
            id,
            method,
            params,
            waits_for: AwaitedAnswer::Replies(questions),
        })
    }

    /// Returns whether it waits for the decision on this approval.
    pub(super) fn is_approval(&self, approval: &ApprovalId) -> bool {
        matches!(&self.waits_for, AwaitedAnswer::Decision(id) if id == approval)
    }

    /// Returns the ids of its questions.
    pub(super) fn question_ids(&self) -> impl Iterator<Item = &QuestionId> {
        let questions = match &self.waits_for {
            AwaitedAnswer::Decision(_) => &[][..],
            AwaitedAnswer::Replies(questions) => questions.as_slice(),
        };
        questions.iter().filter(|question| question.reply.is_none()).map(|question| &question.id)
    }

    /// Returns why a reply is not possible: the form of an MCP server does not take it.
    pub(super) fn refuses(&self, reply: &QuestionReply) -> Option<&'static str> {
        match reply {
            QuestionReply::Answers(answers) if self.method == "mcpServer/elicitation/request" => {
                elicitation::refusal(self.params.get("requestedSchema").unwrap_or(&Value::Null), answers)
            }
            QuestionReply::Answers(_) | QuestionReply::Dismissed => None,
        }
    }

    /// Takes the reply to one of its questions. Returns the response when all have theirs.
    pub(super) fn take_reply(&mut self, question: &QuestionId, reply: &QuestionReply) -> Option<Value> {
        let AwaitedAnswer::Replies(questions) = &mut self.waits_for else { return None };
        let open = questions.iter_mut().find(|open| open.id == *question && open.reply.is_none())?;
        open.reply = Some(reply.clone());
        // The server takes one response for all questions of a request.
        if questions.iter().any(|open| open.reply.is_none()) {
            return None;
        }
        if self.method == "mcpServer/elicitation/request" {
            // Replies are texts. The schema has the type that the MCP server expects of each field.
            let schema = self.params.get("requestedSchema").unwrap_or(&Value::Null);
            return Some(match reply {
                QuestionReply::Answers(answers) => {
                    json!({ "action": "accept", "content": elicitation::content(schema, answers), "_meta": null })
                }
                QuestionReply::Dismissed => json!({ "action": "decline", "content": null, "_meta": null }),
            });
        }
        // A dismissed question has no entry: the form of the answer has no word for a dismissal.
        let answers = questions.iter().filter_map(|open| match open.reply.as_ref()? {
            QuestionReply::Answers(answers) => Some((open.native.clone(), json!({ "answers": answers }))),
            QuestionReply::Dismissed => None,
        });
        Some(json!({ "answers": answers.collect::<Map<_, _>>() }))
    }
}

/// Returns the id of a request as the reader writes it into its events.
fn name(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Returns what the server asks to be decided; `None` if the request is no approval.
pub(super) fn decision_request(id: &Value, method: &str, params: &Value) -> Option<DecisionRequest> {
    let (category, risk) = match method {
        // Access to the network comes as a request about the command that needs it.
        "item/commandExecution/requestApproval" if params.get("networkApprovalContext").is_some() => {
            (ApprovalCategory::Network, Risk::Med)
        }
        "item/commandExecution/requestApproval" | "execCommandApproval" => {
            (ApprovalCategory::Shell, Risk::Med)
        }
        "item/fileChange/requestApproval" | "applyPatchApproval" => (ApprovalCategory::Edit, Risk::Med),
        // More rights hold for the rest of the turn, or of the session: for more than the action that needs them.
        "item/permissions/requestApproval" => (ApprovalCategory::Other, Risk::High),
        "mcpServer/elicitation/request" if is_about_a_tool(params) => (ApprovalCategory::Other, Risk::Med),
        _ => return None,
    };
    // The start of the item names the files of an edit, not the request. `accept` is always taken, listed or not (0.166.0).
    let (paths, offers) = (None, Vec::new());
    let approval = ApprovalId::from(name(id));
    Some(DecisionRequest {
        approval,
        category,
        risk,
        paths,
        offers,
        changeable: false,
        carries_message: false,
        doer: ActionDoer::Agent,
        acts: acts(method, params),
    })
}

/// Returns what a request is about, as far as it describes it. A request to change files does not name them in newer versions of the
/// protocol: [`FileChanges`] has them.
fn acts(method: &str, params: &Value) -> Vec<RequestedAct> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut acts: Vec<RequestedAct> = match (method, params.get("command")) {
        ("item/commandExecution/requestApproval" | "execCommandApproval", Some(Value::Array(words))) => {
            vec![RequestedAct::Program(words.iter().filter_map(text).collect())]
        }
        ("item/commandExecution/requestApproval" | "execCommandApproval", Some(Value::String(command))) => {
            vec![RequestedAct::Shell(command.clone())]
        }
        ("applyPatchApproval", _) => {
            let files = params.get("fileChanges").and_then(Value::as_object);
            files.into_iter().flat_map(Map::keys).cloned().map(RequestedAct::Write).collect()
        }
        ("mcpServer/elicitation/request", _) => {
            let name = ["/_meta/tool_name", "/_meta/toolName", "/serverName"];
            let name = name.iter().find_map(|place| params.pointer(place).and_then(text)).unwrap_or_default();
            let input = params.pointer("/_meta/tool_params").unwrap_or(&Value::Null);
            vec![RequestedAct::Tool { name, input: input.clone() }]
        }
        _ => Vec::new(),
    };
    acts.extend(params.pointer("/networkApprovalContext/host").and_then(text).map(RequestedAct::Network));
    acts
}

/// The files of changes that were announced and not asked about.
#[derive(Debug, Default)]
pub(super) struct FileChanges {
    known: VecDeque<(String, Vec<String>)>,
}

impl FileChanges {
    /// How many announced changes are remembered.
    const AT_MOST: usize = 64;

    /// Remembers the files of an item that begins, if it is a change of files.
    pub(super) fn started(&mut self, params: &Value) {
        let Some(item) = params.get("item").filter(|it| it.get("type").is_some_and(|it| it == "fileChange"))
        else {
            return;
        };
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let changes = item.get("changes").and_then(Value::as_array);
        let files = changes.into_iter().flatten().flat_map(|change| {
            // A move writes the new place and removes the old one.
            let moved = change.get("kind").and_then(|kind| text(kind, "move_path"));
            text(change, "path").into_iter().chain(moved)
        });
        if self.known.len() == Self::AT_MOST {
            self.known.pop_front();
        }
        self.known.push_back((text(item, "id").unwrap_or_default(), files.collect()));
    }

    /// Adds the files of a change to the request that asks about it.
    pub(super) fn describe(&mut self, params: &Value, request: &mut DecisionRequest) {
        let Some(id) = params.get("itemId").and_then(Value::as_str) else { return };
        let Some(place) = self.known.iter().position(|(known, _)| known == id) else { return };
        let files = self.known.remove(place).map(|(_, files)| files).unwrap_or_default();
        request.acts.extend(files.into_iter().map(RequestedAct::Write));
    }
}

/// Returns whether an MCP elicitation asks if a tool may run. Others are questions of the MCP server itself.
fn is_about_a_tool(params: &Value) -> bool {
    params.pointer("/_meta/codex_approval_kind").is_some()
}

/// Returns the response to a request of the server; `None` if the method is unknown. No form of it carries the message of a denial.
pub(super) fn response(method: &str, params: &Value, answer: &ApprovalAnswer) -> Option<Value> {
    let word = |once: &'static str, session: &'static str, no: &'static str| match answer {
        ApprovalAnswer::AllowOnce => once,
        ApprovalAnswer::AllowForSession => session,
        // The request is not `changeable`, so that the engine never changes its input. A denial is the safe side.
        ApprovalAnswer::AllowChanged(_) | ApprovalAnswer::Deny { .. } => no,
    };
    Some(match method {
        // `decline`, not `cancel`: with `cancel` the whole turn ends as interrupted. 0.166.0 accepts `decline` unlisted.
        "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
            json!({ "decision": word("accept", "acceptForSession", "decline") })
        }
        // The same requests in the first version of the protocol.
        "execCommandApproval" | "applyPatchApproval" => {
            json!({ "decision": word("approved", "approved_for_session", "denied") })
        }
        "item/permissions/requestApproval" => {
            // The response lists the granted rights: all that were asked for, or none, which is a denial.
            let asked = || params.get("permissions").cloned().unwrap_or_else(|| json!({}));
            match answer {
                ApprovalAnswer::AllowOnce => json!({ "permissions": asked() }),
                ApprovalAnswer::AllowForSession => json!({ "permissions": asked(), "scope": "session" }),
                ApprovalAnswer::AllowChanged(_) | ApprovalAnswer::Deny { .. } => json!({ "permissions": {} }),
            }
        }
        "mcpServer/elicitation/request" => match answer {
            ApprovalAnswer::AllowOnce => json!({ "action": "accept", "content": {} }),
            ApprovalAnswer::AllowForSession => {
                json!({ "action": "accept", "content": {}, "_meta": { "persist": "session" } })
            }
            ApprovalAnswer::AllowChanged(_) | ApprovalAnswer::Deny { .. } => json!({ "action": "decline" }),
        },
        // There is no word for a dismissal: no answers are the answer.
        "item/tool/requestUserInput" => json!({ "answers": {} }),
        _ => return None,
    })
}
