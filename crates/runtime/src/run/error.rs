//! Errors of calls: Bowline could not do its work, or a call that returns the answer had a turn that failed.

use std::path::PathBuf;

use bowline_engine::route::{CandidateVerdict, RouteProblem};
use bowline_process::{KeeperError, RuntimeGap};
use bowline_protocol::{Failure, SessionId};
use bowline_providers::invocation::Refusal;

use crate::agents::roster::RosterError;
use crate::run::host_tools::HostToolError;
use crate::run::record::Record;
use crate::run::settings::ConfigError;
use crate::sessions::budget::BudgetError;
use crate::sessions::journal::JournalError;
use crate::sessions::names::{LongName, NAME_LIMIT};
use crate::sessions::registry::RegistryError;
use crate::sessions::resolve::ResolveError;
use crate::sessions::socket::place::SocketError;

/// An error of a call.
///
/// For [`Task::start`](crate::Task::start) and [`Task::run`](crate::Task::run), a turn that failed is not an error: the failure
/// is in the [`Record`]. For [`Task::answer`](crate::Task::answer) it is [`Error::Turn`].
///
/// A message does not repeat its cause: [`source`](std::error::Error::source) returns the error of the system or the parser.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The task has no provider.
    #[error("no provider was chosen")]
    NoProvider,
    /// There is no provider of that name.
    #[error("there is no provider `{name}`{}", crate::system::suggest::in_words(nearest.as_deref()))]
    UnknownProvider {
        /// The name.
        name: String,
        /// The known name or alias closest to it.
        nearest: Option<String>,
    },
    /// [`Task::resume`](crate::Task::resume) was given the id of a Bowline session that cannot be resumed.
    #[error("the session `{session}` cannot be resumed: {gap}")]
    NotResumable {
        /// The session.
        session: SessionId,
        /// Why.
        gap: ResumeGap,
        /// The error of the journal, if it could not be read.
        #[source]
        source: Option<Box<JournalError>>,
    },
    /// The name of a session to resume means none, or several.
    #[error(transparent)]
    NoSuchSession(Box<ResolveError>),
    /// A manifest that may have that name cannot be used.
    #[error(transparent)]
    Roster(Box<RosterError>),
    /// A file of settings is wrong.
    #[error(transparent)]
    Config(Box<ConfigError>),
    /// The router chose no provider. Nothing was started.
    #[error("{}", .0.problem)]
    NoRoute(Box<NoRoute>),
    /// A budget is used up already. Nothing was started.
    #[error("the budget for {scope} is used up: {what}")]
    OverBudget {
        /// The scope of the budget.
        scope: String,
        /// How much of it was used.
        what: String,
    },
    /// The spending so far could not be read, so no budget can be checked.
    #[error("could not read the spending so far")]
    Ledger {
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The router's memory could not be read or written.
    #[error("could not {doing} the router's memory `{path}`")]
    Memory {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The provider cannot honour the request. Nothing was started.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// A path is not UTF-8, so it cannot be passed to the agent. Nothing was started.
    #[error("the path {path:?} is not UTF-8, so it cannot be passed to the agent")]
    NotText {
        /// The path.
        path: std::path::PathBuf,
    },
    /// A key or a label is longer than [`NAME_LIMIT`](crate::NAME_LIMIT). Nothing was started.
    #[error("the {what} has {bytes} bytes, and at most {NAME_LIMIT} are allowed")]
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
    /// The tools of the task cannot be served. Nothing was started.
    #[error(transparent)]
    HostTools(#[from] HostToolError),
    /// The call was not made in a tokio runtime with timers and IO. Nothing was started.
    #[error(transparent)]
    NoRuntime(#[from] RuntimeGap),
    /// The turn did not complete. Only calls that return the answer have this error.
    #[error("{}", in_words(.0))]
    Turn(Box<Record>),
    /// The answer cannot be parsed as the requested type.
    #[error("the answer is not JSON of the requested type")]
    BadAnswer {
        /// The answer.
        text: String,
        /// The record of the turn; none if the schema of the type could not be written, so that nothing was started.
        record: Option<Box<Record>>,
        /// The error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// The answer is too long to be held in memory, and there is no journal to read it from.
    #[error("the answer is too long for memory, and the task keeps no journal to read it from")]
    TooLong,
    /// A file that belongs to the request could not be written.
    #[error("could not write `{path}`")]
    SideFile {
        /// The file.
        path: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// An attachment of the prompt could not be read.
    #[error("could not read the attachment `{path}`")]
    Attachment {
        /// The file.
        path: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The thread that drives runs for callers without an async runtime could not be started.
    #[error("could not start the thread that drives runs in the background")]
    Background(#[source] std::io::Error),
    /// The session keeps no journal, so its events cannot be read a second time.
    #[error("the session keeps no journal, so its earlier events are gone")]
    NoJournal,
    /// The control socket of the session could not be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The run was lost: the runtime that drove it went away, or it panicked.
    #[error("the run was lost before it ended: it panicked, or the async runtime that drove it is gone")]
    Lost,
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

impl From<ResolveError> for Error {
    fn from(error: ResolveError) -> Self {
        if let ResolveError::Journal(error) = error {
            return Self::Journal(error);
        }
        Self::NoSuchSession(Box::new(error))
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

impl From<LongName> for Error {
    fn from(LongName { what, bytes }: LongName) -> Self {
        Self::LongName { what, bytes }
    }
}

impl From<BudgetError> for Error {
    fn from(error: BudgetError) -> Self {
        match error {
            BudgetError::Over { scope, what } => Self::OverBudget { scope, what },
            BudgetError::Ledger { source } => Self::Ledger { source },
            BudgetError::Journal(error) => Self::Journal(error),
        }
    }
}

impl From<RegistryError> for Error {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Journal(error) => Self::Journal(error),
            RegistryError::LongName(error) => error.into(),
            RegistryError::Budget(error) => error.into(),
            RegistryError::SideFile { path, source } => Self::SideFile { path, source },
            RegistryError::Keeper(error) => Self::Keeper(error),
            RegistryError::NoRuntime(error) => Self::NoRuntime(error),
            RegistryError::Background(error) => Self::Background(error),
        }
    }
}

fn in_words(record: &Record) -> String {
    match &record.failure {
        Some(Failure { category, message, .. }) => format!("the turn failed ({category}): {message}"),
        None => format!("the turn was {}", record.outcome_word()),
    }
}

/// Why the router chose no provider.
#[derive(Clone, Debug)]
pub struct NoRoute {
    /// The problem.
    pub problem: RouteProblem,
    /// The verdict on every candidate.
    pub verdicts: Vec<CandidateVerdict>,
}

impl std::fmt::Display for NoRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.problem.fmt(f)
    }
}

/// Why one of our sessions cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeGap {
    /// The data home has no such session.
    #[error("the data home has no such session")]
    NotFound,
    /// A runner of the session lives, or a process cleans up after one.
    #[error("{}", in_use(*pid))]
    Running {
        /// The process id of the runner, if it lives.
        pid: Option<u32>,
    },
    /// The journal of the session cannot be read.
    #[error("its journal cannot be read")]
    Unreadable,
    /// The agent reported no session id of its own.
    #[error("the agent reported no session id of its own")]
    NoNativeSession,
    /// It had MCP servers of which not everything is on disk, and the task names none. [`Task::mcp_server`](crate::Task::mcp_server)
    /// names them, [`Task::only_named_mcp_servers`](crate::Task::only_named_mcp_servers) goes on without them.
    #[error(
        "its MCP {} {} to be named again: arguments, addresses, headers and values of variables are not kept",
        if names.len() == 1 { "server" } else { "servers" },
        listed_servers(names)
    )]
    McpServers {
        /// Their names.
        names: Vec<String>,
    },
    /// It had tools of its program that the task does not have. [`Task::tool`](crate::Task::tool) gives them to it,
    /// [`Task::only_named_mcp_servers`](crate::Task::only_named_mcp_servers) goes on without them.
    #[error(
        "its {} to be given again: tools are functions of the program that runs the session",
        listed_tools(names)
    )]
    HostTools {
        /// Their names.
        names: Vec<String>,
    },
    /// Policies of its caller judged what its agent did, and the task does not have them. [`Task::policy`](crate::Task::policy) puts them in
    /// force.
    #[error("its {} to be in force again", listed_policies(files))]
    Policies {
        /// Their files; empty if they were not in files.
        files: Vec<PathBuf>,
    },
    /// Another provider ran it.
    #[error("it is a session of {provider}")]
    OtherProvider {
        /// The provider.
        provider: String,
    },
}

fn listed_policies(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    match names.as_slice() {
        [] => "policy has".to_owned(),
        [one] => format!("policy {one} has"),
        several => format!("policies {} have", several.join(", ")),
    }
}

fn listed_tools(names: &[String]) -> String {
    let noun = if names.len() == 1 { "tool" } else { "tools" };
    format!("{noun} {}", listed_servers(names))
}

fn listed_servers(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{} {}", quoted.join(", "), if names.len() == 1 { "has" } else { "have" })
}

fn in_use(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("it runs in process {pid}"),
        None => "another process is cleaning it up after a crash".to_owned(),
    }
}

#[cfg(test)]
mod tests;
