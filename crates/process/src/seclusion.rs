//! Cuts this process and its future children off from the network and from the user's environment.
//!
//! Tests use it to run a real program against fake services: the program reaches nothing outside, and its attempts are counted.
//! Call it first in `main`: the kernel does not move a process with a second thread, and removing variables under another
//! thread is unsafe.

use std::ffi::{OsStr, OsString};

/// The network of this process after [`enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkAccess {
    /// In a network namespace that has loopback and nothing else.
    Loopback,
    /// The network that it had before: this system, or this user, cannot create a namespace.
    Open,
}

/// Leaves the network if the system allows it, and removes all variables but those in `keep`. Returns the error if the process
/// could not leave the network.
pub fn enter(keep: &[&str], set: &[(&str, &OsStr)]) -> (NetworkAccess, Option<std::io::Error>) {
    clear_environment(keep, set);
    #[cfg(target_os = "linux")]
    let left = crate::linux::seclusion::enter();
    #[cfg(not(target_os = "linux"))]
    let left: std::io::Result<()> = Err(std::io::Error::from(std::io::ErrorKind::Unsupported));
    match left {
        Ok(()) => (NetworkAccess::Loopback, None),
        Err(error) => (NetworkAccess::Open, Some(error)),
    }
}

/// Counts the attempts to leave a network namespace that [`enter`] made.
pub fn attempts_to_leave() -> std::io::Result<u64> {
    #[cfg(target_os = "linux")]
    return crate::linux::seclusion::refused();
    #[cfg(not(target_os = "linux"))]
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// Counts the connections to ports in the namespace that have no listener, such as the port of a service that runs on this
/// machine outside the namespace.
pub fn attempts_at_closed_ports() -> std::io::Result<u64> {
    #[cfg(target_os = "linux")]
    return crate::linux::seclusion::refused_by_ports();
    #[cfg(not(target_os = "linux"))]
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

#[expect(unsafe_code, reason = "variables are changed before there is a second thread")]
fn clear_environment(keep: &[&str], set: &[(&str, &OsStr)]) {
    let names: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in names {
        if !keep.iter().any(|keep| name == *keep) {
            // SAFETY: the module's documentation requires that there is no other thread.
            unsafe { std::env::remove_var(name) };
        }
    }
    for (name, value) in set {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
}
