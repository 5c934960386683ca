//! Starts, signals and ends child processes. No other crate does.
//!
//! A [`Supervisor`] starts programs and owns every process that they start in turn. A [`Child`] reports [`ChildEvent`]s of one
//! program; a [`ChildControl`] acts on it. The caller makes all decisions: how long to wait, when to send which signal, and
//! what an exit means.
//!
//! # Theory of operation
//!
//! A process group guarantees little: agents start servers, and servers leave their group. So every host has a [`keeper`], a
//! small process with one thread. It
//!
//! - forks the agents on the host's behalf;
//! - is their *subreaper*: a process that loses its parent becomes the keeper's child, not pid 1's;
//! - gives each tree a *cgroup* where the system allows it;
//! - holds a socket that closes when the host is gone, whatever the cause. Then the keeper ends every tree, and itself.
//!
//! The streams of a child are pipes between host and child. The keeper passes the descriptors on and sees no byte.
//!
//! If the keeper itself is killed, the kernel kills the agents. The host notices, and finds the remaining processes by the
//! marker that every process of a session has in its environment. The mechanisms that work on a machine are its [`Guarantee`],
//! which is reported, never assumed.
//!
//! `docs/design/keeper.md` has the reasons and the rejected designs.
//!
//! # Not here
//!
//! No runs, no timeouts, no journal, no names of providers. Only Linux has a keeper. macOS and the BSDs have the process group
//! ([`Guarantee::Group`]): a process that leaves its group survives, and when the host is killed nothing is ended. Windows
//! cannot start children yet and returns [`SpawnErrorKind::Unsupported`].

#![cfg_attr(windows, expect(dead_code, reason = "nothing can be started there yet, so much is not used"))]

#[cfg(unix)]
pub mod ancestry;
mod async_runtime;
mod child;
mod child_event;
mod command;
mod error;
pub mod keeper;
#[cfg(unix)]
mod origin;
mod owner;
#[cfg(unix)]
pub mod path_watch;
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
use linux::system::LinuxSystem as System;
#[cfg(all(unix, not(target_os = "linux")))]
use unix::system::UnixSystem as System;
#[cfg(unix)]
use unix::{streams, streams::ChildStreams};
#[cfg(windows)]
use windows::{streams::NoStreams as ChildStreams, system::WindowsSystem as System};

pub use async_runtime::{RuntimeGap, check_runtime};
pub use child::{Child, ChildControl};
pub use child_event::{ChildEvent, ExitStatus, Guarantee, Signal, SignalScope, TreeProcess};
pub use command::{Command, SESSION_VARIABLE, SPAWN_VARIABLE, Stdin, Stdio};
pub use error::{KeeperError, SpawnError, SpawnErrorKind};
pub use strays::{StrayReport, end_strays};
pub use supervisor::{CgroupMode, KeeperSource, Supervisor, SupervisorOptions};
#[cfg(unix)]
pub use unix::{detach, file_limit, user_command};
