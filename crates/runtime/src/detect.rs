//! Which agents are on this machine, which version each is, and which options it really has.
//!
//! [`find`] looks for a program: where the caller says, on `PATH`, in the places that its own installer and the managers
//! of packages and versions use. It starts nothing. [`find_anywhere`] also asks the login shell for its `PATH`: a program
//! that was started from a desktop, or by a service, has another one. [`version`] and [`probe`] ask the program itself, through the one spawner, with a
//! home directory of its own: nobody's settings are read or written because we asked for help. Answers are kept
//! ([`Cache`]) as long as the file is the same. What an answer means is `bowline_providers::probe`'s business.
//!
//! Whether somebody is logged in to it is [`crate::auth`]'s business.

mod account;
mod ask;
mod cache;
mod places;
mod shell;
mod surroundings;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_process::{KeeperError, SpawnErrorKind};
use bowline_protocol::Timestamp;
use bowline_providers::ask::NotTold;
use bowline_providers::manifest::{Chosen, Manifest};
use bowline_providers::probe::{Page, Version};
use bowline_providers::{catalogue, compat, failure};

use crate::{auth, clock, roster};
pub(crate) use account::Breadth;
pub(crate) use ask::{Session, run as asked};

pub use cache::Cache;
pub(crate) use places::install_hint;
pub use surroundings::{Search, Surroundings};

/// A program that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Whose it is.
    pub manifest: &'static Manifest,
    /// Where it was found.
    pub path: PathBuf,
    /// The same file without symbolic links.
    pub real: PathBuf,
    /// How it was found.
    pub how: How,
    /// The program behind it, where it is a launcher and the manifest says that the program is better started by itself.
    pub native: Option<PathBuf>,
    /// Directories behind those of `PATH` in which what it starts may lie.
    beyond: OsString,
}

impl Found {
    /// Returns the program to start.
    pub fn program(&self) -> &Path {
        self.native.as_deref().unwrap_or(&self.path)
    }

    /// Returns the value of `PATH` with which it runs. Where it was not found on `PATH`, a script's interpreter is not
    /// there either.
    pub(crate) fn search_path(&self, path: &OsStr) -> OsString {
        if self.beyond.is_empty() {
            return path.to_owned();
        }
        let dirs = std::env::split_paths(path).chain(std::env::split_paths(&self.beyond));
        std::env::join_paths(dirs).unwrap_or_else(|_| path.to_owned())
    }
}

/// How a program was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The caller said where it is.
    Given,
    /// It is this very program.
    Own,
    /// On `PATH`.
    Path,
    /// In a place that installers use.
    Place,
    /// In the directory of a manager of packages or versions.
    Manager(&'static str),
    /// On the `PATH` of the login shell.
    LoginShell,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Given => f.write_str("as you said"),
            Self::Own => f.write_str("part of bowline"),
            Self::Path => f.write_str("on PATH"),
            Self::Place => f.write_str("where its installer puts it"),
            Self::Manager(name) => write!(f, "from {name}"),
            Self::LoginShell => f.write_str("on the login shell's PATH"),
        }
    }
}

/// A program that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("`{program}` cannot be had")]
pub struct Missing {
    /// The program, as it was looked for.
    pub program: String,
    /// Why.
    #[source]
    pub kind: MissingKind,
    /// What to do about it.
    pub hint: String,
}

/// Why a program cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingKind {
    /// It is nowhere.
    #[error("it is not installed: neither on `PATH` nor where its installers put it")]
    Absent,
    /// The path that the caller gave leads nowhere.
    #[error("there is no such file")]
    NoSuchFile,
    /// It is there, and may not be executed.
    #[error("`{}` is not executable", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
}

/// Looks for a program by its name or path, as a run would. Nothing is started.
pub fn on_path(program: &str, search: &Search) -> Option<PathBuf> {
    places::given(Path::new(program), search, &mut None)
}

/// Finds a provider's program: the one that the caller names, else where it usually is.
pub fn find(manifest: &'static Manifest, binary: Option<&Path>, search: &Search) -> Result<Found, Missing> {
    places::find(manifest, binary, search)
}

/// Finds a provider's program, and where it is nowhere, looks where the login shell would find it. The shell is asked once,
/// for two seconds at most, and its answer is kept for an hour.
///
/// Needs a tokio runtime.
pub async fn find_anywhere(
    manifest: &'static Manifest,
    binary: Option<&Path>,
    surroundings: &Surroundings,
) -> Result<Found, Missing> {
    let mut search = surroundings.search();
    match find(manifest, binary, &search) {
        Err(missing) if missing.kind == MissingKind::Absent => {
            search.shell_path = shell::path(surroundings).await;
            if search.shell_path.is_some() { find(manifest, binary, &search) } else { Err(missing) }
        }
        found => found,
    }
}

/// What a program says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its version.
    pub version: Version,
    /// The pages of help that the manifest asks for.
    pub pages: Vec<Page>,
    /// When it was asked.
    pub at: Timestamp,
}

/// A question that was not answered.
#[derive(Debug, thiserror::Error)]
#[error("could not ask `{}`", in_words(program, args))]
pub struct ProbeError {
    /// The program.
    pub program: PathBuf,
    /// The arguments that it was asked with.
    pub args: Vec<String>,
    /// Why.
    #[source]
    pub kind: ProbeErrorKind,
}

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ProbeErrorKind {
    /// The program could not be started.
    #[error(transparent)]
    Spawn(SpawnErrorKind),
    /// The process that owns the agents' processes could not be started, or was lost.
    #[error(transparent)]
    Keeper(KeeperError),
    /// It did not end in time, and was ended.
    #[error("it did not answer within {} s, and was ended", after.as_secs_f32())]
    TooSlow {
        /// How long it was waited for.
        after: Duration,
    },
    /// It answered, and there is no version in the answer.
    #[error("{}", without_version(said, *code))]
    NoVersion {
        /// The beginning of what it said, made harmless.
        said: String,
        /// What it exited with.
        code: Option<i32>,
    },
    /// A signal ended it before it had answered, and it was not ours.
    #[error("it was ended by {} before it had answered", failure::signal_name(*signal))]
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// It ended before it had answered.
    #[error("it ended before it had answered{}", if said.is_empty() { String::new() } else { format!(": {said}") })]
    Ended {
        /// The end of what it said, made harmless.
        said: String,
    },
    /// It answered, but not with what was asked for.
    #[error(transparent)]
    NotTold(NotTold),
    /// There is no room for the home directory that it is asked with.
    #[error("could not make `{}`, an empty home directory to ask it in", path.display())]
    Home {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
}

fn without_version(said: &str, code: Option<i32>) -> String {
    match (code, said) {
        (Some(0) | None, "") => "it prints nothing where its version should be".to_owned(),
        (Some(0) | None, said) => format!("it prints no version, but: {said}"),
        (Some(code), "") => format!("it says no version, nor anything else, and exits with {code}"),
        (Some(code), said) => format!("it says no version and exits with {code}: {said}"),
    }
}

fn in_words(program: &Path, args: &[String]) -> String {
    let words: Vec<String> =
        std::iter::once(program.display().to_string()).chain(args.iter().cloned()).collect();
    words.join(" ")
}

/// How programs are asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// How long one answer may take.
    pub deadline: Duration,
    /// Where answers are kept; none asks anew each time.
    pub cache: Option<Cache>,
}

impl Ask {
    /// The usual deadline: the slowest program that is known takes two seconds on a busy machine.
    pub const DEADLINE: Duration = Duration::from_secs(5);

    /// Asks with the usual deadline, and keeps answers where the environment says.
    pub fn from_env() -> Self {
        Self { deadline: Self::DEADLINE, cache: Cache::from_env() }
    }

    /// Asks with a deadline for questions that a program may have to pass on to its service.
    pub fn at_length() -> Self {
        Self { deadline: Duration::from_secs(15), ..Self::from_env() }
    }

    /// Asks a program for its version.
    ///
    /// Needs a tokio runtime.
    pub async fn version(&self, found: &Found) -> Result<Version, ProbeError> {
        self.session(found).version().await
    }

    /// Asks a program for its version and for the pages of help that its manifest names.
    ///
    /// Needs a tokio runtime.
    pub async fn probe(&self, found: &Found) -> Result<Probe, ProbeError> {
        let mut session = self.session(found);
        let version = session.version().await?;
        let pages = session.pages().await?;
        Ok(Probe { version, pages, at: session.asked_at() })
    }

    /// Begins to ask a program several things.
    pub(crate) fn session<'a>(&'a self, found: &'a Found) -> Session<'a> {
        Session::new(self, found)
    }

    /// Returns what a program said when it was last asked, without asking it, with those pages that are remembered.
    pub(crate) fn remembered(&self, found: &Found) -> Option<Probe> {
        let probe = &found.manifest.probe;
        if probe.pages.is_empty() {
            return None;
        }
        let stamp = cache::Stamp::of(found.native.as_deref().unwrap_or(&found.real))?;
        let answers = self.cache.as_ref()?.all(&stamp, clock::wall());
        let answer = |args: &[String]| answers.iter().find(|it| it.args == args).map(|it| &it.answer);
        let version = Version::find(answer(&found.manifest.detect.version_args)?)?;
        let pages = if is_proven(found.manifest, &version) {
            Vec::new()
        } else {
            // One that failed is not kept, and takes nothing back.
            probe.pages.iter().filter_map(|args| Some(Page::read(args, answer(args)?))).collect()
        };
        let at = answers.iter().map(|it| it.at).min()?;
        Some(Probe { version, pages, at })
    }
}

/// Says whether a version of a program went through the contract suite with this very manifest. What it can do was tried then, and
/// its pages of help, each of which is a start of it, have nothing to add.
pub(crate) fn is_proven(manifest: &Manifest, version: &Version) -> bool {
    let built_in = catalogue::by_name(&manifest.name).is_some_and(|known| std::ptr::eq(known, manifest));
    built_in && compat::certified(&manifest.name) == Some(version.to_string().as_str())
}

/// Asks a program that is no agent, and returns what it printed.
pub(crate) async fn question(
    command: bowline_process::Command,
    deadline: Duration,
) -> Result<bowline_providers::probe::Answer, ProbeErrorKind> {
    ask::run(command, deadline, None).await
}

/// Asks a program for its version, in the usual way.
///
/// Needs a tokio runtime.
pub async fn version(found: &Found) -> Result<Version, ProbeError> {
    Ask::from_env().version(found).await
}

/// Asks a program for its version and its options, in the usual way.
///
/// Needs a tokio runtime.
pub async fn probe(found: &Found) -> Result<Probe, ProbeError> {
    Ask::from_env().probe(found).await
}

/// Returns the providers whose program is installed, the built-in ones first. Those that are only chosen by name are not among
/// them.
pub fn installed() -> Vec<&'static Manifest> {
    let search = Search::from_env();
    // Files that cannot be read are told of by whoever names what they describe.
    let all = roster::Roster::from_env()
        .all()
        .map(|(all, _)| all.into_iter().map(|entry| entry.manifest).collect());
    let all: Vec<&'static Manifest> = all.unwrap_or_else(|_| catalogue::built_in().collect());
    all.into_iter().filter(|it| it.chosen != Chosen::ByName && find(it, None, &search).is_ok()).collect()
}

/// Returns those of the installed providers for which there is a login.
pub fn usable() -> Vec<&'static Manifest> {
    let surroundings = Surroundings::from_env();
    let has_login = |it: &&'static Manifest| auth::look(it, None, &surroundings).is_authenticated();
    installed().into_iter().filter(has_login).collect()
}

fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

#[expect(clippy::disallowed_methods, reason = "this is an edge at which the environment is read")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
