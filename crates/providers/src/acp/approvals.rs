//! Permission requests and questions, and what the client answered.

use bowline_protocol::kinds::{ApprovalAsked, ApprovalDecided, QuestionAnswered, QuestionAsked, ToolStatus};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, ApprovalOption, Decider, Decision, EnforcedBy, Excerpt, Kind, OptionEffect,
    QuestionId, Risk, ToolId,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::tools::call::PlannedAction;
use super::wire::AcpToolCall;
use crate::dialect::Output;
use crate::dialects::{elicitation, tools};

/// The maximum number of reported answers of one request.
const OPTIONS: usize = 64;

/// Emits a request for a permission.
pub(crate) fn asked(
    id: &RawValue,
    call: &AcpToolCall<'_>,
    plan: PlannedAction,
    options: &[ApprovalOption],
    out: &mut Output<'_>,
) {
    let (category, risk) = weigh(call.kind.or_empty());
    let (input, input_head) = tools::carried(call.raw_input.map(RawValue::get));
    let summary = call.title.filled().or(call.name.filled()).unwrap_or("the agent asks for a permission");
    out.emit(Kind::ApprovalAsked(ApprovalAsked {
        id: approval(id.get()),
        category,
        risk,
        summary: Excerpt::with_limit(summary, 4096).text,
        tool: call.tool_call_id.filled().map(ToolId::from),
        input,
        input_head,
        paths: plan.paths,
        diff: plan.diff,
        options: options.to_vec(),
        rule: None,
        ruling: None,
        enforced_by: EnforcedBy::Agent,
        deadline: None,
    }));
}

/// Reads the offered answers. An unknown one does not allow anything.
pub(crate) fn options(options: &Value) -> Vec<ApprovalOption> {
    let read = |option: &Value| {
        let string = |key: &str| option.get(key).and_then(Value::as_str);
        let id = string("optionId")?;
        let effect = match string("kind").unwrap_or_default() {
            "allow_once" => OptionEffect::AllowOnce,
            "allow_always" => OptionEffect::AllowAlways,
            "reject_always" => OptionEffect::RejectAlways,
            // A new kind that allows is taken for the narrowest one.
            kind if kind.starts_with("allow") => OptionEffect::AllowOnce,
            _ => OptionEffect::RejectOnce,
        };
        Some(ApprovalOption { id: id.to_owned(), label: string("name").unwrap_or(id).to_owned(), effect })
    };
    options.as_array().into_iter().flatten().filter_map(read).take(OPTIONS).collect()
}

/// Emits the client's decision, and returns it.
pub(crate) fn answered(
    id: &str,
    options: &[ApprovalOption],
    result: &Value,
    out: &mut Output<'_>,
) -> Decision {
    let chosen = result.pointer("/outcome/optionId").and_then(Value::as_str);
    let option = chosen.and_then(|chosen| options.iter().find(|option| option.id == chosen));
    let (decision, reason) = match option {
        Some(option) => {
            let decision = match option.effect {
                OptionEffect::AllowOnce => Decision::Allow,
                OptionEffect::AllowAlways => Decision::AllowAlways,
                OptionEffect::RejectOnce => Decision::Deny,
                OptionEffect::RejectAlways => Decision::DenyAlways,
            };
            (decision, Some(option.label.clone()))
        }
        // The prompt was cancelled, or the id is not among the offers: neither allows anything.
        None => {
            (Decision::Deny, result.pointer("/outcome/outcome").and_then(Value::as_str).map(str::to_owned))
        }
    };
    decided(id, decision, Decider::Host, reason, out);
    decision
}

/// Emits a decision.
pub(crate) fn decided(
    id: &str,
    decision: Decision,
    by: Decider,
    reason: Option<String>,
    out: &mut Output<'_>,
) {
    out.emit(Kind::ApprovalDecided(ApprovalDecided {
        id: approval(id),
        decision,
        by,
        rule: None,
        reason,
        changed_input: None,
        enforced_by: EnforcedBy::Agent,
    }));
}

/// Emits the decision on a request whose answer is not in the output: a tool that has done its work was allowed to.
pub(crate) fn decided_unseen(id: &str, tool: Option<ToolStatus>, out: &mut Output<'_>) {
    match tool {
        Some(ToolStatus::Completed) => {
            let reason = Some("the tool ran; the answer was not seen".to_owned());
            decided(id, Decision::Allow, Decider::Host, reason, out);
        }
        Some(ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Cancelled) | None => {
            let reason = Some("the agent continued without an answer".to_owned());
            decided(id, Decision::Deny, Decider::Withdrawn, reason, out);
        }
    }
}

/// Returns whether a decision lets the tool run.
pub(crate) fn allows(decision: Decision) -> bool {
    match decision {
        Decision::Allow | Decision::AllowAlways => true,
        Decision::Deny | Decision::DenyAlways => false,
    }
}

/// Emits a question to the user.
pub(crate) fn question_asked(id: &RawValue, params: &Value, out: &mut Output<'_>) {
    let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
    let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
    let (choices, several) = elicitation::choices(schema);
    out.emit(Kind::QuestionAsked(QuestionAsked {
        id: question(id.get()),
        text: Excerpt::of(&elicitation::text(message, schema)).text,
        choices,
        several,
    }));
}

/// Emits the answer to a question.
pub(crate) fn question_answered(id: &str, result: &Value, out: &mut Output<'_>) {
    let answers = elicitation::answers(result);
    out.emit(Kind::QuestionAnswered(QuestionAnswered { id: question(id), answers }));
}

/// Makes the id of a question of the id of its request.
pub(crate) fn question(id: &str) -> QuestionId {
    QuestionId::from(id.trim_matches('"'))
}

/// Returns whether an answer that allows always is for the session only. Gemini CLI and Qwen Code have some that by their names
/// outlive it (0.24.4).
pub(crate) fn lasts_for_the_session(option: &ApprovalOption) -> bool {
    const OUTLIVE: &[&str] = &["proceed_always_project", "proceed_always_user", "proceed_always_and_save"];
    option.effect == OptionEffect::AllowAlways && !OUTLIVE.contains(&option.id.as_str())
}

/// Makes the id of an approval of the id of its request.
pub(crate) fn approval(id: &str) -> ApprovalId {
    ApprovalId::from(id.trim_matches('"'))
}

/// Returns the sort of action of the protocol's kind of a tool, and how much may go wrong. The kind is the agent's own word: an
/// unknown one is neither reading nor editing.
pub(crate) fn weigh(kind: &str) -> (ApprovalCategory, Risk) {
    match kind {
        "read" | "search" => (ApprovalCategory::Read, Risk::Low),
        "edit" | "move" => (ApprovalCategory::Edit, Risk::Med),
        "delete" => (ApprovalCategory::Edit, Risk::High),
        "execute" => (ApprovalCategory::Shell, Risk::High),
        "fetch" => (ApprovalCategory::Network, Risk::Med),
        "think" => (ApprovalCategory::Other, Risk::Low),
        // Leaving a plan mode means that everything after it runs.
        _ => (ApprovalCategory::Other, Risk::Med),
    }
}
