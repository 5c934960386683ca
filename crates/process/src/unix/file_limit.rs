//! Turns a write beyond the file size limit into an error. By default the signal SIGXFSZ ends the host.

/// Ignores SIGXFSZ, so that a write beyond the file size limit fails with `EFBIG`. Keeps a handler that the program has set.
/// Children get the default back.
#[expect(unsafe_code, reason = "no safe call sets what a signal does")]
pub fn ignore_signal() {
    // SAFETY: plain system calls on an action that lives on this stack.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut action);
        if action.sa_sigaction == libc::SIG_DFL {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// Resets SIGXFSZ in a child, on systems where not all signals are reset. Safe between fork and exec.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "no safe call sets what a signal does")]
pub(crate) fn reset_signal() {
    // SAFETY: a plain system call.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
}
