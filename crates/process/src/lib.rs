//! The only place that starts or signals a child.
//!
//! A [`Supervisor`] starts programs and owns all that they start in turn. A [`Child`] tells what happens to one of them,
//! as [`Happening`]s; a [`Control`] acts on it. Nothing is decided here: how long to wait, when to be polite and when
//! not, and what an end means, is the caller's.
//!
//! # Theory of operation
//!
//! A process group is no guarantee: agents start servers, and servers leave their group. So every host has a
//! [`keeper`]: a tiny process with one thread that forks the agents on the host's behalf, is their *subreaper* (whoever
//! loses its parent becomes the keeper's child, not pid 1's), gives each tree a *cgroup* where that is allowed, and
//! holds a socket whose end tells it that the host is gone, however it went. Then it ends every tree, and itself. The
//! streams of a child are pipes between host and child: the keeper passes them on and sees no byte.
//!
//! If the keeper itself is killed, the kernel kills the agents, the host notices, and finds what is left by the marker
//! that every process of a session carries in its environment. Which of these nets are there is a [`Guarantee`], and
//! is reported, never assumed.
//!
//! The decisions behind this, and what was turned down, are in `docs/design/keeper.md`.
//!
//! # Not here
//!
//! No runs, no timeouts, no journal, no names of providers. On systems other than Linux there is no keeper: macOS and
//! the BSDs have the process group and nothing else ([`Guarantee::Group`]): what leaves its group survives, and when
//! the host is killed nothing is ended. Windows cannot start children yet and says so
//! ([`SpawnErrorKind::Unsupported`]).

#![cfg_attr(windows, expect(dead_code, reason = "nothing can be started there yet, so much is not used"))]

mod async_runtime;
mod child;
mod command;
mod error;
mod happening;
pub mod keeper;
mod owner;
pub mod seclusion;
mod strays;
mod supervisor;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
use linux::system;
#[cfg(unix)]
use unix::streams;
#[cfg(all(unix, not(target_os = "linux")))]
use unix::system;
#[cfg(windows)]
use windows::{streams, system};

pub use async_runtime::{RuntimeGap, check_runtime};
pub use child::{Child, Control};
pub use command::{Command, SESSION_VARIABLE, SPAWN_VARIABLE, Stdin, Stdio};
pub use error::{KeeperError, SpawnError, SpawnErrorKind};
pub use happening::{Exit, Guarantee, Happening, Scope, Signal, Survivor};
pub use strays::{Strays, end_strays};
pub use supervisor::{Cgroup, Keeper, Options, Supervisor};
#[cfg(unix)]
pub use unix::file_limit;
