//! Requests: the prompt and options of one turn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kinds::words;
use crate::{Json, Millis, NativeSessionId};

/// A request for one turn. Only the prompt is necessary.
///
/// An option that the provider cannot honour is refused before anything is started, except [`Sampling`], which is a hint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Request {
    /// The user's text.
    pub prompt: String,
    /// Replaces the agent's system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Is added to the agent's system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// The earlier messages, for agents that keep no session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Message>,
    /// Files that go with the prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The provider; absent leaves the choice to the router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model; absent takes the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reasoning effort, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Further directories that the agent may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add_dirs: Vec<String>,
    /// The actions that the agent may take without an approval.
    pub permission: PermissionMode,
    /// Tools that are allowed by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_tools: Vec<String>,
    /// Tools that are refused by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_tools: Vec<String>,
    /// The agent is to answer without any tool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_tools: bool,
    /// Tools of the host that the model may ask for, in the model API's form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Json>,
    /// MCP servers for this turn.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The JSON Schema that the answer has to satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Json>,
    /// Whether to go on with an earlier session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// The agent is to leave no trace of the session in its own history.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ephemeral: bool,
    /// The agent is to ignore the user's settings for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub isolate: bool,
    /// The container in which the agent is to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docker: Option<String>,
    /// The most turns that the agent may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The most that it may cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// How long it may take in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// How long it may be silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<Millis>,
    /// Hints that a provider may not be able to honour.
    pub sampling: Sampling,
    /// Variables for the agent's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The caller's own key, by which its sessions can be found and ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The task, for sessions that work on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskSpec>,
    /// The policy, for sessions that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// Settings that only this provider understands.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, Json>,
    /// Whatever the caller wants to find again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Json>,
}

/// Sampling hints. A provider that cannot honour them says so and goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sampling {
    /// The most tokens to generate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The nucleus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
}

/// One message of an earlier conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text.
    pub content: String,
    /// Tools that the assistant asked for, in the model API's form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Json>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// A file that goes with a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attachment {
    /// Where it is.
    pub path: String,
    /// Its media type, when the name does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// An MCP server, as a typed value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum McpServer {
    /// A program that speaks over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
        /// Its environment.
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// A server on the network.
    Http {
        /// Its address.
        url: String,
        /// Headers to send.
        #[serde(default)]
        headers: BTreeMap<String, String>,
    },
}

/// How to go on with an earlier session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Resume {
    /// With the one of this id.
    Id {
        /// The agent's name for the session.
        native_session: NativeSessionId,
    },
    /// With the last one in the working directory.
    Latest,
    /// With a branch of the one of this id.
    Fork {
        /// The agent's name for the session to branch from.
        native_session: NativeSessionId,
    },
}

words! {
    /// The author of a message.
    pub enum Role {
        /// The operator.
        System,
        /// The user.
        User,
        /// The model.
        Assistant,
        /// A tool.
        Tool,
    }

    /// The actions that an agent may take without an approval.
    #[derive(Default, PartialOrd, Ord)]
    pub enum PermissionMode {
        /// Look, and change nothing.
        Read,
        /// Ask first. Without a way to ask, the answer is no.
        #[default]
        Ask,
        /// Change files; ask for the rest.
        Edit,
        /// Anything.
        Yolo,
    }

    /// Actions that a policy can put behind an approval.
    pub enum GatedAction {
        /// Merging or pushing.
        Merge,
        /// Adding dependencies.
        DepsAdd,
        /// Using secrets.
        Secrets,
        /// Deploying.
        Deploy,
    }

    /// How much of the network an agent may use.
    #[derive(Default)]
    pub enum NetworkMode {
        /// Only the entries that the policy lists.
        #[default]
        Restricted,
        /// All of it.
        Open,
    }
}

impl PermissionMode {
    /// Every mode, from the strictest.
    pub const ALL: [Self; 4] = [Self::Read, Self::Ask, Self::Edit, Self::Yolo];

    /// Returns the name used in JSON, manifests and options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Ask => "ask",
            Self::Edit => "edit",
            Self::Yolo => "yolo",
        }
    }
}

/// A task, in the form of the provider adapters specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskSpec {
    /// A short name.
    pub title: String,
    /// The goal.
    pub goal: String,
    /// The constraints.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// How to tell that it is reached.
    #[serde(default)]
    pub acceptance: Vec<String>,
    /// The part of the repository to work in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_path: Option<String>,
    /// The branch to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
}

/// A policy, in the form of the provider adapters specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Commands that are allowed.
    #[serde(default)]
    pub shell_allowlist: Vec<String>,
    /// Commands that are refused.
    #[serde(default)]
    pub shell_denylist: Vec<String>,
    /// Actions that need an approval.
    #[serde(default)]
    pub requires_approval_for: Vec<GatedAction>,
    /// How much of the network may be used.
    #[serde(default)]
    pub network_mode: NetworkMode,
    /// Hosts that may be used in a restricted network; `*.example.org` stands for all below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_hosts: Vec<String>,
    /// Paths that may be read. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_allowlist: Vec<String>,
    /// Paths that may not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_denylist: Vec<String>,
    /// Paths that may be written. Empty: those of the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_allowlist: Vec<String>,
    /// Paths that may not be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_denylist: Vec<String>,
    /// Tools, MCP tools among them, that may be called. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_allowlist: Vec<String>,
    /// Tools that may not be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_denylist: Vec<String>,
    /// Branches that a merge or a push needs an approval for. Empty: `main`, `master`, `trunk`, `release*`, `production`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected_branches: Vec<String>,
    /// More actions that need an approval, under names of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_categories: Vec<OwnCategory>,
    /// The most that one turn may change without an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_limits: Option<TurnLimits>,
}

/// Commands and tools that need an approval, under a name of the policy's author.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnCategory {
    /// The name.
    pub name: String,
    /// Commands, in the form of a denylist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shell: Vec<String>,
    /// Tools, in the form of a denylist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// The most that one turn may change. A missing limit limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnLimits {
    /// Files that are changed, created or deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Lines that are added or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Files that are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<u64>,
}
