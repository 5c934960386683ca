//! The enums of an approval: category, risk, decision, decider and enforcement.

use serde::{Deserialize, Serialize};

use crate::ApprovalId;
use crate::kinds::{ApprovalAsked, words};

words! {
    /// The kind of action that needs an approval.
    pub enum ApprovalCategory {
        /// Merging or pushing.
        Merge,
        /// Adding dependencies.
        DepsAdd,
        /// Using secrets.
        Secrets,
        /// Deploying.
        Deploy,
        /// Running a command.
        Shell,
        /// Using the network.
        Network,
        /// Changing files.
        Edit,
        /// Reading files.
        Read,
        /// Anything else.
        Other,
    }

    /// How much may go wrong.
    pub enum Risk {
        /// Little.
        Low,
        /// Something.
        Med,
        /// A lot.
        High,
    }

    /// The mechanism that holds an action back until it is decided.
    pub enum EnforcedBy {
        /// The agent itself waits for our answer.
        Agent,
        /// The arguments that the agent was started with.
        Flags,
        /// Our policy, before the action happens.
        Policy,
        /// A sandbox around the agent.
        Sandbox,
        /// Nothing: we saw it happen.
        Nothing,
    }

    /// The decision on an approval.
    pub enum Decision {
        /// Allowed this time.
        Allow,
        /// Allowed from now on.
        AllowAlways,
        /// Refused this time.
        Deny,
        /// Refused from now on.
        DenyAlways,
    }

    /// The person, rule or program that decided.
    pub enum Decider {
        /// A person.
        Human,
        /// The program that embeds us.
        Host,
        /// A rule.
        Policy,
        /// The deadline passed: refused.
        Timeout,
        /// The client that should have answered is gone: refused.
        ClientLost,
        /// The agent took the request back.
        Withdrawn,
    }

    /// The answer of a policy to an action.
    pub enum PolicyVerdict {
        /// It may happen.
        Allow,
        /// A person decides. Without one, it is denied.
        Ask,
        /// It may not happen.
        Deny,
    }

    /// The effect of an offered answer.
    pub enum OptionEffect {
        /// Allows this time.
        AllowOnce,
        /// Allows from now on.
        AllowAlways,
        /// Refuses this time.
        RejectOnce,
        /// Refuses from now on.
        RejectAlways,
    }
}

/// One answer that the agent offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalOption {
    /// The agent's id for it.
    pub id: String,
    /// Its label.
    pub label: String,
    /// Its effect.
    pub effect: OptionEffect,
}

/// The judgement of the policies on what an agent wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalRuling {
    /// The verdict.
    pub verdict: PolicyVerdict,
    /// The id of the rule that decided.
    pub rule: String,
    /// The place of that rule: file, line and column; absent for a rule that Bowline has itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The reason, for a person.
    pub reason: String,
    /// The name of the category, if the policy's author chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_category: Option<String>,
    /// The parts of the command that decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
}

impl ApprovalAsked {
    /// Makes a request that the agent holds back, and that carries nothing else.
    ///
    /// ```
    /// use bowline_protocol::kinds::ApprovalAsked;
    /// use bowline_protocol::{ApprovalCategory, Risk};
    ///
    /// let asked = ApprovalAsked {
    ///     paths: vec!["src/main.rs".to_owned()],
    ///     ..ApprovalAsked::of_agent("a1".into(), ApprovalCategory::Edit, Risk::Med, "write src/main.rs")
    /// };
    /// assert_eq!(asked.tool, None);
    /// ```
    pub fn of_agent(
        id: ApprovalId,
        category: ApprovalCategory,
        risk: Risk,
        summary: impl Into<String>,
    ) -> Self {
        Self {
            id,
            category,
            risk,
            summary: summary.into(),
            tool: None,
            input: None,
            input_head: None,
            paths: Vec::new(),
            diff: None,
            options: Vec::new(),
            rule: None,
            ruling: None,
            enforced_by: EnforcedBy::Agent,
            deadline: None,
        }
    }
}
