//! What is to be started: plain data, no builder.

use std::ffi::OsString;
use std::path::PathBuf;

/// Names the variable by which every process of a session can be found, even after its keeper died.
pub const SESSION_VARIABLE: &str = "BOWLINE_SESSION_ID";

/// Names the variable that is different for every spawn, so that two children of one session are told apart.
pub const SPAWN_VARIABLE: &str = "BOWLINE_SPAWN";

/// A program to start, with everything that it gets.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program. Without a `/` it is searched in the `PATH` of `env`; a relative path is relative to this process.
    pub program: PathBuf,
    /// The arguments behind the program's name.
    pub args: Vec<OsString>,
    /// The whole environment; nothing of our own is added but the two markers.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; that of this process if there is none.
    pub cwd: Option<PathBuf>,
    /// What stands at standard input.
    pub stdin: Stdin,
    /// Pipes, or a terminal.
    pub stdio: Stdio,
    /// How much its standard output holds that nobody has read yet, if it is a pipe and the system agrees; else what is
    /// usual, 64 KiB on Linux. For a program that ends before its last words are in the pipe.
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

/// What stands at a child's standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`; on a terminal, nothing is typed.
    Null,
    /// These bytes, then the end of the input.
    ///
    /// On a terminal the end is Ctrl-D. A terminal in its ordinary mode cuts lines above 4095 bytes: that is the
    /// kernel's rule, so long prompts belong into a pipe or into an argument.
    Bytes(Vec<u8>),
    /// Whatever is given to `Control::write`, until `Control::close_stdin`.
    Owned,
}

/// What a child's standard streams are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// Three pipes.
    Pipes,
    /// One terminal of this size for all three: what the child prints, on either stream, is `Stdout`.
    Terminal {
        /// Its height in lines.
        rows: u16,
        /// Its width in columns.
        cols: u16,
    },
}
