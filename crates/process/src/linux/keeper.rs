//! The keeper's side: one loop, one thread, no runtime. It starts and reaps children and ends trees. When its host is gone it
//! ends all trees, then exits.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::cgroup::{self, Cgroup};
use super::fork::{ExecImage, ForkError, Forker};
use super::scan::{self, ProcessEntry, ProcessView};
use super::tree::{AllTrees, ProcessTree};
use super::wire::{self, HostRequest, KeeperReply, SpawnBody, SpawnStage};
use crate::child_event::{Guarantee, SignalScope};
use crate::supervisor::CgroupMode;

/// The name of a keeper's only thread, which `/proc` shows. The kernel keeps 15 bytes of a name (prctl(2)).
pub(crate) const KEEPER_NAME: &std::ffi::CStr = c"bowline-keeper";

/// How long the last sweep tries. The host is gone by then, so survivors cannot be reported.
const END_ALL_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the keeper until the host is gone.
pub(crate) fn run(cgroups: CgroupMode) -> ExitCode {
    // The keeper cannot report an error: its standard error is closed. The host notices that the socket closes.
    match Keeper::new(cgroups).and_then(Keeper::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

struct Keeper {
    socket: OwnedFd,
    /// Becomes readable when the host ends. The socket alone cannot show that: another program may hold a leaked copy of it.
    host: Option<OwnedFd>,
    signals: OwnedFd,
    forker: Forker,
    cgroups: Option<cgroup::CgroupParent>,
    looked_for_abandoned: bool,
    trees: BTreeMap<u64, ProcessTree>,
    /// The earliest time of the next look at the trees. The cost of a look grows with the number of processes. A pause as long
    /// as the last look leaves half of the time for requests, and lets one look serve many trees.
    rest_until: Instant,
}

impl Keeper {
    fn new(cgroups: CgroupMode) -> io::Result<Self> {
        // A session of its own: Ctrl-C on the host's terminal is for the host alone.
        rustix::process::setsid()?;
        // A stopped keeper would not notice that the host is gone, so the kernel sends it SIGCONT then.
        rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
        // From here on a process that loses its parent becomes our child, not pid 1's.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // Before the first agent starts: `ancestry` recognises the keeper above an agent by this name.
        rustix::thread::set_name(KEEPER_NAME)?;
        // A keeper in the host's directory would keep that file system from being unmounted.
        rustix::process::chdir("/")?;
        let socket = take_standard_input()?;
        // Before any other descriptor is opened: this closes all of them except the socket.
        close_inherited(&socket)?;
        // Linux before 5.3 has no pidfd. If the host is dead already, this is a handle of another process. In both cases the
        // socket alone reports the end of the host.
        let host = rustix::process::getppid()
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        let signals = signals()?;
        let forker = Forker::new()?;
        let cgroups = match cgroups {
            CgroupMode::Auto => cgroup::CgroupParent::find(),
            CgroupMode::Never => None,
        };
        Ok(Self {
            socket,
            host,
            signals,
            forker,
            cgroups,
            looked_for_abandoned: false,
            trees: BTreeMap::new(),
            rest_until: now(),
        })
    }

    fn serve(mut self) -> io::Result<()> {
        let guarantee = if self.cgroups.is_some() { Guarantee::Cgroup } else { Guarantee::Subreaper };
        // Last of all steps that can fail: a host that gets the hello has a working keeper.
        self.send(&KeeperReply::Hello { guarantee });
        loop {
            let next = self.trees.values().filter_map(ProcessTree::next_look).min();
            let next = next.map(|next| next.max(self.rest_until));
            let (asked, gone, ended) = self.wait(next)?;
            if ended {
                self.reap();
            }
            if asked {
                match wire::receive_request(&self.socket) {
                    Ok(Some((request, descriptors))) => self.handle(request, &descriptors),
                    // A broken message ends the keeper like a closed socket: later messages cannot be read either.
                    Ok(None) | Err(_) => break,
                }
            } else if gone {
                break;
            }
            self.step();
        }
        self.end_all();
        Ok(())
    }

    /// Waits. Returns whether the host sent a request, whether it is gone, and whether a child ended.
    fn wait(&self, until: Option<Instant>) -> io::Result<(bool, bool, bool)> {
        let timeout = until.map(|until| Timespec::try_from(until.saturating_duration_since(now())));
        let timeout = timeout.transpose().map_err(io::Error::other)?;
        let mut polled =
            vec![PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        polled.extend(self.host.as_ref().map(|host| PollFd::new(host, PollFlags::IN)));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // `poll` reports HUP and ERR without a request (poll(2)). They count as ready, and the next read returns the end.
        let is_ready = |index: usize| polled.get(index).is_some_and(|polled| !polled.revents().is_empty());
        Ok((is_ready(0), is_ready(2), is_ready(1)))
    }

    /// Sends a reply to the host. If that fails the host is gone, which the next wait shows.
    fn send(&self, reply: &KeeperReply) {
        let _: io::Result<()> = wire::send_reply(&self.socket, reply);
    }

    fn handle(&mut self, request: HostRequest, descriptors: &[OwnedFd]) {
        match request {
            HostRequest::Spawn { id, terminal, token, body } => {
                let reply = match self.spawn(terminal, token, &body, descriptors) {
                    Ok(tree) => {
                        let cgroup = tree.cgroup.as_ref().map(|cgroup| cgroup.path_bytes().to_vec());
                        let started =
                            KeeperReply::Started { id, pid: tree.leader, cgroup: cgroup.unwrap_or_default() };
                        self.trees.insert(id, tree);
                        started
                    }
                    Err(ForkError { stage, errno }) => KeeperReply::Refused { id, stage, errno },
                };
                self.send(&reply);
                // Done while the first agent begins, so that its start does not wait for it.
                self.end_abandoned();
            }
            HostRequest::Signal { id, signal, scope } => {
                let forest = self.forest();
                let Some(tree) = self.trees.get(&id) else { return };
                let Some(signal) = Signal::from_named_raw(signal) else { return };
                match scope {
                    SignalScope::Tree => tree.signal(signal, &forest),
                    SignalScope::Leader if tree.exited => {}
                    SignalScope::Leader => {
                        // The leader is not reaped, so the number is still its own.
                        let leader = Pid::from_raw(tree.leader);
                        let _: Option<Result<_, _>> =
                            leader.map(|leader| rustix::process::kill_process(leader, signal));
                    }
                }
            }
            HostRequest::End { id, grace_ms, answer } => match self.trees.get_mut(&id) {
                Some(tree) => tree.end(now(), Duration::from_millis(grace_ms), answer, false),
                // An unknown tree has no process. Reply all the same: the caller waits for the report.
                None if answer => {
                    self.send(&KeeperReply::Swept { id, ended: Vec::new(), survivors: Vec::new() })
                }
                None => {}
            },
            HostRequest::Forget { id } => {
                if let Some(tree) = self.trees.get_mut(&id) {
                    tree.end(now(), Duration::ZERO, false, true);
                }
            }
        }
    }

    fn spawn(
        &mut self,
        terminal: bool,
        token: Vec<u8>,
        body: &SpawnBody,
        descriptors: &[OwnedFd],
    ) -> Result<ProcessTree, ForkError> {
        let broken =
            || ForkError { stage: SpawnStage::Prepare, errno: rustix::io::Errno::INVAL.raw_os_error() };
        let (program, cwd, args, env) = body.strings().ok_or_else(broken)?;
        let [stdin, stdout, stderr] = descriptors else { return Err(broken()) };
        let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        // Without a cgroup the subreaper still covers the tree. `Started` then has no path, which lowers the guarantee of
        // this child.
        let mut cgroup = self.cgroups.as_mut().and_then(|parent| parent.create().ok());
        let mut image = ExecImage {
            program,
            cwd,
            args: &args,
            env: &env,
            streams,
            terminal,
            cgroup: cgroup.as_ref().and_then(Cgroup::directory),
        };
        let mut started = self.forker.start(&image);
        // Only after a failed fork. An error of a later step does not come from the cgroup, and would repeat.
        if image.cgroup.is_some() && matches!(started, Err(ForkError { stage: SpawnStage::Fork, .. })) {
            // A limit of the cgroup, or another process removed it. The subreaper still works, and the child's guarantee
            // reports that.
            image.cgroup = None;
            started = self.forker.start(&image);
        }
        let is_used = image.cgroup.is_some() && started.is_ok();
        if !is_used && let Some(cgroup) = cgroup.take() {
            cgroup.remove();
        }
        started.map(|leader| ProcessTree { leader, exited: false, token, cgroup, ending: None })
    }

    /// Ends the processes of keepers that were killed together with their hosts. Runs once.
    fn end_abandoned(&mut self) {
        if !std::mem::replace(&mut self.looked_for_abandoned, true)
            && let Some(parent) = &self.cgroups
        {
            parent.end_abandoned();
        }
    }

    /// Reaps all ended children: leaders, whose exit is reported, and orphans.
    fn reap(&mut self) {
        // Drain before `wait`. SIGCHLD does not queue (signal(7)): a child that ends after the drain raises it again. In the
        // other order this drain could take the signal of a child that `wait` has not seen.
        drain(&self.signals);
        let now = now();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            // An orphan may have the id of a leader that was reaped earlier.
            let leader = self.trees.iter_mut().find(|(_, tree)| tree.leader == pid && !tree.exited);
            if let Some((id, tree)) = leader {
                tree.exited = true;
                let id = *id;
                let (signal, number) = match status.terminating_signal() {
                    Some(signal) => (true, signal),
                    None => (false, status.exit_status().unwrap_or_default()),
                };
                self.send(&KeeperReply::Exited { id, signal, number });
            }
        }
        // An orphan that ended may belong to any of the trees.
        self.trees.values_mut().for_each(|tree| tree.hurry(now));
    }

    fn step(&mut self) {
        let now = now();
        if now < self.rest_until {
            return;
        }
        let due = |tree: &ProcessTree| tree.next_look().is_some_and(|next| next <= now);
        let due: Vec<u64> = self.trees.iter().filter(|(_, tree)| due(tree)).map(|(id, _)| *id).collect();
        // Taken after all ended children were reaped; the trees share it.
        let (view, forest) = (ProcessView::default(), self.forest());
        for id in due {
            let Some(tree) = self.trees.get_mut(&id) else { continue };
            let Some(ended) = tree.step(now, &view, &forest) else { continue };
            let Some(ending) = tree.ending.take() else { continue };
            if ending.answer {
                self.send(&KeeperReply::Swept { id, ended: ended.ended, survivors: ended.survivors });
            }
            if ending.forget
                && let Some(tree) = self.trees.remove(&id)
                && let Some(cgroup) = tree.cgroup
            {
                cgroup.remove();
            }
        }
        let end = self::now();
        self.rest_until = end + (end - now);
    }

    fn forest(&self) -> AllTrees {
        let living = self.trees.values().filter(|tree| !tree.exited);
        AllTrees {
            leaders: living.map(|tree| tree.leader).collect(),
            // Also of trees whose leader is gone: their orphans still have the token.
            tokens: self.trees.values().map(|tree| tree.token.clone()).collect(),
        }
    }

    /// Ends every process that descends from the keeper, of any tree. Called when the host is gone.
    fn end_all(&mut self) {
        let until = now() + END_ALL_PATIENCE;
        let own = std::process::id().cast_signed();
        // Two empty looks in a row: a process may fork between two reads of `/proc`, and one look misses its child.
        let mut empty_looks = 0;
        while empty_looks < 2 && now() < until {
            let mut inside: Vec<i32> = Vec::new();
            for cgroup in self.trees.values().filter_map(|tree| tree.cgroup.as_ref()) {
                cgroup.kill();
                inside.extend(cgroup.processes());
            }
            // A zombie stays in the list of children until it is reaped, so reap before the list is read.
            self.reap();
            // Each of our descendants has an ancestor among our children, and the kernel's list of children is exact.
            if inside.is_empty() && scan::own_children().is_some_and(|children| children.is_empty()) {
                break;
            }
            let all = scan::all();
            let mut living = scan::with_descendants(&all, |process: &ProcessEntry| {
                process.parent == own || inside.contains(&process.pid)
            });
            scan::kill_groups(&all, &living);
            living.retain(|process| !process.dead);
            empty_looks = if living.is_empty() { empty_looks + 1 } else { 0 };
            for process in &living {
                // It fails when the process has ended, or belongs to another user.
                let _sent: bool = process.signal(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for cgroup in self.trees.values().filter_map(|tree| tree.cgroup.as_ref()) {
            cgroup.remove();
        }
        // A keeper that started no agent has not searched yet.
        self.end_abandoned();
    }
}

#[expect(clippy::disallowed_methods, reason = "the keeper is the edge: grace is counted here")]
fn now() -> Instant {
    Instant::now()
}

/// Moves the socket away from standard input, which becomes `/dev/null` like the other two.
fn take_standard_input() -> io::Result<OwnedFd> {
    // 3 or higher: the streams of agents become 0, 1 and 2, and `become_program` relies on the difference.
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(socket)
}

/// Closes descriptors that the host left open without close-on-exec. The keeper would hold them as long as the host lives, and
/// every agent would inherit them.
#[expect(unsafe_code, reason = "closes descriptors by number")]
fn close_inherited(socket: &OwnedFd) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let numbers: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2 && *number != socket.as_raw_fd()) {
        // SAFETY: this process has just become a keeper and owns no descriptor except those skipped; the descriptor of the
        // directory that was read is closed already.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Blocks all signals, and returns a descriptor that reports SIGCHLD.
#[expect(unsafe_code, reason = "no safe call makes a signalfd or blocks signals")]
fn signals() -> io::Result<OwnedFd> {
    // SAFETY: plain system calls; the sets are on this stack, and this function owns the returned descriptor.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        // A signalfd reports only signals that are blocked (signalfd(2)).
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        // If the host ignores SIGCHLD, the kernel drops the status of ended children.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(descriptor)) }
    }
}

fn drain(signals: &OwnedFd) {
    // Space for four signals. The kernel refuses a buffer below 128 bytes, the size of one `signalfd_siginfo`, with EINVAL.
    let mut buffer = [0; 512];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|read| read > 0) {}
}
