//! The host's side: starts a keeper, asks it, and gives what it tells to the children.
//!
//! A thread of its own reads the socket, so that a keeper serves children of any runtime and outlives each of them. It
//! sleeps in the kernel as long as nothing is told.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};
use rustix::process::Pid;
use tokio::sync::{mpsc, oneshot};

use super::early::{self, Early};
use super::fork::reap;
use super::strays::{self, Lost};
use super::wire::{self, Body, Reply, Request, Stage};
use crate::error::KeeperError;
use crate::happening::{Exit, Guarantee, Happening, Scope, Signal};
use crate::keeper;
use crate::owner::{Answer, Owner};
use crate::unix::number;

/// The program of this process, wherever it lies, also after an update has replaced it.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// How long a keeper may owe an answer, on a machine that is very busy: its hello, or the start of a program.
const ANSWER: Duration = Duration::from_secs(20);

/// How long it may owe one, or room for a question, before it is waked once more: somebody may have stopped it.
const NUDGE: Duration = Duration::from_millis(100);

/// How often it is waked for room. Whoever asks waits for that without a runtime.
const NUDGES: u32 = 50;

/// The connection to one keeper. When the last holder is gone, the keeper ends all trees and itself.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    guarantee: Guarantee,
    keeper: Pid,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    socket: OwnedFd,
    children: Mutex<HashMap<u64, Entry>>,
    lost: AtomicBool,
}

#[derive(Debug)]
struct Entry {
    starting: Option<oneshot::Sender<Result<Started, Refused>>>,
    reports: mpsc::UnboundedSender<Happening>,
    token: Vec<u8>,
    cgroup: Option<PathBuf>,
    exited: bool,
}

/// A child that started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: u32,
    pub(crate) guarantee: Guarantee,
}

/// A child that did not.
#[derive(Debug)]
pub(crate) enum Refused {
    System { stage: Stage, errno: i32 },
    Keeper(KeeperError),
}

impl Link {
    /// Starts a keeper and waits for its hello.
    pub(crate) fn start(program: &Path, cgroups: super::keeper::Cgroups) -> Result<Self, KeeperError> {
        let Early { socket, keeper, .. } = execute(program, cgroups)?;
        Self::with(socket, keeper, program)
    }

    /// Waits for the hello of a keeper that was started.
    pub(crate) fn with(socket: OwnedFd, keeper: Pid, program: &Path) -> Result<Self, KeeperError> {
        let guarantee = hello(&socket, keeper).filter(|_| {
            // A keeper that does not read must not hold up for ever whoever writes to it.
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(NUDGE)).is_ok()
        });
        let Some(guarantee) = guarantee else {
            // It is not a keeper; what it does instead is nobody's wish.
            let _: Result<(), _> = rustix::process::kill_process(keeper, rustix::process::Signal::KILL);
            reap(keeper.as_raw_nonzero().get());
            return Err(KeeperError::Mute { program: program.to_owned() });
        };
        let shared = Arc::new(Shared { socket, children: Mutex::default(), lost: AtomicBool::new(false) });
        let reader = shared.clone();
        std::thread::Builder::new()
            .name("bowline-link".to_owned())
            .spawn(move || {
                reader.read();
                // The keeper has closed its end, so it is ending.
                reap(keeper.as_raw_nonzero().get());
                reader.bury();
            })
            .map_err(KeeperError::Prepare)?;
        Ok(Self { shared, guarantee, keeper, next_id: AtomicU64::new(1) })
    }

    pub(crate) fn guarantee(&self) -> Guarantee {
        self.guarantee
    }

    pub(crate) fn keeper(&self) -> u32 {
        self.keeper.as_raw_nonzero().get().cast_unsigned()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.shared.lost.load(Ordering::Acquire)
    }

    /// Asks for a child. The leash ends its tree when it is dropped, whatever became of the start.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        terminal: bool,
        token: &[u8],
        body: Body,
        streams: &[OwnedFd; 3],
    ) -> Result<Starting, KeeperError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, reports) = mpsc::unbounded_channel();
        let (starting, answer) = oneshot::channel();
        {
            let mut children = self.shared.children();
            // Under the lock: whoever buries the keeper either sees this entry or has set the mark.
            if self.is_lost() {
                return Err(KeeperError::Lost);
            }
            let entry = Entry {
                starting: Some(starting),
                reports: sender,
                token: token.to_vec(),
                cgroup: None,
                exited: false,
            };
            children.insert(id, entry);
        }
        let leash = Leash { link: self.clone(), id, guarantee: self.guarantee };
        let request = Request::Spawn { id, terminal, token: token.to_vec(), body };
        let streams = [streams[0].as_fd(), streams[1].as_fd(), streams[2].as_fd()];
        self.send(&request, &streams).map_err(|error| match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => KeeperError::Lost,
            _ => KeeperError::Unreachable(error),
        })?;
        Ok(Starting { leash, reports, answer })
    }

    fn ask(&self, request: &Request) {
        // It fails when the keeper is gone: then its trees are being ended, and that is told as `KeeperLost`; or when it has
        // no room for a long time: then whoever waits for what was asked does not wait for ever either.
        let _: io::Result<()> = self.send(request, &[]);
    }

    fn send(&self, request: &Request, streams: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut nudges = 0;
        loop {
            self.wake();
            match wire::ask(&self.shared.socket, request, streams) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && nudges < NUDGES => nudges += 1,
                sent => return sent,
            }
        }
    }

    /// Says something that changes nothing; returns whether there was room for it.
    #[cfg(test)]
    pub(crate) fn asks_nothing(&self) -> bool {
        self.send(&Request::Forget { id: 0 }, &[]).is_ok()
    }

    fn wake(&self) {
        if !self.is_lost() {
            wake(self.keeper);
        }
    }
}

/// Executes a program as keeper, and does not wait for its hello.
pub(crate) fn execute(program: &Path, cgroups: super::keeper::Cgroups) -> Result<Early, KeeperError> {
    let (ours, theirs) = early::sockets().map_err(KeeperError::Prepare)?;
    #[expect(clippy::disallowed_methods, reason = "here the one spawner starts its keeper")]
    let mut command = std::process::Command::new(program);
    command.arg0("bowline-keeper").env(keeper::VARIABLE, keeper::ask(cgroups));
    // The socket travels as standard input, which needs nothing unsafe between fork and exec.
    command.stdin(theirs).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let process =
        command.spawn().map_err(|source| KeeperError::Start { program: program.to_owned(), source })?;
    // `command` still holds the other end; without this, the end of the keeper would go unnoticed.
    drop(command);
    // A number of our own child, so it is not 0.
    let keeper = process.id().try_into().ok().and_then(Pid::from_raw).ok_or(KeeperError::Lost)?;
    Ok(Early::new(ours, keeper))
}

/// Lets a keeper run: an agent is its child and knows its number, and may have stopped it.
fn wake(keeper: Pid) {
    // It fails only when the keeper is gone.
    let _: Result<(), _> = rustix::process::kill_process(keeper, rustix::process::Signal::CONT);
}

impl Drop for Link {
    fn drop(&mut self) {
        // The keeper sees the end of its input, ends what is left, and closes its side: then the thread ends too.
        let _: Result<(), _> = rustix::net::shutdown(&self.shared.socket, Shutdown::Write);
        self.wake();
    }
}

/// A child that was asked for.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) leash: Leash,
    pub(crate) reports: mpsc::UnboundedReceiver<Happening>,
    answer: oneshot::Receiver<Result<Started, Refused>>,
}

impl Starting {
    /// Waits for what becomes of the start, but not for ever.
    pub(crate) async fn answer(&mut self) -> Result<Started, Refused> {
        let mut waited = Duration::ZERO;
        while waited < ANSWER {
            match tokio::time::timeout(NUDGE, &mut self.answer).await {
                Ok(answer) => return answer.unwrap_or(Err(Refused::Keeper(KeeperError::Lost))),
                Err(_) => self.leash.link.wake(),
            }
            waited += NUDGE;
        }
        Err(Refused::Keeper(KeeperError::Silent { after: ANSWER }))
    }
}

/// Holds one tree; dropping it ends the tree.
#[derive(Debug)]
pub(crate) struct Leash {
    link: Arc<Link>,
    id: u64,
    pub(crate) guarantee: Guarantee,
}

impl Owner for Leash {
    fn signal(&self, signal: Signal, scope: Scope) {
        self.link.ask(&Request::Signal { id: self.id, signal: number(signal), scope });
    }

    fn end(&self, grace: Duration, answer: Answer) {
        let answer = answer == Answer::Wanted;
        if answer && self.link.is_lost() {
            self.link.shared.answer_for_the_dead(self.id);
            return;
        }
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.link.ask(&Request::End { id: self.id, grace_ms, answer });
    }

    fn guarantee(&self) -> Guarantee {
        self.guarantee
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.link.shared.children().remove(&self.id);
        self.link.ask(&Request::Forget { id: self.id });
    }
}

fn hello(socket: &OwnedFd, keeper: Pid) -> Option<Guarantee> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let nudge = Timespec::try_from(NUDGE).ok();
    let mut waited = Duration::ZERO;
    loop {
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], nudge.as_ref()) {
            Ok(0) if waited >= ANSWER => return None,
            Ok(0) => {
                waited += NUDGE;
                wake(keeper);
            }
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    match wire::replied(socket, &mut wire::room()) {
        Ok(Some(Reply::Hello { guarantee })) => Some(guarantee),
        Ok(_) | Err(_) => None,
    }
}

impl Shared {
    fn children(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        // Nothing that panics happens under this lock; and a table of senders is never half-changed.
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives what the keeper tells to the children, until it is gone.
    fn read(&self) {
        let mut buffer = wire::room();
        // A message that cannot be read is the end of the keeper as well: it cannot be understood any more.
        while let Ok(Some(reply)) = wire::replied(&self.socket, &mut buffer) {
            self.deliver(reply);
        }
        let _: Result<(), _> = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    fn deliver(&self, reply: Reply) {
        let mut children = self.children();
        // A receiver that is gone belongs to a child that was dropped: nobody wants to know.
        match reply {
            Reply::Hello { .. } => {}
            Reply::Started { id, pid, cgroup } => {
                let Some(entry) = children.get_mut(&id) else { return };
                let guarantee = if cgroup.is_empty() { Guarantee::Subreaper } else { Guarantee::Cgroup };
                if !cgroup.is_empty() {
                    use std::os::unix::ffi::OsStringExt;
                    entry.cgroup = Some(std::ffi::OsString::from_vec(cgroup).into());
                }
                if let Some(starting) = entry.starting.take() {
                    let _: Result<(), _> = starting.send(Ok(Started { pid: pid.cast_unsigned(), guarantee }));
                }
            }
            Reply::Refused { id, stage, errno } => {
                let Some(mut entry) = children.remove(&id) else { return };
                if let Some(starting) = entry.starting.take() {
                    let _: Result<(), _> = starting.send(Err(Refused::System { stage, errno }));
                }
            }
            Reply::Exited { id, signal, number } => {
                let Some(entry) = children.get_mut(&id) else { return };
                entry.exited = true;
                let exit = if signal { Exit::Signal(number) } else { Exit::Code(number) };
                let _: Result<(), _> = entry.reports.send(Happening::Exited(exit));
            }
            Reply::Swept { id, ended, survivors } => {
                let Some(entry) = children.get(&id) else { return };
                let _: Result<(), _> = entry.reports.send(Happening::Swept { ended, survivors });
            }
        }
    }

    /// The keeper is gone: ends what it kept, and tells its children. With no children there is nothing to do.
    fn bury(&self) {
        let (ids, lost): (Vec<u64>, Vec<Lost>) = {
            let mut children = self.children();
            self.lost.store(true, Ordering::Release);
            children.retain(|_, entry| match entry.starting.take() {
                Some(starting) => {
                    let _: Result<(), _> = starting.send(Err(Refused::Keeper(KeeperError::Lost)));
                    false
                }
                None => entry.reports.send(Happening::KeeperLost).is_ok(),
            });
            let lost = |entry: &Entry| Lost {
                token: entry.token.clone(),
                cgroup: entry.cgroup.clone().map(super::cgroup::Cgroup::at),
            };
            children.iter().map(|(id, entry)| (*id, lost(entry))).unzip()
        };
        for (id, (ended, survivors)) in ids.into_iter().zip(strays::end(&lost)) {
            let mut children = self.children();
            let Some(entry) = children.get_mut(&id) else { continue };
            if !entry.exited {
                entry.exited = true;
                let _: Result<(), _> = entry.reports.send(Happening::Exited(Exit::Unknown));
            }
            let _: Result<(), _> = entry.reports.send(Happening::Swept { ended, survivors });
        }
    }

    /// A sweep of a tree whose keeper is gone: it was swept when that was noticed, or is being so.
    fn answer_for_the_dead(&self, id: u64) {
        let children = self.children();
        let Some(entry) = children.get(&id) else { return };
        if entry.exited {
            let swept = Happening::Swept { ended: Vec::new(), survivors: Vec::new() };
            let _: Result<(), _> = entry.reports.send(swept);
        }
    }
}
