//! Requests of an agent that wait for a decision, and the decisions.
//!
//! A client only translates: it reports the request ([`Output::awaits_decision`](super::output::Output::awaits_decision)), and
//! sends the decision of its caller when it gets it ([`Dialect::decide`](super::dialect::Dialect::decide)). The engine decides.

use bowline_protocol::{ApprovalCategory, ApprovalId, Json, OptionEffect, Risk};

/// A request of the agent that waits until the caller has decided. The event [`ApprovalAsked`] with the same id precedes it.
///
/// [`ApprovalAsked`]: bowline_protocol::kinds::ApprovalAsked
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRequest {
    /// The id of the approval.
    pub approval: ApprovalId,
    /// The sort of action.
    pub category: ApprovalCategory,
    /// How much may go wrong.
    pub risk: Risk,
    /// The files that the action names. `None` if requests of this protocol do not name files.
    pub paths: Option<Vec<String>>,
    /// The effects of the answers that the agent offers. Empty if the request does not list them: then all are accepted.
    pub offers: Vec<OptionEffect>,
    /// Whether the action can be allowed with another input ([`ApprovalAnswer::AllowChanged`]).
    pub changeable: bool,
    /// Whether the agent reads the message of a denial.
    pub carries_message: bool,
    /// The side that carries out the action.
    pub doer: ActionDoer,
}

/// The side that carries out an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionDoer {
    /// The agent, once it is allowed.
    Agent,
    /// The host, for the agent. Nothing happens before the decision, whatever the agent does.
    Host,
}

/// The decision on a request, for the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalAnswer {
    /// Do it, this time.
    AllowOnce,
    /// Do it, and do not ask for the same again in this session.
    AllowForSession,
    /// Do it this time, with this input of the tool instead of the agent's own.
    AllowChanged(Json),
    /// Do not do it, and continue with the turn. The agent reads the message, in protocols that carry one.
    Deny {
        /// The reason, for the agent.
        message: Option<String>,
    },
}

impl ApprovalAnswer {
    /// A denial without a message.
    pub const DENY: Self = Self::Deny { message: None };
}

/// The reply to a question of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionReply {
    /// The answers, in the order of the questions: chosen labels, or text.
    Answers(Vec<String>),
    /// The question is dismissed without an answer.
    Dismissed,
}
