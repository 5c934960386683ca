//! The decision on a request by policies and permission mode together.
//!
//! The stricter of the two wins, with one exception: in `ask` and `edit`, a policy of the user may allow what the mode would ask
//! about. A policy of a project alone only narrows.

use std::path::Path;
use std::sync::Arc;

use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{ApprovalCategory, ApprovalRuling, OptionEffect, PermissionMode, PolicyVerdict, Risk};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::{ApprovalAnswer, DecisionRequest, RequestedAct};
use serde_json::Value;

use super::{RealPlace, decide_by_mode, is_offered};
use crate::policy::{Judgement, PolicyAction, PolicyRules, Verdict, WorkspaceFacts, judge};

/// The policies that are in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySet {
    /// The policies. The strictest answer wins.
    pub rules: Arc<[PolicyRules]>,
    /// The meaning of an allowed action.
    pub reach: PolicyReach,
}

/// The meaning of an action that the policies allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyReach {
    /// It happens, also where the permission mode would ask: a policy of the user is among them.
    Grants,
    /// The permission mode decides: all of them came with a project.
    Narrows,
}

/// The answer of the policies to everything that a request would do.
#[derive(Clone, Debug)]
pub struct PolicyRuling {
    /// The answer.
    pub verdict: PolicyVerdict,
    /// Whether an allowed action needs no other permission.
    pub grants: bool,
    rule: String,
    place: Option<String>,
    reason: String,
    risk: Risk,
    category: ApprovalCategory,
    own_category: Option<String>,
    parts: Vec<String>,
}

/// The consequence of a ruling.
#[derive(Clone, Debug, PartialEq)]
pub enum RuledDecision {
    /// The request is decided.
    Settled(ApprovalAnswer),
    /// A person decides. Without one it is denied.
    ByPerson,
    /// The policies have no objection, and the permission mode decides.
    ByMode,
}

/// The most parts of commands that a ruling names.
const MOST_PARTS: usize = 8;

/// Judges everything that a request would do. A request that does not describe it asks: no list can allow it.
pub fn ruling_of(policies: &PolicySet, acts: &[RequestedAct], facts: &WorkspaceFacts) -> PolicyRuling {
    let judged = acts.iter().map(|act| (judge(&policies.rules, &action_of(act), facts), act));
    let Some((judgement, act)) = judged.max_by_key(|(judgement, _)| judgement.verdict) else {
        return PolicyRuling::of_bowline(
            PolicyVerdict::Ask,
            "unknown.request",
            "the agent does not describe what it would do",
        );
    };
    let is_listed = policies.rules.iter().any(|rules| !rules.tools.allow.is_empty());
    // The name of a tool says nothing about what it does, unless a list of the user has it.
    let is_known = judgement.decided.category != ApprovalCategory::Other || is_listed;
    let grants = policies.reach == PolicyReach::Grants && is_known;
    PolicyRuling::of(&judgement, &source_of(act), grants)
}

/// The ruling of policies that cannot be read: nothing may happen.
pub fn unreadable(why: &str) -> PolicyRuling {
    PolicyRuling::of_bowline(
        PolicyVerdict::Deny,
        "policy.unreadable",
        &format!("the policy cannot be read: {why}"),
    )
}

/// Decides a request by a ruling and the permission mode of its conversation.
pub fn decide_by_policy(
    request: &DecisionRequest,
    talk: &Conversation,
    place: RealPlace,
    ruling: &PolicyRuling,
) -> RuledDecision {
    let by_mode = decide_by_mode(request, talk, place).answer;
    let mode_denies = matches!(by_mode, ApprovalAnswer::Deny { .. });
    match (ruling.verdict, talk.permission) {
        (PolicyVerdict::Deny, _) => {
            RuledDecision::Settled(ApprovalAnswer::Deny { message: Some(ruling.message()) })
        }
        // `read` promises that nothing is changed, also where a policy or a person would allow it.
        (PolicyVerdict::Ask | PolicyVerdict::Allow, PermissionMode::Read) if mode_denies => {
            RuledDecision::ByMode
        }
        (PolicyVerdict::Ask, _) => RuledDecision::ByPerson,
        (PolicyVerdict::Allow, PermissionMode::Ask | PermissionMode::Edit)
            if mode_denies && ruling.grants && is_offered(request, &ApprovalAnswer::AllowOnce) =>
        {
            RuledDecision::Settled(ApprovalAnswer::AllowOnce)
        }
        (PolicyVerdict::Allow, _) => RuledDecision::ByMode,
    }
}

impl PolicyRuling {
    fn of(judgement: &Judgement, source: &str, grants: bool) -> Self {
        let decided = &judgement.decided;
        let part = |finding: &crate::policy::Finding| {
            let span = finding.part?;
            source.get(span.from..span.to).filter(|part| !part.is_empty()).map(str::to_owned)
        };
        let mut parts: Vec<String> = judgement.deciding().filter_map(part).take(MOST_PARTS).collect();
        parts.dedup();
        Self {
            verdict: match judgement.verdict {
                Verdict::Allow => PolicyVerdict::Allow,
                Verdict::Ask => PolicyVerdict::Ask,
                Verdict::Deny => PolicyVerdict::Deny,
            },
            grants,
            rule: decided.rule.clone(),
            place: decided.place.as_ref().map(ToString::to_string),
            reason: decided.reason.clone(),
            risk: decided.risk,
            category: decided.category,
            own_category: decided.own_category.clone(),
            parts,
        }
    }

    fn of_bowline(verdict: PolicyVerdict, rule: &str, reason: &str) -> Self {
        Self {
            verdict,
            grants: false,
            rule: rule.to_owned(),
            place: None,
            reason: reason.to_owned(),
            risk: Risk::High,
            category: ApprovalCategory::Other,
            own_category: None,
            parts: Vec::new(),
        }
    }

    /// Returns the name of the rule for the event of the decision.
    pub fn name(&self) -> String {
        match &self.place {
            Some(place) => format!("policy:{} ({place})", self.rule),
            None => format!("policy:{}", self.rule),
        }
    }

    /// Returns the text for the agent.
    pub fn message(&self) -> String {
        let verb = match self.verdict {
            PolicyVerdict::Deny => "denies this",
            PolicyVerdict::Ask => "asks a person about this",
            PolicyVerdict::Allow => "allows this",
        };
        format!("The policy of the user {verb}: {} (rule `{}`).", self.reason, self.rule)
    }

    /// Puts the ruling into the request that it is about. The more severe risk counts, and the category that the policies found.
    pub fn describe(&self, asked: &mut ApprovalAsked) {
        // An agent that may do it for the rest of the session no longer asks, and so is no longer judged.
        asked.options.retain(|option| option.effect != OptionEffect::AllowAlways);
        asked.risk = most_severe(asked.risk, self.risk);
        if self.category != ApprovalCategory::Other {
            asked.category = self.category;
        }
        asked.ruling = Some(ApprovalRuling {
            verdict: self.verdict,
            rule: self.rule.clone(),
            place: self.place.clone(),
            reason: self.reason.clone(),
            own_category: self.own_category.clone(),
            parts: self.parts.clone(),
        });
    }
}

fn most_severe(one: Risk, other: Risk) -> Risk {
    match (one, other) {
        (Risk::High, _) | (_, Risk::High) => Risk::High,
        (Risk::Med, _) | (_, Risk::Med) => Risk::Med,
        (Risk::Low, Risk::Low) => Risk::Low,
    }
}

fn action_of(act: &RequestedAct) -> PolicyAction<'_> {
    match act {
        RequestedAct::Shell(command) => PolicyAction::Shell(command),
        RequestedAct::Program(words) => PolicyAction::Program(words),
        RequestedAct::Tool { name, input } => PolicyAction::Tool { name, input },
        RequestedAct::Read(path) => PolicyAction::Read(Path::new(path)),
        RequestedAct::Write(path) => PolicyAction::Write(Path::new(path)),
        RequestedAct::Network(host) => PolicyAction::Network(host),
    }
}

/// Returns the text in which the parts of a judgement are places.
fn source_of(act: &RequestedAct) -> String {
    match act {
        RequestedAct::Shell(command) => command.clone(),
        RequestedAct::Program(words) => words.join(" "),
        RequestedAct::Tool { input, .. } => {
            let command = ["command", "cmd", "script"].iter().find_map(|key| input.get(key));
            command.and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        RequestedAct::Read(_) | RequestedAct::Write(_) | RequestedAct::Network(_) => String::new(),
    }
}
