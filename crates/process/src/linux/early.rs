//! A keeper that is started before it is needed: a copy of a process that has one thread, or the program executed again.
//!
//! Executing a large program costs more than all that a keeper does for one short run: its libraries are loaded and its
//! addresses set right once more. A copy spares that. Where there are threads already, a copy would have the locks that they
//! held; then the program is executed, and becomes ready while the host does something else.
//!
//! A keeper that was started early is used only if nothing has changed since that agents inherit ([`is_like_us`]): a service that
//! starts as root and then becomes another user must not start its agents as root.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::UnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Pid;

use super::keeper::{self, Cgroups};
use super::{before_main, fork, link};

/// The one that was started and is not in use yet. If it never is, its socket closes with our end, and it goes.
static READY: Mutex<Option<Early>> = Mutex::new(None);

/// A keeper that was started and has not said hello yet.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) socket: OwnedFd,
    pub(crate) keeper: Pid,
    /// The process that started it. A copy of that process, forked later, must not talk to its keeper.
    host: u32,
}

impl Early {
    pub(crate) fn new(socket: OwnedFd, keeper: Pid) -> Self {
        Self { socket, keeper, host: std::process::id() }
    }
}

/// Takes the keeper that was started early, if there is one that this process can use.
pub(crate) fn take() -> Option<Early> {
    let early = READY.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    if early.host != std::process::id() {
        return None;
    }
    if is_like_us(early.keeper) {
        return Some(early);
    }
    // The end of its socket ends it; it is our child, so we reap it.
    let keeper = early.keeper;
    drop(early);
    fork::reap(keeper.as_raw_nonzero().get());
    None
}

/// Says whether agents of this keeper would be started as the same user, with the same rights and limits, as by this process.
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

/// Makes the two ends of the socket between host and keeper.
pub(crate) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Starts a keeper, unless one is waiting already.
pub(crate) fn start() {
    let alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    let mut ready = READY.lock().unwrap_or_else(PoisonError::into_inner);
    if ready.is_some() {
        return;
    }
    // Whatever fails here: a keeper is started in the usual way when it is needed, and says what is the matter.
    *ready = if alone {
        copy()
    } else if before_main::is_in_main_program() {
        link::execute(Path::new(link::OWN_PROGRAM), Cgroups::Auto).ok()
    } else {
        None
    };
}

/// Copies this process, which has one thread.
fn copy() -> Option<Early> {
    let (ours, theirs) = sockets().ok()?;
    // What is meant for the host, such as Ctrl-C on its terminal, must not end the copy before it has a session of its own.
    let mask = fork::block_signals();
    #[expect(unsafe_code, reason = "no safe call forks; the process has one thread")]
    // SAFETY: there is one thread, so that the copy may do whatever this process may.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        apart(|| be(&theirs));
    }
    fork::restore_signals(&mask);
    // Below 0 is no number of a process: the fork failed.
    (forked > 0).then(|| Pid::from_raw(forked)).flatten().map(|keeper| Early::new(ours, keeper))
}

/// Is the keeper.
fn be(socket: &OwnedFd) -> ExitCode {
    rename();
    // The socket comes as standard input, as it does to a program that is executed.
    match rustix::stdio::dup2_stdin(socket) {
        Ok(()) => keeper::run(Cgroups::Auto),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Does something, and ends the process with it: it never returns into the host's program.
pub(crate) fn apart(work: impl FnOnce() -> ExitCode + UnwindSafe) -> ! {
    // Unwinding would go on into the host's functions.
    let code = std::panic::catch_unwind(work).unwrap_or(ExitCode::FAILURE);
    #[expect(unsafe_code, reason = "the host's buffers and handlers are not ours to run")]
    // SAFETY: ends this process at once.
    unsafe {
        libc::_exit(i32::from(code == ExitCode::FAILURE))
    }
}

/// Writes our name over the host's arguments, so that a list of processes does not show two of the same: whoever ends the
/// host by its arguments must not mean us.
fn rename() {
    const NAME: &[u8] = b"bowline-keeper";
    let Some((start, end)) = arguments() else { return };
    #[expect(unsafe_code, reason = "no safe call changes what others see as our arguments")]
    // SAFETY: the kernel says that our arguments are there, on the stack, and this process does not read them any more.
    unsafe {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(start);
        // The zero at the end stays: behind it is the environment, and without it that would be read as well.
        std::ptr::write_bytes(place, 0, end - start);
        std::ptr::copy_nonoverlapping(NAME.as_ptr(), place, NAME.len().min(end - start - 1));
    }
}

/// Where our arguments begin and end in memory.
fn arguments() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program comes second, in brackets, and may hold anything: what follows is counted from its end.
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
        // SAFETY: the copy panics, which needs no lock that another thread of this test holds, and ends.
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            apart(|| panic!("in the copy"));
        }
        let copy = Pid::from_raw(forked);
        let ended = (0..4_000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            waitpid(copy, WaitOptions::NOHANG).expect("it is our child")
        });
        let (_, status) = ended.expect("it ends");
        // Had it unwound into the test, that would have gone on in the copy.
        assert_eq!(status.exit_status(), Some(1), "{status:?}");
    }
}
