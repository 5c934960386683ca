//! Sessions, turns and their control modes.

use super::{part, words};
use crate::{Attachment, Capabilities, Exit, Failure, NativeSessionId, PromptId, TaskId, ToolId, Usage};

part! {
    /// The agent's session began, or told us its name. May be repeated by agents that announce themselves each turn.
    #[derive(Default)]
    pub struct SessionStarted {
        /// The name by which the agent's own store knows the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub native_session: Option<NativeSessionId>,
        /// The provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub provider: Option<String>,
        /// The version of the provider's program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub version: Option<String>,
        /// The model that answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
        /// The working directory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cwd: Option<String>,
        /// The tools that the agent has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub tools: Vec<String>,
        /// The agent's permission mode, in its own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub permission_mode: Option<String>,
        /// The capabilities of this session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub capabilities: Option<Box<Capabilities>>,
    }

    /// The session went from one state to another.
    pub struct SessionStateChanged {
        /// The state that it is in now.
        pub state: SessionState,
        /// Why, in words for people: the request that waits, the prompt that is prepared, how the process ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
    }

    /// The runner of the session ended. If the session is resumed, `session_started` follows.
    pub struct SessionEnded {
        /// How the agent's process ended, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub exit: Option<Exit>,
        /// Why it is over.
        pub reason: EndReason,
    }

    /// Another party leads the session now.
    pub struct ControlModeChanged {
        /// The side that leads.
        pub mode: ControlMode,
    }

    /// A turn began.
    pub struct TurnStarted {
        /// The cause of its beginning.
        pub origin: TurnOrigin,
        /// The agent's own name for the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub native_turn: Option<String>,
    }

    /// A turn ended. Every turn that starts ends exactly once.
    pub struct TurnEnded {
        /// How.
        pub outcome: Outcome,
        /// Why the model stopped, where the agent tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub stop: Option<StopReason>,
        /// Why it failed: always there when the outcome is `failed` or `truncated`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub failure: Option<Box<Failure>>,
        /// The usage of the turn, in normal form, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub usage: Option<Usage>,
        /// The cost of the turn in US dollars, if the agent reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cost_usd: Option<f64>,
        /// How many turns of the model it took, where the agent tells: its own count, in which `max_turns` is meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub num_turns: Option<u32>,
        /// Tool calls that had not ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub running_tools: Vec<ToolId>,
        /// Background tasks that had not ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub running_tasks: Vec<TaskId>,
    }

    /// The session accepted a prompt that the agent does not have yet. The journal is the queue: it has the whole text.
    pub struct PromptQueued {
        /// The prompt's id.
        pub id: PromptId,
        /// The whole text.
        pub text: String,
        /// The files that go with it. Only their paths are kept: they are read when the prompt is sent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub attachments: Vec<Attachment>,
        /// The queue that it waits in.
        pub queue: PromptQueue,
        /// The sender, if it gave a name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub from: Option<String>,
    }

    /// A queued prompt left the queue.
    pub struct PromptRemoved {
        /// The prompt's id.
        pub id: PromptId,
        /// The reason.
        pub reason: PromptRemoval,
    }

    /// The result of a request to resume a session.
    pub struct ResumeAnswered {
        /// The session that was asked for.
        pub wanted: NativeSessionId,
        /// The session that the agent is in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub got: Option<NativeSessionId>,
        /// The answer.
        pub answer: ResumeAnswer,
    }

    /// The agent's own history is not the one that we have.
    pub struct DivergenceFound {
        /// How many of the agent's entries we do not have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub missing: Option<u64>,
        /// The difference, in a sentence.
        pub summary: String,
    }
}

words! {
    /// The states of a session.
    pub enum SessionState {
        /// It exists, and nothing has been started.
        Created,
        /// The workspace is being made ready.
        Preparing,
        /// The agent is starting.
        Starting,
        /// The agent works.
        Running,
        /// The agent waits for the next prompt.
        Idle,
        /// The agent waits for a decision.
        WaitingForApproval,
        /// The agent waits for the answer to a question.
        WaitingForInput,
        /// A person took over.
        PausedByHuman,
        /// It is being ended.
        Stopping,
        /// It ended well.
        Completed,
        /// It ended badly.
        Failed,
    }

    /// Why a session is over.
    pub enum EndReason {
        /// The agent exited by itself.
        Exited,
        /// The caller stopped it.
        Stopped,
        /// A deadline passed.
        TimedOut,
        /// The agent could not be started, or it was stopped because of an error or a limit. `turn_ended` or the state has the failure.
        Failed,
        /// A policy forbade going on.
        PolicyViolation,
        /// The runner was lost.
        Lost,
    }

    /// The side that leads a session. The mode lasts over stints, until it is changed.
    #[derive(Default)]
    pub enum ControlMode {
        /// The agent drives. Queued prompts are sent when its turn is over; people approve, answer and comment.
        #[default]
        AgentLed,
        /// A person types, and the agent stays ready. Queued prompts wait; a prompt that is sent for now, or into the turn, goes to the
        /// agent. No time limit counts.
        HumanLed,
        /// Another program or session drives for a person, with the rules of `agent_led`.
        Delegated,
    }

    /// Where a prompt waits.
    pub enum PromptQueue {
        /// In the session, for the end of the turn.
        Session,
        /// At the agent, which reads it as soon as it can: a steer.
        Agent,
    }

    /// Why a prompt left the queue.
    pub enum PromptRemoval {
        /// The agent has it.
        Sent,
        /// It was taken back.
        Dequeued,
        /// The runner ended before the agent had it. The next runner offers it again, and does not send it by itself.
        Returned,
        /// The agent rejected it, or did not acknowledge it.
        Rejected,
    }

    /// The cause of a turn.
    pub enum TurnOrigin {
        /// A prompt.
        Prompt,
        /// The agent went on by itself.
        Agent,
        /// Something in the background ended and the agent was told.
        BackgroundNotice,
    }

    /// How a turn ended.
    pub enum Outcome {
        /// The agent says that it is done.
        Completed,
        /// It failed.
        Failed,
        /// The caller stopped it.
        Cancelled,
        /// The output ended before the agent said how the turn ended.
        Truncated,
    }

    /// Why the model stopped.
    pub enum StopReason {
        /// It was done.
        EndTurn,
        /// It reached its limit of output tokens.
        MaxTokens,
        /// It reached the limit of turns.
        MaxTurns,
        /// It waits for the result of a tool that the host has to run.
        ToolUse,
        /// It refused.
        Refusal,
        /// It was stopped.
        Cancelled,
    }

    /// The four answers to a wish to resume.
    pub enum ResumeAnswer {
        /// The session goes on.
        Resumed,
        /// The agent refused, or went on in another session.
        Rejected,
        /// The agent does not say which session it is in.
        Unknown,
        /// No answer came in time.
        TimedOut,
    }
}
