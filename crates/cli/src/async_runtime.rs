//! The async runtime of commands that start programs or serve requests.

use crate::error::{CommandError, Fault};
use crate::resource_limits;

/// Starts the runtime.
///
/// The command writes its output on its own thread, which blocks if the reader is slow. The run has a worker thread, so that a
/// slow reader delays neither the agent nor a signal.
pub(crate) fn start() -> Result<tokio::runtime::Runtime, CommandError> {
    // The runtime panics if it can open no files or start no threads.
    resource_limits::check()?;
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(|error| {
        CommandError::new(Fault::Internal, "could not start the async runtime").caused_by(error)
    })
}
