//! What makes a call return an error: *we* could not do our job, or the result door was used and the turn failed.

use bowline_process::{KeeperError, RuntimeGap};
use bowline_protocol::{Failure, SessionId};
use bowline_providers::invocation::Refusal;

use crate::config::ConfigError;
use crate::journal::JournalError;
use crate::record::Record;
use crate::roster::RosterError;
use crate::route::NoRoute;

/// Why a call did not give what it promises.
///
/// On the record door ([`Task::start`](crate::Task::start)) a failing agent is not an error: its failure is in the
/// [`Record`]. On the result door ([`Task::answer`](crate::Task::answer)) it is [`Error::Turn`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody said which provider to use.
    #[error("no provider was chosen")]
    NoProvider,
    /// There is no provider of that name.
    #[error("there is no provider `{name}`{}", crate::near::in_words(nearest.as_deref()))]
    UnknownProvider {
        /// The name.
        name: String,
        /// The known name or alias that is most like it.
        nearest: Option<String>,
    },
    /// [`Task::resume`](crate::Task::resume) was given the id of a Bowline session that cannot be resumed.
    #[error("the session `{session}` cannot be resumed: {gap}")]
    NotResumable {
        /// The session.
        session: SessionId,
        /// Why.
        gap: ResumeGap,
    },
    /// A manifest that the name may be that of cannot be used.
    #[error(transparent)]
    Roster(Box<RosterError>),
    /// A file of settings is wrong.
    #[error(transparent)]
    Config(Box<ConfigError>),
    /// The router chose nobody. Nothing was started.
    #[error("{}", .0.problem)]
    NoRoute(Box<NoRoute>),
    /// A budget is used up already. Nothing was started.
    #[error("the budget for {scope} is used up: {what}")]
    OverBudget {
        /// What it is for.
        scope: String,
        /// How much of it was used.
        what: String,
    },
    /// What was spent so far could not be read, so that no budget can be kept.
    #[error("what was spent so far could not be read")]
    Ledger {
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// What the router remembers could not be read or written.
    #[error("could not {doing} what the router remembers in `{path}`")]
    Memory {
        /// What was to be done.
        doing: &'static str,
        /// The file.
        path: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The provider cannot honour the request. Nothing was started.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// A path is not UTF-8. Agents are told paths as text. Nothing was started.
    #[error("the path {path:?} is not UTF-8, and the agent could not be told of it")]
    NotText {
        /// The path.
        path: std::path::PathBuf,
    },
    /// A key or a label is longer than [`NAME_LIMIT`](crate::NAME_LIMIT). Nothing was started.
    #[error("the {what} has {bytes} bytes, and at most {} are allowed", crate::NAME_LIMIT)]
    LongName {
        /// `key` or `label`.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// The journal could not be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The process that owns the agents' processes could not be started.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// The call was not made in a tokio runtime with timers and IO. Nothing was started.
    #[error(transparent)]
    NoRuntime(#[from] RuntimeGap),
    /// The turn did not end well. Only the result door says so by an error.
    #[error("{}", in_words(.0))]
    Turn(Box<Record>),
    /// The answer is not of the type that was asked for.
    #[error("the answer is not the JSON that was asked for")]
    BadAnswer {
        /// The answer.
        text: String,
        /// The record of the turn; none if the schema of the type could not be written, so that nothing was started.
        record: Option<Box<Record>>,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The answer is too long to be held in memory, and there is no journal to read it from.
    #[error("the answer is too long to be held in memory, and the task keeps no journal to read it from")]
    TooLong,
    /// A file that belongs to the request could not be written.
    #[error("could not write `{path}`")]
    SideFile {
        /// The file.
        path: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// A file that goes with the prompt could not be read.
    #[error("could not read `{path}`, which goes with the prompt")]
    Attachment {
        /// The file.
        path: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The thread that drives runs for callers without an async runtime could not be started.
    #[error("could not start the thread that drives runs in the background")]
    Background(#[source] std::io::Error),
    /// The run was lost: the runtime that drove it went away, or it panicked.
    #[error("the run was lost before it ended: the async runtime that drove it is gone")]
    Lost,
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<RosterError> for Error {
    fn from(error: RosterError) -> Self {
        match error {
            RosterError::Unknown { name, nearest } => Self::UnknownProvider { name, nearest },
            RosterError::Bad { .. } | RosterError::Taken { .. } | RosterError::Read { .. } => {
                Self::Roster(Box::new(error))
            }
        }
    }
}

fn in_words(record: &Record) -> String {
    match &record.failure {
        Some(Failure { category, message, .. }) => format!("the turn failed ({category}): {message}"),
        None => format!("the turn was {}", record.outcome_word()),
    }
}

/// Why one of our sessions cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeGap {
    /// The data home has no such session.
    #[error("the data home has no such session")]
    NotFound,
    /// The agent reported no session id of its own.
    #[error("the agent reported no session id of its own")]
    NoNativeSession,
    /// Another provider ran it.
    #[error("it is a session of {provider}")]
    OtherProvider {
        /// The provider.
        provider: String,
    },
}
