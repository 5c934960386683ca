//! Requests of an agent that its host carries out, and the results.
//!
//! A client only translates: it reports the request ([`Output::asks_host`](super::output::Output::asks_host)) once it may be carried
//! out, and sends the result when it gets it ([`Dialect::host_done`](super::dialect::Dialect::host_done)).

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
}

/// The result of an action of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// The content of a file.
    Text(String),
    /// The file is written.
    Written,
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
    /// The host does not do that: the file is outside of the workspace, not a regular file, too large, or no text.
    Refused,
    /// The system reported an error.
    Failed,
}
