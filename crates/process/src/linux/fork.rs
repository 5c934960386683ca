//! One fork and one exec, from a process with a single thread.
//!
//! `std::process::Command` would do, were it not for two things: moving a running process into a cgroup waits for an
//! RCU grace period (milliseconds), which `clone3` into the cgroup does not; and an error of `std` does not say whether
//! the program or the working directory is missing. `CLONE_VFORK` without `CLONE_VM` holds us until the child has
//! executed or failed, so a page of shared memory replaces the usual pipe for the error.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::wire::Stage;

/// What a child is made of.
pub(crate) struct Image<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) cwd: &'a CStr,
    pub(crate) args: &'a [&'a CStr],
    pub(crate) env: &'a [&'a CStr],
    pub(crate) streams: [BorrowedFd<'a>; 3],
    pub(crate) terminal: bool,
    /// The directory of the cgroup that it is born in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
}

/// Starts children; made once.
pub(crate) struct Forker {
    /// Stage and errno of a child that could not execute. Shared with children, which are copies of us.
    report: &'static [AtomicU32; 2],
    own_pid: libc::pid_t,
}

/// A start that failed, and where.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) stage: Stage,
    pub(crate) errno: i32,
}

impl Forker {
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        #[expect(unsafe_code, reason = "memory that parent and child see: a fresh mapping, never unmapped")]
        // SAFETY: the kernel chooses the address; the mapping is zeroed, page-aligned and stays for the process's life.
        let report = unsafe {
            let page =
                mmap_anonymous(ptr::null_mut(), 4096, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
            &*page.cast::<[AtomicU32; 2]>()
        };
        Ok(Self { report, own_pid: rustix::process::getpid().as_raw_nonzero().get() })
    }

    /// Starts a child; when this returns, it executes the program.
    pub(crate) fn start(&self, image: &Image<'_>) -> Result<libc::pid_t, Failed> {
        let pointers = |strings: &[&CStr]| -> Vec<*const libc::c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
        };
        let (args, env) = (pointers(image.args), pointers(image.env));
        self.report[0].store(0, Ordering::SeqCst);
        let fork = |cgroup| clone(cgroup).map_err(|errno| Failed { stage: Stage::Fork, errno });
        let pid = fork(image.cgroup)?;
        if pid == 0 {
            #[expect(
                unsafe_code,
                reason = "the child of a fork may only do what is safe in a signal handler"
            )]
            // SAFETY: we are the child, alone in a copy of a single-threaded process; the pointers end with null.
            unsafe {
                let (stage, errno) = become_program(image, &args, &env, self.own_pid);
                self.report[1].store(errno.cast_unsigned(), Ordering::SeqCst);
                self.report[0].store(u32::from(stage.number()), Ordering::SeqCst);
                libc::_exit(127);
            }
        }
        let stage = u8::try_from(self.report[0].load(Ordering::SeqCst)).ok().and_then(Stage::from_number);
        match stage {
            None => Ok(pid),
            Some(stage) => {
                // It is a zombie already, and nobody else may be told of it.
                reap(pid);
                Err(Failed { stage, errno: self.report[1].load(Ordering::SeqCst).cast_signed() })
            }
        }
    }
}

/// Says whether `clone3` can be called. The kernel refuses a structure of no size as invalid before it does anything; a sandbox that
/// forbids the call, and a kernel without it, refuse with another error.
pub(crate) fn can_clone3() -> bool {
    #[expect(unsafe_code, reason = "there is no safe call")]
    // SAFETY: nothing is read, and no child is made.
    let result = unsafe { libc::syscall(libc::SYS_clone3, ptr::null::<u8>(), 0usize) };
    result < 0 && last_errno() == libc::EINVAL
}

/// Waits for the end of a child of ours.
pub(crate) fn reap(child: libc::pid_t) {
    // It fails only if somebody else reaped it.
    let child = rustix::process::Pid::from_raw(child);
    let _: Result<_, _> = rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks, and holds the parent until the child has executed or ended. Returns 0 in the child.
#[expect(unsafe_code, reason = "no safe call forks; the process has one thread")]
fn clone(cgroup: Option<BorrowedFd<'_>>) -> Result<libc::pid_t, i32> {
    let result = if let Some(cgroup) = cgroup {
        let args = CloneArgs {
            flags: libc::CLONE_VFORK as u64 | CLONE_INTO_CGROUP,
            exit_signal: libc::SIGCHLD as u64,
            cgroup: cgroup.as_raw_fd() as u64,
            ..CloneArgs::default()
        };
        // SAFETY: the structure is of the size that is given, and without CLONE_VM the child has its own copy of all.
        unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) }
    } else {
        // `clone3` is refused by some container runtimes, so it is used only for what it alone can do.
        let flags = (libc::CLONE_VFORK | libc::SIGCHLD) as libc::c_long;
        // SAFETY: as above; all other arguments are zero, so their order does not matter.
        unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) }
    };
    if result < 0 { Err(last_errno()) } else { Ok(result as libc::pid_t) }
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Turns the child into the program; returns only on failure. Allocates nothing.
#[expect(unsafe_code, reason = "system calls between fork and exec")]
unsafe fn become_program(
    image: &Image<'_>,
    args: &[*const libc::c_char],
    env: &[*const libc::c_char],
    parent: libc::pid_t,
) -> (Stage, i32) {
    // SAFETY: all of these are plain system calls on values that live in this frame or in the caller's.
    unsafe {
        reset_signals();
        if libc::setsid() < 0 {
            return (Stage::Prepare, last_errno());
        }
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) < 0 {
            return (Stage::Prepare, last_errno());
        }
        // The keeper may have died before the line above: then there is no signal to wait for.
        if libc::getppid() != parent {
            return (Stage::Prepare, libc::ESRCH);
        }
        for (target, stream) in (0..).zip(&image.streams) {
            // The keeper holds 0, 1 and 2 itself, so a stream is never one of them and no `dup2` overwrites another.
            if libc::dup2(stream.as_raw_fd(), target) < 0 {
                return (Stage::Prepare, last_errno());
            }
        }
        if image.terminal && libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 {
            return (Stage::Prepare, last_errno());
        }
        if libc::chdir(image.cwd.as_ptr()) < 0 {
            return (Stage::Cwd, last_errno());
        }
        libc::execve(image.program.as_ptr(), args.as_ptr(), env.as_ptr());
        (Stage::Exec, last_errno())
    }
}

/// Gives all signals back their default. An ignored one and a blocked one survive an exec: an agent would inherit our
/// deafness. Safe between fork and exec.
#[expect(unsafe_code, reason = "no safe call sets what a signal does")]
pub(crate) fn reset_signals() {
    // SAFETY: plain system calls; zeroes are the default action, and longer than the kernel's structure.
    unsafe {
        // The C library hides two signals of its own, which are inherited as well: so ask the kernel.
        let default = [0u64; 4];
        for signal in 1..=64 {
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const default, ptr::null_mut::<u64>(), 8usize);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Blocks all signals in this thread; returns which were blocked before.
#[expect(unsafe_code, reason = "no safe call blocks signals")]
pub(crate) fn block_signals() -> libc::sigset_t {
    // SAFETY: plain calls on sets that live here.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Blocks these signals, and no others.
#[expect(unsafe_code, reason = "no safe call unblocks signals")]
pub(crate) fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: a plain call on a set that `block_signals` gave.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut());
    }
}

/// Marks every descriptor but the standard ones to be closed by the exec. Safe between fork and exec.
#[expect(unsafe_code, reason = "no safe call does this for a range")]
pub(crate) fn close_all_on_exec() {
    // SAFETY: a plain system call that closes nothing yet. Linux before 5.11 refuses it; then a careless descriptor
    // of the host is inherited, as everywhere.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}
