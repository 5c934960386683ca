//! Requests of `app-server` to its client, and the client's responses.
//!
//! Server and client count their requests each for themselves, from 0 and from 1, so an id means nothing without its
//! direction. Only the server's requests are kept here.

use bowline_protocol::kinds::{ApprovalAsked, ApprovalDecided, QuestionAnswered, QuestionAsked};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, ApprovalOption, Decider, Decision, EnforcedBy, Excerpt, Json, Kind,
    OptionEffect, QuestionId, Risk, ToolId,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::app_server::{AppServerMessage, Rest};

use super::tools::parts::{CommandLine, raw};
use super::wire::part;
use crate::dialect::Output;
use crate::dialects::elicitation;
use crate::dialects::loose_json::{List, LooseText, Maybe};

/// How many questions may wait for an answer.
const LONGEST: usize = 1024;

/// The requests of the server that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct OpenApprovals {
    waiting: Vec<WaitingApproval>,
    /// Whether we see what the client writes. If not, its answer shows in what becomes of the item.
    sees_answers: bool,
}

#[derive(Debug)]
struct WaitingApproval {
    /// The request's id, as it was written.
    request: Box<str>,
    item: Box<str>,
    what: ApprovalSubject,
}

#[derive(Debug)]
enum ApprovalSubject {
    Approval(ApprovalId),
    /// The ids of the questions, as the server wants them back.
    Questions(Vec<String>),
    /// A form of an MCP server.
    Form(QuestionId),
}

impl OpenApprovals {
    /// Handles a request of the server; `false` if it asks for nothing that we know.
    pub(super) fn ask(
        &mut self,
        rpc: &AppServerMessage<'_>,
        params: &Rest<'_>,
        tool: Option<&ToolId>,
        out: &mut Output<'_>,
    ) -> bool {
        let Some(request) = rpc.id.map(RawValue::get) else { return false };
        // An id may be a number or a string. The key keeps its quotes, as `0` and `"0"` are different requests.
        let name = request.trim_matches('"');
        let what = match rpc.method.or_empty() {
            "item/commandExecution/requestApproval" | "execCommandApproval" => {
                let asked = command_of(name, params, tool);
                approval(asked, out)
            }
            "item/fileChange/requestApproval" | "applyPatchApproval" => {
                approval(edit(name, params.reason.get(), tool), out)
            }
            "item/permissions/requestApproval" => {
                let input = raw(params.permissions);
                let summary = params.reason.get().unwrap_or("more permissions");
                approval(asked(name, ApprovalCategory::Other, Risk::High, summary, tool, input, &[]), out)
            }
            "mcpServer/elicitation/request" => form(name, params, tool, out),
            "item/tool/requestUserInput" => questions(name, params.questions, out),
            _ => return false,
        };
        if self.waiting.len() < LONGEST {
            self.waiting.push(WaitingApproval {
                request: request.into(),
                item: params.item_id.or_empty().into(),
                what,
            });
        }
        true
    }

    /// Handles the client's answer to a request of the server.
    pub(super) fn answer(&mut self, rpc: &AppServerMessage<'_>, out: &mut Output<'_>) {
        self.sees_answers = true;
        let Some(place) =
            self.waiting.iter().position(|waiting| rpc.id.is_some_and(|id| id.get() == &*waiting.request))
        else {
            return;
        };
        let waiting = self.waiting.remove(place);
        match waiting.what {
            // An error response has no `result`, which reads as a denial.
            ApprovalSubject::Approval(id) => out.emit(decided(id, decision(rpc.result), Decider::Host)),
            ApprovalSubject::Questions(ids) => {
                let given: Value = part(rpc.result);
                for id in ids {
                    let answers = texts(given.get("answers").and_then(|answers| answers.get(&id)));
                    let id = question_id(waiting.request.trim_matches('"'), &id);
                    out.emit(Kind::QuestionAnswered(QuestionAnswered { id, answers }));
                }
            }
            ApprovalSubject::Form(id) => {
                let answers = elicitation::answers(&part::<Value>(rpc.result));
                out.emit(Kind::QuestionAnswered(QuestionAnswered { id, answers }));
            }
        }
    }

    /// The server says that a request is settled. If the client never answered, the server took it back.
    pub(super) fn resolved(&mut self, request: Option<&RawValue>, out: &mut Output<'_>) {
        // Every settled request is announced, answered ones too. Without our side of the wire, the two cannot be told apart.
        if self.sees_answers
            && let Some(request) = request
            && let Some(place) = self.waiting.iter().position(|waiting| *waiting.request == *request.get())
        {
            let waiting = self.waiting.remove(place);
            withdraw(waiting, Decider::Withdrawn, out);
        }
    }

    /// The item that a request was about is complete: an answer that we did not see shows in its status.
    pub(super) fn item_completed(&mut self, item: &str, status: &str, out: &mut Output<'_>) {
        if item.is_empty() || self.sees_answers {
            return;
        }
        // One item can have several open requests.
        while let Some(place) = self.waiting.iter().position(|waiting| *waiting.item == *item) {
            let decision = if status == "declined" { Decision::Deny } else { Decision::Allow };
            match self.waiting.remove(place).what {
                ApprovalSubject::Approval(id) => out.emit(decided(id, decision, Decider::Host)),
                ApprovalSubject::Questions(_) | ApprovalSubject::Form(_) => {}
            }
        }
    }

    /// No response will come any more: the open requests are denied.
    pub(super) fn end(&mut self, by: Decider, out: &mut Output<'_>) {
        for waiting in self.waiting.drain(..) {
            withdraw(waiting, by, out);
        }
    }
}

fn withdraw(waiting: WaitingApproval, by: Decider, out: &mut Output<'_>) {
    match waiting.what {
        ApprovalSubject::Approval(id) => out.emit(decided(id, Decision::Deny, by)),
        ApprovalSubject::Questions(ids) => {
            for id in ids {
                let id = question_id(waiting.request.trim_matches('"'), &id);
                out.emit(Kind::QuestionAnswered(QuestionAnswered { id, answers: Vec::new() }));
            }
        }
        ApprovalSubject::Form(id) => {
            out.emit(Kind::QuestionAnswered(QuestionAnswered { id, answers: Vec::new() }));
        }
    }
}

fn approval(kind: Kind, out: &mut Output<'_>) -> ApprovalSubject {
    let id = if let Kind::ApprovalAsked(asked) = &kind { asked.id.clone() } else { ApprovalId::from("") };
    out.emit(kind);
    ApprovalSubject::Approval(id)
}

fn command_of(name: &str, params: &Rest<'_>, tool: Option<&ToolId>) -> Kind {
    let text = part::<LooseText<'_>>(params.command).owned();
    let words = || {
        part::<List<LooseText<'_>>>(params.command)
            .0
            .iter()
            .map(LooseText::or_empty)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let command = text.unwrap_or_else(words);
    // Access to the network comes as a request about the command that needs it.
    let network = params.network_approval_context.is_some();
    let category = if network { ApprovalCategory::Network } else { ApprovalCategory::Shell };
    let summary = params.reason.get().filter(|reason| !reason.is_empty()).unwrap_or(&command);
    let input = Json::of(&CommandLine { command: &command, cwd: params.cwd.get() }).ok();
    let offered = options(params.available_decisions);
    asked(name, category, Risk::Med, summary, tool, input, &offered)
}

/// Makes the question whether a command may run.
pub(super) fn command(name: &str, command: &str, reason: Option<&str>, tool: Option<&ToolId>) -> Kind {
    let input = Json::of(&CommandLine { command, cwd: None }).ok();
    asked(name, ApprovalCategory::Shell, Risk::Med, reason.unwrap_or(command), tool, input, &[])
}

/// Makes the question whether files may be changed. The start of the item reported the change itself.
pub(super) fn edit(name: &str, reason: Option<&str>, tool: Option<&ToolId>) -> Kind {
    let options = ["accept", "acceptForSession", "decline", "cancel"].map(option);
    let summary = reason.unwrap_or("change files");
    asked(name, ApprovalCategory::Edit, Risk::Med, summary, tool, None, &options)
}

fn asked(
    name: &str,
    category: ApprovalCategory,
    risk: Risk,
    summary: &str,
    tool: Option<&ToolId>,
    input: Option<Json>,
    options: &[ApprovalOption],
) -> Kind {
    Kind::ApprovalAsked(ApprovalAsked {
        tool: tool.cloned(),
        input,
        options: options.to_vec(),
        ..ApprovalAsked::of_agent(ApprovalId::from(name), category, risk, summary)
    })
}

fn decided(id: ApprovalId, decision: Decision, by: Decider) -> Kind {
    let (rule, reason, changed_input) = (None, None, None);
    let enforced_by = EnforcedBy::Agent;
    Kind::ApprovalDecided(ApprovalDecided { id, decision, by, rule, reason, changed_input, enforced_by })
}

/// Reads the offered decisions: words, or objects with the word as their only key.
fn options(offered: Option<&RawValue>) -> Vec<ApprovalOption> {
    let offered: Vec<Value> = part(offered);
    let word = |value: &Value| {
        value.as_str().map(str::to_owned).or_else(|| value.as_object()?.keys().next().cloned())
    };
    offered.iter().filter_map(word).map(|word| option(&word)).collect()
}

fn option(word: &str) -> ApprovalOption {
    let effect = match decision_of(word) {
        Decision::Allow => OptionEffect::AllowOnce,
        Decision::AllowAlways => OptionEffect::AllowAlways,
        Decision::Deny => OptionEffect::RejectOnce,
        Decision::DenyAlways => OptionEffect::RejectAlways,
    };
    ApprovalOption { id: word.to_owned(), label: word.to_owned(), effect }
}

/// Returns the meaning of a decision. An unknown one is a denial.
fn decision_of(word: &str) -> Decision {
    match word {
        "accept" | "approved" => Decision::Allow,
        "acceptForSession"
        | "approved_for_session"
        | "acceptWithExecpolicyAmendment"
        | "approved_execpolicy_amendment"
        | "applyNetworkPolicyAmendment" => Decision::AllowAlways,
        _ => Decision::Deny,
    }
}

/// Reads the client's answer: `{"decision":…}`, `{"action":…}` or `{"permissions":{…}}`. No answer is a refusal.
fn decision(result: Option<&RawValue>) -> Decision {
    let result: Value = part(result);
    let word = |value: &Value| {
        value.as_str().map(str::to_owned).or_else(|| value.as_object()?.keys().next().cloned())
    };
    if let Some(word) = result.get("decision").or_else(|| result.get("action")).and_then(word) {
        // An MCP approval lasts when the client sets `_meta.persist`; `action` is `accept` in both cases.
        let keeps = result.get("_meta").is_some_and(|meta| meta.get("persist").is_some_and(Value::is_string));
        let decision = decision_of(&word);
        return if decision == Decision::Allow && keeps { Decision::AllowAlways } else { decision };
    }
    let granted =
        result.get("permissions").and_then(Value::as_object).is_some_and(|granted| !granted.is_empty());
    match (granted, result.get("scope").and_then(Value::as_str)) {
        (true, Some("session")) => Decision::AllowAlways,
        (true, _) => Decision::Allow,
        (false, _) => Decision::Deny,
    }
}

/// An MCP server asks: Codex itself, on its behalf, whether a tool may run, or the server something of its own.
fn form(name: &str, params: &Rest<'_>, tool: Option<&ToolId>, out: &mut Output<'_>) -> ApprovalSubject {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ApprovalMeta<'a> {
        #[serde(borrow)]
        codex_approval_kind: LooseText<'a>,
        #[serde(borrow)]
        tool_params: Option<&'a RawValue>,
    }
    let meta = part::<Maybe<ApprovalMeta<'_>>>(params.meta).0.unwrap_or_default();
    let text = params.message.or_empty();
    if meta.codex_approval_kind.get().is_some() {
        let options = ["accept", "decline", "cancel"].map(option);
        let input = raw(meta.tool_params);
        return approval(asked(name, ApprovalCategory::Other, Risk::Med, text, tool, input, &options), out);
    }
    let schema: Value = part(params.requested_schema);
    let id = question_id(name, params.server_name.or_empty());
    let (choices, several) = elicitation::choices(&schema);
    let text = Excerpt::of(&elicitation::text(text, &schema)).text;
    out.emit(Kind::QuestionAsked(QuestionAsked { id: id.clone(), text, choices, several }));
    ApprovalSubject::Form(id)
}

fn questions(name: &str, asked: Option<&RawValue>, out: &mut Output<'_>) -> ApprovalSubject {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct AskedQuestions<'a> {
        #[serde(borrow)]
        id: LooseText<'a>,
        #[serde(borrow)]
        question: LooseText<'a>,
        #[serde(borrow)]
        options: List<Maybe<Label<'a>>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Label<'a> {
        #[serde(borrow)]
        label: LooseText<'a>,
    }
    let mut ids = Vec::new();
    for asked in part::<List<Maybe<AskedQuestions<'_>>>>(asked).0.iter().filter_map(|asked| asked.0.as_ref())
    {
        let labels = asked.options.0.iter().filter_map(|option| option.0.as_ref()?.label.owned());
        out.emit(question(name, asked.id.or_empty(), asked.question.or_empty(), labels.collect()));
        ids.push(asked.id.or_empty().to_owned());
    }
    // A request without readable questions is still a known one.
    out.quiet();
    ApprovalSubject::Questions(ids)
}

fn question(request: &str, id: &str, text: &str, choices: Vec<String>) -> Kind {
    let id = question_id(request, id);
    Kind::QuestionAsked(QuestionAsked { id, text: text.to_owned(), choices, several: false })
}

/// The ids of questions are the model's, so the request's id goes with them.
pub(super) fn question_id(request: &str, id: &str) -> QuestionId {
    QuestionId::from(format!("{request}/{id}"))
}

/// Reads answers: a text, a list of texts, or either in `answers`.
fn texts(given: Option<&Value>) -> Vec<String> {
    match given {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::Object(fields)) => texts(fields.get("answers")),
        Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => Vec::new(),
    }
}
