//! Runs one query: starts the program with an empty home directory, empty input and a timeout, and ends its process tree after.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use bowline_process as process;
use bowline_protocol::Timestamp;
use bowline_providers::ansi;
use bowline_providers::ask::AccountQuery;
use bowline_providers::probe::{Answer, Page, Version};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Ask, Found, ProbeError, ProbeErrorKind};
use crate::agents::detect::Stamp;
use crate::sessions::scratch::{Scratch, scratch};
use crate::system::clock;
use crate::system::host;

/// The limit on the output kept of each stream.
const MOST: usize = 1024 * 1024;

/// How many queries run at once beyond the number of processors. Starting an agent takes CPU time, and more of them at once only
/// makes each look slow. Queries that wait for a network leave the CPU to the others.
const BEYOND: usize = 2;

static AT_ONCE: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new(processors + BEYOND)
});

/// How long to wait for the end of a process tree after the program has exited.
const SWEEP: Duration = Duration::from_secs(2);

/// How long a program that has answered everything may take to exit.
const LEAVE: Duration = Duration::from_millis(300);

/// The longest line of a conversation; some programs list their commands in half a megabyte.
const LONGEST: usize = 8 * 1024 * 1024;

/// How much to quote of an answer without a version.
const TOLD: usize = 200;

/// The variables that a program inherits: paths only, no keys, logins or settings.
const KEPT: &[&str] = &[
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "NVM_DIR",
    "NVM_BIN",
    "PNPM_HOME",
    "VOLTA_HOME",
    "BUN_INSTALL",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    "MISE_CONFIG_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
];

/// Variables for the shims of version managers, which look below the home directory; here that is another one.
const HOMES: &[(&str, &str)] = &[
    ("VOLTA_HOME", ".volta"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("MISE_CONFIG_DIR", ".config/mise"),
];

/// The queries to one program. They share a temporary home directory, so a program unpacks or prepares files only at its first
/// start.
pub(crate) struct Session<'a> {
    ask: &'a Ask,
    found: &'a Found,
    stamp: Option<Stamp>,
    home: Option<Scratch>,
    began: Timestamp,
    /// The time of the oldest answer.
    asked: Timestamp,
}

impl<'a> Session<'a> {
    pub(super) fn new(ask: &'a Ask, found: &'a Found) -> Self {
        let stamp = Stamp::of(found.native.as_deref().unwrap_or(&found.real));
        let began = clock::wall();
        Self { ask, found, stamp, home: None, began, asked: began }
    }

    /// Returns the program.
    pub(super) fn found(&self) -> &'a Found {
        self.found
    }

    /// Returns the timeout of one query.
    pub(super) fn deadline(&self) -> Duration {
        self.ask.deadline
    }

    /// Returns the time of the oldest answer.
    pub(super) fn asked_at(&self) -> Timestamp {
        self.asked
    }

    pub(crate) async fn version(&mut self) -> Result<Version, ProbeError> {
        let args = &self.found.manifest.detect.version_args;
        let answer = self.answer(args).await?;
        Version::find(&answer).ok_or_else(|| {
            let said = if answer.stdout.trim().is_empty() { &answer.stderr } else { &answer.stdout };
            self.error(args, ProbeErrorKind::NoVersion { said: told(said), code: answer.code })
        })
    }

    pub(crate) async fn pages(&mut self) -> Result<Vec<Page>, ProbeError> {
        let mut pages = Vec::new();
        for args in &self.found.manifest.probe.pages {
            pages.push(Page::read(args, &self.answer(args).await?));
        }
        Ok(pages)
    }

    /// Returns the program's answer, from the cache if possible.
    pub(super) async fn answer(&mut self, args: &[String]) -> Result<Answer, ProbeError> {
        let cache = self.ask.cache.as_ref().zip(self.stamp.as_ref());
        if let Some((answer, at)) = cache.and_then(|(cache, stamp)| cache.get(stamp, args, self.began)) {
            self.asked = self.asked.min(at);
            return Ok(answer);
        }
        let command = self.command(args)?;
        let _turn = turn().await;
        let answer = run(command, self.ask.deadline, None).await.map_err(|kind| self.error(args, kind))?;
        // Do not cache a failure: the next query may succeed.
        let cache = self.ask.cache.as_ref().zip(self.stamp.as_ref()).filter(|_| answer.code == Some(0));
        if let Some((cache, stamp)) = cache
            && let Err(error) = cache.put(stamp, args, &answer, self.began)
        {
            // Without the cache, the next query runs the program again.
            let path = cache.path().display();
            tracing::warn!(%path, error = &error as &dyn std::error::Error, "an answer could not be kept");
        }
        Ok(answer)
    }

    pub(super) fn error(&self, args: &[String], kind: ProbeErrorKind) -> ProbeError {
        ProbeError { program: self.found.program().to_owned(), args: args.to_vec(), kind }
    }

    /// Returns the command of a query in an empty home directory.
    pub(super) fn command(&mut self, args: &[String]) -> Result<process::Command, ProbeError> {
        let home = self.home(args)?;
        let mut command = process::Command::new(self.found.program(), "bowline-probe");
        command.args = args.iter().map(OsString::from).collect();
        let own = &self.ask.surroundings;
        let variable = |name: &str| Some((OsString::from(name), own.get(name)?.to_owned()));
        command.env = KEPT.iter().filter_map(|name| variable(name)).collect();
        for (name, place) in HOMES {
            let place = own.home().map(|home| home.join(place)).filter(|place| place.is_dir());
            if let Some(place) = place.filter(|_| own.get(name).is_none()) {
                command.env.push((name.into(), place.into()));
            }
        }
        let path = self.found.search_path(own.get("PATH").unwrap_or_default());
        command.env.push(("PATH".into(), path));
        command.env.push(("HOME".into(), home.clone().into()));
        for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1"), ("CI", "true")] {
            command.env.push((name.into(), value.into()));
        }
        let set = self.found.manifest.probe.env.iter();
        command.env.extend(set.map(|(name, value)| (name.into(), value.into())));
        command.cwd = Some(home);
        Ok(command)
    }

    /// Returns an empty directory that exists as long as the session.
    pub(super) fn home(&mut self, args: &[String]) -> Result<PathBuf, ProbeError> {
        if let Some(home) = &self.home {
            return Ok(home.path().to_owned());
        }
        let home = scratch("bowline-probe")
            .map_err(|(path, source)| self.error(args, ProbeErrorKind::Home { path, source }))?;
        let path = home.path().to_owned();
        self.home = Some(home);
        Ok(path)
    }
}

/// Waits until another query may run. Its timeout begins then.
pub(super) async fn turn() -> SemaphorePermit<'static> {
    AT_ONCE.acquire().await.expect("it is never closed")
}

/// Returns the output of a program as one short line, harmless for terminals.
fn told(said: &str) -> String {
    let said: String = ansi::harmless(said.trim()).chars().take(TOLD).collect();
    said.replace(['\n', '\r'], " ")
}

/// Runs a command until it exits or has answered everything, ends the processes that it left, and returns its output.
pub(crate) async fn run(
    mut command: process::Command,
    deadline: Duration,
    talk: Option<(&mut AccountQuery, Vec<u8>)>,
) -> Result<Answer, ProbeErrorKind> {
    let supervisor = host::supervisor().map_err(ProbeErrorKind::Keeper)?;
    let talk = talk.filter(|(_, first)| !first.is_empty());
    if talk.is_some() {
        command.stdin = process::Stdin::Owned;
    }
    let mut child = supervisor.spawn(command).await.map_err(|error| ProbeErrorKind::Spawn(error.kind))?;
    let mut heard = Heard::default();
    let is_talk = talk.is_some();
    let in_time = match talk {
        Some((talk, first)) => {
            child.control().write(first);
            tokio::time::timeout(deadline, heard.converse(&mut child, talk)).await
        }
        None => tokio::time::timeout(deadline, heard.until(&mut child, |heard| heard.exit.is_some())).await,
    };
    if is_talk && in_time.is_ok() {
        // Give it time to exit by itself, then kill it.
        child.control().close_stdin();
        let gone = heard.until(&mut child, |heard| heard.exit.is_some());
        let _: Result<(), _> = tokio::time::timeout(LEAVE, gone).await;
    }
    // Its processes are killed with it. The rest of the pipes can still be read.
    child.control().sweep(Duration::ZERO);
    let over = |heard: &Heard| heard.swept && heard.open == 0;
    if tokio::time::timeout(SWEEP, heard.until(&mut child, over)).await.is_err() {
        tracing::warn!(pid = child.pid(), "processes of a probe may still be alive");
    }
    if in_time.is_err() {
        return Err(ProbeErrorKind::TooSlow { after: deadline });
    }
    if heard.lost {
        return Err(ProbeErrorKind::Keeper(process::KeeperError::Lost));
    }
    // We may have ended a program that had answered everything.
    if let Some(process::ExitStatus::Signal(signal)) = heard.exit.filter(|_| !is_talk || heard.cut_short) {
        return Err(ProbeErrorKind::Killed { signal });
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if heard.cut_short {
        let said = text(&heard.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(ProbeErrorKind::Ended { said: told(last) });
    }
    let code = match heard.exit {
        Some(process::ExitStatus::Code(code)) => Some(code),
        Some(process::ExitStatus::Signal(_) | process::ExitStatus::Unknown) | None => None,
    };
    Ok(Answer { stdout: text(&heard.stdout), stderr: text(&heard.stderr), code })
}

/// The output of a program so far.
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    open: usize,
    exit: Option<process::ExitStatus>,
    swept: bool,
    lost: bool,
    /// It exited before it had answered everything.
    cut_short: bool,
}

impl Default for Heard {
    fn default() -> Self {
        Self {
            stdout: Vec::new(),
            stderr: Vec::new(),
            open: 2,
            exit: None,
            swept: false,
            lost: false,
            cut_short: false,
        }
    }
}

impl Heard {
    async fn until(&mut self, child: &mut process::Child, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            if let Some(bytes) = self.next(child).await {
                keep(&mut self.stdout, &bytes);
            }
        }
    }

    /// Exchanges messages until everything is answered, or the program closes its output.
    async fn converse(&mut self, child: &mut process::Child, talk: &mut AccountQuery) {
        let control = child.control();
        let mut line = Vec::new();
        while !talk.is_over() {
            // Not at the exit alone: the last answers may still be in the pipe.
            if self.lost || (self.exit.is_some() && self.open == 0) {
                self.cut_short = true;
                return;
            }
            let Some(bytes) = self.next(child).await else { continue };
            for byte in bytes {
                if byte != b'\n' {
                    // A longer line cannot be an answer.
                    if line.len() < LONGEST {
                        line.push(byte);
                    }
                    continue;
                }
                let reply = talk.line(&String::from_utf8_lossy(&line));
                line.clear();
                if !reply.is_empty() {
                    control.write(reply);
                }
            }
        }
    }

    /// Waits for the next event; returns bytes of standard output.
    async fn next(&mut self, child: &mut process::Child) -> Option<Vec<u8>> {
        match child.next().await {
            process::ChildEvent::Stdout { bytes, .. } => return Some(bytes),
            process::ChildEvent::Stderr { bytes, .. } => keep(&mut self.stderr, &bytes),
            process::ChildEvent::StdoutClosed | process::ChildEvent::StderrClosed => self.open -= 1,
            process::ChildEvent::Exited(exit) => self.exit = Some(exit),
            process::ChildEvent::Swept { .. } => self.swept = true,
            process::ChildEvent::KeeperLost => self.lost = true,
            process::ChildEvent::StdinWritten(_) | process::ChildEvent::StdinClosed { .. } => {}
        }
        None
    }
}

fn keep(stream: &mut Vec<u8>, bytes: &[u8]) {
    let room = MOST.saturating_sub(stream.len());
    stream.extend(&bytes[..bytes.len().min(room)]);
}
