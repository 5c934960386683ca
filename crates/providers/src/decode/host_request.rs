//! Requests of an agent that its host carries out, and the results.
//!
//! A client only translates: it reports the request ([`Output::asks_host`](super::output::Output::asks_host)) once it may be carried
//! out, and sends the result when it gets it ([`Dialect::host_done`](super::dialect::Dialect::host_done)).

use bowline_protocol::Exit;

/// Marks a request of the agent until its result comes. The client chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostToken(pub u64);

/// A request of the agent for its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRequest {
    /// Returned with the result.
    pub token: HostToken,
    /// The action.
    pub call: HostCall,
}

/// An action that the host carries out for the agent, inside its workspace only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostCall {
    /// Read a text file.
    ReadText {
        /// The file, as the agent named it.
        path: String,
        /// The first line to return, counted from 1.
        line: Option<u64>,
        /// The most lines to return.
        limit: Option<u64>,
    },
    /// Replace the content of a text file, or create it with its directories.
    WriteText {
        /// The file, as the agent named it.
        path: String,
        /// The new content.
        content: String,
    },
    /// Start a command in a terminal of its own.
    CreateTerminal(TerminalCommand),
    /// Return the output of a terminal so far.
    TerminalOutput(TerminalName),
    /// Wait until the command of a terminal has exited.
    WaitForExit(TerminalName),
    /// Kill the command of a terminal. Its output is kept.
    KillTerminal(TerminalName),
    /// Kill the command of a terminal, and forget it.
    ReleaseTerminal(TerminalName),
}

/// The name of a terminal. The host chooses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TerminalName(pub String);

/// The command of a terminal. No shell is between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalCommand {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables, besides those that the agent has.
    pub env: Vec<(String, String)>,
    /// The directory, as the agent named it. Absent: the project.
    pub cwd: Option<String>,
    /// How many bytes of its output are kept, at most.
    pub output_limit: Option<u64>,
}

/// The result of an action of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// The content of a file.
    Text(String),
    /// The file is written.
    Written,
    /// A terminal is created.
    Terminal(TerminalName),
    /// The output of a terminal.
    Output {
        /// The kept part: the end.
        text: String,
        /// Whether the beginning is missing.
        truncated: bool,
        /// How the command ended, if it has.
        exit: Option<Exit>,
    },
    /// The command of a terminal has exited.
    Exited(Exit),
    /// The terminal is killed, or released.
    Ended,
}

/// Why the host did not carry out an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProblem {
    /// The sort of problem.
    pub kind: HostProblemKind,
    /// The reason, for the agent.
    pub message: String,
}

/// The sorts of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostProblemKind {
    /// There is no such file.
    NotFound,
    /// The host does not do that: the file is outside of the workspace, not a regular file, too large, or no text; there is no such
    /// terminal, or there are too many.
    Refused,
    /// The system reported an error.
    Failed,
}
