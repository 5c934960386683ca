//! Errors of starting a child. Once a child runs there are no errors, only `ChildEvent`s.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::async_runtime::RuntimeGap;

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("could not start `{}`", program.display())]
pub struct SpawnError {
    /// The program, as the command named it.
    pub program: PathBuf,
    /// The cause.
    #[source]
    pub kind: SpawnErrorKind,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnErrorKind {
    /// No such file, or no directory of `PATH` has it.
    #[error("there is no such program: check the path, or the `PATH` that the program is searched in")]
    NotFound,
    /// The file exists, but is not executable.
    #[error("the file is not executable: check its mode, or whether it is a directory")]
    NotExecutable,
    /// The file is executable, but not in a format that this machine runs.
    #[error(
        "the file is not in a form that this machine can run: \
         it is for another architecture, damaged, or a script without a `#!` line"
    )]
    WrongArchitecture,
    /// The file exists, but the interpreter or loader that it names does not.
    #[error("the interpreter or loader that the file names is missing: look at its `#!` line, or at `ldd`")]
    NoInterpreter,
    /// Another process had the file open for writing during all retries.
    #[error("the file is being written (an update?) and stayed so for a second: try again when that is done")]
    Busy,
    /// The working directory cannot be entered.
    #[error("the working directory `{}` cannot be entered", cwd.display())]
    NoSuchCwd {
        /// The directory.
        cwd: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// This user may not reach or execute the file.
    #[error("permission denied: this user may not reach the file, or its file system forbids to execute")]
    PermissionDenied,
    /// Arguments and environment exceed the system's limit.
    #[error("arguments and environment are longer than the system allows: pass the prompt by standard input")]
    TooLong,
    /// An argument, a variable or a path has a NUL byte, which C strings cannot hold.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// The one that has it.
        what: &'static str,
    },
    /// The caller's tokio runtime lacks a part.
    #[error(transparent)]
    Runtime(RuntimeGap),
    /// This crate cannot start children on this system yet.
    #[error("children cannot be started on this system yet")]
    Unsupported,
    /// Any other error of the system.
    #[error("{doing}")]
    Other {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The keeper could not be started, or died.
    #[error("the keeper did not start it")]
    Keeper(#[source] KeeperError),
}

impl SpawnErrorKind {
    pub(crate) fn other(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Other { doing, source }
    }
}

/// The keeper, the small process that owns all trees, is not available.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// It could not be started.
    #[error("could not start the keeper from `{}`", program.display())]
    Start {
        /// The program that was executed.
        program: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// It was started, but sent no hello.
    #[error(
        "no reply from the keeper: `{}` does not call `bowline::init`, or another process stopped it",
        program.display()
    )]
    Mute {
        /// The program that was executed.
        program: PathBuf,
    },
    /// It has not replied for a long time.
    #[error(
        "the keeper has not replied for {} s: another process stopped it, or the file system of the program hangs",
        after.as_secs()
    )]
    Silent {
        /// How long the host waited.
        after: Duration,
    },
    /// It died.
    #[error("the keeper died; the next start creates a new one")]
    Lost,
    /// The request could not be sent to it.
    #[error("could not send the request to the keeper")]
    Unreachable(#[source] io::Error),
    /// The host could not set up what a keeper needs.
    #[error("could not prepare for a keeper")]
    Prepare(#[source] io::Error),
}
