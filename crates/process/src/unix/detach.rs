//! Starts a process that outlives its caller: a session and a process group of its own, no terminal, no inherited descriptors.
//!
//! The caller forks twice: the process becomes a child of init (or of the next subreaper), so a caller that stays does not have
//! to reap it. It is not a descendant of the caller's keeper, which ends everything that is.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{error, pipe_signal, resolve, stdio, streams};
use crate::async_runtime::check_runtime;
use crate::command::Command;
use crate::error::{SpawnError, SpawnErrorKind};

/// The longest report. A runner that writes more without an end of line is not one of ours.
const REPORT_LIMIT: usize = 1 << 20;

/// A process to detach from this one. It starts in the working directory of this process.
#[derive(Debug, Clone)]
pub struct DetachedCommand {
    /// The program. Without a `/` it is searched in the `PATH` of `env`.
    pub program: PathBuf,
    /// The arguments behind the program's name.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The bytes that it reads from standard input until the end.
    pub spec: Vec<u8>,
    /// The file that its standard error is appended to; `/dev/null` without one.
    pub log: Option<PathBuf>,
}

/// A process that was detached. Dropping it changes nothing for the process.
#[derive(Debug)]
pub struct DetachedProcess {
    pid: u32,
    report: Arc<AsyncFd<OwnedFd>>,
}

/// Starts a process that outlives this one, and writes its input. It ignores SIGHUP.
///
/// Needs a tokio runtime with IO and time.
pub async fn detach(command: DetachedCommand) -> Result<DetachedProcess, SpawnError> {
    let program = command.program.clone();
    let started = match check_runtime() {
        Ok(()) => start(command).await,
        Err(gap) => Err(SpawnErrorKind::Runtime(gap)),
    };
    started.map_err(|kind| SpawnError { program, kind })
}

impl DetachedProcess {
    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the line that the process sends with [`DetachedReport::send`]. None if the process ended, or closed its
    /// standard output, before the end of a line.
    pub async fn report(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let mut piece = [0; 4096];
        while line.len() < REPORT_LIMIT {
            let mut ready = self.report.readable().await?;
            let read = ready.try_io(|report| Ok(rustix::io::read(report.get_ref(), &mut piece)?));
            match read {
                // All writers have closed the pipe: the runner ended, or took its report back, without a whole line.
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(read)) => line.extend_from_slice(&piece[..read]),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                // It was not readable after all.
                Err(_) => {}
            }
            if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                line.truncate(end);
                return Ok(Some(line));
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the report of the detached process is too long"))
    }
}

async fn start(command: DetachedCommand) -> Result<DetachedProcess, SpawnErrorKind> {
    let pipes = "making pipes for the detached process";
    let (spec_reader, spec_writer) = stdio::pipe().map_err(SpawnErrorKind::other(pipes))?;
    let (report_reader, report_writer) = stdio::pipe().map_err(SpawnErrorKind::other(pipes))?;
    let log = match &command.log {
        Some(path) => {
            open_log(path).map_err(SpawnErrorKind::other("opening the log of the detached process"))?
        }
        None => Stdio::null(),
    };
    let spec = command.spec.clone();
    let pid = execute(command, spec_reader, report_writer, log)?;
    let register = |end: OwnedFd, interest: Interest| {
        stdio::set_nonblocking(&end).and_then(|()| streams::register(end, interest))
    };
    let (spec_writer, report) = register(spec_writer, Interest::WRITABLE)
        .and_then(|writer| Ok((writer, register(report_reader, Interest::READABLE)?)))
        .map_err(SpawnErrorKind::other("giving the pipes to the runtime"))?;
    write_all(&spec_writer, &spec).await.map_err(SpawnErrorKind::other("writing to the detached process"))?;
    Ok(DetachedProcess { pid, report })
}

/// Writes all bytes. A process that ends without reading them is not an error here: its missing report shows it.
async fn write_all(to: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = to.writable().await?;
        let written = ready.try_io(|to| pipe_signal::without(|| Ok(rustix::io::write(to.get_ref(), bytes)?)));
        match written {
            Ok(Ok(written)) => bytes = &bytes[written..],
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
            // It was not writable after all.
            Err(_) => {}
        }
    }
    Ok(())
}

fn open_log(path: &Path) -> io::Result<Stdio> {
    // The owner's alone: the log may contain text of the conversation.
    Ok(std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?.into())
}

/// Forks twice and executes. Returns the process id of the grandchild.
fn execute(
    command: DetachedCommand,
    spec: OwnedFd,
    report: OwnedFd,
    log: Stdio,
) -> Result<u32, SpawnErrorKind> {
    let mut search = Command::new(&command.program, "");
    search.env = command.env;
    let program = resolve::program(&search)?;
    let (mut pid_reader, pid_writer) =
        io::pipe().map_err(SpawnErrorKind::other("making pipes for the detached process"))?;
    let pid_number = pid_writer.as_raw_fd();
    #[cfg(not(target_os = "linux"))]
    let inherited = open_descriptors();
    #[expect(clippy::disallowed_methods, reason = "the one spawner, for a process that it does not own")]
    let mut process = std::process::Command::new(&program);
    process.arg0(&command.program).args(&command.args).env_clear().envs(search.env);
    process.stdin(spec).stdout(report).stderr(log);
    let detach = move || {
        // No terminal: neither its hangup nor its Ctrl-C arrives.
        // `setsid` fails only for a leader of a process group, which the child of a fork never is.
        rustix::process::setsid()?;
        fork_and_exit()?;
        // The leader of the session has exited. A process that is not a leader cannot acquire a terminal by opening one.
        rustix::process::setpgid(None, None)?;
        #[cfg(target_os = "linux")]
        {
            crate::linux::fork::reset_signals();
            // A pipe that a shell waits for, such as that of `$(...)`, must not stay open in the runner.
            crate::linux::fork::close_all_on_exec();
        }
        #[cfg(not(target_os = "linux"))]
        close_on_exec(&inherited);
        ignore_hangup();
        let own = rustix::process::getpid().as_raw_nonzero().get().to_ne_bytes();
        // The caller keeps the pipe open until `spawn` returns, and this is a copy of its descriptors.
        write_pid(pid_number, own)
    };
    #[expect(unsafe_code, reason = "the code between fork and exec")]
    // SAFETY: it makes system calls, and allocates nothing.
    unsafe {
        process.pre_exec(detach);
    }
    // It returns when the grandchild has executed the program or failed to: `std` waits for the end of a pipe that an exec closes.
    let spawned = process.spawn();
    drop(pid_writer);
    // `process` holds the child's ends of the pipes. The end of its report would never come.
    drop(process);
    let mut middle = spawned.map_err(|error| match error.raw_os_error() {
        Some(errno) => error::of_exec(&program, errno),
        None => SpawnErrorKind::Other { doing: "starting the detached process", source: error },
    })?;
    // It has exited. A host that ignores SIGCHLD has no status to wait for, and no zombie either.
    let _: io::Result<_> = middle.wait();
    let mut number = [0; 4];
    pid_reader
        .read_exact(&mut number)
        .map_err(SpawnErrorKind::other("reading the process id of the detached process"))?;
    Ok(u32::from_ne_bytes(number))
}

/// Forks, and exits in the parent. Safe between fork and exec.
#[expect(unsafe_code, reason = "no safe call forks, or exits without running handlers")]
fn fork_and_exit() -> io::Result<()> {
    // SAFETY: the caller is the copy of a process and has one thread; until the exec it makes system calls only.
    unsafe {
        // The kernel's call: `fork` of the C library runs handlers, which may wait for a lock that another thread of the original
        // process held.
        #[cfg(target_os = "linux")]
        let child =
            libc::syscall(libc::SYS_clone, libc::SIGCHLD as libc::c_long, 0usize, 0usize, 0usize, 0usize);
        #[cfg(not(target_os = "linux"))]
        let child = libc::fork();
        match child {
            0 => Ok(()),
            child if child < 0 => Err(io::Error::last_os_error()),
            _ => libc::_exit(0),
        }
    }
}

#[expect(unsafe_code, reason = "no safe call ignores a signal")]
fn ignore_hangup() {
    // SAFETY: no code of ours runs for the signal. An exec keeps an ignored signal (execve(2)).
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    }
}

#[expect(unsafe_code, reason = "no safe call borrows a descriptor by its number")]
fn write_pid(pipe: i32, pid: [u8; 4]) -> io::Result<()> {
    // SAFETY: the caller's pipe is open in this copy of its process.
    let pipe = unsafe { BorrowedFd::borrow_raw(pipe) };
    // Four bytes into an empty pipe are written at once and as a whole (pipe(7)).
    rustix::io::write(pipe, &pid)?;
    Ok(())
}

/// Lists the descriptors of this process above the standard ones.
#[cfg(not(target_os = "linux"))]
fn open_descriptors() -> Vec<i32> {
    let entries = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| *number > 2).collect()
}

/// Marks descriptors as close-on-exec. Safe between fork and exec.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "descriptors by their numbers")]
fn close_on_exec(descriptors: &[i32]) {
    for descriptor in descriptors {
        // SAFETY: a plain system call that closes nothing yet. It fails for a descriptor that is closed already.
        unsafe {
            libc::fcntl(*descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// The streams of a process that [`detach`] started, as that process sees them.
#[derive(Debug)]
pub struct DetachedStreams {
    /// All bytes of its standard input.
    pub spec: Vec<u8>,
    /// The way back to the caller.
    pub report: DetachedReport,
}

/// Sends one line to the caller of [`detach`]. Dropping it without a line reports that the process gave up.
#[derive(Debug)]
pub struct DetachedReport(std::fs::File);

impl DetachedStreams {
    /// Reads the standard input to its end and takes the standard output. Both are `/dev/null` afterwards, so that neither an
    /// agent nor a message of a library reaches the caller.
    pub fn take() -> io::Result<Self> {
        let mut spec = Vec::new();
        io::stdin().lock().read_to_end(&mut spec)?;
        let report = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        // Not closed: the next file that is opened would get the number 0 or 1, and be taken for a standard stream.
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        Ok(Self { spec, report: DetachedReport(report.into()) })
    }
}

impl DetachedReport {
    /// Sends the line, which must not contain a line break. A caller that is gone is no error: the process goes on without it.
    pub fn send(mut self, line: &[u8]) -> io::Result<()> {
        let mut whole = line.to_vec();
        whole.push(b'\n');
        let sent = pipe_signal::without(|| self.0.write_all(&whole).map(|()| whole.len()));
        match sent {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent.map(drop),
        }
    }
}
