//! The capabilities of a provider: declared by its manifest, later narrowed to those of the installed program.

use serde::{Deserialize, Serialize};

use crate::PermissionMode;
use crate::kinds::words;

/// The capabilities of a provider. The first seven fields are those of the provider adapters specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// It can be driven through a terminal.
    pub pty_streaming: bool,
    /// How it tells about edits.
    pub structured_edits: StructuredEdits,
    /// It can use MCP servers.
    pub supports_mcp: bool,
    /// It can run without a terminal.
    pub supports_non_interactive: bool,
    /// It can plan first and execute then.
    pub supports_plan_and_execute: bool,
    /// How far it goes with pull requests.
    pub supports_pr_flow: PrFlow,
    /// How large its context is, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_context_hint: Option<String>,

    /// It prints text as the model writes it, not only when a message is complete.
    pub streams_text: bool,
    /// It tells what the model thinks.
    pub reports_thinking: bool,
    /// It tells when a tool starts and ends.
    pub reports_tools: bool,
    /// Its usage reports.
    pub reports_usage: UsageReports,
    /// How approvals can be answered.
    pub approvals: Approvals,
    /// Whether and how a session can go on later.
    pub resume: ResumeSupport,
    /// We can choose the name of its session.
    pub chooses_session_id: bool,
    /// A session can be branched.
    pub forks: bool,
    /// A person who allows an action can change the input of its tool.
    pub changes_input: bool,
    /// It takes further input while it works.
    pub steers: bool,
    /// A turn can be interrupted without ending the process.
    pub interrupts: bool,
    /// It accepts images.
    pub images: bool,
    /// It accepts a system prompt.
    pub system_prompt: bool,
    /// It can be held to a JSON Schema.
    pub output_schema: bool,
    /// It can be limited to a number of turns.
    pub max_turns: bool,
    /// It can be limited to a cost.
    pub max_cost: bool,
    /// It brings a sandbox of its own.
    pub sandbox: bool,
    /// It accepts a choice of model.
    pub chooses_model: bool,
    /// It accepts a reasoning effort.
    pub chooses_effort: bool,
    /// The permission modes that it can honour.
    pub permission_modes: Vec<PermissionMode>,
}

words! {
    /// How a provider tells about edits.
    #[derive(Default)]
    pub enum StructuredEdits {
        /// Not at all.
        #[default]
        None,
        /// As diffs.
        Diff,
        /// As events that name files.
        FileEvents,
    }

    /// How far a provider goes with pull requests.
    #[derive(Default)]
    pub enum PrFlow {
        /// Not at all.
        #[default]
        None,
        /// It drafts them.
        Draft,
        /// It opens and updates them.
        Full,
    }

    /// The usage reports of a provider.
    #[derive(Default)]
    pub enum UsageReports {
        /// Nothing: it is estimated.
        #[default]
        None,
        /// Tokens.
        Tokens,
        /// Tokens and money.
        Cost,
    }

    /// How approvals can be answered.
    #[derive(Default)]
    pub enum Approvals {
        /// There are none: it does what it is started to be allowed to.
        #[default]
        None,
        /// It decides by rules that it is started with.
        Rules,
        /// It asks and waits for the answer.
        Interactive,
    }

    /// Whether and how a session can go on later.
    #[derive(Default)]
    pub enum ResumeSupport {
        /// It cannot.
        #[default]
        None,
        /// The last one in a folder.
        Latest,
        /// Any, by its id.
        ById,
    }
}
