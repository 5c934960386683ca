//! A scenario: what the model says, request by request, and what goes wrong.
//!
//! This is the form of the files, as they are written. What of a step cannot be meant is found when the file is read
//! ([`read`]), so that whoever answers requests may trust it. `docs/simulator.md` describes every key.

mod built_in;
mod error;
pub(crate) mod names;
mod read;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use error::{Mistake, ScenarioError};
pub(crate) use read::is_name;

/// What the model says in one conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name by which it is picked.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// What stands for `{name}` in its texts, unless the marker in the prompt says otherwise.
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    /// Reads a scenario from its text. `file` is the name that errors carry.
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
    /// When it answers; a step whose condition does not hold is passed over.
    pub(crate) after: Option<After>,
    /// How long nothing is sent, not even headers.
    pub(crate) wait: Duration,
    /// How often it answers before the next one does. Without it, a reply answers once and a fault for ever.
    pub(crate) times: Option<u32>,
    pub(crate) act: Act,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    Reply(Reply),
    Fault(Fault),
}

/// An answer of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) think: Option<String>,
    pub(crate) say: Say,
    /// The pause before each delta.
    pub(crate) every: Duration,
    pub(crate) calls: Vec<Call>,
    pub(crate) usage: Option<Usage>,
    pub(crate) stop: Option<Stop>,
}

/// What is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Say {
    #[default]
    Nothing,
    /// A text, said so many times; cut into deltas by the simulator.
    Text { text: String, repeat: u32 },
    /// A text in the pieces in which it is sent.
    Deltas(Vec<String>),
}

/// Who spoke last, as a condition of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum After {
    /// A tool: the request carries results that the model has not seen.
    ToolResult,
    /// The user.
    User,
}

/// Why the model stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stop {
    /// It has said everything.
    End,
    /// It wants tools to run.
    Tools,
    /// It ran out of tokens.
    MaxTokens,
    /// It does not want to answer.
    Refusal,
}

/// A call of a tool. Programs name their tools differently, so that it has several forms.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    /// The forms; the first one whose tool the request offers is used, and the first one if none is offered.
    pub(crate) forms: Vec<Form>,
    /// What is said instead when no tool of the forms is offered.
    pub(crate) otherwise: Option<String>,
}

/// A call of one tool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    pub(crate) tool: String,
    /// The input, as a table.
    pub(crate) input: Option<toml::Table>,
    /// The input of a tool that takes a text and no JSON.
    pub(crate) text: Option<String>,
    /// Whether the input is made up from the schema of the tool.
    #[serde(default)]
    pub(crate) filled: bool,
}

/// Tokens, in the normal form: `input` excludes what the cache has to do with, `output` includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens read that the cache had no part in.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens read and put into the cache.
    pub cache_write: u64,
    /// How many of the output were thoughts.
    pub reasoning: u64,
}

/// What a reply costs where the scenario does not say.
pub(crate) const USUAL: Usage =
    Usage { input: 120, output: 34, cache_read: 1000, cache_write: 40, reasoning: 0 };

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// What the API says about it, instead of its usual words.
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
    /// 429, with a time after which to try again.
    RateLimit,
    /// The quota is used up.
    Quota,
    /// There is no money left.
    Billing,
    /// 500.
    ServerError,
    /// 502, from something in between that speaks HTML.
    BadGateway,
    /// 503.
    Unavailable,
    /// 529 where the API has it, else 503.
    Overloaded,
    /// The conversation is longer than the model can read.
    ContextOverflow,
    /// The connection is closed without an answer.
    Close,
    /// The connection is reset, as somebody does who does not want to talk.
    Refused,
    /// Nothing is ever answered.
    Hang,
    /// Headers are sent, and nothing else.
    HangAfterHeaders,
    /// The answer begins and never goes on.
    HangMidway,
    /// The connection is closed in the middle of the answer.
    Cut,
    /// The answer begins, and then the API says that it failed.
    StreamError,
    /// A part of the answer is not what the API says it is.
    Garbage,
}

/// When a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Instead of an answer: the API says what is wrong.
    Answered,
    /// Before an answer: the connection is closed.
    Closed,
    /// Before an answer: the connection is reset.
    Refused,
    /// Before an answer: there is none.
    Never,
    /// While an answer is sent.
    Midway(Midway),
}

/// What happens while an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Midway {
    HangAfterHeaders,
    Hang,
    Cut,
    StreamError,
    Garbage,
}

impl FaultKind {
    /// Says when the fault happens.
    pub(crate) fn when(self) -> When {
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
            | Self::ContextOverflow => When::Answered,
            Self::Close => When::Closed,
            Self::Refused => When::Refused,
            Self::Hang => When::Never,
            Self::HangAfterHeaders => When::Midway(Midway::HangAfterHeaders),
            Self::HangMidway => When::Midway(Midway::Hang),
            Self::Cut => When::Midway(Midway::Cut),
            Self::StreamError => When::Midway(Midway::StreamError),
            Self::Garbage => When::Midway(Midway::Garbage),
        }
    }
}

#[cfg(test)]
mod tests;
