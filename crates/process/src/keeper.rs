//! The keeper: a small process that starts a host's agents, owns their trees, and ends them when the host is gone.
//!
//! It is this same program, executed again, or a copy of it. A program that hosts sessions calls
//!
//! ```
//! bowline_process::keeper::run_if_asked();
//! ```
//!
//! in its `main`. A program without that call works with a weaker guarantee, see [`crate::Guarantee`].
//!
//! A program that is executed again as a keeper never reaches its `main`: a constructor takes over before it. So the host's
//! `main` may do anything before the call. A host under `#[tokio::main]` has worker threads by then, and an event loop whose
//! descriptors a keeper would close.
//!
//! A program that is set-uid, set-gid or has file capabilities never becomes a keeper. As a host it runs without one.

use std::sync::atomic::{AtomicBool, Ordering};

/// Makes a new process a keeper. Agents do not inherit it.
pub(crate) const VARIABLE: &str = "BOWLINE_KEEPER";

static CAN_BE_ASKED: AtomicBool = AtomicBool::new(false);

/// Becomes the keeper and never returns, if this process was started as one. Otherwise returns at once.
///
/// Marks this program as one that can be executed again as a keeper. On Linux the constructor has already started a keeper
/// before `main`, and this call does nothing else; it is a second chance for a program whose linker dropped the constructor.
pub fn run_if_asked() {
    CAN_BE_ASKED.store(true, Ordering::Release);
    #[cfg(target_os = "linux")]
    become_keeper_if_asked();
}

/// Starts the keeper of this process now, so that the first child does not have to wait for it. Does nothing on systems without
/// a keeper.
///
/// A process with one thread forks a copy, which saves executing the program a second time. A process with more threads
/// executes the program again, while it goes on with its own work.
pub fn start_early() {
    #[cfg(target_os = "linux")]
    if can_be_asked() {
        crate::linux::early::start();
    }
}

/// Returns whether this program, executed again, becomes a keeper before its `main` begins.
///
/// It does not if a foreign program loads this crate as part of a library: that program has no such constructor.
pub fn begins_before_main() -> bool {
    #[cfg(target_os = "linux")]
    return crate::linux::before_main::is_in_main_program();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Returns whether this program, executed again, would become a keeper.
#[cfg(target_os = "linux")]
pub(crate) fn can_be_asked() -> bool {
    CAN_BE_ASKED.load(Ordering::Acquire) && !gains_rights()
}

#[cfg(target_os = "linux")]
pub(crate) fn ask(cgroups: crate::supervisor::CgroupMode) -> &'static str {
    match cgroups {
        crate::supervisor::CgroupMode::Auto => "auto",
        crate::supervisor::CgroupMode::Never => "never",
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn become_keeper_if_asked() {
    if let Some(KeeperRequest { cgroups, host }) = asked() {
        // A refused request must not reach the host's `main`, which would start a keeper in turn.
        let refused = gains_rights() || host != rustix::process::geteuid();
        crate::linux::early::run_and_exit(|| {
            if refused { std::process::ExitCode::FAILURE } else { crate::linux::keeper::run(cgroups) }
        });
    }
}

/// A parent process's request to be a keeper: an environment variable, and a socket as standard input.
#[cfg(target_os = "linux")]
struct KeeperRequest {
    cgroups: crate::supervisor::CgroupMode,
    /// The user of the parent process.
    host: rustix::process::Uid,
}

/// Reads the request. A variable that was inherited by mistake comes without the parent's socket.
#[cfg(target_os = "linux")]
fn asked() -> Option<KeeperRequest> {
    use crate::supervisor::CgroupMode;
    use rustix::net::{SocketType, sockopt};
    #[expect(clippy::disallowed_methods, reason = "the variable is the request to be a keeper")]
    let value = std::env::var_os(VARIABLE)?;
    let cgroups = [CgroupMode::Auto, CgroupMode::Never].into_iter().find(|known| value == ask(*known))?;
    let socket = rustix::stdio::stdin();
    // For a socket pair, the kernel records the process that created the pair (unix(7)): the host.
    let peer = sockopt::socket_peercred(socket).ok()?;
    let is_from_host = Some(peer.pid) == rustix::process::getppid()
        && sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET);
    is_from_host.then_some(KeeperRequest { cgroups, host: peer.uid })
}

/// Returns whether this program has rights that the user who executes it lacks: set-uid, set-gid, file capabilities.
///
/// A keeper executes any program for its parent process. With such rights, it would do so for any local user.
#[cfg(target_os = "linux")]
fn gains_rights() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    #[expect(unsafe_code, reason = "no safe call reads the auxiliary vector")]
    // SAFETY: the call takes a number and reads a value that the kernel gave this process.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    is_secure || getuid() != geteuid() || getgid() != getegid()
}
