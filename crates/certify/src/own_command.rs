//! Calls of the command that runs the suite, for cases that need runners and watchers in processes of their own.
//!
//! The suite knows no flags of the command: the caller writes the arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use bowline::PermissionMode;
use bowline_protocol::SessionId;

/// The command, and how to call it.
#[derive(Clone, Debug)]
pub struct OwnCommand {
    /// Its program.
    pub program: PathBuf,
    /// Writes the arguments that start a live session and print where its runner listens, as JSON.
    pub start: fn(&RunnerStart) -> Vec<OsString>,
    /// Writes the arguments that print all events of a session as JSON lines, to its end.
    pub watch: fn(&SessionId) -> Vec<OsString>,
}

/// A live session that a runner is started for.
#[derive(Clone, Debug)]
pub struct RunnerStart {
    /// The provider.
    pub provider: String,
    /// The program of the agent.
    pub binary: PathBuf,
    /// The directory that the agent works in.
    pub cwd: PathBuf,
    /// The model.
    pub model: String,
    /// The actions that need no approval.
    pub permission: PermissionMode,
    /// The variables of the agent.
    pub env: Vec<(String, String)>,
    /// The session to resume; none for a new one.
    pub resume: Option<SessionId>,
}
