//! Pipes and terminals. Every descriptor is close-on-exec; ours are non-blocking, the child's are not.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use crate::command::{Command, Stdin, Stdio};

/// The two sides of a child's streams.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) ours: Ours,
    /// Standard input, output and error; a terminal is in there three times.
    pub(crate) theirs: [OwnedFd; 3],
}

/// Our side.
#[derive(Debug)]
pub(crate) enum Ours {
    Pipes { stdin: Option<OwnedFd>, stdout: OwnedFd, stderr: OwnedFd },
    Terminal { master: OwnedFd },
}

/// Makes the streams of a child.
pub(crate) fn open(command: &Command) -> io::Result<Streams> {
    match command.stdio {
        Stdio::Pipes => pipes(&command.stdin, command.stdout_room),
        Stdio::Terminal { rows, cols } => terminal(rows, cols),
    }
}

fn pipes(stdin: &Stdin, stdout_room: Option<u32>) -> io::Result<Streams> {
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
        // A wish: whoever has many large pipes already does not get another, and the usual room does as a rule.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, room);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stdout_room;
    let (stderr, their_stderr) = pipe()?;
    set_nonblocking(&stdout)?;
    set_nonblocking(&stderr)?;
    let ours = Ours::Pipes { stdin, stdout, stderr };
    Ok(Streams { ours, theirs: [their_stdin, their_stdout, their_stderr] })
}

/// Returns the reading and the writing end.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    let ends = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    #[cfg(not(target_os = "linux"))]
    let ends = {
        use rustix::io::{FdFlags, fcntl_setfd};
        // No `pipe2` everywhere: another thread that forks in between leaks it, and its end comes later.
        let ends = rustix::pipe::pipe()?;
        fcntl_setfd(&ends.0, FdFlags::CLOEXEC)?;
        fcntl_setfd(&ends.1, FdFlags::CLOEXEC)?;
        ends
    };
    Ok(ends)
}

fn terminal(rows: u16, cols: u16) -> io::Result<Streams> {
    #[cfg(target_os = "linux")]
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = rustix::pty::openpt(flags)?;
    #[cfg(not(target_os = "linux"))]
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    resize(&master, rows, cols)?;
    set_nonblocking(&master)?;
    let theirs = [slave.try_clone()?, slave.try_clone()?, slave];
    Ok(Streams { ours: Ours::Terminal { master }, theirs })
}

/// Tells a terminal its size; the child gets SIGWINCH.
pub(crate) fn resize(master: &OwnedFd, rows: u16, cols: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}

fn set_nonblocking(descriptor: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    Ok(rustix::fs::fcntl_setfl(descriptor, flags | OFlags::NONBLOCK)?)
}
