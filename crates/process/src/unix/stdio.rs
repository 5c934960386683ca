//! Pipes and terminals. Every descriptor is close-on-exec. The host's ends are non-blocking, the child's are not.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use crate::command::{Command, Stdin, Stdio};

/// The two ends of a child's streams.
#[derive(Debug)]
pub(crate) struct StdioEnds {
    pub(crate) ours: HostEnds,
    /// Standard input, output and error; a terminal is in the list three times.
    pub(crate) theirs: [OwnedFd; 3],
}

/// The host's ends.
#[derive(Debug)]
pub(crate) enum HostEnds {
    Pipes { stdin: Option<OwnedFd>, stdout: OwnedFd, stderr: OwnedFd },
    Terminal { master: OwnedFd },
}

/// Makes the streams of a child.
pub(crate) fn open(command: &Command) -> io::Result<StdioEnds> {
    match command.stdio {
        Stdio::Pipes => pipes(&command.stdin, command.stdout_room),
        Stdio::Terminal { rows, cols } => terminal(rows, cols),
    }
}

fn pipes(stdin: &Stdin, stdout_room: Option<u32>) -> io::Result<StdioEnds> {
    let (stdin, their_stdin) = match stdin {
        Stdin::Null => {
            let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            (None, null)
        }
        Stdin::Bytes(_) | Stdin::Owned => {
            let (theirs, ours) = pipe()?;
            set_nonblocking(&ours)?;
            (Some(ours), theirs)
        }
    };
    let (stdout, their_stdout) = pipe()?;
    #[cfg(target_os = "linux")]
    if let Some(room) = stdout_room.and_then(|room| usize::try_from(room).ok()) {
        // The kernel refuses it to a user with many large pipes already. The default capacity usually suffices, so the error is
        // ignored.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, room);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stdout_room;
    let (stderr, their_stderr) = pipe()?;
    set_nonblocking(&stdout)?;
    set_nonblocking(&stderr)?;
    let ours = HostEnds::Pipes { stdin, stdout, stderr };
    Ok(StdioEnds { ours, theirs: [their_stdin, their_stdout, their_stderr] })
}

/// Returns the reading and the writing end.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    let ends = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    #[cfg(not(target_os = "linux"))]
    let ends = {
        use rustix::io::{FdFlags, fcntl_setfd};
        // Some systems have no `pipe2`. If another thread forks in between, its child inherits the pipe, and the end of the
        // output comes later.
        let ends = rustix::pipe::pipe()?;
        fcntl_setfd(&ends.0, FdFlags::CLOEXEC)?;
        fcntl_setfd(&ends.1, FdFlags::CLOEXEC)?;
        ends
    };
    Ok(ends)
}

fn terminal(rows: u16, cols: u16) -> io::Result<StdioEnds> {
    #[cfg(target_os = "linux")]
    // NOCTTY: a host that leads a session without a terminal would get this one as its own (open(2)).
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = rustix::pty::openpt(flags)?;
    #[cfg(not(target_os = "linux"))]
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    // The other end cannot be opened before this call (unlockpt(3)).
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    // Before the child starts, so that its first look at the size is right.
    resize(&master, rows, cols)?;
    set_nonblocking(&master)?;
    let theirs = [slave.try_clone()?, slave.try_clone()?, slave];
    Ok(StdioEnds { ours: HostEnds::Terminal { master }, theirs })
}

/// Sets the size of a terminal; the child gets SIGWINCH.
pub(crate) fn resize(master: &OwnedFd, rows: u16, cols: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}

pub(crate) fn set_nonblocking(descriptor: &OwnedFd) -> io::Result<()> {
    // The flag belongs to the open file, not to the pipe or the terminal (fcntl(2)). The child's end is another open file and
    // stays blocking.
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    Ok(rustix::fs::fcntl_setfl(descriptor, flags | OFlags::NONBLOCK)?)
}
