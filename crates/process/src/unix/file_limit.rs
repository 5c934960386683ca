//! A file that reaches the user's limit must be an answer, not the end of the host.

/// Ignores SIGXFSZ, so that a write beyond the largest size that a file may have fails with `EFBIG`. A handler that somebody
/// has set stays. Children get the default back.
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

/// Gives a child the default back, where not all signals get it. Safe between fork and exec.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "no safe call sets what a signal does")]
pub(crate) fn reset_signal() {
    // SAFETY: a plain system call.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
}
