//! The progress of a run: status, retries, limits, usage, settings and notices.

use super::{part, words};
use crate::{Basis, Category, Failure, MessageId, Millis, Timestamp, Usage, UsageSource};

part! {
    /// The agent is busy with something of its own, such as `compacting`; absent when that is over.
    pub struct Status {
        /// The current activity.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<String>,
    }

    /// The conversation was shortened to fit the model's context.
    pub struct ContextCompacted {
        /// The cause.
        pub trigger: CompactTrigger,
        /// Tokens before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tokens_before: Option<u64>,
        /// Tokens after.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tokens_after: Option<u64>,
    }

    /// The agent tries a request again. Not a failure.
    pub struct Retrying {
        /// Which attempt comes next, counted from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub attempt: Option<u32>,
        /// How many there may be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub max_attempts: Option<u32>,
        /// How long it waits before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub delay_ms: Option<Millis>,
        /// The category of the failure that it retries.
        pub category: Category,
        /// The agent's own text about it.
        pub message: String,
    }

    /// The state of a usage limit.
    pub struct LimitReported {
        /// The window, as the agent names it.
        pub window: String,
        /// Whether requests are served.
        pub state: LimitState,
        /// Percent of the window that is used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub used_percent: Option<f64>,
        /// When the window starts anew.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub resets_at: Option<Timestamp>,
    }

    /// Tokens were spent.
    pub struct UsageReported {
        /// The tokens, in normal form.
        pub usage: Usage,
        /// The period that the numbers cover.
        pub basis: Basis,
        /// Where they come from.
        pub source: UsageSource,
        /// The cost in US dollars, over the same basis.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cost_usd: Option<f64>,
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
        /// The message that the numbers belong to, so that a repeated report is not counted twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub message: Option<MessageId>,
    }

    /// The meter's regular reading of a running session.
    pub struct UsageTick {
        /// The provider.
        pub provider: String,
        /// How long the agent has been running.
        pub agent_ms: Millis,
        /// How many bytes it has printed.
        pub output_bytes: u64,
        /// How many files it has touched.
        pub files_touched: u64,
    }

    /// How full the model's context is.
    pub struct ContextGauge {
        /// Tokens in use.
        pub used: u64,
        /// Tokens that fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub window: Option<u64>,
    }

    /// The agent offers these settings.
    pub struct OptionsAdvertised {
        /// The settings.
        pub options: Vec<OptionState>,
    }

    /// A setting has a new value.
    pub struct OptionsChanged {
        /// The settings that changed.
        pub options: Vec<OptionState>,
    }

    /// One setting of the agent.
    pub struct OptionState {
        /// Its id.
        pub id: String,
        /// The choices.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub choices: Vec<String>,
        /// The current choice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub current: Option<String>,
    }

    /// Another model answers from here on.
    pub struct ModelChanged {
        /// The model.
        pub model: String,
        /// Why, where the agent tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
    }

    /// The state of an MCP server.
    pub struct McpServerStatus {
        /// The server.
        pub name: String,
        /// Its state.
        pub state: McpState,
        /// The failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }

    /// A remark for the user.
    pub struct Notice {
        /// How serious it is.
        pub level: Level,
        /// The remark.
        pub text: String,
        /// A stable word for programs, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub code: Option<String>,
    }

    /// The router chose a provider.
    pub struct RouteChosen {
        /// The provider.
        pub provider: String,
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
        /// Why this one.
        pub reason: String,
        /// Those that were considered and not taken, with the reason each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub rejected: Vec<RejectedRoute>,
    }

    /// A provider that the router did not take.
    pub struct RejectedRoute {
        /// The provider.
        pub provider: String,
        /// Why not.
        pub reason: String,
    }

    /// The router went on to another provider, or to another way of asking the same one.
    pub struct FallbackTaken {
        /// The provider, or its form, that was tried.
        pub from: String,
        /// The provider, or its form, that is tried next.
        pub to: String,
        /// The rule that allows it.
        pub rule: String,
        /// Why the prompt may be sent again, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
        /// The failure.
        pub failure: Box<Failure>,
    }

    /// A requested option is not available, and Bowline does something else instead.
    pub struct CapabilityDegraded {
        /// The requested option.
        pub capability: String,
        /// The behaviour instead.
        pub instead: String,
        /// Why.
        pub reason: String,
    }
}

words! {
    /// The cause of a compaction.
    pub enum CompactTrigger {
        /// The agent decided.
        Auto,
        /// The user requested it.
        Manual,
    }

    /// Whether requests are served under a limit.
    pub enum LimitState {
        /// They are.
        Allowed,
        /// They are, but the end is near.
        Warning,
        /// They are refused.
        Exhausted,
    }

    /// The states of an MCP server.
    pub enum McpState {
        /// It is being connected.
        Connecting,
        /// It works.
        Ready,
        /// It wants a login.
        NeedsLogin,
        /// It does not work.
        Failed,
        /// It is switched off.
        Disabled,
    }

    /// How serious a remark is.
    pub enum Level {
        /// Good to know.
        Info,
        /// Worth a look.
        Warn,
        /// Something is wrong.
        Error,
    }
}
