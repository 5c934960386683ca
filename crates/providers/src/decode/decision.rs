//! Requests of an agent that wait for a decision, and the decisions.
//!
//! A client only translates: it reports the request ([`Output::awaits_decision`](super::output::Output::awaits_decision)), and
//! sends the decision of its caller when it gets it ([`Dialect::decide`](super::dialect::Dialect::decide)). The engine decides.

use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{ApprovalCategory, ApprovalId, Json, OptionEffect, Risk};
use serde_json::Value;

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
    /// The planned acts, for the judge of policies. Empty if the request does not describe it: then no policy allows it.
    pub acts: Vec<RequestedAct>,
}

/// Something that an agent wants to do, as far as its protocol describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedAct {
    /// Run a command of a shell.
    Shell(String),
    /// Run a program with arguments.
    Program(Vec<String>),
    /// Call a tool with this input.
    Tool {
        /// The name, as the agent spells it.
        name: String,
        /// The input.
        input: Value,
    },
    /// Read a file.
    Read(String),
    /// Write a file.
    Write(String),
    /// Use a host of the network.
    Network(String),
}

/// A tool that is about to run, and that the program holds until its gate has an answer: [`Dialect::pass_gate`], or
/// [`Dialect::decide`] with a denial. It precedes the program's own rules and requests.
///
/// [`Dialect::pass_gate`]: super::dialect::Dialect::pass_gate
/// [`Dialect::decide`]: super::dialect::Dialect::decide
#[derive(Clone, Debug, PartialEq)]
pub struct ToolGate {
    /// The event about it, if the tool is denied. Its id names the gate.
    pub asked: ApprovalAsked,
    /// The planned acts.
    pub acts: Vec<RequestedAct>,
}

/// The answer at a gate, unless it is a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// Go on by your own rules and your permission mode.
    Pass,
    /// Ask us before you run it, whatever your own rules and your permission mode allow.
    Ask {
        /// The reason.
        reason: String,
    },
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
