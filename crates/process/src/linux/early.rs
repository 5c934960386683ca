//! Starts a keeper before it is needed: a copy of a process that has one thread, or the program executed again.
//!
//! Executing a large program costs more than everything that a keeper does for one short run: the loader loads and relocates
//! its libraries once more. A copy saves that. A process with several threads cannot be copied, because the copy would keep the
//! locks that the other threads held; it executes the program, which becomes ready while the host goes on.
//!
//! A keeper that was started early is used only if nothing that agents inherit has changed since ([`is_like_us`]): a service
//! that starts as root and then becomes another user must not start its agents as root.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::UnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Pid;

use super::keeper;
use super::{before_main, fork, link};
use crate::supervisor::CgroupMode;

/// The keeper that was started and is not in use yet. If it is never used, its socket closes with this process, and it exits.
static READY: Mutex<Option<StartedKeeper>> = Mutex::new(None);

/// A keeper that was started and has not sent its hello yet.
#[derive(Debug)]
pub(crate) struct StartedKeeper {
    pub(crate) socket: OwnedFd,
    pub(crate) keeper: Pid,
    /// The process that started it. A copy of that process, forked later, must not use its keeper.
    host: u32,
}

impl StartedKeeper {
    pub(crate) fn new(socket: OwnedFd, keeper: Pid) -> Self {
        Self { socket, keeper, host: std::process::id() }
    }
}

/// Takes the keeper that was started early, if this process can use it.
pub(crate) fn take() -> Option<StartedKeeper> {
    let early = READY.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    if early.host != std::process::id() {
        // Dropping it closes only this copy's descriptor. The parent keeps its own, and its keeper.
        return None;
    }
    if is_like_us(early.keeper) {
        return Some(early);
    }
    // The keeper exits when its socket closes. It is our child, so we reap it.
    let keeper = early.keeper;
    drop(early);
    fork::reap(keeper.as_raw_nonzero().get());
    None
}

/// Returns whether this keeper would start agents as the same user, with the same rights and limits, as this process.
fn is_like_us(keeper: Pid) -> bool {
    let keeper = format!("/proc/{}", keeper.as_raw_nonzero());
    let (ours, theirs) = (Path::new("/proc/self"), Path::new(&keeper));
    let status = |of: &Path| -> Option<Vec<String>> {
        const SAME: [&str; 12] = [
            "Umask:",
            "Uid:",
            "Gid:",
            "Groups:",
            "CapInh:",
            "CapPrm:",
            "CapEff:",
            "CapBnd:",
            "CapAmb:",
            "NoNewPrivs:",
            "Seccomp:",
            "Cpus_allowed:",
        ];
        let status = std::fs::read_to_string(of.join("status")).ok()?;
        let same = |line: &&str| SAME.iter().any(|name| line.starts_with(name));
        Some(status.lines().filter(same).map(str::to_owned).collect())
    };
    let content = |of: &Path, file: &str| std::fs::read(of.join(file)).ok();
    let target = |of: &Path, link: &str| std::fs::read_link(of.join(link)).ok();
    status(ours).is_some_and(|own| Some(own) == status(theirs))
        && ["limits", "cgroup"].iter().all(|file| content(ours, file) == content(theirs, file))
        && ["root", "ns/mnt", "ns/net", "ns/user"]
            .iter()
            .all(|link| target(ours, link) == target(theirs, link))
}

/// Creates the two ends of the socket between host and keeper.
pub(crate) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Starts a keeper, unless one is waiting already.
pub(crate) fn start() {
    let alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    // A copy of this process inherits the lock in its locked state. It never takes it.
    let mut ready = READY.lock().unwrap_or_else(PoisonError::into_inner);
    if ready.is_some() {
        return;
    }
    // Errors are ignored here: the first spawn starts a keeper in the usual way and reports its error.
    *ready = if alone {
        copy()
    } else if before_main::is_in_main_program() {
        link::execute(Path::new(link::OWN_PROGRAM), CgroupMode::Auto).ok()
    } else {
        None
    };
}

/// Copies this process, which has one thread.
fn copy() -> Option<StartedKeeper> {
    let (ours, theirs) = sockets().ok()?;
    // A signal for the host, such as Ctrl-C on its terminal, must not end the copy before it has a session of its own.
    let mask = fork::block_signals();
    #[expect(unsafe_code, reason = "no safe call forks; the process has one thread")]
    // SAFETY: this process has one thread, so the copy may do everything that this process may do.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        // The copy still has the host's end, `ours`. `close_inherited` closes it; otherwise the socket would never end.
        run_and_exit(|| run_as_keeper(&theirs));
    }
    fork::restore_signals(&mask);
    // A negative number means that the fork failed.
    (forked > 0).then(|| Pid::from_raw(forked)).flatten().map(|keeper| StartedKeeper::new(ours, keeper))
}

/// Runs as the keeper.
fn run_as_keeper(socket: &OwnedFd) -> ExitCode {
    rename();
    // The socket becomes standard input, as in a program that is executed.
    match rustix::stdio::dup2_stdin(socket) {
        Ok(()) => keeper::run(CgroupMode::Auto),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs the work and exits with its code. Never returns into the host's program.
pub(crate) fn run_and_exit(work: impl FnOnce() -> ExitCode + UnwindSafe) -> ! {
    // A panic would unwind into the host's functions.
    let code = std::panic::catch_unwind(work).unwrap_or(ExitCode::FAILURE);
    #[expect(unsafe_code, reason = "the host's buffers and handlers are not ours to run")]
    // SAFETY: ends this process at once.
    unsafe {
        libc::_exit(i32::from(code == ExitCode::FAILURE))
    }
}

/// Writes our name over the host's arguments, so that a list of processes shows two different ones: a command that kills the
/// host by its arguments must not match us.
fn rename() {
    const NAME: &[u8] = b"bowline-keeper";
    let Some((start, end)) = arguments() else { return };
    #[expect(unsafe_code, reason = "no safe call changes what others see as our arguments")]
    // SAFETY: the kernel reports that our arguments are there, on the stack, and this process does not read them any more.
    unsafe {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(start);
        // Keep the zero at the end. The environment follows it, and without the zero a reader would take that for arguments.
        std::ptr::write_bytes(place, 0, end - start);
        std::ptr::copy_nonoverlapping(NAME.as_ptr(), place, NAME.len().min(end - start - 1));
    }
}

/// Returns where our arguments begin and end in memory.
fn arguments() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets and may contain anything. Count from its closing bracket:
    // fields 48 and 49 are `arg_start` and `arg_end`.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(45).map(str::parse);
    let (start, end) = (fields.next()?.ok()?, fields.next()?.ok()?);
    (start < end && start != 0).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    #[test]
    fn a_panic_in_the_copy_ends_there() {
        #[expect(unsafe_code, reason = "no safe call forks")]
        // SAFETY: the copy unwinds, which needs no lock of another thread of this test, and exits.
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            // Without the panic hook: it prints, and another thread of this test program may hold a lock that it needs.
            run_and_exit(|| std::panic::resume_unwind(Box::new("in the copy")));
        }
        let copy = Pid::from_raw(forked);
        let ended = (0..4_000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            waitpid(copy, WaitOptions::NOHANG).expect("it is our child")
        });
        let (_, status) = ended.expect("it ends");
        // Another code would mean that the panic unwound into the test.
        assert_eq!(status.exit_status(), Some(1), "{status:?}");
    }
}
