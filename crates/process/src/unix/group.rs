//! The weakest owner: this process starts its children itself, and knows their process groups.
//!
//! It is used without a keeper. Every child leads a session of its own. On Linux the kernel also kills the child when the
//! thread that started it ends. Hence one thread does all starts and lives as long as this process. Processes that left the
//! session are found by their mark. Other systems have only the group.
//!
//! A leader is reaped only after its tree was ended. As long as it is a zombie, no other process gets its id, and a signal to
//! its group cannot hit a foreign process.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::iter;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};
use tokio::sync::{mpsc, oneshot};

use super::members::{self, GroupTree};
use super::streams::ChildStreams;
use super::{BUSY_PAUSE, BUSY_TRIES, error, marks, number, resolve, stdio};
use crate::child::Child;
use crate::child_event::{ChildEvent, ExitStatus, Guarantee, Signal, SignalScope, TreeProcess};
use crate::command::{Command, Stdio};
use crate::error::{KeeperError, SpawnErrorKind};
use crate::owner::{SweptReport, TreeOwner};

/// Added to the errno of a failed change of directory, to tell it from the errno of a failed exec.
const CWD: i32 = 1 << 16;
/// How long SIGKILL is repeated before a process that is left counts as a survivor.
const PATIENCE: Duration = Duration::from_secs(5);

/// A limit for the grace, so that adding it to the clock cannot overflow.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The inputs of a start.
#[derive(Debug)]
struct GroupImage {
    program: PathBuf,
    name: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    streams: [OwnedFd; 3],
    terminal: bool,
    token: String,
}

/// A started child: its process id, its owner, and the receiver of its events.
type StartedGroup = (u32, ProcessGroup, mpsc::UnboundedReceiver<ChildEvent>);

#[derive(Debug)]
struct StartOrder {
    image: GroupImage,
    /// The answer contains the owner. Dropping the answer drops the owner, which ends the tree.
    answer: oneshot::Sender<Result<StartedGroup, SpawnErrorKind>>,
    starter: GroupStarter,
}

/// Starts children, all from one thread.
#[derive(Debug, Clone)]
pub(crate) struct GroupStarter(Sender<StartOrder>);

impl GroupStarter {
    pub(crate) fn start() -> Result<Self, KeeperError> {
        let (sender, orders): (_, Receiver<StartOrder>) = channel();
        std::thread::Builder::new()
            .name("bowline-spawn".to_owned())
            .spawn(move || {
                for StartOrder { image, answer, starter } in orders {
                    let token = image.token.clone();
                    let started = execute(image).map(|leader| {
                        let (reports, events) = mpsc::unbounded_channel();
                        (leader, ProcessGroup::new(leader, token, reports, starter), events)
                    });
                    // If the caller is gone, the answer is dropped here, and with it the owner: that ends the tree.
                    let _: Result<(), _> = answer.send(started);
                }
            })
            .map_err(KeeperError::Prepare)?;
        Ok(Self(sender))
    }

    async fn spawn(&self, image: GroupImage) -> Result<StartedGroup, SpawnErrorKind> {
        let (answer, started) = oneshot::channel();
        let gone = || SpawnErrorKind::Keeper(KeeperError::Lost);
        self.0.send(StartOrder { image, answer, starter: self.clone() }).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }
}

/// Starts a command.
pub(crate) async fn spawn(starter: &GroupStarter, command: Command) -> Result<Child, SpawnErrorKind> {
    let program = resolve::program(&command)?;
    let cwd = resolve::cwd(&command)?;
    let token = marks::token().map_err(SpawnErrorKind::other("drawing a random number"))?;
    let env = marks::environment(&command, &token);
    let mut tries = 0;
    loop {
        // New ones for each try: a failed start has closed the child's ends.
        let streams = stdio::open(&command).map_err(SpawnErrorKind::other("making pipes or a terminal"))?;
        let image = GroupImage {
            program: program.clone(),
            name: command.program.clone().into_os_string(),
            args: command.args.clone(),
            env: env.clone(),
            cwd: cwd.clone(),
            streams: streams.theirs,
            terminal: matches!(command.stdio, Stdio::Terminal { .. }),
            token: token.clone(),
        };
        match starter.spawn(image).await {
            Ok((pid, group, reports)) => {
                let streams = ChildStreams::new(streams.ours, command.stdin)
                    .map_err(SpawnErrorKind::other("giving the pipes to the runtime"))?;
                return Ok(Child::new(pid, Arc::new(group), reports, streams));
            }
            Err(SpawnErrorKind::Busy) if tries < BUSY_TRIES => {
                tries += 1;
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Starts a child in this thread.
fn execute(image: GroupImage) -> Result<u32, SpawnErrorKind> {
    // Before the fork, so that the child never counts as a process of the user.
    crate::origin::note_own_tree();
    // All strings before the fork: the code of `pre_exec` must not allocate (signal-safety(7)).
    let cwd = c_string("the working directory", image.cwd.as_os_str())?;
    let program = c_string("the path of the program", image.program.as_os_str())?;
    let args: Vec<&OsStr> = iter::once(&image.name).chain(&image.args).map(OsString::as_os_str).collect();
    let args = ExecPointers::new("an argument", &args)?;
    let env: Vec<OsString> =
        image.env.into_iter().map(|(name, value)| [name, value].join(OsStr::new("="))).collect();
    let env: Vec<&OsStr> = env.iter().map(OsString::as_os_str).collect();
    let env = ExecPointers::new("a variable", &env)?;
    let own = rustix::process::getpid();
    #[expect(clippy::disallowed_methods, reason = "the one spawner, where it has no keeper")]
    let mut command = std::process::Command::new(&image.program);
    let [stdin, stdout, stderr] = image.streams;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let terminal = image.terminal;
    let become_program = move || {
        // A session of its own makes the child the leader of a new process group, which can be signalled as a whole.
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        {
            crate::linux::fork::reset_signals();
            crate::linux::fork::close_all_on_exec();
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
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
        if terminal {
            // After `setsid`: only a session leader without a terminal may take one (ioctl_tty(2)).
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        // `std` would report a missing directory like a missing program.
        rustix::process::chdir(&cwd)
            .map_err(|error| io::Error::from_raw_os_error(CWD + error.raw_os_error()))?;
        // `std` would hand a script without a `#!` line to the shell, as `execvp` does. The keeper does not.
        Err(env.execute(&program, &args))
    };
    #[expect(unsafe_code, reason = "the code between fork and exec")]
    // SAFETY: it makes system calls, and allocates nothing.
    unsafe {
        command.pre_exec(become_program);
    }
    match command.spawn() {
        // The handle is dropped: `wait` waits for the process id itself.
        Ok(child) => Ok(child.id()),
        Err(error) => Err(explain(&error, &image.program, image.cwd)),
    }
}

fn c_string(what: &'static str, string: &OsStr) -> Result<CString, SpawnErrorKind> {
    CString::new(string.as_encoded_bytes()).map_err(|_| SpawnErrorKind::Nul { what })
}

/// C strings, and the list of pointers to them that `execve` takes.
struct ExecPointers {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl ExecPointers {
    fn new(what: &'static str, strings: &[&OsStr]) -> Result<Self, SpawnErrorKind> {
        let strings = strings.iter().map(|string| c_string(what, string)).collect::<Result<Vec<_>, _>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { _strings: strings, pointers })
    }

    /// Executes a program with these as its environment; returns only the error. Allocates nothing.
    #[expect(unsafe_code, reason = "no safe call executes")]
    fn execute(&self, program: &CStr, args: &Self) -> io::Error {
        // SAFETY: both lists end with null and point to strings that live as long as they do.
        unsafe { libc::execve(program.as_ptr(), args.pointers.as_ptr(), self.pointers.as_ptr()) };
        io::Error::last_os_error()
    }
}

#[expect(unsafe_code, reason = "pointers are not sent by themselves")]
// SAFETY: the pointers lead into strings that the same value owns and that never change.
unsafe impl Send for ExecPointers {}
#[expect(unsafe_code, reason = "pointers are not shared by themselves")]
// SAFETY: as above.
unsafe impl Sync for ExecPointers {}

fn explain(error: &io::Error, program: &Path, cwd: PathBuf) -> SpawnErrorKind {
    match error.raw_os_error() {
        Some(errno) if errno >= CWD => {
            SpawnErrorKind::NoSuchCwd { cwd, source: io::Error::from_raw_os_error(errno - CWD) }
        }
        Some(errno) => error::of_exec(program, errno),
        None => SpawnErrorKind::Nul { what: "the path of the program" },
    }
}

/// Owns one tree.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    shared: Arc<GroupShared>,
    /// Keeps the starting thread alive: on Linux the leader is killed with that thread.
    _starter: GroupStarter,
}

#[derive(Debug)]
struct GroupShared {
    tree: GroupTree,
    reports: mpsc::UnboundedSender<ChildEvent>,
    state: Mutex<GroupState>,
}

#[derive(Debug, Default)]
struct GroupState {
    exited: bool,
    /// The sweep under way: when it sends SIGKILL, and whether it reports.
    sweep: Option<(Instant, SweptReport)>,
}

impl ProcessGroup {
    fn new(
        leader: u32,
        token: String,
        reports: mpsc::UnboundedSender<ChildEvent>,
        starter: GroupStarter,
    ) -> Self {
        let tree = GroupTree { leader: leader.cast_signed(), token: token.into_bytes() };
        let shared = Arc::new(GroupShared { tree, reports, state: Mutex::default() });
        let waiter = shared.clone();
        thread("bowline-wait", move || waiter.wait());
        Self { shared, _starter: starter }
    }
}

impl TreeOwner for ProcessGroup {
    fn signal(&self, signal: Signal, scope: SignalScope) {
        members::signal(&self.shared.tree, number(signal), scope);
    }

    fn end(&self, grace: Duration, answer: SweptReport) {
        let kill_at = now() + grace.min(LONGEST_GRACE);
        let mut state = self.shared.state();
        let (first, sweep) = match state.sweep {
            None => (true, (kill_at, answer)),
            Some((earlier, wanted)) => {
                let answer = if wanted == SweptReport::Wanted { wanted } else { answer };
                (false, (earlier.min(kill_at), answer))
            }
        };
        state.sweep = Some(sweep);
        // Release the lock first: the sweep takes it, and it runs in this thread if no other can be started.
        drop(state);
        if first {
            let shared = self.shared.clone();
            thread("bowline-sweep", move || shared.sweep());
        }
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Group
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let shared = self.shared.clone();
        thread("bowline-end", move || {
            shared.kill();
            // The owner is gone, so no signal follows and the id may be reused.
            let leader = Pid::from_raw(shared.tree.leader);
            // This may block for ever on a process that is stuck in the kernel. It blocks only this thread.
            let _: Result<_, _> = rustix::process::waitpid(leader, WaitOptions::empty());
        });
    }
}

impl GroupShared {
    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the leader, without reaping it.
    fn wait(&self) {
        let Some(pid) = Pid::from_raw(self.tree.leader) else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = loop {
            match rustix::process::waitid(WaitId::Pid(pid), options) {
                Err(rustix::io::Errno::INTR) => {}
                // Another part of this program reaped the child.
                Err(_) | Ok(None) => break None,
                Ok(Some(status)) => break Some(status),
            }
        };
        let exit = status.and_then(|status| match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(ExitStatus::Code(code)),
            (None, Some(signal)) => Some(ExitStatus::Signal(signal)),
            (None, None) => None,
        });
        // Before the event: a caller that reacts to `Exited` with a sweep finds the flag set.
        self.state().exited = true;
        let _: Result<(), _> = self.reports.send(ChildEvent::Exited(exit.unwrap_or(ExitStatus::Unknown)));
    }

    fn sweep(&self) {
        let mut ended: Vec<TreeProcess> = Vec::new();
        let mut told = false;
        let mut empty_looks = 0;
        let survivors = loop {
            // Read again in each round: a later call of `end` may have shortened the grace.
            let (exited, (kill_at, _)) = {
                let state = self.state();
                (state.exited, state.sweep.unwrap_or((now(), SweptReport::NotWanted)))
            };
            let living = members::living(&self.tree);
            for one in living.iter().filter(|one| one.pid != self.tree.leader.cast_unsigned()) {
                if !ended.iter().any(|known| known.pid == one.pid) {
                    ended.push(one.clone());
                }
            }
            empty_looks = if living.is_empty() && exited { empty_looks + 1 } else { 0 };
            // Two empty looks in a row: a process may fork between two reads of `/proc`, and one look misses its child.
            if empty_looks == 2 {
                break living;
            }
            if now() >= kill_at + PATIENCE {
                break living;
            }
            if now() >= kill_at {
                members::signal(&self.tree, libc::SIGKILL, SignalScope::Tree);
                for one in &mut ended {
                    one.killed |= living.iter().any(|it| it.pid == one.pid);
                }
            } else if !told {
                told = true;
                members::signal(&self.tree, libc::SIGTERM, SignalScope::Tree);
                // A stopped process does not receive SIGTERM until it is continued.
                members::signal(&self.tree, libc::SIGCONT, SignalScope::Tree);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        ended.retain(|one| !survivors.iter().any(|it| it.pid == one.pid));
        // Held until the report is sent: a call of `end` either joins this sweep or starts the next one.
        let mut state = self.state();
        let answer = state.sweep.take().map(|(_, answer)| answer);
        if answer == Some(SweptReport::Wanted) {
            let _: Result<(), _> = self.reports.send(ChildEvent::Swept { ended, survivors });
        }
    }

    /// Sends SIGKILL until no process of the tree can be found.
    fn kill(&self) {
        let until = now() + PATIENCE;
        loop {
            members::signal(&self.tree, libc::SIGKILL, SignalScope::Tree);
            let is_over = members::living(&self.tree).is_empty() && self.state().exited;
            if is_over || now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs work that waits in a thread of its own. If no thread can be started it runs here, or it would never run.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) {
    // Shared, because a failed start of a thread drops the closure that it was given.
    let work = Arc::new(Mutex::new(Some(work)));
    let copy = work.clone();
    let run = move |work: &Mutex<Option<_>>| {
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            let work: Box<dyn FnOnce()> = Box::new(work);
            work();
        }
    };
    if std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&copy)).is_err() {
        run(&work);
    }
}

#[expect(clippy::disallowed_methods, reason = "grace is counted here")]
fn now() -> Instant {
    Instant::now()
}
