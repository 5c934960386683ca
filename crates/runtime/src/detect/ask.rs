//! One program, asked: started with an empty home directory, nothing to read, a deadline, and its tree ended after.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use bowline_process as process;
use bowline_protocol::Timestamp;
use bowline_providers::ansi;
use bowline_providers::probe::{Answer, Version};

use super::{Ask, Found, ProbeError, ProbeErrorKind};
use crate::detect::cache::Stamp;
use crate::host::{self, Cleanup};
use crate::journal::{new_session_id, temporary};
use crate::{clock, detect};

/// The most that is kept of each stream.
const MOST: usize = 1024 * 1024;

/// How long the end of a tree is waited for, when the program is gone.
const SWEEP: Duration = Duration::from_secs(2);

/// How much of an answer without a version is told.
const TOLD: usize = 200;

/// What a program gets of our environment: where things lie. No keys, no logins, no settings.
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

/// Where the shims of version managers look below the home directory, which is another one here.
const HOMES: &[(&str, &str)] = &[
    ("VOLTA_HOME", ".volta"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("MISE_CONFIG_DIR", ".config/mise"),
];

/// The questions to one program. They share a home directory, which goes with this.
pub(super) struct Session<'a> {
    ask: &'a Ask,
    found: &'a Found,
    stamp: Option<Stamp>,
    home: Option<(PathBuf, Cleanup)>,
    began: Timestamp,
    /// When the oldest of the answers was given.
    asked: Timestamp,
}

impl<'a> Session<'a> {
    pub(super) fn new(ask: &'a Ask, found: &'a Found) -> Self {
        let stamp = Stamp::of(found.native.as_deref().unwrap_or(&found.real));
        let began = clock::wall();
        Self { ask, found, stamp, home: None, began, asked: began }
    }

    /// Returns when the oldest of the answers was given.
    pub(super) fn asked_at(&self) -> Timestamp {
        self.asked
    }

    pub(super) async fn version(&mut self) -> Result<Version, ProbeError> {
        let args = &self.found.manifest.detect.version_args;
        let answer = self.answer(args).await?;
        Version::find(&answer).ok_or_else(|| {
            let said = if answer.stdout.trim().is_empty() { &answer.stderr } else { &answer.stdout };
            let said: String = ansi::harmless(said.trim()).chars().take(TOLD).collect();
            let said = said.replace(['\n', '\r'], " ");
            self.error(args, ProbeErrorKind::NoVersion { said })
        })
    }

    /// Returns the program's answer: the one that is kept, else one that is asked for now.
    pub(super) async fn answer(&mut self, args: &[String]) -> Result<Answer, ProbeError> {
        let cache = self.ask.cache.as_ref().zip(self.stamp.as_ref());
        if let Some((answer, at)) = cache.and_then(|(cache, stamp)| cache.get(stamp, args, self.began)) {
            self.asked = self.asked.min(at);
            return Ok(answer);
        }
        let command = self.command(args)?;
        let answer = run(command, self.ask.deadline).await.map_err(|kind| self.error(args, kind))?;
        // What failed may succeed the next time.
        let cache = self.ask.cache.as_ref().zip(self.stamp.as_ref()).filter(|_| answer.code == Some(0));
        if let Some((cache, stamp)) = cache
            && let Err(error) = cache.put(stamp, args, &answer, self.began)
        {
            // Then it is asked again; that is all that is lost.
            let path = cache.path().display();
            tracing::warn!(%path, error = &error as &dyn std::error::Error, "an answer could not be kept");
        }
        Ok(answer)
    }

    fn error(&self, args: &[String], kind: ProbeErrorKind) -> ProbeError {
        ProbeError { program: self.found.program().to_owned(), args: args.to_vec(), kind }
    }

    fn command(&mut self, args: &[String]) -> Result<process::Command, ProbeError> {
        let home = match &self.home {
            Some((home, _)) => home.clone(),
            None => self.make_home(args)?,
        };
        let mut command = process::Command::new(self.found.program(), "bowline-probe");
        command.args = args.iter().map(OsString::from).collect();
        let variable = |name: &str| detect::variable(name).map(|value| (OsString::from(name), value));
        command.env = KEPT.iter().filter_map(|name| variable(name)).collect();
        let own = detect::home();
        for (name, place) in HOMES {
            let place = own.as_ref().map(|home| home.join(place)).filter(|place| place.is_dir());
            if let Some(place) = place.filter(|_| detect::variable(name).is_none()) {
                command.env.push((name.into(), place.into()));
            }
        }
        let path = self.found.search_path(&detect::variable("PATH").unwrap_or_default());
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

    fn make_home(&mut self, args: &[String]) -> Result<PathBuf, ProbeError> {
        let name = new_session_id(clock::wall(), host::random());
        let home = std::env::temp_dir().join(format!("bowline-probe-{name}"));
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| temporary::sweep(&std::env::temp_dir(), clock::system()));
        let mut cleanup = Cleanup::default();
        cleanup
            .make(&home)
            .map_err(|source| self.error(args, ProbeErrorKind::Home { path: home.clone(), source }))?;
        self.home = Some((home.clone(), cleanup));
        Ok(home)
    }
}

/// Runs a command to its end, ends what it left behind, and returns what it printed.
pub(crate) async fn run(command: process::Command, deadline: Duration) -> Result<Answer, ProbeErrorKind> {
    let supervisor = host::supervisor().map_err(ProbeErrorKind::Keeper)?;
    let mut child = supervisor.spawn(command).await.map_err(|error| ProbeErrorKind::Spawn(error.kind))?;
    let mut heard = Heard::default();
    let in_time = tokio::time::timeout(deadline, heard.until(&mut child, |heard| heard.exit.is_some())).await;
    // Whatever it started goes with it; what is in the pipes by then can still be read.
    child.control().sweep(Duration::ZERO);
    let over = |heard: &Heard| heard.swept && heard.open == 0;
    if tokio::time::timeout(SWEEP, heard.until(&mut child, over)).await.is_err() {
        tracing::warn!(pid = child.pid(), "what a question had started is not known to be gone");
    }
    if in_time.is_err() {
        return Err(ProbeErrorKind::TooSlow { after: deadline });
    }
    if heard.lost {
        return Err(ProbeErrorKind::Keeper(process::KeeperError::Lost));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = match heard.exit {
        Some(process::Exit::Code(code)) => Some(code),
        Some(process::Exit::Signal(_) | process::Exit::Unknown) | None => None,
    };
    Ok(Answer { stdout: text(&heard.stdout), stderr: text(&heard.stderr), code })
}

/// What was heard of a program.
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    open: usize,
    exit: Option<process::Exit>,
    swept: bool,
    lost: bool,
}

impl Default for Heard {
    fn default() -> Self {
        Self { stdout: Vec::new(), stderr: Vec::new(), open: 2, exit: None, swept: false, lost: false }
    }
}

impl Heard {
    async fn until(&mut self, child: &mut process::Child, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            match child.next().await {
                process::Happening::Stdout { bytes, .. } => keep(&mut self.stdout, &bytes),
                process::Happening::Stderr { bytes, .. } => keep(&mut self.stderr, &bytes),
                process::Happening::StdoutClosed | process::Happening::StderrClosed => self.open -= 1,
                process::Happening::Exited(exit) => self.exit = Some(exit),
                process::Happening::Swept { .. } => self.swept = true,
                process::Happening::KeeperLost => self.lost = true,
                process::Happening::StdinWritten(_) | process::Happening::StdinClosed { .. } => {}
            }
        }
    }
}

fn keep(stream: &mut Vec<u8>, bytes: &[u8]) {
    let room = MOST.saturating_sub(stream.len());
    stream.extend(&bytes[..bytes.len().min(room)]);
}
