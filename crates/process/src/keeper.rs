//! The keeper: a tiny process that starts a host's agents, owns their trees, and ends them when the host is gone.
//!
//! It is this same program, executed again, or a copy of it. A program that hosts sessions calls
//!
//! ```
//! bowline_process::keeper::run_if_asked();
//! ```
//!
//! in its `main`. A program that does not keeps working with a weaker guarantee, see [`crate::Guarantee`].
//!
//! A program that is executed again to be a keeper never reaches its `main`: a constructor takes over before it. So
//! it does not matter what the host's `main` does before the call. A host under `#[tokio::main]` has worker threads by then, and
//! an event loop whose descriptors a keeper would close under them.
//!
//! A program that is set-uid, set-gid or has file capabilities never becomes a keeper, and does without one as a host.

use std::sync::atomic::{AtomicBool, Ordering};

/// Asks a new process to be a keeper. It is not passed on to agents.
pub(crate) const VARIABLE: &str = "BOWLINE_KEEPER";

static CAN_BE_ASKED: AtomicBool = AtomicBool::new(false);

/// Becomes the keeper and never returns, if this process was started as one; else returns at once.
///
/// Marks this program as one that can be executed again as a keeper. On Linux a keeper has been one since before `main`, and this
/// call does nothing else; it is a second chance for a program whose linker dropped the constructor.
pub fn run_if_asked() {
    CAN_BE_ASKED.store(true, Ordering::Release);
    #[cfg(target_os = "linux")]
    become_keeper_if_asked();
}

/// Starts the keeper of this process now, so that the first child does not have to wait for it. Elsewhere it does nothing.
///
/// With one thread it is a copy of this process, which spares the cost of executing the program a second time. With more it is
/// the program executed again, beside what this process does meanwhile.
pub fn start_early() {
    #[cfg(target_os = "linux")]
    if can_be_asked() {
        crate::linux::early::start();
    }
}

/// Says whether this program, executed again, becomes a keeper before its `main` begins.
///
/// It does not where this crate is in a library that a foreign program loads: that program knows nothing of keepers.
pub fn begins_before_main() -> bool {
    #[cfg(target_os = "linux")]
    return crate::linux::before_main::is_in_main_program();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Says whether this program, executed again, would become a keeper.
#[cfg(target_os = "linux")]
pub(crate) fn can_be_asked() -> bool {
    CAN_BE_ASKED.load(Ordering::Acquire) && !gains_rights()
}

#[cfg(target_os = "linux")]
pub(crate) fn ask(cgroups: crate::linux::keeper::Cgroups) -> &'static str {
    match cgroups {
        crate::linux::keeper::Cgroups::Auto => "auto",
        crate::linux::keeper::Cgroups::Never => "never",
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn become_keeper_if_asked() {
    if let Some(KeeperRequest { cgroups, host }) = asked() {
        // A request that is refused must not reach the host's `main`, which would start a keeper in turn.
        let refused = gains_rights() || host != rustix::process::geteuid();
        crate::linux::early::apart(|| {
            if refused { std::process::ExitCode::FAILURE } else { crate::linux::keeper::run(cgroups) }
        });
    }
}

/// What a parent process asks of its child by the environment and a socket as standard input.
#[cfg(target_os = "linux")]
struct KeeperRequest {
    cgroups: crate::linux::keeper::Cgroups,
    /// The user of the parent process.
    host: rustix::process::Uid,
}

/// Reads what we were asked. A variable that was passed on by mistake comes without our parent's socket.
#[cfg(target_os = "linux")]
fn asked() -> Option<KeeperRequest> {
    use crate::linux::keeper::Cgroups;
    use rustix::net::{SocketType, sockopt};
    #[expect(clippy::disallowed_methods, reason = "this is how a keeper is told that it is one")]
    let value = std::env::var_os(VARIABLE)?;
    let cgroups = [Cgroups::Auto, Cgroups::Never].into_iter().find(|known| value == ask(*known))?;
    let socket = rustix::stdio::stdin();
    let peer = sockopt::socket_peercred(socket).ok()?;
    let is_from_host = Some(peer.pid) == rustix::process::getppid()
        && sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET);
    is_from_host.then_some(KeeperRequest { cgroups, host: peer.uid })
}

/// Says whether this program has rights that the user who executes it does not have: set-uid, set-gid, file capabilities.
///
/// A keeper executes any program for its parent process. With such rights, it would do so for any local user.
#[cfg(target_os = "linux")]
fn gains_rights() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    #[expect(unsafe_code, reason = "no safe call reads the auxiliary vector")]
    // SAFETY: it takes a number, and reads a value that the kernel gave this process.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    is_secure || getuid() != geteuid() || getgid() != getegid()
}
