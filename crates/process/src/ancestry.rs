//! Distinguishes a process of an agent's tree from a process of the user, although both have the same user id.
//!
//! Every agent runs below a [`crate::keeper`]. The keeper is the subreaper of all its descendants, so the parents of a process
//! lead to the keeper whatever the process did to its session, its group or its environment. A keeper is recognised by its
//! name, which only its own threads can change: the kernel refuses a write to `/proc/PID/comm` from another process
//! (`comm_write` in `fs/proc/base.c` compares the thread groups). Another process can take that name. Its descendants then count
//! as an agent's, so it loses rights and gains none.
//!
//! A process whose keeper was killed has no keeper above it. Its cgroup and the marker in its environment are then the evidence.
//!
//! # Limits
//!
//! An agent can ask a process outside of its tree to act for it: a tmux server, `at`, `systemd-run`, a container engine. It can
//! also trace processes of its user where the system permits that (`kernel.yama.ptrace_scope` is 0). Without a keeper, an
//! orphan that cleared its environment is not recognised.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

#[cfg(target_os = "linux")]
use crate::linux::ancestry as system;
pub use crate::origin::ProcessOrigin;

/// The process at the other end of a Unix socket, as of the moment when it connected.
#[derive(Debug)]
pub struct SocketPeer {
    user: u32,
    #[cfg(target_os = "linux")]
    process: system::PeerProcess,
}

impl SocketPeer {
    /// Reads from the kernel who connected this socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            let (user, process) = system::peer(socket)?;
            Ok(Self { user, process })
        }
        #[cfg(not(target_os = "linux"))]
        Ok(Self { user: user_of(socket)? })
    }

    /// Returns whether the peer connected as the user of this process.
    pub fn is_same_user(&self) -> bool {
        self.user == rustix::process::geteuid().as_raw()
    }

    /// Returns the peer's user id.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Returns the peer's process id, if the system reports one that this process can see.
    pub fn pid(&self) -> Option<u32> {
        #[cfg(target_os = "linux")]
        return self.process.pid();
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Returns the program that the peer executes, now: a file that exists.
    pub fn program(&self) -> io::Result<PathBuf> {
        #[cfg(target_os = "linux")]
        return self.process.program();
        #[cfg(not(target_os = "linux"))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether the peer descends from a process, now. `false` if that cannot be known.
    pub fn is_below(&self, pid: u32) -> bool {
        #[cfg(target_os = "linux")]
        return self.process.is_below(pid.cast_signed());
        #[cfg(not(target_os = "linux"))]
        {
            let _ = pid;
            false
        }
    }

    /// Finds out whether the peer belongs to an agent, now. Reads a few files in `/proc`.
    ///
    /// The process that connected must still exist: an agent could hand its socket on, exit, and wait until the kernel gives its
    /// process id to a process of the user.
    pub fn origin(&self) -> ProcessOrigin {
        #[cfg(target_os = "linux")]
        return self.process.origin();
        #[cfg(not(target_os = "linux"))]
        ProcessOrigin::Unknown { reason: "this system does not show the parents of a process".to_owned() }
    }
}

/// Returns the host of the keeper that a process descends from: the runner of the agent that started it.
pub fn runner_above(pid: u32) -> Option<u32> {
    #[cfg(target_os = "linux")]
    return system::runner_above(pid.cast_signed());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        None
    }
}

/// Finds out whether a living process belongs to an agent.
pub fn origin_of(pid: u32) -> ProcessOrigin {
    #[cfg(target_os = "linux")]
    return system::origin(pid.cast_signed());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        ProcessOrigin::Unknown { reason: "this system does not show the parents of a process".to_owned() }
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "no safe call returns the peer's user")]
fn user_of(socket: BorrowedFd<'_>) -> io::Result<u32> {
    use std::os::fd::AsRawFd;
    let (mut user, mut group): (libc::uid_t, libc::gid_t) = (0, 0);
    // SAFETY: the descriptor is borrowed for the call, and both numbers live here.
    match unsafe { libc::getpeereid(socket.as_raw_fd(), &raw mut user, &raw mut group) } {
        0 => Ok(user),
        _ => Err(io::Error::last_os_error()),
    }
}
