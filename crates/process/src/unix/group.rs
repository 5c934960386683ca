//! The weakest owner: this process starts its children itself, and knows their process groups.
//!
//! It is used where there is no keeper. Every child leads a session of its own. On Linux it is also killed by the
//! kernel when the thread that started it ends, hence one thread for all starts, which lives as long as we do; and
//! what left the session is found by its mark. Elsewhere the group is all we have.
//!
//! A leader is not reaped before its tree is done with: as long as it is a zombie, nobody else gets its number, and a
//! signal to its group cannot hit a stranger.

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

use super::members::{self, Tree};
use super::streams::Streams;
use super::{BUSY_PAUSE, BUSY_TRIES, error, marks, number, resolve, stdio};
use crate::child::Child;
use crate::command::{Command, Stdio};
use crate::error::{KeeperError, SpawnErrorKind};
use crate::happening::{Exit, Guarantee, Happening, Scope, Signal, Survivor};
use crate::owner::{Answer, Owner};

/// Added to the error number of a failed change of directory, to tell it from that of a failed exec.
const CWD: i32 = 1 << 16;
/// How long SIGKILL is repeated before what is left counts as a survivor.
const PATIENCE: Duration = Duration::from_secs(5);

/// No clock overflows before this is over.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is to be started.
#[derive(Debug)]
struct Image {
    program: PathBuf,
    name: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    streams: [OwnedFd; 3],
    terminal: bool,
    token: String,
}

/// A started child: its number, its owner, and where its end is told.
type Started = (u32, Group, mpsc::UnboundedReceiver<Happening>);

#[derive(Debug)]
struct Order {
    image: Image,
    /// Whoever drops the answer drops the owner in it, and so ends the tree.
    answer: oneshot::Sender<Result<Started, SpawnErrorKind>>,
    starter: Starter,
}

/// Starts children, all from one thread.
#[derive(Debug, Clone)]
pub(crate) struct Starter(Sender<Order>);

impl Starter {
    pub(crate) fn start() -> Result<Self, KeeperError> {
        let (sender, orders): (_, Receiver<Order>) = channel();
        std::thread::Builder::new()
            .name("bowline-spawn".to_owned())
            .spawn(move || {
                for Order { image, answer, starter } in orders {
                    let token = image.token.clone();
                    let started = execute(image).map(|leader| {
                        let (reports, happenings) = mpsc::unbounded_channel();
                        (leader, Group::new(leader, token, reports, starter), happenings)
                    });
                    let _: Result<(), _> = answer.send(started);
                }
            })
            .map_err(KeeperError::Prepare)?;
        Ok(Self(sender))
    }

    async fn spawn(&self, image: Image) -> Result<Started, SpawnErrorKind> {
        let (answer, started) = oneshot::channel();
        let gone = || SpawnErrorKind::Keeper(KeeperError::Lost);
        self.0.send(Order { image, answer, starter: self.clone() }).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }
}

/// Starts what a command says.
pub(crate) async fn spawn(starter: &Starter, command: Command) -> Result<Child, SpawnErrorKind> {
    let program = resolve::program(&command)?;
    let cwd = resolve::cwd(&command)?;
    let token = marks::token().map_err(SpawnErrorKind::other("drawing a random number"))?;
    let env = marks::environment(&command, &token);
    let mut tries = 0;
    loop {
        let streams = stdio::open(&command).map_err(SpawnErrorKind::other("making pipes or a terminal"))?;
        let image = Image {
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
                let streams = Streams::new(streams.ours, command.stdin)
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
fn execute(image: Image) -> Result<u32, SpawnErrorKind> {
    let cwd = c_string("the working directory", image.cwd.as_os_str())?;
    let program = c_string("the path of the program", image.program.as_os_str())?;
    let args: Vec<&OsStr> = iter::once(&image.name).chain(&image.args).map(OsString::as_os_str).collect();
    let args = Pointers::new("an argument", &args)?;
    let env: Vec<OsString> =
        image.env.into_iter().map(|(name, value)| [name, value].join(OsStr::new("="))).collect();
    let env: Vec<&OsStr> = env.iter().map(OsString::as_os_str).collect();
    let env = Pointers::new("a variable", &env)?;
    let own = rustix::process::getpid();
    #[expect(clippy::disallowed_methods, reason = "the one spawner, where it has no keeper")]
    let mut command = std::process::Command::new(&image.program);
    let [stdin, stdout, stderr] = image.streams;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let terminal = image.terminal;
    let become_program = move || {
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        {
            crate::linux::fork::reset_signals();
            crate::linux::fork::close_all_on_exec();
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
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
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        // `std` would report a missing directory as it reports a missing program.
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
        // The handle is dropped: we wait for the number ourselves.
        Ok(child) => Ok(child.id()),
        Err(error) => Err(explain(&error, &image.program, image.cwd)),
    }
}

fn c_string(what: &'static str, string: &OsStr) -> Result<CString, SpawnErrorKind> {
    CString::new(string.as_encoded_bytes()).map_err(|_| SpawnErrorKind::Nul { what })
}

/// C strings, and the list of pointers to them that `execve` takes.
struct Pointers {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Pointers {
    fn new(what: &'static str, strings: &[&OsStr]) -> Result<Self, SpawnErrorKind> {
        let strings = strings.iter().map(|string| c_string(what, string)).collect::<Result<Vec<_>, _>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { _strings: strings, pointers })
    }

    /// Executes a program with these as its environment; returns only the error. Allocates nothing.
    #[expect(unsafe_code, reason = "no safe call executes")]
    fn execute(&self, program: &CStr, args: &Self) -> io::Error {
        // SAFETY: both lists end with null and point to strings that live as long as they.
        unsafe { libc::execve(program.as_ptr(), args.pointers.as_ptr(), self.pointers.as_ptr()) };
        io::Error::last_os_error()
    }
}

#[expect(unsafe_code, reason = "pointers are not sent by themselves")]
// SAFETY: the pointers lead into strings that the same value owns and nobody changes.
unsafe impl Send for Pointers {}
#[expect(unsafe_code, reason = "pointers are not shared by themselves")]
// SAFETY: as above.
unsafe impl Sync for Pointers {}

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
pub(crate) struct Group {
    shared: Arc<Shared>,
    /// Keeps the thread that started it alive: on Linux the leader is killed with that thread.
    _starter: Starter,
}

#[derive(Debug)]
struct Shared {
    tree: Tree,
    reports: mpsc::UnboundedSender<Happening>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    exited: bool,
    /// A sweep is under way, kills at this moment, and is to be told or not.
    sweep: Option<(Instant, Answer)>,
}

impl Group {
    fn new(leader: u32, token: String, reports: mpsc::UnboundedSender<Happening>, starter: Starter) -> Self {
        let tree = Tree { leader: leader.cast_signed(), token: token.into_bytes() };
        let shared = Arc::new(Shared { tree, reports, state: Mutex::default() });
        let waiter = shared.clone();
        thread("bowline-wait", move || waiter.wait());
        Self { shared, _starter: starter }
    }
}

impl Owner for Group {
    fn signal(&self, signal: Signal, scope: Scope) {
        members::signal(&self.shared.tree, number(signal), scope);
    }

    fn end(&self, grace: Duration, answer: Answer) {
        let kill_at = now() + grace.min(LONGEST_GRACE);
        let mut state = self.shared.state();
        let (first, sweep) = match state.sweep {
            None => (true, (kill_at, answer)),
            Some((earlier, wanted)) => {
                let answer = if wanted == Answer::Wanted { wanted } else { answer };
                (false, (earlier.min(kill_at), answer))
            }
        };
        state.sweep = Some(sweep);
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

impl Drop for Group {
    fn drop(&mut self) {
        let shared = self.shared.clone();
        thread("bowline-end", move || {
            shared.kill();
            // Now that nobody acts on it any more, its number may go.
            let leader = Pid::from_raw(shared.tree.leader);
            let _: Result<_, _> = rustix::process::waitpid(leader, WaitOptions::empty());
        });
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the leader, without reaping it.
    fn wait(&self) {
        let Some(pid) = Pid::from_raw(self.tree.leader) else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = loop {
            match rustix::process::waitid(WaitId::Pid(pid), options) {
                Err(rustix::io::Errno::INTR) => {}
                // Somebody in this program reaps what is not theirs.
                Err(_) | Ok(None) => break None,
                Ok(Some(status)) => break Some(status),
            }
        };
        let exit = status.and_then(|status| match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(Exit::Code(code)),
            (None, Some(signal)) => Some(Exit::Signal(signal)),
            (None, None) => None,
        });
        self.state().exited = true;
        let _: Result<(), _> = self.reports.send(Happening::Exited(exit.unwrap_or(Exit::Unknown)));
    }

    fn sweep(&self) {
        let mut ended: Vec<Survivor> = Vec::new();
        let mut told = false;
        let mut empty_looks = 0;
        let survivors = loop {
            let (exited, (kill_at, _)) = {
                let state = self.state();
                (state.exited, state.sweep.unwrap_or((now(), Answer::NotWanted)))
            };
            let living = members::living(&self.tree);
            for one in living.iter().filter(|one| one.pid != self.tree.leader.cast_unsigned()) {
                if !ended.iter().any(|known| known.pid == one.pid) {
                    ended.push(one.clone());
                }
            }
            empty_looks = if living.is_empty() && exited { empty_looks + 1 } else { 0 };
            if empty_looks == 2 {
                break living;
            }
            if now() >= kill_at + PATIENCE {
                break living;
            }
            if now() >= kill_at {
                members::signal(&self.tree, libc::SIGKILL, Scope::Tree);
                for one in &mut ended {
                    one.killed |= living.iter().any(|it| it.pid == one.pid);
                }
            } else if !told {
                told = true;
                members::signal(&self.tree, libc::SIGTERM, Scope::Tree);
                members::signal(&self.tree, libc::SIGCONT, Scope::Tree);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        ended.retain(|one| !survivors.iter().any(|it| it.pid == one.pid));
        let mut state = self.state();
        let answer = state.sweep.take().map(|(_, answer)| answer);
        if answer == Some(Answer::Wanted) {
            let _: Result<(), _> = self.reports.send(Happening::Swept { ended, survivors });
        }
    }

    /// Kills until nothing is left that could be found.
    fn kill(&self) {
        let until = now() + PATIENCE;
        loop {
            members::signal(&self.tree, libc::SIGKILL, Scope::Tree);
            let is_over = members::living(&self.tree).is_empty() && self.state().exited;
            if is_over || now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs something that waits. If there can be no thread, it is done here and now: later would be never.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) {
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
