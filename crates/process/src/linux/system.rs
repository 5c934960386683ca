//! Linux: starts children by a keeper if there is one, and by this process itself otherwise.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::early;
use super::link::{KeeperLink, OWN_PROGRAM, PendingStart, StartError};
use super::wire::{SpawnBody, SpawnStage};
use crate::child::Child;
use crate::child_event::Guarantee;
use crate::command::{Command, Stdio};
use crate::error::{KeeperError, SpawnErrorKind};
use crate::keeper;
use crate::supervisor::{CgroupMode, KeeperSource, SupervisorOptions};
use crate::unix::group::{self, GroupStarter};
use crate::unix::streams::ChildStreams;
use crate::unix::{BUSY_PAUSE, BUSY_TRIES, error, marks, resolve, stdio};

/// The most starts at once. The kernel limits the descriptors that a user may have in flight on sockets.
const STARTS: usize = 32;

/// How often, and with what pause, a spawn checks whether the link has noticed that its keeper died.
const LOST_LOOKS: u32 = 500;
const LOST_PAUSE: Duration = Duration::from_millis(2);

/// Starts children on Linux.
#[derive(Debug, Clone)]
pub(crate) enum LinuxSystem {
    Keeper(Arc<KeeperStarter>),
    /// No keeper. The error is the reason, if one was wanted.
    Own(GroupStarter, Option<Arc<KeeperError>>),
}

/// A keeper, and the settings to start another one.
#[derive(Debug)]
pub(crate) struct KeeperStarter {
    program: PathBuf,
    cgroups: CgroupMode,
    /// The keeper in use; replaced by the next spawn when it is lost.
    link: Mutex<Arc<KeeperLink>>,
    starts: Semaphore,
}

impl LinuxSystem {
    pub(crate) fn start(options: SupervisorOptions) -> Result<Self, KeeperError> {
        let own = matches!(options.keeper, KeeperSource::Own);
        let program = match options.keeper {
            // A program without support for keepers would run its normal work if executed again.
            KeeperSource::Own if !keeper::can_be_asked() => return Self::without_keeper(None),
            KeeperSource::None => return Self::without_keeper(None),
            KeeperSource::Own => PathBuf::from(OWN_PROGRAM),
            KeeperSource::Program(program) => program,
        };
        let cgroups = options.cgroup;
        // A keeper that was started early is a copy of this program and uses cgroups. If it is gone, start another one.
        let early = if own && cgroups == CgroupMode::Auto { early::take() } else { None };
        let early = early.and_then(|early| KeeperLink::with(early.socket, early.keeper, &program).ok());
        let link = match early {
            Some(link) => Ok(link),
            None => match KeeperLink::start(&program, cgroups) {
                // A signal to the host's terminal may end a keeper before it has a session of its own. Try once more.
                Err(KeeperError::Mute { .. }) if own => KeeperLink::start(&program, cgroups),
                started => started,
            },
        };
        let link = match link {
            Ok(link) => Mutex::new(Arc::new(link)),
            // Agents run without a keeper too. The guarantee is then weaker, and `keeper_error` returns the reason.
            Err(error) if own => return Self::without_keeper(Some(error)),
            Err(error) => return Err(error),
        };
        Ok(Self::Keeper(Arc::new(KeeperStarter { program, cgroups, link, starts: Semaphore::new(STARTS) })))
    }

    fn without_keeper(reason: Option<KeeperError>) -> Result<Self, KeeperError> {
        GroupStarter::start().map(|starter| Self::Own(starter, reason.map(Arc::new)))
    }

    pub(crate) fn keeper_error(&self) -> Option<&KeeperError> {
        match self {
            Self::Keeper(_) => None,
            Self::Own(_, reason) => reason.as_deref(),
        }
    }

    pub(crate) fn guarantee(&self) -> Guarantee {
        match self {
            Self::Keeper(kept) => kept.current().guarantee(),
            Self::Own(..) => Guarantee::Group,
        }
    }

    pub(crate) fn keeper(&self) -> Option<u32> {
        match self {
            Self::Keeper(kept) => Some(kept.current().keeper()),
            Self::Own(..) => None,
        }
    }

    pub(crate) async fn spawn(&self, command: Command) -> Result<Child, SpawnErrorKind> {
        match self {
            Self::Keeper(kept) => kept.spawn(command).await,
            Self::Own(starter, _) => group::spawn(starter, command).await,
        }
    }
}

impl KeeperStarter {
    fn current(&self) -> MutexGuard<'_, Arc<KeeperLink>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn spawn(&self, command: Command) -> Result<Child, SpawnErrorKind> {
        let program = resolve::program(&command)?;
        let cwd = resolve::cwd(&command)?;
        let token = marks::token().map_err(SpawnErrorKind::other("drawing a random number"))?;
        let body = body(&command, &program, &cwd, &token)?;
        let streams = stdio::open(&command).map_err(SpawnErrorKind::other("making pipes or a terminal"))?;
        let terminal = matches!(command.stdio, Stdio::Terminal { .. });
        // The semaphore is never closed.
        // Before a keeper is chosen, and held until its reply: only a request in flight holds descriptors on the socket.
        let _permit = self.starts.acquire().await;
        let (mut tries, mut looks) = (0, 0);
        loop {
            let link = self.link().map_err(SpawnErrorKind::Keeper)?;
            let asked = link.spawn(terminal, token.as_bytes(), body.clone(), &streams.theirs);
            let mut starting = match asked {
                Ok(starting) => starting,
                // The keeper died before it got the request, so nothing is started twice. Wait until the link has noticed; then
                // start a new one.
                Err(KeeperError::Lost) if looks < LOST_LOOKS => {
                    looks += 1;
                    tokio::time::sleep(LOST_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(SpawnErrorKind::Keeper(error)),
            };
            match starting.answer().await {
                Ok(started) => {
                    let PendingStart { mut tree, reports, .. } = starting;
                    tree.guarantee = started.guarantee;
                    // Close our copies of the child's ends now, or the end of its output would never come.
                    drop(streams.theirs);
                    let streams = ChildStreams::new(streams.ours, command.stdin)
                        .map_err(SpawnErrorKind::other("giving the pipes to the runtime"))?;
                    return Ok(Child::new(started.pid, Arc::new(tree), reports, streams));
                }
                Err(StartError::System { stage: SpawnStage::Exec, errno: libc::ETXTBSY })
                    if tries < BUSY_TRIES =>
                {
                    tries += 1;
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(StartError::System { stage, errno }) => {
                    return Err(explain(stage, errno, &program, cwd));
                }
                Err(StartError::Keeper(error)) => return Err(SpawnErrorKind::Keeper(error)),
            }
        }
    }

    /// Returns the link to the keeper. Starts a new keeper if the old one was lost.
    fn link(&self) -> Result<Arc<KeeperLink>, KeeperError> {
        // The lock is held while a keeper starts, so that concurrent spawns start only one.
        let mut link = self.current();
        if link.is_lost() {
            *link = Arc::new(KeeperLink::start(&self.program, self.cgroups)?);
        }
        Ok(link.clone())
    }
}

fn explain(stage: SpawnStage, errno: i32, program: &Path, cwd: PathBuf) -> SpawnErrorKind {
    let source = io::Error::from_raw_os_error(errno);
    match stage {
        SpawnStage::Fork => SpawnErrorKind::Other { doing: "forking", source },
        SpawnStage::Prepare => SpawnErrorKind::Other { doing: "preparing the child", source },
        SpawnStage::Cwd => SpawnErrorKind::NoSuchCwd { cwd, source },
        SpawnStage::Exec => error::of_exec(program, errno),
    }
}

fn body(command: &Command, program: &Path, cwd: &Path, token: &str) -> Result<SpawnBody, SpawnErrorKind> {
    let whole = |what: &'static str, string: &OsStr| {
        let bytes = string.as_bytes();
        if bytes.contains(&0) { Err(SpawnErrorKind::Nul { what }) } else { Ok(bytes.to_vec()) }
    };
    let mut body = SpawnBody::new(
        &whole("the path of the program", program.as_os_str())?,
        &whole("the working directory", cwd.as_os_str())?,
    );
    body.arg(&whole("the name of the program", command.program.as_os_str())?);
    for arg in &command.args {
        body.arg(&whole("an argument", arg)?);
    }
    for (name, value) in marks::environment(command, token) {
        body.variable(&whole("the name of a variable", &name)?, &whole("the value of a variable", &value)?);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::process::CommandExt;

    use super::super::wire::{self, KeeperReply};
    use super::*;

    /// Returns a link whose keeper sends its hello and nothing else, like a stopped keeper, with the keeper's end and a process
    /// in its place.
    fn silent() -> (KeeperLink, OwnedFd, std::process::Child) {
        let (ours, theirs) = early::sockets().unwrap();
        wire::send_reply(&theirs, &KeeperReply::Hello { guarantee: Guarantee::Subreaper }).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a process in place of the keeper")]
        let process = std::process::Command::new("/bin/sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&process);
        (KeeperLink::with(ours, pid, Path::new("silent-keeper")).unwrap(), theirs, process)
    }

    #[test]
    fn a_keeper_without_space_does_not_block_the_caller() {
        let (link, theirs, mut process) = silent();
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while link.has_space() {}
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(30)).unwrap();
        process.kill().unwrap();
        drop(theirs);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_a_silent_keeper_ends() {
        let (link, theirs, mut process) = silent();
        let link = Mutex::new(Arc::new(link));
        let (program, starts) = (PathBuf::from("silent-keeper"), Semaphore::new(STARTS));
        let kept = KeeperStarter { program, cgroups: CgroupMode::Never, link, starts };
        for _ in 0..2 {
            let spawn = kept.spawn(Command::new("/bin/true", "test-session"));
            let spawned = tokio::time::timeout(Duration::from_secs(3600), spawn).await.expect("it ends");
            let Err(SpawnErrorKind::Keeper(error @ KeeperError::Silent { .. })) = spawned else {
                panic!("{spawned:?}")
            };
            assert!(error.to_string().contains("has not replied for 20 s"), "{error}");
        }
        process.kill().unwrap();
        drop(theirs);
    }
}
