//! Errors of the registry.

use bowline_process::{KeeperError, RuntimeGap};

use crate::sessions::budget::BudgetError;
use crate::sessions::journal::JournalError;
use crate::sessions::names::LongName;

/// Why sessions could not be listed, ended or cleaned up. Converts to [`crate::Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// A journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The key is too long.
    #[error(transparent)]
    LongName(#[from] LongName),
    /// The spending of a killed run could not be written down.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// A file with secrets of a killed run could not be removed.
    #[error("could not remove `{path}`")]
    SideFile {
        /// The file.
        path: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The process that owns the agents' processes could not be started.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// The call was not made in a tokio runtime with timers and IO.
    #[error(transparent)]
    NoRuntime(#[from] RuntimeGap),
    /// A thread could not be started.
    #[error("could not start the thread that cleans up in the background")]
    Background(#[source] std::io::Error),
}
