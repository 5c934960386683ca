//! Parts that all Unix systems share: pipes, terminals, the search for a program, the owner without a
//! keeper, processes that outlive their caller, and commands of the user.

pub mod detach;
pub(crate) mod error;
pub mod file_limit;
pub(crate) mod group;
pub(crate) mod marks;
mod members;
mod pipe_signal;
pub(crate) mod resolve;
pub(crate) mod stdio;
pub(crate) mod streams;
#[cfg(not(target_os = "linux"))]
pub(crate) mod system;
pub mod user_command;

use std::time::Duration;

use crate::child_event::Signal;

/// How often, and with what pause, a start is retried while another process writes to the file.
pub(crate) const BUSY_TRIES: u32 = 20;
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Returns the system's number for a signal.
pub(crate) fn number(signal: Signal) -> i32 {
    match signal {
        Signal::Interrupt => libc::SIGINT,
        Signal::Terminate => libc::SIGTERM,
        Signal::Hangup => libc::SIGHUP,
        Signal::Quit => libc::SIGQUIT,
        Signal::Kill => libc::SIGKILL,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    }
}
