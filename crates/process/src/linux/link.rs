//! The host's side: starts a keeper, sends it requests, and passes its replies to the children.
//!
//! A thread of its own reads the socket, so one keeper serves children of any async runtime and outlives each runtime. The
//! thread sleeps in the kernel until a reply comes.

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

use super::early::{self, StartedKeeper};
use super::fork::reap;
use super::strays::{self, LostTree};
use super::wire::{self, HostRequest, KeeperReply, SpawnBody, SpawnStage};
use crate::child_event::{ChildEvent, ExitStatus, Guarantee, Signal, SignalScope};
use crate::error::KeeperError;
use crate::keeper;
use crate::owner::{SweptReport, TreeOwner};
use crate::supervisor::CgroupMode;
use crate::unix::number;

/// The program of this process, also after an update has replaced its file.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// How long a keeper may take to reply on a very busy machine: to its start, or to the start of a program.
const ANSWER: Duration = Duration::from_secs(20);

/// How long a keeper may take to reply, or to make space for a request, before it gets SIGCONT again: an agent may have stopped
/// it.
const NUDGE: Duration = Duration::from_millis(100);

/// How often the keeper is woken to make space for a request. The caller blocks during that time.
const NUDGES: u32 = 50;

/// The connection to one keeper. When the last owner drops it, the keeper ends all trees and itself.
#[derive(Debug)]
pub(crate) struct KeeperLink {
    shared: Arc<LinkState>,
    guarantee: Guarantee,
    keeper: Pid,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct LinkState {
    socket: OwnedFd,
    children: Mutex<HashMap<u64, ChildEntry>>,
    lost: AtomicBool,
}

#[derive(Debug)]
struct ChildEntry {
    starting: Option<oneshot::Sender<Result<StartedChild, StartError>>>,
    reports: mpsc::UnboundedSender<ChildEvent>,
    token: Vec<u8>,
    cgroup: Option<PathBuf>,
    exited: bool,
}

/// A child that was started.
#[derive(Debug)]
pub(crate) struct StartedChild {
    pub(crate) pid: u32,
    pub(crate) guarantee: Guarantee,
}

/// The reason why a child was not started.
#[derive(Debug)]
pub(crate) enum StartError {
    System { stage: SpawnStage, errno: i32 },
    Keeper(KeeperError),
}

impl KeeperLink {
    /// Starts a keeper and waits for its hello.
    pub(crate) fn start(program: &Path, cgroups: CgroupMode) -> Result<Self, KeeperError> {
        let StartedKeeper { socket, keeper, .. } = execute(program, cgroups)?;
        Self::with(socket, keeper, program)
    }

    /// Waits for the hello of a keeper that was started.
    pub(crate) fn with(socket: OwnedFd, keeper: Pid, program: &Path) -> Result<Self, KeeperError> {
        let guarantee = hello(&socket, keeper).filter(|_| {
            // A keeper that does not read must not block the sender for ever.
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(NUDGE)).is_ok()
        });
        let Some(guarantee) = guarantee else {
            // It is another program than a keeper, and must not do anything else.
            // SIGKILL ends a stopped process as well, so the `reap` below returns.
            let _: Result<(), _> = rustix::process::kill_process(keeper, rustix::process::Signal::KILL);
            reap(keeper.as_raw_nonzero().get());
            return Err(KeeperError::Mute { program: program.to_owned() });
        };
        let shared = Arc::new(LinkState { socket, children: Mutex::default(), lost: AtomicBool::new(false) });
        let reader = shared.clone();
        std::thread::Builder::new()
            .name("bowline-link".to_owned())
            .spawn(move || {
                reader.read();
                // The keeper has closed its end, so it is about to exit.
                reap(keeper.as_raw_nonzero().get());
                // After the reap: a keeper that exits in order has ended all its trees by then, and little is left to do
                // here.
                reader.end_lost_trees();
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

    /// Requests a child. Dropping the returned tree ends it, whether the start succeeded or not.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        terminal: bool,
        token: &[u8],
        body: SpawnBody,
        streams: &[OwnedFd; 3],
    ) -> Result<PendingStart, KeeperError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, reports) = mpsc::unbounded_channel();
        let (starting, answer) = oneshot::channel();
        {
            let mut children = self.shared.children();
            // Check under the lock. `end_lost_trees` sets `lost` under the same lock: it sees this entry, or we see `lost`.
            if self.is_lost() {
                return Err(KeeperError::Lost);
            }
            let entry = ChildEntry {
                starting: Some(starting),
                reports: sender,
                token: token.to_vec(),
                cgroup: None,
                exited: false,
            };
            children.insert(id, entry);
        }
        // Before the request: if sending fails, dropping the tree removes the entry from the table.
        let tree = KeptTree { link: self.clone(), id, guarantee: self.guarantee };
        let request = HostRequest::Spawn { id, terminal, token: token.to_vec(), body };
        let streams = [streams[0].as_fd(), streams[1].as_fd(), streams[2].as_fd()];
        self.send(&request, &streams).map_err(|error| match error.raw_os_error() {
            // The keeper is gone and has not read the request. So the caller may send it again to another keeper.
            Some(libc::EPIPE | libc::ECONNRESET) => KeeperError::Lost,
            _ => KeeperError::Unreachable(error),
        })?;
        Ok(PendingStart { tree, reports, answer })
    }

    fn request(&self, request: &HostRequest) {
        // Two errors are possible. The keeper is gone: its trees are being ended, and `KeeperLost` reports it. Or the keeper
        // has no space for a long time: a caller that waits for a reply has its own timeout.
        let _: io::Result<()> = self.send(request, &[]);
    }

    fn send(&self, request: &HostRequest, streams: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut nudges = 0;
        loop {
            self.wake();
            match wire::send_request(&self.shared.socket, request, streams) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && nudges < NUDGES => nudges += 1,
                sent => return sent,
            }
        }
    }

    /// Sends a request that changes nothing. Returns whether the keeper had space for it.
    #[cfg(test)]
    pub(crate) fn has_space(&self) -> bool {
        self.send(&HostRequest::Forget { id: 0 }, &[]).is_ok()
    }

    fn wake(&self) {
        // The reading thread reaps the keeper shortly before it sets `lost`. In between, another process may have this id.
        // SIGCONT changes nothing in a process that is not stopped.
        if !self.is_lost() {
            wake(self.keeper);
        }
    }
}

/// Executes a program as keeper, and does not wait for its hello.
pub(crate) fn execute(program: &Path, cgroups: CgroupMode) -> Result<StartedKeeper, KeeperError> {
    let (ours, theirs) = early::sockets().map_err(KeeperError::Prepare)?;
    #[expect(clippy::disallowed_methods, reason = "here the one spawner starts its keeper")]
    let mut command = std::process::Command::new(program);
    command.arg0("bowline-keeper").env(keeper::VARIABLE, keeper::ask(cgroups));
    // The socket is passed as standard input, which needs no unsafe code between fork and exec.
    command.stdin(theirs).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let process =
        command.spawn().map_err(|source| KeeperError::Start { program: program.to_owned(), source })?;
    // `command` still holds the keeper's end. Drop it, or this process would not notice that the keeper ended.
    drop(command);
    // The id of our own child, so it is not 0.
    let keeper = process.id().try_into().ok().and_then(Pid::from_raw).ok_or(KeeperError::Lost)?;
    Ok(StartedKeeper::new(ours, keeper))
}

/// Continues a keeper. An agent is its child and knows its process id, so it may have stopped it.
fn wake(keeper: Pid) {
    // It fails only when the keeper is gone.
    let _: Result<(), _> = rustix::process::kill_process(keeper, rustix::process::Signal::CONT);
}

impl Drop for KeeperLink {
    fn drop(&mut self) {
        // The keeper sees the end of its input, ends all trees, and closes its end. Then the reading thread ends too.
        let _: Result<(), _> = rustix::net::shutdown(&self.shared.socket, Shutdown::Write);
        // After the shutdown: a keeper that an agent stopped wakes up and finds the end of its input.
        self.wake();
    }
}

/// A child that was requested and has not started yet.
#[derive(Debug)]
pub(crate) struct PendingStart {
    pub(crate) tree: KeptTree,
    pub(crate) reports: mpsc::UnboundedReceiver<ChildEvent>,
    answer: oneshot::Receiver<Result<StartedChild, StartError>>,
}

impl PendingStart {
    /// Waits for the result of the start, for at most `ANSWER`.
    pub(crate) async fn answer(&mut self) -> Result<StartedChild, StartError> {
        let mut waited = Duration::ZERO;
        while waited < ANSWER {
            match tokio::time::timeout(NUDGE, &mut self.answer).await {
                Ok(answer) => return answer.unwrap_or(Err(StartError::Keeper(KeeperError::Lost))),
                Err(_) => self.tree.link.wake(),
            }
            waited += NUDGE;
        }
        Err(StartError::Keeper(KeeperError::Silent { after: ANSWER }))
    }
}

/// Owns one tree at the keeper. Dropping it ends the tree.
#[derive(Debug)]
pub(crate) struct KeptTree {
    link: Arc<KeeperLink>,
    id: u64,
    pub(crate) guarantee: Guarantee,
}

impl TreeOwner for KeptTree {
    fn signal(&self, signal: Signal, scope: SignalScope) {
        self.link.request(&HostRequest::Signal { id: self.id, signal: number(signal), scope });
    }

    fn end(&self, grace: Duration, answer: SweptReport) {
        let answer = answer == SweptReport::Wanted;
        if answer && self.link.is_lost() {
            self.link.shared.answer_for_lost_keeper(self.id);
            return;
        }
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.link.request(&HostRequest::End { id: self.id, grace_ms, answer });
    }

    fn guarantee(&self) -> Guarantee {
        self.guarantee
    }
}

impl Drop for KeptTree {
    fn drop(&mut self) {
        // First remove the entry, so that later replies for this id are dropped. The lock is free again before the request blocks.
        self.link.shared.children().remove(&self.id);
        self.link.request(&HostRequest::Forget { id: self.id });
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
    match wire::receive_reply(socket, &mut wire::reply_buffer()) {
        Ok(Some(KeeperReply::Hello { guarantee })) => Some(guarantee),
        Ok(_) | Err(_) => None,
    }
}

impl LinkState {
    fn children(&self) -> MutexGuard<'_, HashMap<u64, ChildEntry>> {
        // No code under this lock panics, and a table of senders is never half-changed. So a poisoned lock is safe to use.
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the keeper's replies to the children until the keeper is gone.
    fn read(&self) {
        let mut buffer = wire::reply_buffer();
        // A message that cannot be read ends the connection: later messages cannot be read either.
        while let Ok(Some(reply)) = wire::receive_reply(&self.socket, &mut buffer) {
            self.deliver(reply);
        }
        // After a message that cannot be read, the keeper may still live. It exits when its socket ends; otherwise `reap`
        // would hang.
        let _: Result<(), _> = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    fn deliver(&self, reply: KeeperReply) {
        // Held during the sends below: neither kind of channel blocks the sender.
        let mut children = self.children();
        // A missing receiver belongs to a child that was dropped.
        match reply {
            KeeperReply::Hello { .. } => {}
            KeeperReply::Started { id, pid, cgroup } => {
                let Some(entry) = children.get_mut(&id) else { return };
                let guarantee = if cgroup.is_empty() { Guarantee::Subreaper } else { Guarantee::Cgroup };
                if !cgroup.is_empty() {
                    use std::os::unix::ffi::OsStringExt;
                    entry.cgroup = Some(std::ffi::OsString::from_vec(cgroup).into());
                }
                if let Some(starting) = entry.starting.take() {
                    let _: Result<(), _> =
                        starting.send(Ok(StartedChild { pid: pid.cast_unsigned(), guarantee }));
                }
            }
            KeeperReply::Refused { id, stage, errno } => {
                let Some(mut entry) = children.remove(&id) else { return };
                if let Some(starting) = entry.starting.take() {
                    let _: Result<(), _> = starting.send(Err(StartError::System { stage, errno }));
                }
            }
            KeeperReply::Exited { id, signal, number } => {
                let Some(entry) = children.get_mut(&id) else { return };
                entry.exited = true;
                let exit = if signal { ExitStatus::Signal(number) } else { ExitStatus::Code(number) };
                let _: Result<(), _> = entry.reports.send(ChildEvent::Exited(exit));
            }
            KeeperReply::Swept { id, ended, survivors } => {
                let Some(entry) = children.get(&id) else { return };
                let _: Result<(), _> = entry.reports.send(ChildEvent::Swept { ended, survivors });
            }
        }
    }

    /// Ends the trees of a keeper that is gone, and reports it to their children. Does nothing without children.
    fn end_lost_trees(&self) {
        let (ids, lost): (Vec<u64>, Vec<LostTree>) = {
            let mut children = self.children();
            // Under the lock, so that `spawn` either adds its entry before this or sees the flag.
            self.lost.store(true, Ordering::Release);
            children.retain(|_, entry| match entry.starting.take() {
                Some(starting) => {
                    let _: Result<(), _> = starting.send(Err(StartError::Keeper(KeeperError::Lost)));
                    false
                }
                None => entry.reports.send(ChildEvent::KeeperLost).is_ok(),
            });
            let lost = |entry: &ChildEntry| LostTree {
                token: entry.token.clone(),
                cgroup: entry.cgroup.clone().map(super::cgroup::Cgroup::at),
            };
            children.iter().map(|(id, entry)| (*id, lost(entry))).unzip()
        };
        // Without the lock: ending the trees takes seconds, and a child that is dropped meanwhile takes the lock.
        for (id, (ended, survivors)) in ids.into_iter().zip(strays::end(&lost)) {
            let mut children = self.children();
            let Some(entry) = children.get_mut(&id) else { continue };
            if !entry.exited {
                entry.exited = true;
                let _: Result<(), _> = entry.reports.send(ChildEvent::Exited(ExitStatus::Unknown));
            }
            let _: Result<(), _> = entry.reports.send(ChildEvent::Swept { ended, survivors });
        }
    }

    /// Reports the sweep of a tree whose keeper is gone. `end_lost_trees` has swept it already, or is doing so and will report.
    fn answer_for_lost_keeper(&self, id: u64) {
        let children = self.children();
        let Some(entry) = children.get(&id) else { return };
        if entry.exited {
            let swept = ChildEvent::Swept { ended: Vec::new(), survivors: Vec::new() };
            let _: Result<(), _> = entry.reports.send(swept);
        }
    }
}
