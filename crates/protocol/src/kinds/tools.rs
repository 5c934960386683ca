//! Actions: tool calls, background tasks, files and approvals.

use super::{part, words};
use crate::{
    ApprovalCategory, ApprovalId, ApprovalOption, ApprovalRuling, Decider, Decision, EnforcedBy, Excerpt,
    Json, Risk, TaskId, Timestamp, ToolId,
};

part! {
    /// A tool call began.
    pub struct ToolStarted {
        /// The call's id.
        pub id: ToolId,
        /// The tool, as the agent names it.
        pub name: String,
        /// The kind of tool.
        pub kind: ToolKind,
        /// The side that runs it.
        pub owner: ToolOwner,
        /// The arguments, as the agent wrote them; absent when they follow later or are very long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub input: Option<Json>,
        /// The beginning of arguments that are too long to carry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub input_head: Option<Excerpt>,
        /// The tool call of the sub-agent that made this call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent: Option<ToolId>,
    }

    /// A tool call made progress.
    pub struct ToolUpdated {
        /// The call's id.
        pub id: ToolId,
        /// More of the arguments, as they stream in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub input_delta: Option<String>,
        /// The complete arguments, once they are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub input: Option<Json>,
        /// More of the output: only what is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub output_delta: Option<Excerpt>,
        /// A word on what it does now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
    }

    /// A tool call ended.
    pub struct ToolFinished {
        /// The call's id.
        pub id: ToolId,
        /// How it ended.
        pub status: ToolStatus,
        /// Its output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub output: Option<Excerpt>,
        /// The exit code, for a command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub exit_code: Option<i32>,
    }

    /// A task began to run beside the conversation.
    pub struct BackgroundTaskStarted {
        /// The task's id.
        pub id: TaskId,
        /// A description of the task.
        pub summary: String,
        /// The tool call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tool: Option<ToolId>,
    }

    /// A task beside the conversation ended.
    pub struct BackgroundTaskEnded {
        /// The task's id.
        pub id: TaskId,
        /// How it ended.
        pub status: ToolStatus,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub summary: Option<String>,
    }

    /// Files were read, written or deleted.
    pub struct FilesTouched {
        /// How we know.
        pub seen_by: TouchSource,
        /// The files.
        pub files: Vec<TouchedFile>,
        /// The part of the repository that they lie in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub room: Option<String>,
    }

    /// One touched file.
    pub struct TouchedFile {
        /// Its path: absolute, or relative to the working directory of the session (`cwd` of `session_started`), also
        /// where that is not the root of a repository.
        pub path: String,
        /// The change.
        pub operation: FileOperation,
    }

    /// There is a diff to look at.
    pub struct DiffAvailable {
        /// A sentence about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub summary: Option<String>,
        /// How many files it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub files_changed: Option<u64>,
        /// How many lines it adds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub lines_added: Option<u64>,
        /// How many lines it removes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub lines_removed: Option<u64>,
        /// The diff.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub diff: Option<Excerpt>,
    }

    /// The agent may not go on without a decision.
    pub struct ApprovalAsked {
        /// The approval's id.
        pub id: ApprovalId,
        /// The kind of action.
        pub category: ApprovalCategory,
        /// How much may go wrong.
        pub risk: Risk,
        /// The question, in a sentence.
        pub summary: String,
        /// The tool call that waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tool: Option<ToolId>,
        /// The arguments of that call; absent when the agent sent none with its request, or very long ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub input: Option<Json>,
        /// The beginning of arguments that are too long to carry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub input_head: Option<Excerpt>,
        /// The files that the request names, as the agent writes them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub paths: Vec<String>,
        /// The change of files that the agent plans, as a unified diff, if it sent one beside the arguments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub diff: Option<Excerpt>,
        /// The answers that the agent accepts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub options: Vec<ApprovalOption>,
        /// The rule that made it necessary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rule: Option<String>,
        /// The judgement of the policies, if any are in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ruling: Option<ApprovalRuling>,
        /// The mechanism that holds the action back until then.
        pub enforced_by: EnforcedBy,
        /// When silence becomes a refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub deadline: Option<Timestamp>,
    }

    /// An approval was decided. Every one that is asked is decided exactly once.
    pub struct ApprovalDecided {
        /// The approval's id.
        pub id: ApprovalId,
        /// The decision.
        pub decision: Decision,
        /// The person, rule or program that decided.
        pub by: Decider,
        /// The rule that decided, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rule: Option<String>,
        /// The text that the agent got.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
        /// The arguments as the decider changed them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub changed_input: Option<Json>,
        /// The mechanism that enforced the decision.
        pub enforced_by: EnforcedBy,
    }
}

words! {
    /// The kind of tool.
    pub enum ToolKind {
        /// Reads files or data.
        Read,
        /// Changes files.
        Edit,
        /// Deletes files.
        Delete,
        /// Moves files.
        Move,
        /// Searches files.
        Search,
        /// Runs a command.
        Execute,
        /// Thinks or plans.
        Think,
        /// Fetches from the network.
        Fetch,
        /// Lets another agent work.
        Agent,
        /// Switches the agent's mode.
        SwitchMode,
        /// Anything else.
        Other,
    }

    /// The side that runs a tool.
    pub enum ToolOwner {
        /// The agent runs it. We only watch.
        Cli,
        /// The host has to run it and give back the result.
        Host,
    }

    /// How a tool call ended.
    pub enum ToolStatus {
        /// It did what it should.
        Completed,
        /// It failed.
        Failed,
        /// It was not allowed.
        Denied,
        /// It was stopped, or its end was never told.
        Cancelled,
    }

    /// How we know that a file was touched.
    pub enum TouchSource {
        /// The agent said so.
        Agent,
        /// We watched the files.
        Watch,
        /// Git says so.
        Git,
    }

    /// The change of a file.
    pub enum FileOperation {
        /// It was read.
        Read,
        /// It was made.
        Create,
        /// It was changed.
        Write,
        /// It was deleted.
        Delete,
        /// It got another name.
        Move,
    }
}
