//! From a request to a command, as plain data.
//!
//! [`build`] reads the provider's manifest and gives an [`Invocation`]: program, arguments, environment, standard input.
//! Nothing is started, written or looked up here, and there is no shell: an argument is an argument, whatever
//! quotation marks, line ends or dashes it has. An option that a provider cannot honour is a [`Refusal`] that names it,
//! before anything is started; only sampling hints become notices.
//!
//! The order of arguments: those of the format, of every run, of the permission mode, of each option in the order of
//! [`RunFlag`](crate::manifest::run::RunFlag), native ones of the caller, and last the placeholder of the prompt.

mod apply;
mod build;
pub mod docker;
pub mod environment;
pub mod external;
mod health;
mod limits;
mod mcp;
mod native;
mod preview;
mod prompt;
mod refusal;
mod repository;
mod request;
pub mod secrets;
pub(crate) mod template;

use std::collections::BTreeMap;

use bowline_protocol::Millis;
use bowline_protocol::kinds::{CapabilityDegraded, Notice};
use serde::{Deserialize, Serialize};

use crate::conversation::{Conversation, ToolGating};
use crate::dialect::Shape;
use crate::manifest::run::Stop;

pub use build::build;
pub use health::health;
pub use limits::PhaseLimits;
pub use preview::Preview;
pub use prompt::is_image;
pub(crate) use prompt::{image_type, mentioned};
pub use refusal::Refusal;
pub(crate) use request::is_field;

/// The longest argument that is passed. Linux takes 128 KiB for each; what is longer goes over standard input or by file.
pub const LONGEST_ARGUMENT: usize = 96 * 1024;

/// A command that runs one turn of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// The provider.
    pub provider: String,
    /// The program: a name to be looked up, or a path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// Variables that are set.
    pub env: BTreeMap<String, String>,
    /// Variables that get the path of a side file, by the name of the file.
    pub env_files: BTreeMap<String, String>,
    /// Variables that are taken from the host: `NAME` or `PREFIX_*`.
    pub env_keep: Vec<String>,
    /// Variables that are never taken from the host, though `env_keep` names them.
    pub env_removed: Vec<String>,
    /// The content of its standard input.
    pub stdin: StdinPlan,
    /// The conversation, where a protocol owns its standard input.
    pub conversation: Option<Box<Conversation>>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// How we are connected to it.
    pub transport: StdioKind,
    /// The provider's name for the output format.
    pub format: String,
    /// The dialect to read it with.
    pub dialect: String,
    /// The shape of the output.
    pub shape: Shape,
    /// Files to be written before it starts, into the session's directory, for its user alone.
    pub files: Vec<SideFile>,
    /// Notices for the user.
    pub notices: Vec<Notice>,
    /// Capabilities that are missing because a better format is not available.
    pub degraded: Vec<CapabilityDegraded>,
    /// Variables whose values are to be masked: `NAME` or `PREFIX_*`.
    pub secrets_env: Vec<String>,
    /// Further values that are to be masked.
    pub secret_values: Vec<String>,
    /// How long each phase may take.
    pub limits: PhaseLimits,
    /// How it is ended politely.
    pub stop: Stop,
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A text.
    Plain(String),
    /// The path of a side file, with something before it.
    File {
        /// The text before the path.
        before: String,
        /// The name of the side file.
        name: String,
    },
}

impl Arg {
    /// Returns the text of the argument, given where side files lie.
    pub fn text(&self, path: impl FnOnce(&str) -> String) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::File { before, name } => format!("{before}{}", path(name)),
        }
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

/// A file that has to be there before the agent starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideFile {
    /// Its name in the session's directory.
    pub name: String,
    /// The content.
    pub content: String,
}

/// The content of the agent's standard input. It is never left open by accident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StdinPlan {
    /// It is empty.
    Null,
    /// It is this text, and then its end.
    Prompt(String),
    /// A protocol owns it; these are its first bytes.
    Protocol(String),
}

/// How we are connected to an agent, as its manifest has it. [`kinds::Transport`](bowline_protocol::kinds::Transport) of an event also
/// names the protocol over the pipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdioKind {
    /// By pipes.
    #[default]
    Pipe,
    /// By a terminal.
    Pty,
}

/// The caller's options for the run that are not part of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The program to run instead of the manifest's.
    pub binary: Option<String>,
    /// Whether the run is watched.
    pub streaming: Streaming,
    /// The provider's name for the format, if it has to be this one.
    pub format: Option<String>,
    /// The format to use instead of the default one, which is not available.
    pub usual: Option<String>,
    /// Better formats that are not available, and why.
    pub lacking: BTreeMap<String, String>,
    /// How to connect, if not as the manifest says.
    pub transport: Option<StdioKind>,
    /// The user that runs it.
    pub user: User,
    /// The maximum silence, where the request and the manifest allow more or have no limit.
    pub idle_at_most: Option<Millis>,
    /// Native arguments, passed on as they are.
    pub agent_args: Vec<String>,
    /// The behaviour if the program cannot be restricted and the mode is `ask`.
    pub unrestricted: Unrestricted,
    /// Whether the program may run code of the repository by itself.
    pub repository: RepositoryCode,
    /// Why the installed program lacks the manifest's way to keep it from that code.
    pub unkept: Option<String>,
    /// Whether the request has its prompt.
    pub prompt: PromptTime,
    /// The name of the MCP server that serves the caller's own functions, if the request has one. The program is told to allow its
    /// tools, if it can be told.
    pub host_server: Option<String>,
    /// Whether policies judge what the agent does. A format in which it does not ask is then refused.
    pub gated: ToolGating,
}

/// When the prompt of a request is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptTime {
    /// Now. A request without one is refused.
    #[default]
    Now,
    /// Later: a live session checks its options before its first prompt. The command is not for starting the program.
    Later,
}

/// Whether a program may run code of the repository in which it works by itself: hooks, MCP servers, plugins, settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RepositoryCode {
    /// It may: the project is trusted.
    #[default]
    Allowed,
    /// It may not while its mode is `read` or `ask`. These files of the repository would have been used.
    Kept(Vec<String>),
}

/// The behaviour under [`PermissionMode::Ask`](bowline_protocol::PermissionMode::Ask) of a program that cannot be restricted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unrestricted {
    /// It runs, and a notice warns that it can do everything.
    Warn,
    /// It is not run.
    #[default]
    Refuse,
}

/// Whether the run is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streaming {
    /// Yes: everything as it happens.
    #[default]
    On,
    /// No: the result is enough.
    Off,
}

/// The user that runs the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum User {
    /// An ordinary user.
    #[default]
    Ordinary,
    /// Root, for which some programs refuse some options.
    Root,
}

#[cfg(test)]
mod tests;
