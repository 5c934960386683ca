//! Runners that outlive the command that starts them, and whether a process may start one.

use std::ffi::OsString;
use std::path::PathBuf;

use bowline_process::SpawnError;
use bowline_process::ancestry::{self, ProcessOrigin, origin_of};
use bowline_process::detach::{DetachedCommand, DetachedProcess, detach};
pub use bowline_process::detach::{DetachedReport, DetachedStreams};

/// Starts the current program as a runner: in a session of its own, without a terminal. Its standard input is `spec`, its standard
/// output the report ([`DetachedStreams::take`]), and its standard error is appended to `log`.
///
/// # Errors
///
/// The program could not be started.
pub async fn start_runner(
    args: impl IntoIterator<Item = OsString>,
    spec: Vec<u8>,
    log: Option<PathBuf>,
) -> Result<DetachedProcess, SpawnError> {
    // A program that was replaced since its start has no file any more; the one on PATH is its successor.
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    start_runner_of(program.unwrap_or_else(|| PathBuf::from("bowline")), args, spec, log).await
}

/// The same with another program, such as one that takes a session over ([`Successor`](crate::Successor)).
///
/// # Errors
///
/// The program could not be started.
pub async fn start_runner_of(
    program: PathBuf,
    args: impl IntoIterator<Item = OsString>,
    spec: Vec<u8>,
    log: Option<PathBuf>,
) -> Result<DetachedProcess, SpawnError> {
    let (args, env) = (args.into_iter().collect(), std::env::vars_os().collect());
    detach(DetachedCommand { program, args, env, spec, log }).await
}

/// Returns the process that runs the agent to which this process belongs.
pub fn runner_above() -> Option<u32> {
    ancestry::runner_above(std::process::id())
}

/// Returns why this process counts as a part of an agent; `None` if it does not. An agent must not start sessions or decide its own
/// requests.
pub fn inside_an_agent() -> Option<String> {
    match origin_of(std::process::id()) {
        ProcessOrigin::Outside => None,
        ProcessOrigin::Agent { reason } | ProcessOrigin::Unknown { reason } => Some(reason),
    }
}

/// Returns why this process certainly is a part of an agent. Unlike [`inside_an_agent`], a system that does not show the parents of
/// processes is no reason: an order that everything else allows is not refused there.
pub fn certainly_inside_an_agent() -> Option<String> {
    match origin_of(std::process::id()) {
        ProcessOrigin::Agent { reason } => Some(reason),
        ProcessOrigin::Outside | ProcessOrigin::Unknown { .. } => None,
    }
}
