//! Linux puts it together: a keeper where there can be one, and this process itself otherwise.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::early;
use super::keeper::Cgroups;
use super::link::{Link, OWN_PROGRAM, Refused, Starting};
use super::wire::{Body, Stage};
use crate::child::Child;
use crate::command::{Command, Stdio};
use crate::error::{KeeperError, SpawnErrorKind};
use crate::happening::Guarantee;
use crate::keeper;
use crate::supervisor::{Cgroup, Keeper, Options};
use crate::unix::group::{self, Starter};
use crate::unix::streams::Streams;
use crate::unix::{BUSY_PAUSE, BUSY_TRIES, error, marks, resolve, stdio};

/// How many starts are under way at once. A user may have only so many descriptors in flight on sockets.
const STARTS: usize = 32;

/// How often, and with what pause, it is looked whether a keeper that just died was noticed.
const BURIALS: u32 = 500;
const BURIAL_PAUSE: Duration = Duration::from_millis(2);

/// Whoever starts children here.
#[derive(Debug, Clone)]
pub(crate) enum System {
    Keeper(Arc<Kept>),
    /// Without a keeper; with the reason if there should have been one.
    Own(Starter, Option<Arc<KeeperError>>),
}

/// A keeper, and what is needed to start another one.
#[derive(Debug)]
pub(crate) struct Kept {
    program: PathBuf,
    cgroups: Cgroups,
    /// The keeper in use; replaced by the next spawn when it is lost.
    link: Mutex<Arc<Link>>,
    starts: Semaphore,
}

impl System {
    pub(crate) fn start(options: Options) -> Result<Self, KeeperError> {
        let own = matches!(options.keeper, Keeper::Own);
        let program = match options.keeper {
            // A program that does not know of keepers would, executed again, do whatever it does.
            Keeper::Own if !keeper::can_be_asked() => return Self::without_keeper(None),
            Keeper::None => return Self::without_keeper(None),
            Keeper::Own => PathBuf::from(OWN_PROGRAM),
            Keeper::Program(program) => program,
        };
        let cgroups = match options.cgroup {
            Cgroup::Auto => Cgroups::Auto,
            Cgroup::Never => Cgroups::Never,
        };
        // One that was started early is a copy of this program, and uses cgroups. If it is gone, another one will do.
        let early = if own && cgroups == Cgroups::Auto { early::take() } else { None };
        let early = early.and_then(|early| Link::with(early.socket, early.keeper, &program).ok());
        let link = match early {
            Some(link) => Ok(link),
            None => match Link::start(&program, cgroups) {
                // A signal for the host's terminal may end it before it has a session of its own.
                Err(KeeperError::Mute { .. }) if own => Link::start(&program, cgroups),
                started => started,
            },
        };
        let link = match link {
            Ok(link) => Mutex::new(Arc::new(link)),
            // Agents run without a keeper too; the guarantee says that it is weaker, and why.
            Err(error) if own => return Self::without_keeper(Some(error)),
            Err(error) => return Err(error),
        };
        Ok(Self::Keeper(Arc::new(Kept { program, cgroups, link, starts: Semaphore::new(STARTS) })))
    }

    fn without_keeper(reason: Option<KeeperError>) -> Result<Self, KeeperError> {
        Starter::start().map(|starter| Self::Own(starter, reason.map(Arc::new)))
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

impl Kept {
    fn current(&self) -> MutexGuard<'_, Arc<Link>> {
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
        let _permit = self.starts.acquire().await;
        let (mut tries, mut burials) = (0, 0);
        loop {
            let link = self.link().map_err(SpawnErrorKind::Keeper)?;
            let asked = link.spawn(terminal, token.as_bytes(), body.clone(), &streams.theirs);
            let mut starting = match asked {
                Ok(starting) => starting,
                // It died and was not asked, so nothing was started twice; the next one comes when this one is buried.
                Err(KeeperError::Lost) if burials < BURIALS => {
                    burials += 1;
                    tokio::time::sleep(BURIAL_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(SpawnErrorKind::Keeper(error)),
            };
            match starting.answer().await {
                Ok(started) => {
                    let Starting { mut leash, reports, .. } = starting;
                    leash.guarantee = started.guarantee;
                    // Our copies of the child's ends go now: else its end of output would never come.
                    drop(streams.theirs);
                    let streams = Streams::new(streams.ours, command.stdin)
                        .map_err(SpawnErrorKind::other("giving the pipes to the runtime"))?;
                    return Ok(Child::new(started.pid, Arc::new(leash), reports, streams));
                }
                Err(Refused::System { stage: Stage::Exec, errno: libc::ETXTBSY }) if tries < BUSY_TRIES => {
                    tries += 1;
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(Refused::System { stage, errno }) => {
                    return Err(explain(stage, errno, &program, cwd));
                }
                Err(Refused::Keeper(error)) => return Err(SpawnErrorKind::Keeper(error)),
            }
        }
    }

    /// Returns the keeper, a new one if it was lost.
    fn link(&self) -> Result<Arc<Link>, KeeperError> {
        let mut link = self.current();
        if link.is_lost() {
            *link = Arc::new(Link::start(&self.program, self.cgroups)?);
        }
        Ok(link.clone())
    }
}

fn explain(stage: Stage, errno: i32, program: &Path, cwd: PathBuf) -> SpawnErrorKind {
    let source = io::Error::from_raw_os_error(errno);
    match stage {
        Stage::Fork => SpawnErrorKind::Other { doing: "forking", source },
        Stage::Prepare => SpawnErrorKind::Other { doing: "preparing the child", source },
        Stage::Cwd => SpawnErrorKind::NoSuchCwd { cwd, source },
        Stage::Exec => error::of_exec(program, errno),
    }
}

fn body(command: &Command, program: &Path, cwd: &Path, token: &str) -> Result<Body, SpawnErrorKind> {
    let whole = |what: &'static str, string: &OsStr| {
        let bytes = string.as_bytes();
        if bytes.contains(&0) { Err(SpawnErrorKind::Nul { what }) } else { Ok(bytes.to_vec()) }
    };
    let mut body = Body::new(
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

    use super::super::wire::{self, Reply};
    use super::*;

    /// A keeper that says hello, and nothing else ever, as if it were stopped for good; with the process that it is said to be.
    fn silent() -> (Link, OwnedFd, std::process::Child) {
        let (ours, theirs) = early::sockets().unwrap();
        wire::reply(&theirs, &Reply::Hello { guarantee: Guarantee::Subreaper }).unwrap();
        #[expect(clippy::disallowed_methods, reason = "somebody has to be the keeper's process")]
        let process = std::process::Command::new("/bin/sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&process);
        (Link::with(ours, pid, Path::new("nobody")).unwrap(), theirs, process)
    }

    #[test]
    fn a_keeper_that_has_no_room_does_not_hold_up_who_asks() {
        let (link, theirs, mut process) = silent();
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while link.asks_nothing() {}
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(30)).unwrap();
        process.kill().unwrap();
        drop(theirs);
    }

    #[tokio::test(start_paused = true)]
    async fn a_keeper_that_never_answers_is_not_waited_for_for_ever() {
        let (link, theirs, mut process) = silent();
        let link = Mutex::new(Arc::new(link));
        let (program, starts) = (PathBuf::from("nobody"), Semaphore::new(STARTS));
        let kept = Kept { program, cgroups: Cgroups::Never, link, starts };
        for _ in 0..2 {
            let spawn = kept.spawn(Command::new("/bin/true", "test-session"));
            let spawned = tokio::time::timeout(Duration::from_secs(3600), spawn).await.expect("it ends");
            let Err(SpawnErrorKind::Keeper(error @ KeeperError::Silent { .. })) = spawned else {
                panic!("{spawned:?}")
            };
            assert!(error.to_string().contains("has not answered for 20 s"), "{error}");
        }
        process.kill().unwrap();
        drop(theirs);
    }
}
