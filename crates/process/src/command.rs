//! The command to start: plain data, no builder.

use std::ffi::OsString;
use std::path::PathBuf;

/// Names the variable that marks every process of a session. The host finds the processes by it after their keeper died.
pub const SESSION_VARIABLE: &str = "BOWLINE_SESSION_ID";

/// Names the variable that is different for every spawn. It tells two children of one session apart.
pub const SPAWN_VARIABLE: &str = "BOWLINE_SPAWN";

/// A program to start, with all its inputs.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program. Without a `/` it is searched in the `PATH` of `env`. A relative path is relative to this process.
    pub program: PathBuf,
    /// The arguments behind the program's name.
    pub args: Vec<OsString>,
    /// The whole environment. Only the two markers are added to it.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory. Default: the working directory of this process.
    pub cwd: Option<PathBuf>,
    /// The standard input.
    pub stdin: Stdin,
    /// Pipes, or a terminal.
    pub stdio: Stdio,
    /// The capacity of the standard output pipe in bytes, if the system allows it. Default: the system's, 64 KiB on Linux. Set
    /// it for a program that exits before its last output is in the pipe.
    pub stdout_room: Option<u32>,
    /// The session's id: the child gets it as `BOWLINE_SESSION_ID`.
    pub marker: String,
}

impl Command {
    /// Returns a command with no arguments, an empty environment, no input, and pipes.
    pub fn new(program: impl Into<PathBuf>, marker: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            stdin: Stdin::Null,
            stdio: Stdio::Pipes,
            stdout_room: None,
            marker: marker.into(),
        }
    }
}

/// The standard input of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`. On a terminal, no input.
    Null,
    /// These bytes, then the end of the input.
    ///
    /// On a terminal the end is Ctrl-D. The kernel cuts lines above 4095 bytes on a terminal in its default mode, so pass long
    /// prompts by a pipe or an argument.
    Bytes(Vec<u8>),
    /// The bytes of each `ChildControl::write`, until `ChildControl::close_stdin`.
    Owned,
}

/// The kind of a child's standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// Three pipes.
    Pipes,
    /// One terminal of this size for all three. Output on either stream is a `Stdout` event.
    Terminal {
        /// Its height in lines.
        rows: u16,
        /// Its width in columns.
        cols: u16,
    },
}
