//! The supervisor: the only way to start a child.

use std::path::PathBuf;

use crate::System;
use crate::async_runtime::check_runtime;
use crate::child::Child;
use crate::child_event::Guarantee;
use crate::command::Command;
use crate::error::{KeeperError, SpawnError, SpawnErrorKind};

/// Starts children and owns their trees. One for each process is enough; clones share it.
#[derive(Debug, Clone)]
pub struct Supervisor(System);

/// How trees are owned. The default is the strongest guarantee that this machine allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SupervisorOptions {
    /// Whether the keeper uses cgroups.
    pub cgroup: CgroupMode,
    /// Where the keeper comes from.
    pub keeper: KeeperSource,
}

/// Whether every tree gets its own cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupMode {
    /// Use a cgroup where the system allows it.
    #[default]
    Auto,
    /// Use none.
    Never,
}

/// Where the keeper comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeeperSource {
    /// This program executed again, if it called [`crate::keeper::run_if_asked`]; otherwise no keeper.
    #[default]
    Own,
    /// Another program that calls [`crate::keeper::run_if_asked`]: for a host whose `main` cannot, such as a plugin.
    Program(PathBuf),
    /// No keeper: this process starts its children itself, with the weakest guarantee.
    None,
}

impl Supervisor {
    /// Starts with the strongest guarantee that this machine allows.
    pub fn start() -> Result<Self, KeeperError> {
        Self::start_with(SupervisorOptions::default())
    }

    /// Starts with these options.
    pub fn start_with(options: SupervisorOptions) -> Result<Self, KeeperError> {
        System::start(options).map(Self)
    }

    /// Returns the guarantee in force. A single child may have less, see [`Child::guarantee`].
    pub fn guarantee(&self) -> Guarantee {
        self.0.guarantee()
    }

    /// Returns the process id of the keeper, if a keeper runs.
    pub fn keeper(&self) -> Option<u32> {
        self.0.keeper()
    }

    /// Returns why the keeper is missing, if one was wanted. The guarantee is then the weakest.
    ///
    /// Only a missing keeper of [`KeeperSource::Own`] is tolerated. With a named program, starting the supervisor fails.
    pub fn keeper_error(&self) -> Option<&KeeperError> {
        self.0.keeper_error()
    }

    /// Starts a program. When this returns, the program is being executed.
    ///
    /// Needs a tokio runtime with IO and time; the error names the missing part. Dropping the future ends the processes that it
    /// may have started.
    pub async fn spawn(&self, command: Command) -> Result<Child, SpawnError> {
        let program = command.program.clone();
        let spawned = match check_runtime() {
            Ok(()) => self.0.spawn(command).await,
            Err(gap) => Err(SpawnErrorKind::Runtime(gap)),
        };
        spawned.map_err(|kind| SpawnError { program, kind })
    }
}
