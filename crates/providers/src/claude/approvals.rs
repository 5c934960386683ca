//! Permissions and questions that the program asks for, and their answers.
//!
//! The decision on a permission is what we write to the program. Where that is not seen, or never comes, the result of
//! the tool shows it; a request that is still open when its turn ends was withdrawn. So each is decided exactly once.

pub(super) mod forms;

use std::collections::VecDeque;

use bowline_protocol::kinds::{ApprovalAsked, ApprovalDecided, QuestionAnswered, QuestionAsked, ToolKind};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, ApprovalOption, Decider, Decision, EnforcedBy, Excerpt, Json, Kind,
    OptionEffect, QuestionId, Risk, ToolId,
};
use serde_json::Value;

use super::wire::ClaudeObject;
use crate::dialect::{ActionDoer, DecisionRequest, Output, RequestedAct, ToolGate};
use crate::dialects::tools;

/// The most requests that may be open.
pub(super) const MOST_OPEN: usize = 256;

/// The number of denied calls that are remembered, so that a denial is emitted once.
const MOST_REFUSED: usize = 256;

/// The requests of the program that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: VecDeque<Request>,
    /// Denied calls whose denial was emitted, and the decider.
    refused: VecDeque<(String, Decider)>,
    /// Whether the program edits files of the project without a request: its mode is `acceptEdits`.
    pub(super) accepts_edits: bool,
}

#[derive(Debug)]
struct Request {
    id: String,
    tool: Option<String>,
    input: Option<Json>,
    /// The questions, if it asks any; else it asks for a permission.
    questions: Vec<String>,
    /// Whether it is the form of an MCP server.
    form: bool,
    /// Whether a sub-agent asks, which may go on after the turn.
    sub_agent: bool,
}

/// A decision, as far as it is known.
struct ApprovalVerdict {
    decision: Decision,
    by: Decider,
    reason: Option<String>,
    changed_input: Option<Json>,
}

impl Requests {
    /// Handles a request for a permission, or a question to the user, which comes in the same form.
    pub(super) fn can_use_tool(&mut self, id: &str, request: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let name = request.text("tool_name").unwrap_or("tool".into());
        let tool = request.text("tool_use_id").map(std::borrow::Cow::into_owned);
        let mut entry = Request {
            id: id.to_owned(),
            tool,
            input: request.json("input"),
            questions: Vec::new(),
            form: false,
            sub_agent: request.raw("agent_id").is_some(),
        };
        // 2.1.325 offers this tool only with `--permission-prompt-tool stdio`. The question arrives as a permission request,
        // and the answer is an `allow` with `updatedInput.answers`.
        if name == "AskUserQuestion" {
            entry.questions = questions(id, request, out);
        }
        // An `AskUserQuestion` without readable questions is still a request that needs a decision, so it becomes an approval.
        if entry.questions.is_empty() {
            let kind = tools::kind_of(&name);
            let (input, input_head) = tools::carried(entry.input.as_ref().map(Json::as_str));
            let shown = request.text("display_name").unwrap_or(name);
            let what = request.text("description").or_else(|| request.text("title"));
            out.emit(Kind::ApprovalAsked(ApprovalAsked {
                id: ApprovalId::from(id),
                category: category(kind),
                risk: self.risk(kind),
                summary: what.map_or_else(|| shown.clone().into_owned(), |what| format!("{shown}: {what}")),
                tool: entry.tool.as_deref().map(ToolId::from),
                input,
                input_head,
                paths: paths(request),
                diff: None,
                // "Always" is sent back as an echo of the suggestions; without any there is nothing that could last.
                options: options(!lasting(request).is_empty()),
                rule: request.text("decision_reason").map(std::borrow::Cow::into_owned),
                ruling: None,
                enforced_by: EnforcedBy::Agent,
                deadline: None,
            }));
        }
        self.add(entry, out);
    }

    /// Handles a question of an MCP server.
    pub(super) fn elicitation(&mut self, id: &str, request: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let fields = forms::fields(request);
        let question = forms::question(&request.text_or_empty("message"), &fields);
        let (choices, several) = forms::choices(&fields);
        let (id, text) = (QuestionId::from(id), Excerpt::of(&question).text);
        out.emit(Kind::QuestionAsked(QuestionAsked { id: id.clone(), text, choices, several }));
        let sub_agent = request.raw("agent_id").is_some();
        let (id, questions) = (id.as_str().to_owned(), vec![question]);
        self.add(Request { id, tool: None, input: None, questions, form: true, sub_agent }, out);
    }

    /// Describes an open request that needs a decision. `None` if it is not open, or asks questions.
    pub(super) fn decision(&self, id: &str, request: &ClaudeObject<'_>) -> Option<DecisionRequest> {
        self.open.iter().find(|open| open.id == id && open.questions.is_empty())?;
        let kind = tools::kind_of(&request.text("tool_name").unwrap_or("tool".into()));
        let mut offers = vec![OptionEffect::AllowOnce, OptionEffect::RejectOnce];
        if !lasting(request).is_empty() {
            offers.push(OptionEffect::AllowAlways);
        }
        Some(DecisionRequest {
            approval: ApprovalId::from(id),
            category: category(kind),
            risk: self.risk(kind),
            paths: Some(paths(request)),
            offers,
            changeable: true,
            carries_message: true,
            doer: ActionDoer::Agent,
            acts: vec![act(request, "tool_name", "input")],
        })
    }

    /// Describes a tool at its gate: `PreToolUse`, which the program announces before its own rules and requests.
    pub(super) fn gate(&self, id: &str, input: &ClaudeObject<'_>) -> ToolGate {
        let name = input.text("tool_name").unwrap_or("tool".into());
        let kind = tools::kind_of(&name);
        let (shown, input_head) = tools::carried(input.json("tool_input").as_ref().map(Json::as_str));
        let asked = ApprovalAsked {
            id: ApprovalId::from(id),
            category: category(kind),
            risk: self.risk(kind),
            summary: name.into_owned(),
            tool: input.text("tool_use_id").as_deref().map(ToolId::from),
            input: shown,
            input_head,
            paths: named_paths(&input.object("tool_input").unwrap_or_default()),
            diff: None,
            options: options(false),
            rule: None,
            ruling: None,
            enforced_by: EnforcedBy::Policy,
            deadline: None,
        };
        ToolGate { asked, acts: vec![act(input, "tool_name", "tool_input")] }
    }

    /// Remembers that a call was denied at its gate: the program lists it again, as its own refusal.
    pub(super) fn denied_at_gate(&mut self, tool: &str) {
        self.remember_refused(tool, Decider::Policy);
    }

    /// Returns the questions of an open request; none if it asks for a permission.
    pub(super) fn asked(&self, id: &str) -> &[String] {
        self.open.iter().find(|open| open.id == id).map_or(&[], |open| &open.questions)
    }

    /// Returns whether a request waits for an answer.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.iter().any(|open| open.id == id)
    }

    fn risk(&self, kind: ToolKind) -> Risk {
        match kind {
            ToolKind::Read | ToolKind::Search | ToolKind::Think => Risk::Low,
            // In `acceptEdits` the program asks only about files that it protects, such as its settings, and about those
            // outside of the project.
            ToolKind::Edit | ToolKind::Move if self.accepts_edits => Risk::High,
            ToolKind::Edit | ToolKind::Move | ToolKind::Fetch | ToolKind::Agent => Risk::Med,
            ToolKind::SwitchMode | ToolKind::Other => Risk::Med,
            ToolKind::Execute | ToolKind::Delete => Risk::High,
        }
    }

    fn add(&mut self, request: Request, out: &mut Output<'_>) {
        if self.open.len() >= MOST_OPEN
            // Dropping the oldest silently would leave an `ApprovalAsked` without its `ApprovalDecided`.
            && let Some(oldest) = self.open.pop_front()
        {
            self.decide(&oldest, withdrawn(), out);
        }
        self.open.push_back(request);
    }

    /// Handles our answer.
    pub(super) fn answered(&mut self, response: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let Some(request) = self.take(&response.text_or_empty("request_id")) else { return };
        let answer = response.object("response").unwrap_or_default();
        if request.form {
            let answers = forms::values(&answer.object("content").unwrap_or_default());
            let id = question_id(&request.id, 0);
            return out.emit(Kind::QuestionAnswered(QuestionAnswered { id, answers }));
        }
        if !request.questions.is_empty() {
            let given = answer.object("updatedInput").unwrap_or_default();
            return answer_questions(&request, given.object("answers").as_ref(), out);
        }
        let reason = || answer.text("message").or_else(|| response.text("error"));
        let verdict = match answer.text("behavior").as_deref() {
            Some("allow") => ApprovalVerdict {
                decision: if answer.array("updatedPermissions").is_empty() {
                    Decision::Allow
                } else {
                    Decision::AllowAlways
                },
                by: Decider::Host,
                reason: None,
                // A host may echo the input unchanged, with other spacing or key order: compare the trees, not the texts.
                changed_input: answer.json("updatedInput").filter(|new| !same(request.input.as_ref(), new)),
            },
            // The program treats an unknown response as a denial.
            Some(_) | None => ApprovalVerdict {
                decision: Decision::Deny,
                by: Decider::Host,
                reason: reason().map(std::borrow::Cow::into_owned),
                changed_input: None,
            },
        };
        self.decide(&request, verdict, out);
    }

    /// Handles the program's withdrawal of a request.
    pub(super) fn cancelled(&mut self, id: &str, out: &mut Output<'_>) {
        out.quiet();
        if let Some(request) = self.take(id) {
            self.decide(&request, withdrawn(), out);
        }
    }

    /// Handles the end of a call: it decides a request without a visible response.
    pub(super) fn settled(&mut self, call: &Settled<'_>, out: &mut Output<'_>) {
        let Some(place) = self.open.iter().position(|open| open.tool.as_deref() == Some(call.tool)) else {
            return;
        };
        let Some(request) = self.open.remove(place) else { return };
        if !request.questions.is_empty() {
            return answer_questions(&request, call.answers, out);
        }
        // When stdin closes while a request is pending, 2.1.325 denies the call with this text, ends the turn and exits with 0.
        let nobody_answered = call.refused && call.output.contains("closed before response");
        let verdict = ApprovalVerdict {
            decision: if call.refused { Decision::Deny } else { Decision::Allow },
            by: if nobody_answered { Decider::ClientLost } else { Decider::Host },
            reason: call.refused.then(|| call.output.to_owned()),
            changed_input: None,
        };
        self.decide(&request, verdict, out);
    }

    /// Handles a refusal that the program decided by itself.
    pub(super) fn refused(
        &mut self,
        tool: &str,
        rule: Option<String>,
        reason: Option<String>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        // A denial arrives twice: as `system/permission_denied` (absent in 2.1.197) and in `permission_denials` of the result.
        if self.refused.iter().any(|(refused, _)| refused == tool) {
            return;
        }
        self.remember_refused(tool, Decider::Policy);
        out.emit(Kind::ApprovalDecided(ApprovalDecided {
            id: ApprovalId::from(tool),
            decision: Decision::Deny,
            by: Decider::Policy,
            rule,
            reason: reason.map(|reason| Excerpt::of(&reason).text),
            changed_input: None,
            enforced_by: EnforcedBy::Agent,
        }));
    }

    /// Returns whether a call was denied. A withdrawn request was not denied.
    pub(super) fn is_refused(&self, tool: &str) -> bool {
        // An interrupt withdraws a request with `control_cancel_request`: that call was cancelled, not denied.
        self.refused.iter().any(|(refused, by)| refused == tool && *by != Decider::Withdrawn)
    }

    /// Withdraws the open requests of the turn that ends. Those of sub-agents in the background remain.
    pub(super) fn turn_over(&mut self, out: &mut Output<'_>) {
        let (remaining, over) = std::mem::take(&mut self.open).into_iter().partition(|open| open.sub_agent);
        self.open = remaining;
        let over: VecDeque<Request> = over;
        over.iter().for_each(|request| self.decide(request, withdrawn(), out));
    }

    /// Withdraws all open requests: the program is gone.
    pub(super) fn end(&mut self, out: &mut Output<'_>) {
        while let Some(request) = self.open.pop_front() {
            self.decide(&request, withdrawn(), out);
        }
    }

    fn take(&mut self, id: &str) -> Option<Request> {
        let place = self.open.iter().position(|open| open.id == id)?;
        self.open.remove(place)
    }

    fn decide(&mut self, request: &Request, verdict: ApprovalVerdict, out: &mut Output<'_>) {
        if !request.questions.is_empty() {
            return answer_questions(request, None, out);
        }
        let refused = matches!(verdict.decision, Decision::Deny | Decision::DenyAlways);
        if let (true, Some(tool)) = (refused, &request.tool) {
            // The result of the turn lists it again.
            self.remember_refused(tool, verdict.by);
        }
        out.emit(Kind::ApprovalDecided(ApprovalDecided {
            id: ApprovalId::from(request.id.as_str()),
            decision: verdict.decision,
            by: verdict.by,
            rule: None,
            reason: verdict.reason.map(|reason| Excerpt::of(&reason).text),
            changed_input: verdict.changed_input,
            enforced_by: EnforcedBy::Agent,
        }));
    }

    fn remember_refused(&mut self, tool: &str, by: Decider) {
        if self.refused.len() >= MOST_REFUSED {
            self.refused.pop_front();
        }
        self.refused.push_back((tool.to_owned(), by));
    }
}

/// A call that has ended.
pub(super) struct Settled<'a> {
    pub(super) tool: &'a str,
    pub(super) refused: bool,
    pub(super) output: &'a str,
    /// The answers, if it asked questions.
    pub(super) answers: Option<&'a ClaudeObject<'a>>,
}

fn withdrawn() -> ApprovalVerdict {
    ApprovalVerdict { decision: Decision::Deny, by: Decider::Withdrawn, reason: None, changed_input: None }
}

fn same(old: Option<&Json>, new: &Json) -> bool {
    let tree = |json: &Json| json.read::<Value>().ok();
    old.is_some_and(|old| tree(old) == tree(new))
}

fn options(may_last: bool) -> Vec<ApprovalOption> {
    let option =
        |id: &str, label: &str, effect| ApprovalOption { id: id.into(), label: label.into(), effect };
    let mut options = vec![option("allow", "Allow", OptionEffect::AllowOnce)];
    if may_last {
        options.push(option("allow_always", "Allow, and do not ask again", OptionEffect::AllowAlways));
    }
    options.push(option("deny", "Deny", OptionEffect::RejectOnce));
    options
}

fn category(kind: ToolKind) -> ApprovalCategory {
    match kind {
        ToolKind::Execute => ApprovalCategory::Shell,
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => ApprovalCategory::Edit,
        ToolKind::Read | ToolKind::Search => ApprovalCategory::Read,
        ToolKind::Fetch => ApprovalCategory::Network,
        ToolKind::Think | ToolKind::Agent | ToolKind::SwitchMode | ToolKind::Other => ApprovalCategory::Other,
    }
}

/// Returns the files that a tool names.
fn paths(request: &ClaudeObject<'_>) -> Vec<String> {
    let mut named = named_paths(&request.object("input").unwrap_or_default());
    // Where a link leads, for example.
    named.extend(request.text("blocked_path").map(String::from));
    named
}

fn named_paths(input: &ClaudeObject<'_>) -> Vec<String> {
    ["file_path", "notebook_path", "path"]
        .iter()
        .filter_map(|key| input.text(key))
        .map(String::from)
        .collect()
}

/// Returns the call of a tool that a request describes.
fn act(request: &ClaudeObject<'_>, name: &str, input: &str) -> RequestedAct {
    let input = request.value(input).unwrap_or_default();
    RequestedAct::Tool { name: request.text_or_empty(name).into_owned(), input }
}

/// Returns the suggestions of a request that make its permission last. Their rules, if there are any: the wider ones beside them (all
/// edits, a whole directory) allow more than the same again.
pub(super) fn lasting<'a>(request: &ClaudeObject<'a>) -> Vec<ClaudeObject<'a>> {
    let suggestions = request.objects("permission_suggestions");
    let is = |suggestion: &ClaudeObject<'_>, key: &str, value: &str| suggestion.text_or_empty(key) == value;
    let rules = |it: &ClaudeObject<'_>| is(it, "type", "addRules") && is(it, "behavior", "allow");
    let others = |it: &ClaudeObject<'_>| {
        is(it, "type", "addDirectories") || is(it, "type", "setMode") && is(it, "mode", "acceptEdits")
    };
    let (rules, rest): (Vec<_>, Vec<_>) = suggestions.into_iter().partition(rules);
    if rules.is_empty() { rest.into_iter().filter(others).collect() } else { rules }
}

/// Asks the questions of `AskUserQuestion`. One request may hold several; each gets an id of its own.
fn questions(id: &str, request: &ClaudeObject<'_>, out: &mut Output<'_>) -> Vec<String> {
    let asked = request.object("input").map(|input| input.objects("questions")).unwrap_or_default();
    let mut texts = Vec::new();
    for (place, question) in asked.iter().enumerate() {
        let text = question.text_or_empty("question").into_owned();
        let offered = question.objects("options");
        let choices = offered.iter().filter_map(|option| option.text("label")).map(String::from);
        out.emit(Kind::QuestionAsked(QuestionAsked {
            id: question_id(id, place),
            text: text.clone(),
            choices: choices.collect(),
            several: question.is("multiSelect"),
        }));
        texts.push(text);
    }
    texts
}

fn answer_questions(request: &Request, answers: Option<&ClaudeObject<'_>>, out: &mut Output<'_>) {
    for (place, question) in request.questions.iter().enumerate() {
        let given = answers.and_then(|answers| answers.value(question));
        let answers = match given {
            Some(Value::String(answer)) => vec![answer],
            Some(Value::Array(several)) => {
                several.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_)) | None => Vec::new(),
        };
        let id = question_id(&request.id, place);
        out.emit(Kind::QuestionAnswered(QuestionAnswered { id, answers }));
    }
}

/// Returns the id of a question of a request.
pub(super) fn question_id(request: &str, place: usize) -> QuestionId {
    if place == 0 { QuestionId::from(request) } else { QuestionId::from(format!("{request}#{}", place + 1)) }
}
