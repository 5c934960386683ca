//! The one door through which children are started.

use std::path::PathBuf;

use crate::async_runtime::check_runtime;
use crate::child::Child;
use crate::command::Command;
use crate::error::{KeeperError, SpawnError, SpawnErrorKind};
use crate::happening::Guarantee;
use crate::system::System;

/// Starts children and owns their trees. One for each process is enough; clones share it.
#[derive(Debug, Clone)]
pub struct Supervisor(System);

/// How trees are to be owned. The default is the strongest that this machine allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether cgroups are tried.
    pub cgroup: Cgroup,
    /// Where the keeper comes from.
    pub keeper: Keeper,
}

/// Whether every tree gets a cgroup of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cgroup {
    /// Where it is allowed.
    #[default]
    Auto,
    /// Not even where it is allowed.
    Never,
}

/// Where the keeper comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Keeper {
    /// This program executed again, if it called [`crate::keeper::run_if_asked`]; otherwise there is none.
    #[default]
    Own,
    /// Another program that calls [`crate::keeper::run_if_asked`]: for a host whose `main` is not ours, as in a plugin.
    Program(PathBuf),
    /// There is none; this process starts its children itself, with the weakest guarantee.
    None,
}

impl Supervisor {
    /// Starts with the strongest guarantee that can be had.
    pub fn start() -> Result<Self, KeeperError> {
        Self::start_with(Options::default())
    }

    /// Starts with these options.
    pub fn start_with(options: Options) -> Result<Self, KeeperError> {
        System::start(options).map(Self)
    }

    /// Returns the guarantee in force. A single child may have less, see [`Child::guarantee`].
    pub fn guarantee(&self) -> Guarantee {
        self.0.guarantee()
    }

    /// Returns the process id of the keeper, if there is one.
    pub fn keeper(&self) -> Option<u32> {
        self.0.keeper()
    }

    /// Returns why there is no keeper, if there should have been one: then the guarantee is the weakest.
    ///
    /// Only a keeper that is this program itself ([`Keeper::Own`]) is done without; one that was named is an error.
    pub fn keeper_error(&self) -> Option<&KeeperError> {
        self.0.keeper_error()
    }

    /// Starts a program. When this returns, the program is being executed.
    ///
    /// Needs a tokio runtime with IO and time; without it the error says what is missing. Dropping the future ends what it may
    /// have started.
    pub async fn spawn(&self, command: Command) -> Result<Child, SpawnError> {
        let program = command.program.clone();
        let spawned = match check_runtime() {
            Ok(()) => self.0.spawn(command).await,
            Err(gap) => Err(SpawnErrorKind::Runtime(gap)),
        };
        spawned.map_err(|kind| SpawnError { program, kind })
    }
}
