//! The inputs of the judge: an action, and the facts of the place in which it would happen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An action of an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyAction<'a> {
    /// A command for a shell.
    Shell(&'a str),
    /// A program with its arguments, without a shell.
    Program(&'a [String]),
    /// A call of a tool. Commands, paths and addresses in its input are judged, too.
    Tool {
        /// The name, as the agent spells it.
        name: &'a str,
        /// The arguments.
        input: &'a serde_json::Value,
    },
    /// Reading a file.
    Read(&'a Path),
    /// Writing a file.
    Write(&'a Path),
    /// Using a host.
    Network(&'a str),
}

/// The facts that the judge cannot look up itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceFacts {
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The directories that the agent works in.
    pub roots: Vec<PathBuf>,
    /// Directories for temporary files: writing to them is fine, running their programs is not.
    pub scratch: Vec<PathBuf>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The branch that is checked out, if there is one and it is known.
    pub branch: Option<String>,
    /// Symbolic links with their targets.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Files and directories with the settings and hooks of agents, such as `.agent/settings.json`.
    pub agent_settings: Vec<String>,
    /// Bowline's own policy, settings, data, sockets and program.
    pub own: Vec<PathBuf>,
}

impl WorkspaceFacts {
    /// Returns whether a path lies in a directory of the workspace.
    pub(super) fn is_inside(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Returns whether a path lies in a directory for temporary files.
    pub(super) fn is_scratch(&self, path: &Path) -> bool {
        self.scratch.iter().any(|dir| path.starts_with(dir) && path != dir)
    }
}
