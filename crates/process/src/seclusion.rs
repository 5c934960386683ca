//! This process, and all that it will start, cut off from the network and from the user's environment.
//!
//! For trying a real program against fakes: whatever it wants from the outside, it cannot have it, and that it tried is
//! counted. To be called first in `main`: a process with a second thread cannot be moved, and variables must not be
//! taken away under another thread.

use std::ffi::{OsStr, OsString};

/// Where this process is after [`enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// In a network namespace that has loopback and nothing else.
    Loopback,
    /// Where it was: this system, or this user, cannot have a namespace.
    Open,
}

/// Leaves the network, if that can be done, and takes all variables but those named out of the environment. Says
/// why it could not leave the network, if so.
pub fn enter(keep: &[&str], set: &[(&str, &OsStr)]) -> (Network, Option<std::io::Error>) {
    clear_environment(keep, set);
    #[cfg(target_os = "linux")]
    let left = crate::linux::seclusion::enter();
    #[cfg(not(target_os = "linux"))]
    let left: std::io::Result<()> = Err(std::io::Error::from(std::io::ErrorKind::Unsupported));
    match left {
        Ok(()) => (Network::Loopback, None),
        Err(error) => (Network::Open, Some(error)),
    }
}

/// Counts how often something tried to leave a network namespace that [`enter`] made.
pub fn attempts_to_leave() -> std::io::Result<u64> {
    #[cfg(target_os = "linux")]
    return crate::linux::seclusion::refused();
    #[cfg(not(target_os = "linux"))]
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// Counts how often something connected to a port in the namespace at which nobody listens, such as that of a service that
/// runs on this machine and not in there.
pub fn attempts_at_nobody() -> std::io::Result<u64> {
    #[cfg(target_os = "linux")]
    return crate::linux::seclusion::nobody_there();
    #[cfg(not(target_os = "linux"))]
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

#[expect(unsafe_code, reason = "variables are changed before there is a second thread")]
fn clear_environment(keep: &[&str], set: &[(&str, &OsStr)]) {
    let names: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in names {
        if !keep.iter().any(|keep| name == *keep) {
            // SAFETY: the caller promises, by the documentation of this room, that there is no other thread.
            unsafe { std::env::remove_var(name) };
        }
    }
    for (name, value) in set {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
}
