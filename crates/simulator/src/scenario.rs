//! A scenario: the model's answers, request by request, and the faults.
//!
//! These types are the form of the files. Parsing ([`read`]) rejects contradictory steps, so that the code that answers
//! requests can rely on them. `docs/simulator.md` describes every key.

mod built_in;
mod error;
pub(crate) mod names;
mod read;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use error::{ScenarioError, ScenarioMistake};
pub(crate) use read::is_name;

/// The model's part of one conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name that selects it.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// The values of `{name}` in its texts; a marker in the prompt can override them.
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    /// Parses a scenario. `file` is the name in errors.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, ScenarioError> {
        read::scenario(name, file, text)
    }

    /// Reads a scenario from a file, and names it after the file.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScenarioError::Unreadable { file: file.clone(), source })?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Self::parse(&name, &file, &text)
    }

    /// Returns the scenarios that ship with the simulator, in the order of their names.
    pub fn built_in() -> Vec<Self> {
        built_in::all()
    }
}

/// One answer of the model, or one fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// When it answers; a step whose condition does not hold is skipped.
    pub(crate) after: Option<StepCondition>,
    /// The time before anything is sent, headers included.
    pub(crate) wait: Duration,
    /// How often it answers before the next one does. Without it, a reply answers once and a fault always.
    pub(crate) times: Option<u32>,
    pub(crate) act: StepAction,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StepAction {
    Reply(Reply),
    Fault(Fault),
}

/// An answer of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) think: Option<String>,
    pub(crate) say: ReplyText,
    /// The pause before each delta.
    pub(crate) every: Duration,
    pub(crate) calls: Vec<Call>,
    pub(crate) usage: Option<Usage>,
    pub(crate) stop: Option<StopReason>,
}

/// The text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum ReplyText {
    #[default]
    Nothing,
    /// A text, repeated this many times; the simulator splits it into deltas.
    Text { text: String, repeat: u32 },
    /// A text in the pieces in which it is sent.
    Deltas(Vec<String>),
}

/// The last speaker, as a condition of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepCondition {
    /// A tool: the request has results that the model has not seen.
    ToolResult,
    /// The user.
    User,
}

/// Why the model stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StopReason {
    /// The answer is complete.
    End,
    /// Tools have to run.
    Tools,
    /// The token limit was reached.
    MaxTokens,
    /// The model refuses.
    Refusal,
}

/// A tool call. Programs name their tools differently, so it has several forms.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    /// The forms; the first one whose tool the request offers is used, and the first one if none is offered.
    pub(crate) forms: Vec<CallForm>,
    /// The text instead, if no tool of the forms is offered.
    pub(crate) otherwise: Option<String>,
}

/// A call of one tool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallForm {
    pub(crate) tool: String,
    /// The namespace of a tool that the request does not offer, in APIs that have namespaces.
    pub(crate) namespace: Option<String>,
    /// The input, as a table.
    pub(crate) input: Option<toml::Table>,
    /// The input of a tool that takes a string and no JSON.
    pub(crate) text: Option<String>,
    /// Whether to generate the input from the schema of the tool.
    #[serde(default)]
    pub(crate) filled: bool,
}

/// Tokens, in the normal form: `input` excludes cached tokens, `output` includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Input tokens without the cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache.
    pub cache_write: u64,
    /// Reasoning tokens, part of the output.
    pub reasoning: u64,
}

/// The default usage of a reply.
pub(crate) const USUAL: Usage =
    Usage { input: 120, output: 34, cache_read: 1000, cache_write: 40, reasoning: 0 };

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// The message, instead of the usual one.
    pub(crate) message: Option<String>,
    /// The status, instead of the usual one.
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<Duration>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// 400.
    BadRequest,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404: there is no such model.
    NotFound,
    /// 413.
    TooLarge,
    /// 429, with a retry time.
    RateLimit,
    /// The quota is used up.
    Quota,
    /// The balance is used up.
    Billing,
    /// 500.
    ServerError,
    /// 502 in HTML, from a proxy.
    BadGateway,
    /// 503.
    Unavailable,
    /// 529 where the API has it, else 503.
    Overloaded,
    /// The conversation is longer than the model can read.
    ContextOverflow,
    /// The connection is closed without an answer.
    Close,
    /// The connection is reset, as by a server that refuses it.
    Refused,
    /// No response, ever.
    Hang,
    /// Headers, and nothing else.
    HangAfterHeaders,
    /// The answer begins and never goes on.
    HangMidway,
    /// The connection is closed in the middle of the answer.
    Cut,
    /// The answer begins, and then the API reports a failure.
    StreamError,
    /// A part of the answer is malformed.
    Garbage,
}

/// When a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultTime {
    /// Instead of an answer: the API returns an error.
    Answered,
    /// Before an answer: the connection is closed.
    Closed,
    /// Before an answer: the connection is reset.
    Refused,
    /// Before an answer: nothing is sent.
    Never,
    /// While an answer is sent.
    Midway(MidwayFault),
}

/// A fault in the middle of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MidwayFault {
    HangAfterHeaders,
    Hang,
    Cut,
    StreamError,
    Garbage,
}

impl FaultKind {
    /// Returns when the fault happens.
    pub(crate) fn when(self) -> FaultTime {
        match self {
            Self::BadRequest
            | Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::TooLarge
            | Self::RateLimit
            | Self::Quota
            | Self::Billing
            | Self::ServerError
            | Self::BadGateway
            | Self::Unavailable
            | Self::Overloaded
            | Self::ContextOverflow => FaultTime::Answered,
            Self::Close => FaultTime::Closed,
            Self::Refused => FaultTime::Refused,
            Self::Hang => FaultTime::Never,
            Self::HangAfterHeaders => FaultTime::Midway(MidwayFault::HangAfterHeaders),
            Self::HangMidway => FaultTime::Midway(MidwayFault::Hang),
            Self::Cut => FaultTime::Midway(MidwayFault::Cut),
            Self::StreamError => FaultTime::Midway(MidwayFault::StreamError),
            Self::Garbage => FaultTime::Midway(MidwayFault::Garbage),
        }
    }
}

#[cfg(test)]
mod tests;
