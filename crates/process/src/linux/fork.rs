//! One fork and one exec, from a process with a single thread.
//!
//! `std::process::Command` does not suffice, for two reasons. Moving a running process into a cgroup waits for an RCU grace
//! period (milliseconds), which `clone3` into the cgroup does not. And an error of `std` does not show whether the program or
//! the working directory is missing. `CLONE_VFORK` without `CLONE_VM` blocks the parent until the child has executed or failed,
//! so a page of shared memory replaces the usual pipe for the error.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::wire::SpawnStage;

/// The inputs of `execve` and of the steps before it.
pub(crate) struct ExecImage<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) cwd: &'a CStr,
    pub(crate) args: &'a [&'a CStr],
    pub(crate) env: &'a [&'a CStr],
    pub(crate) streams: [BorrowedFd<'a>; 3],
    pub(crate) terminal: bool,
    /// The directory of the cgroup that the child starts in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
}

/// Starts children. A keeper has one.
pub(crate) struct Forker {
    /// Stage and errno of a child that could not execute. Shared with children, which are copies of us.
    report: &'static [AtomicU32; 2],
    own_pid: libc::pid_t,
}

/// The stage at which a start failed, and the error.
#[derive(Debug)]
pub(crate) struct ForkError {
    pub(crate) stage: SpawnStage,
    pub(crate) errno: i32,
}

impl Forker {
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        #[expect(unsafe_code, reason = "memory that parent and child see: a fresh mapping, never unmapped")]
        // SAFETY: the kernel chooses the address; the mapping is zeroed, page-aligned and stays for the process's life.
        let report = unsafe {
            // Shared, so that the parent sees the child's report: private memory is copied on write after a fork (mmap(2)).
            // One page is the least that the kernel maps.
            let page =
                mmap_anonymous(ptr::null_mut(), 4096, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
            &*page.cast::<[AtomicU32; 2]>()
        };
        Ok(Self { report, own_pid: rustix::process::getpid().as_raw_nonzero().get() })
    }

    /// Starts a child. When this returns, the child executes the program.
    pub(crate) fn start(&self, image: &ExecImage<'_>) -> Result<libc::pid_t, ForkError> {
        // Build both lists before the fork: between fork and exec the child must not allocate (signal-safety(7)).
        let pointers = |strings: &[&CStr]| -> Vec<*const libc::c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
        };
        let (args, env) = (pointers(image.args), pointers(image.env));
        // The page still has the report of the last child that failed.
        self.report[0].store(0, Ordering::SeqCst);
        let fork = |cgroup| clone(cgroup).map_err(|errno| ForkError { stage: SpawnStage::Fork, errno });
        let pid = fork(image.cgroup)?;
        if pid == 0 {
            #[expect(
                unsafe_code,
                reason = "the child of a fork may only do what is safe in a signal handler"
            )]
            // SAFETY: we are the child, alone in a copy of a single-threaded process; the pointers end with null.
            unsafe {
                let (stage, errno) = become_program(image, &args, &env, self.own_pid);
                // The stage goes last: it marks the report as complete.
                self.report[1].store(errno.cast_unsigned(), Ordering::SeqCst);
                self.report[0].store(u32::from(stage.number()), Ordering::SeqCst);
                // Not `exit`: the handlers and buffers of the keeper must not run in its copy.
                libc::_exit(127);
            }
        }
        // `CLONE_VFORK` has blocked us until the child executed or exited (clone(2)), so the report is final.
        let stage =
            u8::try_from(self.report[0].load(Ordering::SeqCst)).ok().and_then(SpawnStage::from_number);
        match stage {
            None => Ok(pid),
            Some(stage) => {
                // It is a zombie already. Reap it here: the host gets the error instead of an exit.
                reap(pid);
                Err(ForkError { stage, errno: self.report[1].load(Ordering::SeqCst).cast_signed() })
            }
        }
    }
}

/// Returns whether `clone3` can be called. The kernel refuses a structure of size 0 as invalid before it does anything. A
/// sandbox that forbids the call, and a kernel without it, refuse with another error.
pub(crate) fn can_clone3() -> bool {
    #[expect(unsafe_code, reason = "there is no safe call")]
    // SAFETY: nothing is read, and no child is made.
    let result = unsafe { libc::syscall(libc::SYS_clone3, ptr::null::<u8>(), 0usize) };
    result < 0 && last_errno() == libc::EINVAL
}

/// Waits for the end of one of our children.
pub(crate) fn reap(child: libc::pid_t) {
    // It fails only if another thread reaped the child.
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

/// Forks, and blocks the parent until the child has executed or ended. Returns 0 in the child.
#[expect(unsafe_code, reason = "no safe call forks; the process has one thread")]
fn clone(cgroup: Option<BorrowedFd<'_>>) -> Result<libc::pid_t, i32> {
    let result = if let Some(cgroup) = cgroup {
        let args = CloneArgs {
            flags: libc::CLONE_VFORK as u64 | CLONE_INTO_CGROUP,
            // Without SIGCHLD as exit signal, `waitpid` would not see the child unless it passes `__WCLONE` (clone(2)).
            exit_signal: libc::SIGCHLD as u64,
            cgroup: cgroup.as_raw_fd() as u64,
            ..CloneArgs::default()
        };
        // SAFETY: the structure has the size that is passed, and without CLONE_VM the child has its own copy of everything.
        unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) }
    } else {
        // Some container runtimes refuse `clone3`, so it is used only for what it alone can do.
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
    image: &ExecImage<'_>,
    args: &[*const libc::c_char],
    env: &[*const libc::c_char],
    parent: libc::pid_t,
) -> (SpawnStage, i32) {
    // SAFETY: all of these are plain system calls on values that live in this frame or in the caller's.
    unsafe {
        // First: the keeper blocks all signals, and an exec keeps the mask. The agent would never receive SIGTERM.
        reset_signals();
        // A session of its own: Ctrl-C on the host's terminal does not reach the agent.
        if libc::setsid() < 0 {
            return (SpawnStage::Prepare, last_errno());
        }
        // The kernel kills the agent when the keeper dies.
        // An exec keeps this setting, except for a set-user-ID program or one with file capabilities (prctl(2)). It follows
        // the thread that forked, and the keeper has only one.
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) < 0 {
            return (SpawnStage::Prepare, last_errno());
        }
        // The keeper may have died before the line above. The signal would never come then.
        if libc::getppid() != parent {
            return (SpawnStage::Prepare, libc::ESRCH);
        }
        for (target, stream) in (0..).zip(&image.streams) {
            // The keeper holds 0, 1 and 2 itself, so a stream is never one of them and no `dup2` overwrites another.
            // `dup2` also clears close-on-exec on the copy (dup(2)). The exec closes all other descriptors.
            if libc::dup2(stream.as_raw_fd(), target) < 0 {
                return (SpawnStage::Prepare, last_errno());
            }
        }
        // Makes the terminal the controlling one. Only the leader of a session without a terminal may do so.
        if image.terminal && libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 {
            return (SpawnStage::Prepare, last_errno());
        }
        // A stage of its own: for a missing directory and a missing program the errno is the same, ENOENT.
        if libc::chdir(image.cwd.as_ptr()) < 0 {
            return (SpawnStage::Cwd, last_errno());
        }
        libc::execve(image.program.as_ptr(), args.as_ptr(), env.as_ptr());
        (SpawnStage::Exec, last_errno())
    }
}

/// Resets all signals to their defaults. Ignored and blocked signals survive an exec, so an agent would inherit ours. Safe
/// between fork and exec.
#[expect(unsafe_code, reason = "no safe call sets what a signal does")]
pub(crate) fn reset_signals() {
    // SAFETY: plain system calls; zeroes are the default action, and longer than the kernel's structure.
    unsafe {
        // The C library hides two signals of its own, which children inherit as well. So call the kernel directly.
        let default = [0u64; 4];
        for signal in 1..=64 {
            // The 8 is the size of the kernel's mask in bytes. The kernel refuses SIGKILL and SIGSTOP with EINVAL, which
            // changes nothing.
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const default, ptr::null_mut::<u64>(), 8usize);
        }
        // Unblock last. In the other order a signal could run a handler of the host in the child.
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Blocks all signals in this thread. Returns the mask of before.
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

/// Blocks the signals of this mask, and no others.
#[expect(unsafe_code, reason = "no safe call unblocks signals")]
pub(crate) fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: a plain call on a set that `block_signals` returned.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut());
    }
}

/// Marks every descriptor except the standard ones as close-on-exec. Safe between fork and exec.
#[expect(unsafe_code, reason = "no safe call does this for a range")]
pub(crate) fn close_all_on_exec() {
    // SAFETY: a plain system call that closes nothing yet. Linux before 5.11 refuses it; then the child inherits a descriptor
    // that the host left open without close-on-exec, as on other systems.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}
