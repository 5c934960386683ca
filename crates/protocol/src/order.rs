//! Orders to a live session, their answers, and the snapshot of a session.
//!
//! Every program that directs a session uses these types: the library, the control socket, and later the daemon. An order is always
//! answered, with a [`Receipt`] or an [`OrderRefused`]. Facts that are known only later are events of the session.

mod child;
mod read;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kinds::{
    ApprovalAsked, ControlMode, OptionState, Outcome, PromptQueue, QuestionAsked, SessionState,
};
use crate::{ApprovalId, Attachment, Json, NativeSessionId, PermissionMode, PromptId, QuestionId, SessionId};

pub use child::ChildRequest;

/// An order to a live session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionOrder {
    /// Send a prompt.
    Prompt {
        /// The text.
        text: String,
        /// Files that go with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// The treatment of the prompt while a turn runs.
        #[serde(default)]
        when_busy: WhenBusy,
        /// The sender, for the event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// Send a prompt that an earlier runner accepted and did not send.
    SendOffered {
        /// The prompt.
        prompt: PromptId,
    },
    /// Take a prompt back that the agent has not read.
    Dequeue {
        /// The prompt; the last one in the queue if absent, and never one that is offered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
    },
    /// End the running turn. The session and, where the agent can do that, its process go on.
    Interrupt,
    /// Decide an open approval.
    Decide {
        /// The approval; the only open one if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ApprovalId>,
        /// The decision.
        verdict: ApprovalVerdict,
    },
    /// Answer an open question.
    Reply {
        /// The question; the only open one if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<QuestionId>,
        /// The answers, in the order of the questions. Empty dismisses the question.
        answers: Vec<String>,
    },
    /// Change an option of the agent: `model`, `effort`, `permission`, or one of its own.
    SetOption {
        /// The option.
        option: String,
        /// The value.
        value: String,
    },
    /// Change who leads the session.
    SetControl {
        /// The side that leads from now on.
        mode: ControlMode,
    },
    /// Compact the agent's context.
    Compact,
    /// Start another session, which outlives this one. A process of the agent may give this order; a person decides.
    Start {
        /// The session to start.
        child: ChildRequest,
    },
    /// End the agent and the stint. The session can be resumed.
    Stop,
    /// Kill the agent at once and end the stint.
    Kill,
}

/// The decision on an approval, as a caller gives it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum ApprovalVerdict {
    /// Do it, this time.
    Allow {
        /// With this input instead of the agent's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Json>,
    },
    /// Do it, and do not ask for the same again in this session.
    AllowForSession,
    /// Do not do it.
    Deny {
        /// The reason, for the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

/// The treatment of a prompt while a turn runs. If none runs, it begins one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    /// Hand it to the agent, which reads it as soon as it can. Refused if the agent cannot be steered, and if no turn runs.
    Steer,
    /// Send it when the turn is over. While a person leads, it waits for the release.
    #[default]
    Queue,
    /// Interrupt the turn, then send it before all queued prompts.
    Now,
    /// Refuse it, also while a person leads.
    Refuse,
}

/// The answer to an order that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "receipt", rename_all = "snake_case")]
pub enum Receipt {
    /// The prompt began a turn.
    Started {
        /// The prompt.
        prompt: PromptId,
        /// The turn.
        turn: u32,
    },
    /// The agent has the prompt. The turn that it joins is the running one, or one of its own that follows.
    Steered {
        /// The prompt.
        prompt: PromptId,
        /// The running turn.
        turn: u32,
    },
    /// The prompt waits in the session's queue.
    Queued {
        /// The prompt.
        prompt: PromptId,
        /// The number of prompts before it.
        ahead: u32,
        /// Whether a person leads: the whole queue then waits until the session is released.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
    },
    /// A session was started.
    SessionStarted {
        /// The new session.
        session: SessionId,
    },
    /// The order was carried out.
    Done,
}

/// Why an order was not carried out. The text of a refused prompt is never lost: it is the caller's, or it waits in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum OrderRefused {
    /// A turn runs, and the caller wanted no queue.
    Busy,
    /// A person leads, so the prompt would have to wait, and the caller wanted no queue.
    PersonLeads,
    /// There is no running turn.
    TurnOver,
    /// The agent cannot be steered.
    NotSteerable {
        /// The reason.
        reason: String,
    },
    /// The agent did not acknowledge the order. A prompt waits in the queue, or is offered.
    NotAcknowledged {
        /// The reason.
        #[serde(default)]
        why: AckGap,
    },
    /// The agent rejected it.
    Rejected {
        /// The reason, in its own words.
        reason: String,
    },
    /// The approval was decided already.
    AlreadyDecided {
        /// The side that decided.
        by: String,
    },
    /// The agent does not offer this answer to its request.
    NotOffered,
    /// There is no such prompt, approval or question.
    Unknown {
        /// The thing that was named, or the sort of thing.
        what: String,
    },
    /// Several are open, and the order names none.
    Ambiguous {
        /// The ids of those that are open.
        open: Vec<String>,
    },
    /// The agent, or this form of it, cannot do that.
    Unsupported {
        /// The reason.
        reason: String,
    },
    /// A limit of the session's budget is reached, so no further turn begins. A prompt of the queue is offered.
    OutOfBudget {
        /// The limit, and the amount that was spent.
        reason: String,
    },
    /// The queue is full.
    QueueFull {
        /// The number of prompts in it.
        limit: u32,
    },
    /// The session is being stopped, or is over.
    Stopping,
    /// A person, or a rule, denied it.
    Denied {
        /// The side that decided.
        by: String,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The caller may only watch: its process belongs to an agent.
    Forbidden {
        /// The reason.
        reason: String,
    },
}

/// Why no acknowledgement came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AckGap {
    /// None came within 15 s.
    #[default]
    TimedOut,
    /// The turn ended first. The agent does not have the prompt.
    TurnOver,
    /// The agent's process ended first. Whether it had read the order is not known.
    ProcessOver,
}

impl fmt::Display for AckGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "the agent did not acknowledge it within 15 s",
            Self::TurnOver => "the turn ended before the agent acknowledged it",
            Self::ProcessOver => "the agent's process ended before it acknowledged it",
        })
    }
}

impl fmt::Display for OrderRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("a turn is running"),
            Self::PersonLeads => f.write_str("a person leads the session"),
            Self::TurnOver => f.write_str("no turn is running"),
            Self::NotSteerable { reason } => write!(f, "the agent cannot be steered: {reason}"),
            Self::NotAcknowledged { why } => why.fmt(f),
            Self::Rejected { reason } => write!(f, "the agent rejected it: {reason}"),
            Self::AlreadyDecided { by } => write!(f, "it was decided already, by {by}"),
            Self::NotOffered => f.write_str("the agent does not offer this answer to its request"),
            Self::Unknown { what } => write!(f, "there is no {what}"),
            Self::Ambiguous { open } => write!(f, "several are open: {}", open.join(", ")),
            Self::Unsupported { reason } => write!(f, "not possible: {reason}"),
            Self::OutOfBudget { reason } => f.write_str(reason),
            Self::QueueFull { limit } => write!(f, "the queue is full: it has {limit} prompts"),
            Self::Stopping => f.write_str("the session is being stopped, or is over"),
            Self::Denied { by, message: None } => write!(f, "denied by {by}"),
            Self::Denied { by, message: Some(message) } => write!(f, "denied by {by}: {message}"),
            Self::Forbidden { reason } => write!(f, "not permitted: {reason}"),
        }
    }
}

impl std::error::Error for OrderRefused {}

/// The state of a live session at one moment. Events after `head` change it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionSnapshot {
    /// The session.
    pub session: SessionId,
    /// The number of the last event that it takes into account.
    pub head: u64,
    /// The state.
    pub state: SessionState,
    /// Why it is in this state, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The provider.
    pub provider: String,
    /// The agent's own id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_session: Option<NativeSessionId>,
    /// The model that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode by which requests are decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionMode>,
    /// The side that leads.
    pub control: ControlMode,
    /// The running turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The last turn that ended, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<LastTurn>,
    /// Whether the agent's process lives. Without one, the next prompt resumes the session.
    pub has_process: bool,
    /// The open approvals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalAsked>,
    /// The open questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionAsked>,
    /// The prompts that the agent has not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<QueuedPrompt>,
    /// The prompts that an earlier runner accepted and did not send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offered: Vec<QueuedPrompt>,
    /// The options that the agent reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<OptionState>,
}

impl SessionSnapshot {
    /// Returns whether nothing runs and nothing waits to be sent: the next prompt begins a turn.
    pub fn is_at_rest(&self) -> bool {
        let waits = match self.state {
            SessionState::Idle
            | SessionState::PausedByHuman
            | SessionState::Completed
            | SessionState::Failed => true,
            SessionState::Created
            | SessionState::Preparing
            | SessionState::Starting
            | SessionState::Running
            | SessionState::WaitingForApproval
            | SessionState::WaitingForInput
            | SessionState::Stopping => false,
        };
        waits && self.turn.is_none() && self.queue.is_empty()
    }
}

/// The last turn that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastTurn {
    /// Its number.
    pub turn: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// A prompt that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuedPrompt {
    /// Its id.
    pub id: PromptId,
    /// The text.
    pub text: String,
    /// The files that go with it. They are read when the prompt is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Where it waits.
    pub queue: PromptQueue,
}

impl QueuedPrompt {
    /// Returns the number in the id, which grows with each prompt of a session: the oldest prompt has the lowest. An id without a
    /// number comes last.
    pub fn age_key(&self) -> u64 {
        self.id.as_str().strip_prefix('p').and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
    }
}
