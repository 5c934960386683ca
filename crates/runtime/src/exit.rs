//! Exit codes: one table for the command `bowline` and for programs that embed the library.
//!
//! [`Record::exit_code`] gives the code of a turn, [`Error::exit_code`] the code of a call that failed. The command line
//! uses the same two functions, so a program that embeds the library can exit exactly as `bowline run` would:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let task = bowline::task("Fix the failing test").provider("claude");
//! # let task = task.script(bowline::testing::script(r#"{"steps": [{"fail": "Please run /login"}]}"#));
//! let code = match task.run().await {
//!     Ok(record) => record.exit_code(),
//!     Err(error) => error.exit_code(),
//! };
//! assert_eq!(code, bowline::exit::NOT_USABLE);
//! # });
//! ```

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Category, Code, Failure};

use crate::agents::roster::RosterError;
use crate::routing::route::{NoRoute, RouteProblem};
use crate::run::error::Error;
use crate::run::host_tools::HostToolError;
use crate::run::record::Record;
use crate::run::turn_record::TurnRecord;

/// The turn completed.
pub const COMPLETED: u8 = 0;

/// The turn failed or was truncated, or the answer does not satisfy its schema.
pub const FAILED: u8 = 1;

/// The request is wrong: an unknown provider, or an option that the provider cannot honour.
pub const USAGE: u8 = 2;

/// A settings file, a manifest, a data directory or the disk is wrong.
pub const CONFIGURATION: u8 = 3;

/// The provider is not installed, too old, or not logged in.
pub const NOT_USABLE: u8 = 4;

/// A policy or a budget forbids it.
pub const NOT_ALLOWED: u8 = 5;

/// Bowline itself failed.
pub const INTERNAL: u8 = 70;

/// A timeout ended the turn.
pub const TIMED_OUT: u8 = 124;

/// The caller cancelled the turn.
pub const CANCELLED: u8 = 130;

/// The reader of the command's output went away, so that the command stopped the agent. The library never returns it.
pub const READER_GONE: u8 = 141;

/// A signal told the command to terminate. The library never returns it: only the caller knows of the signal.
pub const TERMINATED: u8 = 143;

impl Record {
    /// Returns the exit code with which `bowline run` ends after such a turn; see [`crate::exit`].
    pub fn exit_code(&self) -> u8 {
        match self.outcome {
            Outcome::Failed | Outcome::Truncated if self.timed_out.is_some() => TIMED_OUT,
            Outcome::Completed | Outcome::Failed | Outcome::Cancelled | Outcome::Truncated => {
                of_turn(self.outcome, self.failure.as_ref())
            }
        }
    }
}

impl TurnRecord {
    /// Returns the exit code with which `bowline run` ends after such a turn; see [`crate::exit`].
    pub fn exit_code(&self) -> u8 {
        // A time limit of ours has no place in the agent's output.
        let is_ours = |it: &&Failure| it.code == Code::TimedOut && it.raw.is_none();
        if self.failure.as_ref().filter(is_ours).is_some() {
            return TIMED_OUT;
        }
        of_turn(self.outcome, self.failure.as_ref())
    }
}

/// Returns the exit code of a turn by its `turn_ended` event.
pub fn of_turn(outcome: Outcome, failure: Option<&Failure>) -> u8 {
    match outcome {
        Outcome::Completed => COMPLETED,
        Outcome::Cancelled => CANCELLED,
        Outcome::Failed | Outcome::Truncated => match failure.map(|it| (it.category, &it.code)) {
            Some((_, Code::NotInstalled | Code::CannotStart | Code::WrongVersion)) => NOT_USABLE,
            Some((Category::Authentication, _)) => NOT_USABLE,
            Some((_, Code::Policy | Code::Budget | Code::DiskQuota)) => NOT_ALLOWED,
            Some((_, Code::DiskFull) | (Category::Configuration, Code::BadConfig)) => CONFIGURATION,
            _ => FAILED,
        },
    }
}

impl Error {
    /// Returns the exit code with which `bowline run` ends after such an error; see [`crate::exit`].
    ///
    /// ```
    /// assert_eq!(bowline::Error::NoProvider.exit_code(), bowline::exit::USAGE);
    /// ```
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoProvider
            | Self::UnknownProvider { .. }
            | Self::LongName { .. }
            | Self::NotResumable { .. }
            | Self::NoSuchSession(_)
            | Self::NotText { .. }
            | Self::NoJournal
            | Self::Refused(_) => USAGE,
            Self::HostTools(HostToolError::Start { .. }) => INTERNAL,
            Self::HostTools(_) => USAGE,
            Self::Roster(error) => error.exit_code(),
            Self::NoRoute(error) => error.exit_code(),
            Self::Config(_) | Self::Journal(_) | Self::Socket(_) => CONFIGURATION,
            Self::OverBudget { .. } => NOT_ALLOWED,
            Self::Turn(record) => record.exit_code(),
            Self::BadAnswer { .. } => FAILED,
            Self::NoRuntime(_)
            | Self::Ledger { .. }
            | Self::Memory { .. }
            | Self::Keeper(_)
            | Self::TooLong
            | Self::SideFile { .. }
            | Self::Attachment { .. }
            | Self::Background(_)
            | Self::Lost => INTERNAL,
        }
    }
}

impl RosterError {
    /// Returns the exit code of a command that needs this provider.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unknown { .. } => USAGE,
            Self::Bad { .. } | Self::Taken { .. } | Self::Read { .. } => CONFIGURATION,
        }
    }
}

impl NoRoute {
    /// Returns the exit code of a command for which the router found no provider. A used-up limit is a failed turn: the
    /// provider would have answered so.
    pub fn exit_code(&self) -> u8 {
        match &self.problem {
            RouteProblem::UnknownModel { .. } | RouteProblem::Ambiguous { .. } => USAGE,
            RouteProblem::Unusable { .. } => CONFIGURATION,
            RouteProblem::NoneUsable | RouteProblem::Empty => NOT_USABLE,
            RouteProblem::Limited { .. } => FAILED,
        }
    }
}
