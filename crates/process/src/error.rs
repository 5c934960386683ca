//! What can go wrong before there is a child. Afterwards nothing is an error: it is a `Happening`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::async_runtime::RuntimeGap;

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("could not start `{}`", program.display())]
pub struct SpawnError {
    /// The program, as it was asked for.
    pub program: PathBuf,
    /// Why.
    #[source]
    pub kind: SpawnErrorKind,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnErrorKind {
    /// There is no such file, or no directory of `PATH` has it.
    #[error("there is no such program: check the path, or the `PATH` that the program is searched in")]
    NotFound,
    /// The file is there, but may not be executed.
    #[error("the file is not executable: check its mode, or whether it is a directory")]
    NotExecutable,
    /// The file is executable, but not in a form that this machine runs.
    #[error(
        "the file is not in a form that this machine can run: \
         it is for another architecture, damaged, or a script without a `#!` line"
    )]
    WrongArchitecture,
    /// The file is there, but the interpreter or the loader that it names is not.
    #[error("the interpreter or loader that the file names is missing: look at its `#!` line, or at `ldd`")]
    NoInterpreter,
    /// The file is being written, and was so for the whole time of waiting.
    #[error("the file is being written (an update?) and stayed so for a second: try again when that is done")]
    Busy,
    /// The working directory cannot be entered.
    #[error("the working directory `{}` cannot be entered", cwd.display())]
    NoSuchCwd {
        /// The directory.
        cwd: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file may not be reached or executed by this user.
    #[error("permission denied: this user may not reach the file, or its file system forbids to execute")]
    PermissionDenied,
    /// Arguments and environment are above the limit of the system.
    #[error("arguments and environment are longer than the system allows: pass the prompt by standard input")]
    TooLong,
    /// An argument, a variable or a path has a NUL byte, which cannot be passed on.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// Which of them.
        what: &'static str,
    },
    /// The tokio runtime of the caller lacks something.
    #[error(transparent)]
    Runtime(RuntimeGap),
    /// This system has no way to start children yet.
    #[error("children cannot be started on this system yet")]
    Unsupported,
    /// Anything else that the system says.
    #[error("{doing}")]
    Other {
        /// What was being done.
        doing: &'static str,
        /// What the system says.
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

/// The keeper, the small process that owns all trees, is not there.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// It could not be started.
    #[error("could not start the keeper from `{}`", program.display())]
    Start {
        /// What was executed.
        program: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It was started, but did not say hello.
    #[error(
        "the keeper did not answer: `{}` is no program that calls `bowline::init`, or something stops it",
        program.display()
    )]
    Mute {
        /// What was executed.
        program: PathBuf,
    },
    /// It has not answered for a long time.
    #[error(
        "the keeper has not answered for {} s: something stops it, or the file system of the program hangs",
        after.as_secs()
    )]
    Silent {
        /// How long it was waited for.
        after: Duration,
    },
    /// It died.
    #[error("the keeper died; the next start makes a new one")]
    Lost,
    /// It could not be reached.
    #[error("the keeper could not be told")]
    Unreachable(#[source] io::Error),
    /// Something that a keeper needs of this process could not be had.
    #[error("could not prepare for a keeper")]
    Prepare(#[source] io::Error),
}
