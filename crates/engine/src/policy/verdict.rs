//! The result of a judgement: verdict, rule, risk, category, and the parts that decided.

use bowline_protocol::{ApprovalCategory, Risk};

use super::rules::RulePlace;

/// The answer to an action, from the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It may happen.
    Allow,
    /// A person decides. If there is none, it is denied.
    Ask,
    /// It may not happen.
    Deny,
}

impl Verdict {
    /// Returns the name used in JSON and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Reads the name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Deny].into_iter().find(|verdict| verdict.as_str() == name)
    }
}

/// A part of a command, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSpan {
    /// The first byte.
    pub from: usize,
    /// The byte behind the last one.
    pub to: usize,
}

/// One rule that applies to an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The answer of the rule.
    pub verdict: Verdict,
    /// The id of the rule.
    pub rule: String,
    /// The place of the rule in its file; none for a rule that Bowline has itself.
    pub place: Option<RulePlace>,
    /// How much may go wrong.
    pub risk: Risk,
    /// The kind of action.
    pub category: ApprovalCategory,
    /// The name of the category, if the policy's author chose it.
    pub own_category: Option<String>,
    /// The part of the command that decided.
    pub part: Option<TextSpan>,
    /// The reason.
    pub reason: String,
}

/// The judgement of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// The rule that decided. Of several rules with the same answer, the one with the highest risk.
    pub decided: Finding,
    /// All rules that apply, the deciding one first.
    pub findings: Vec<Finding>,
}

impl Judgement {
    /// Makes the judgement from what applies. Deny comes before ask, and ask before allow.
    pub(super) fn of(mut findings: Vec<Finding>, category: ApprovalCategory) -> Self {
        if findings.is_empty() {
            findings.push(Finding {
                verdict: Verdict::Allow,
                rule: "default".to_owned(),
                place: None,
                risk: Risk::Low,
                category,
                own_category: None,
                part: None,
                reason: "no rule applies".to_owned(),
            });
        }
        // The sort is stable: among equal findings, the first one of the command decides.
        findings.sort_by_key(|finding| std::cmp::Reverse((finding.verdict, rank(finding.risk))));
        let decided = findings[0].clone();
        Self { verdict: decided.verdict, decided, findings }
    }

    /// Returns the findings that gave the verdict.
    pub fn deciding(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.verdict == self.verdict)
    }
}

/// Returns the order of risks.
fn rank(risk: Risk) -> u8 {
    match risk {
        Risk::Low => 0,
        Risk::Med => 1,
        Risk::High => 2,
    }
}
