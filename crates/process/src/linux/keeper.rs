//! The keeper's side: one loop, one thread, no runtime. It starts children, reaps, ends trees, and outlives its host
//! only for as long as that takes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::cgroup::{self, Cgroup};
use super::fork::{Failed, Forker, Image};
use super::scan::{self, Process, View};
use super::tree::{Forest, Tree};
use super::wire::{self, Body, Reply, Request, Stage};
use crate::happening::{Guarantee, Scope};

/// How long the last sweep tries, when the host is gone and nobody can be told of survivors.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// Which cgroups a keeper was told to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cgroups {
    Auto,
    Never,
}

/// Is the keeper, until the host is gone.
pub(crate) fn run(cgroups: Cgroups) -> ExitCode {
    // There is nobody to tell about an error: standard error is closed, and the host sees the silence.
    match Keeper::new(cgroups).and_then(Keeper::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

struct Keeper {
    socket: OwnedFd,
    /// Readable when the host has ended: a copy of its socket, leaked into another program, cannot hide that.
    host: Option<OwnedFd>,
    signals: OwnedFd,
    forker: Forker,
    cgroups: Option<cgroup::Parent>,
    looked_for_abandoned: bool,
    trees: BTreeMap<u64, Tree>,
    /// Not before this are trees looked at again. A look costs as much as there are processes; resting as long as it
    /// took leaves half of the time for requests, and lets one look serve many trees.
    rest_until: Instant,
}

impl Keeper {
    fn new(cgroups: Cgroups) -> io::Result<Self> {
        // A session of its own: Ctrl-C on the host's terminal is for the host alone.
        rustix::process::setsid()?;
        // Whoever stopped us must not keep us from seeing that the host is gone.
        rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        rustix::thread::set_name(c"bowline-keeper")?;
        rustix::process::chdir("/")?;
        let socket = take_standard_input()?;
        close_inherited(&socket)?;
        let host = rustix::process::getppid()
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        let signals = signals()?;
        let forker = Forker::new()?;
        let cgroups = match cgroups {
            Cgroups::Auto => cgroup::Parent::find(),
            Cgroups::Never => None,
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
        self.tell(&Reply::Hello { guarantee });
        loop {
            let next = self.trees.values().filter_map(Tree::next_look).min();
            let next = next.map(|next| next.max(self.rest_until));
            let (asked, gone, ended) = self.wait(next)?;
            if ended {
                self.reap();
            }
            if asked {
                match wire::asked(&self.socket) {
                    Ok(Some((request, descriptors))) => self.obey(request, &descriptors),
                    // A broken message is the end as well: who cannot be understood cannot be served.
                    Ok(None) | Err(_) => break,
                }
            } else if gone {
                break;
            }
            self.step();
        }
        self.last_rites();
        Ok(())
    }

    /// Waits; says whether the host asked, whether it is gone, and whether a child ended.
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
        let is_ready = |index: usize| polled.get(index).is_some_and(|polled| !polled.revents().is_empty());
        Ok((is_ready(0), is_ready(2), is_ready(1)))
    }

    /// Tells the host. If that fails it is gone, which the next wait shows.
    fn tell(&self, reply: &Reply) {
        let _: io::Result<()> = wire::reply(&self.socket, reply);
    }

    fn obey(&mut self, request: Request, descriptors: &[OwnedFd]) {
        match request {
            Request::Spawn { id, terminal, token, body } => {
                let reply = match self.spawn(terminal, token, &body, descriptors) {
                    Ok(tree) => {
                        let cgroup = tree.cgroup.as_ref().map(|cgroup| cgroup.path_bytes().to_vec());
                        let started =
                            Reply::Started { id, pid: tree.leader, cgroup: cgroup.unwrap_or_default() };
                        self.trees.insert(id, tree);
                        started
                    }
                    Err(Failed { stage, errno }) => Reply::Refused { id, stage, errno },
                };
                self.tell(&reply);
                // While the first agent begins, so that it has not waited for this.
                self.end_abandoned();
            }
            Request::Signal { id, signal, scope } => {
                let forest = self.forest();
                let Some(tree) = self.trees.get(&id) else { return };
                let Some(signal) = Signal::from_named_raw(signal) else { return };
                match scope {
                    Scope::Tree => tree.signal(signal, &forest),
                    Scope::Leader if tree.exited => {}
                    Scope::Leader => {
                        // Not reaped, so the number is still its own.
                        let leader = Pid::from_raw(tree.leader);
                        let _: Option<Result<_, _>> =
                            leader.map(|leader| rustix::process::kill_process(leader, signal));
                    }
                }
            }
            Request::End { id, grace_ms, answer } => match self.trees.get_mut(&id) {
                Some(tree) => tree.end(now(), Duration::from_millis(grace_ms), answer, false),
                None if answer => self.tell(&Reply::Swept { id, ended: Vec::new(), survivors: Vec::new() }),
                None => {}
            },
            Request::Forget { id } => {
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
        body: &Body,
        descriptors: &[OwnedFd],
    ) -> Result<Tree, Failed> {
        let broken = || Failed { stage: Stage::Prepare, errno: rustix::io::Errno::INVAL.raw_os_error() };
        let (program, cwd, args, env) = body.strings().ok_or_else(broken)?;
        let [stdin, stdout, stderr] = descriptors else { return Err(broken()) };
        let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let mut cgroup = self.cgroups.as_mut().and_then(|parent| parent.create().ok());
        let mut image = Image {
            program,
            cwd,
            args: &args,
            env: &env,
            streams,
            terminal,
            cgroup: cgroup.as_ref().and_then(Cgroup::directory),
        };
        let mut started = self.forker.start(&image);
        if image.cgroup.is_some() && matches!(started, Err(Failed { stage: Stage::Fork, .. })) {
            // A limit of the cgroup, or another process removed it. The subreaper still holds, and the child's guarantee says so.
            image.cgroup = None;
            started = self.forker.start(&image);
        }
        let is_used = image.cgroup.is_some() && started.is_ok();
        if !is_used && let Some(cgroup) = cgroup.take() {
            cgroup.remove();
        }
        started.map(|leader| Tree { leader, exited: false, token, cgroup, ending: None })
    }

    /// Ends what keepers left that were killed together with their hosts, once.
    fn end_abandoned(&mut self) {
        if !std::mem::replace(&mut self.looked_for_abandoned, true)
            && let Some(parent) = &self.cgroups
        {
            parent.end_abandoned();
        }
    }

    /// Reaps all that have ended: leaders, whose end is told, and orphans.
    fn reap(&mut self) {
        drain(&self.signals);
        let now = now();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            let leader = self.trees.iter_mut().find(|(_, tree)| tree.leader == pid && !tree.exited);
            if let Some((id, tree)) = leader {
                tree.exited = true;
                let id = *id;
                let (signal, number) = match status.terminating_signal() {
                    Some(signal) => (true, signal),
                    None => (false, status.exit_status().unwrap_or_default()),
                };
                self.tell(&Reply::Exited { id, signal, number });
            }
        }
        self.trees.values_mut().for_each(|tree| tree.hurry(now));
    }

    fn step(&mut self) {
        let now = now();
        if now < self.rest_until {
            return;
        }
        let due = |tree: &Tree| tree.next_look().is_some_and(|next| next <= now);
        let due: Vec<u64> = self.trees.iter().filter(|(_, tree)| due(tree)).map(|(id, _)| *id).collect();
        // Seen after everybody who ended was reaped; the trees share it.
        let (view, forest) = (View::default(), self.forest());
        for id in due {
            let Some(tree) = self.trees.get_mut(&id) else { continue };
            let Some(ended) = tree.step(now, &view, &forest) else { continue };
            let Some(ending) = tree.ending.take() else { continue };
            if ending.answer {
                self.tell(&Reply::Swept { id, ended: ended.ended, survivors: ended.survivors });
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

    fn forest(&self) -> Forest {
        let living = self.trees.values().filter(|tree| !tree.exited);
        Forest {
            leaders: living.map(|tree| tree.leader).collect(),
            tokens: self.trees.values().map(|tree| tree.token.clone()).collect(),
        }
    }

    /// The host is gone: ends every process that descends from us, whoever it belongs to.
    fn last_rites(&mut self) {
        let until = now() + LAST_PATIENCE;
        let own = std::process::id().cast_signed();
        let mut empty_looks = 0;
        while empty_looks < 2 && now() < until {
            let mut inside: Vec<i32> = Vec::new();
            for cgroup in self.trees.values().filter_map(|tree| tree.cgroup.as_ref()) {
                cgroup.kill();
                inside.extend(cgroup.processes());
            }
            self.reap();
            // What descends from us has an ancestor among our children, and that list is exact.
            if inside.is_empty() && scan::own_children().is_some_and(|children| children.is_empty()) {
                break;
            }
            let all = scan::all();
            let mut living = scan::with_descendants(&all, |process: &Process| {
                process.parent == own || inside.contains(&process.pid)
            });
            scan::kill_groups(&all, &living);
            living.retain(|process| !process.dead);
            empty_looks = if living.is_empty() { empty_looks + 1 } else { 0 };
            for process in &living {
                let _sent: bool = process.signal(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for cgroup in self.trees.values().filter_map(|tree| tree.cgroup.as_ref()) {
            cgroup.remove();
        }
        self.end_abandoned();
    }
}

#[expect(clippy::disallowed_methods, reason = "the keeper is the edge: grace is counted here")]
fn now() -> Instant {
    Instant::now()
}

/// Moves the socket away from standard input, which becomes `/dev/null` like the other two.
fn take_standard_input() -> io::Result<OwnedFd> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(socket)
}

/// Closes what the host left open for its children by mistake: it would be held for as long as the host lives, and every
/// agent would get it.
#[expect(unsafe_code, reason = "closes descriptors by number")]
fn close_inherited(socket: &OwnedFd) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let numbers: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2 && *number != socket.as_raw_fd()) {
        // SAFETY: this process has just begun to be a keeper and owns no descriptor but those excepted; the one of the
        // directory that was read is closed already.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Blocks all signals, and gives those about ended children as a descriptor.
#[expect(unsafe_code, reason = "no safe call makes a signalfd or blocks signals")]
fn signals() -> io::Result<OwnedFd> {
    // SAFETY: plain system calls; the sets live on this stack, and the descriptor that comes back is ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        // If the host ignores it, ended children would vanish without a status.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(descriptor)) }
    }
}

fn drain(signals: &OwnedFd) {
    let mut buffer = [0; 512];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|read| read > 0) {}
}
