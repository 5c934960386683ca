//! Runs a command of the user: a child of this process, outside of every agent's tree, without a terminal and without our marks.
//!
//! The keeper does not start it. A descendant of the keeper counts as a part of an agent ([`crate::ancestry`]), and this command acts
//! for the user: it may approve what an agent asks for. Without a keeper, all children of this process count as an agent's.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{error, resolve, stdio};
use crate::child_event::ExitStatus;
use crate::command::Command;
use crate::error::{SpawnError, SpawnErrorKind};

/// How much of its standard error is kept.
const COMPLAINTS: usize = 4096;

/// The pause between two looks at a command that still runs.
const PAUSE: Duration = Duration::from_millis(10);

/// A command to run.
#[derive(Debug, Clone)]
pub struct UserCommand {
    /// The program: an absolute path, or a name that is searched in the `PATH` of `env`.
    pub program: PathBuf,
    /// The arguments behind the program's name.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// How long it may run. Then its process group is killed.
    pub limit: Duration,
}

/// The end of a command.
#[derive(Debug)]
pub struct UserCommandEnd {
    /// How it ended; `None` if it was killed because it took too long.
    pub exit: Option<ExitStatus>,
    /// The beginning of what it printed to standard error.
    pub stderr: Vec<u8>,
}

/// Runs a command to its end, and blocks this thread for so long. Its standard input and output are `/dev/null`. If this process or
/// this thread ends, the kernel kills the command (on Linux).
///
/// # Errors
///
/// The command could not be started.
pub fn run(command: UserCommand) -> Result<UserCommandEnd, SpawnError> {
    let (program, limit) = (command.program.clone(), command.limit);
    let started = start(command);
    let (mut child, stderr) = started.map_err(|kind| SpawnError { program, kind })?;
    Ok(wait(&mut child, stderr, limit))
}

fn start(command: UserCommand) -> Result<(Child, Option<File>), SpawnErrorKind> {
    let mut search = Command::new(&command.program, "");
    search.env = command.env;
    let program = resolve::program(&search)?;
    #[expect(clippy::disallowed_methods, reason = "the one spawner, for a process that no keeper may own")]
    let mut process = std::process::Command::new(&program);
    process.arg0(&command.program).args(&command.args).env_clear().envs(search.env);
    process.current_dir(&command.cwd).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let own = rustix::process::getpid();
    let prepare = move || {
        // A session of its own: Ctrl-C at our terminal does not reach it, and its group can be killed as a whole.
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        {
            crate::linux::fork::reset_signals();
            crate::linux::fork::close_all_on_exec();
            // It follows the thread that forked, which waits below until the command has ended (prctl(2)).
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The host may have died before the line above. The signal would never come then.
            if rustix::process::getppid() != Some(own) {
                return Err(rustix::io::Errno::SRCH.into());
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = own;
            crate::unix::file_limit::reset_signal();
        }
        Ok(())
    };
    #[expect(unsafe_code, reason = "the code between fork and exec")]
    // SAFETY: it makes system calls, and allocates nothing.
    unsafe {
        process.pre_exec(prepare);
    }
    let mut child = process.spawn().map_err(|source| match source.raw_os_error() {
        Some(errno) => error::of_exec(&program, errno),
        None => SpawnErrorKind::Other { doing: "starting the command", source },
    })?;
    // Without it, the command runs all the same, and its complaints are lost.
    let stderr = child.stderr.take().map(OwnedFd::from);
    let stderr = stderr.filter(|stderr| stdio::set_nonblocking(stderr).is_ok());
    Ok((child, stderr.map(File::from)))
}

/// Waits for the end of a command, and kills its group when its time is over.
fn wait(child: &mut Child, mut stderr: Option<File>, limit: Duration) -> UserCommandEnd {
    let until = now() + limit;
    let mut text = Vec::new();
    loop {
        // Before the look at the exit: what it printed is in the pipe by then.
        let ended = child.try_wait();
        read(&mut stderr, &mut text);
        let exit = match ended {
            Ok(None) if now() < until => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Ok(None) => {
                // The command is not reaped yet, so its id, which is that of its group, belongs to no other process.
                let group = Pid::from_raw(child.id().cast_signed());
                // It fails only if no process is left in it.
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                let _: io::Result<_> = child.wait();
                None
            }
            Ok(Some(status)) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => ExitStatus::Code(code),
                (None, Some(signal)) => ExitStatus::Signal(signal),
                (None, None) => ExitStatus::Unknown,
            }),
            // A host that ignores SIGCHLD has no status to wait for.
            Err(_) => Some(ExitStatus::Unknown),
        };
        return UserCommandEnd { exit, stderr: text };
    }
}

/// Reads what is there. The rest of a long text is dropped: a full pipe would block the command.
fn read(stderr: &mut Option<File>, text: &mut Vec<u8>) {
    let Some(pipe) = stderr else { return };
    let mut piece = [0; 1024];
    loop {
        match pipe.read(&mut piece) {
            Ok(0) => break *stderr = None,
            Ok(count) => {
                let room = COMPLAINTS - text.len();
                text.extend_from_slice(&piece[..count.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Nothing is there now.
            Err(_) => break,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the time of the command is counted here")]
fn now() -> Instant {
    Instant::now()
}
