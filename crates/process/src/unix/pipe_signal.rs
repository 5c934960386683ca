//! Turns a write to a pipe without a reader into an error. By default the signal SIGPIPE ends the host.
//!
//! Rust programs ignore SIGPIPE, but an embedder may have reset it, or may not be a Rust program.

use std::io;

/// Writes without raising SIGPIPE in this process.
#[expect(unsafe_code, reason = "asks and sets the signal mask of this thread")]
pub(crate) fn without(write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    // SAFETY: plain system calls on sets and actions that live on this stack.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action);
        // Ignored or handled: it cannot end this process.
        if action.sa_sigaction != libc::SIG_DFL {
            return write();
        }
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        let result = write();
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            // SIGPIPE is raised on the thread that wrote, so it is pending here. Take it before the mask is lifted.
            let mut taken = 0;
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            // Without a pending signal `sigwait` would block for ever.
            if libc::sigismember(&raw const pending, libc::SIGPIPE) == 1 {
                libc::sigwait(&raw const pipe, &raw mut taken);
            }
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
