//! The keeper: a tiny process that starts a host's agents, owns their trees, and ends them when the host is gone.
//!
//! It is this same program, executed again. So the `main` of a program that hosts sessions begins with
//!
//! ```
//! bowline_process::keeper::run_if_asked();
//! ```
//!
//! and everybody else keeps working with a weaker guarantee, see [`crate::Guarantee`].

use std::sync::atomic::{AtomicBool, Ordering};

/// Asks a new process to be a keeper. It is not passed on to agents.
pub(crate) const VARIABLE: &str = "BOWLINE_KEEPER";

static CAN_BE_ASKED: AtomicBool = AtomicBool::new(false);

/// Becomes the keeper and never returns, if this process was started as one; else returns at once.
///
/// Call it first in `main`, before there is a second thread.
pub fn run_if_asked() {
    CAN_BE_ASKED.store(true, Ordering::Release);
    #[cfg(target_os = "linux")]
    if let Some(cgroups) = asked() {
        let code = crate::linux::keeper::run(cgroups);
        #[expect(
            clippy::exit,
            reason = "the keeper is a program of its own: it must not go on into the host's `main`"
        )]
        std::process::exit(i32::from(code == std::process::ExitCode::FAILURE));
    }
}

/// Starts the keeper of this process now, as a copy of it, if there is only one thread yet: that spares a command that is
/// going to start an agent the cost of executing its program a second time. Elsewhere it does nothing.
pub fn start_early() {
    #[cfg(target_os = "linux")]
    if can_be_asked() {
        crate::linux::early::start();
    }
}

/// Says whether this program, executed again, would become a keeper.
#[cfg(target_os = "linux")]
pub(crate) fn can_be_asked() -> bool {
    CAN_BE_ASKED.load(Ordering::Acquire)
}

#[cfg(target_os = "linux")]
pub(crate) fn ask(cgroups: crate::linux::keeper::Cgroups) -> &'static str {
    match cgroups {
        crate::linux::keeper::Cgroups::Auto => "auto",
        crate::linux::keeper::Cgroups::Never => "never",
    }
}

/// Reads what we were asked. A variable that somebody passed on by mistake comes without our parent's socket.
#[cfg(target_os = "linux")]
fn asked() -> Option<crate::linux::keeper::Cgroups> {
    use crate::linux::keeper::Cgroups;
    #[expect(clippy::disallowed_methods, reason = "this is how a keeper is told that it is one")]
    let value = std::env::var_os(VARIABLE)?;
    let cgroups = [Cgroups::Auto, Cgroups::Never].into_iter().find(|known| value == ask(*known))?;
    let peer = rustix::net::sockopt::socket_peercred(rustix::stdio::stdin()).ok()?;
    (Some(peer.pid) == rustix::process::getppid()).then_some(cgroups)
}
