//! Detection: which agents are installed, their versions, and the options that they really have.
//!
//! [`find`] looks for a program: at the caller's path, on `PATH`, and in the directories of its installer and of package and
//! version managers. It starts nothing. [`find_anywhere`] also reads the `PATH` of the login shell, because a process started
//! from a desktop or by a service has another one. [`version`] and [`probe`] run the program through the one spawner, in an
//! empty home directory, so that printing help does not read or write the user's settings. [`Cache`] keeps the answers as long
//! as the file is the same. `bowline_providers::probe` interprets them.
//!
//! [`crate::auth`] finds out whether the user is logged in.

mod account;
mod ask;
mod cache;
mod places;
mod search;
mod shell;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_process::{KeeperError, SpawnErrorKind};
use bowline_protocol::{Remedy, Timestamp};
use bowline_providers::ask::NotTold;
use bowline_providers::manifest::Manifest;
use bowline_providers::probe::{Page, Version};
use bowline_providers::{catalogue, compat, failure};

use crate::system::clock;
pub(crate) use account::Breadth;
pub(crate) use ask::{Session, run as asked};

pub use crate::system::surroundings::Surroundings;
pub use cache::Cache;
pub(crate) use cache::Stamp;
pub(crate) use places::install_remedies;
pub use search::Search;

/// A program that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The provider.
    pub manifest: &'static Manifest,
    /// Where it was found.
    pub path: PathBuf,
    /// The same file without symbolic links.
    pub real: PathBuf,
    /// How it was found.
    pub how: FoundBy,
    /// The program behind a launcher, if the manifest prefers to start it directly.
    pub native: Option<PathBuf>,
    /// Directories to append to `PATH` for programs that it starts.
    beyond: OsString,
}

impl Found {
    /// Returns the program to start.
    pub fn program(&self) -> &Path {
        self.native.as_deref().unwrap_or(&self.path)
    }

    /// Returns the `PATH` for running it. If it was not found on `PATH`, the interpreter of a script is not there either.
    pub(crate) fn search_path(&self, path: &OsStr) -> OsString {
        if self.beyond.is_empty() {
            return path.to_owned();
        }
        // Behind `PATH`, so that the user's own order still decides.
        let dirs = std::env::split_paths(path).chain(std::env::split_paths(&self.beyond));
        std::env::join_paths(dirs).unwrap_or_else(|_| path.to_owned())
    }
}

/// How a program was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// At the caller's path.
    Given,
    /// It is this program itself.
    Own,
    /// On `PATH`.
    Path,
    /// In a directory of its installer.
    Place,
    /// In the directory of a package or version manager.
    Manager(&'static str),
    /// On the `PATH` of the login shell.
    LoginShell,
}

impl std::fmt::Display for FoundBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Given => f.write_str("at the given path"),
            Self::Own => f.write_str("part of bowline"),
            Self::Path => f.write_str("on PATH"),
            Self::Place => f.write_str("where its installer puts it"),
            Self::Manager(name) => write!(f, "from {name}"),
            Self::LoginShell => f.write_str("on the login shell's PATH"),
        }
    }
}

/// A program that was not found, or cannot be executed.
#[derive(Debug, thiserror::Error)]
#[error("`{program}` is not usable")]
pub struct Missing {
    /// The name or path that was searched for.
    pub program: String,
    /// Why.
    #[source]
    pub kind: MissingKind,
    /// A step that the caller can take.
    pub remedies: Vec<Remedy>,
}

impl Missing {
    /// Returns the remedies in words, with the names of request fields.
    pub fn hint(&self) -> String {
        Remedy::joined(&self.remedies, ToString::to_string).unwrap_or_default()
    }
}

/// Why a program cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingKind {
    /// It is not installed.
    #[error("it is not installed: neither on `PATH` nor where its installers put it")]
    Absent,
    /// The caller's path does not exist.
    #[error("there is no such file")]
    NoSuchFile,
    /// It exists and is not executable.
    #[error("`{}` is not executable", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
}

/// Looks for a program by its name or path, as a run would. Starts nothing.
pub fn on_path(program: &str, search: &Search) -> Option<PathBuf> {
    places::given(Path::new(program), search, &mut None)
}

/// Finds a provider's program: the caller's, else in the usual places.
pub fn find(manifest: &'static Manifest, binary: Option<&Path>, search: &Search) -> Result<Found, Missing> {
    places::find(manifest, binary, search)
}

/// Finds a provider's program, and if it is in none of the usual places, on the `PATH` of the login shell. The shell runs once,
/// for two seconds at most, and its answer is cached for an hour.
///
/// Needs a tokio runtime.
pub async fn find_anywhere(
    manifest: &'static Manifest,
    binary: Option<&Path>,
    surroundings: &Surroundings,
) -> Result<Found, Missing> {
    let mut search = surroundings.search();
    match find(manifest, binary, &search) {
        // Only for a program that is absent: a wrong path, or a file that is not executable, has to be reported.
        Err(missing) if missing.kind == MissingKind::Absent => {
            search.shell_path = shell::path(surroundings).await;
            if search.shell_path.is_some() { find(manifest, binary, &search) } else { Err(missing) }
        }
        found => found,
    }
}

/// The version and the help of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its version.
    pub version: Version,
    /// The help pages that the manifest names.
    pub pages: Vec<Page>,
    /// When the program printed them.
    pub at: Timestamp,
}

/// A query that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not query `{}`", in_words(program, args))]
pub struct ProbeError {
    /// The program.
    pub program: PathBuf,
    /// The arguments of the query.
    pub args: Vec<String>,
    /// Why.
    #[source]
    pub kind: ProbeErrorKind,
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeErrorKind {
    /// The program could not be started.
    #[error(transparent)]
    Spawn(SpawnErrorKind),
    /// The process that owns the agents' processes could not be started, or was lost.
    #[error(transparent)]
    Keeper(KeeperError),
    /// It did not exit in time, and was killed.
    #[error("it did not answer within {} s, and was ended", after.as_secs_f32())]
    TooSlow {
        /// The timeout.
        after: Duration,
    },
    /// Its output has no version.
    #[error("{}", without_version(said, *code))]
    NoVersion {
        /// The beginning of its output, made harmless for terminals.
        said: String,
        /// Its exit code.
        code: Option<i32>,
    },
    /// A signal of another process ended it before it answered.
    #[error("it was ended by {} before it had answered", failure::signal_name(*signal))]
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// It exited before it answered.
    #[error("it ended before it had answered{}", if said.is_empty() { String::new() } else { format!(": {said}") })]
    Ended {
        /// The end of its output, made harmless for terminals.
        said: String,
    },
    /// Its answer cannot be parsed.
    #[error(transparent)]
    NotTold(NotTold),
    /// The empty home directory for it could not be created.
    #[error("could not make `{}`, an empty home directory to ask it in", path.display())]
    Home {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

fn without_version(said: &str, code: Option<i32>) -> String {
    match (code, said) {
        (Some(0) | None, "") => "it prints nothing where its version should be".to_owned(),
        (Some(0) | None, said) => format!("it prints no version, but: {said}"),
        (Some(code), "") => format!("it prints no version, nor anything else, and exits with {code}"),
        (Some(code), said) => format!("it prints no version and exits with {code}: {said}"),
    }
}

fn in_words(program: &Path, args: &[String]) -> String {
    let words: Vec<String> =
        std::iter::once(program.display().to_string()).chain(args.iter().cloned()).collect();
    words.join(" ")
}

/// Options for queries.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The timeout of one query.
    pub deadline: Duration,
    /// The cache; without one, each query runs the program.
    pub cache: Option<Cache>,
    /// The variables of which a query passes on a few.
    pub surroundings: Surroundings,
}

impl Ask {
    /// The default timeout: the slowest known program takes two seconds on a busy machine.
    pub const DEADLINE: Duration = Duration::from_secs(5);

    /// Uses the default timeout and the cache of the environment.
    pub fn from_env() -> Self {
        Self::of(&Surroundings::from_env())
    }

    /// Uses the default timeout, and the cache that these variables name.
    pub fn of(surroundings: &Surroundings) -> Self {
        let cache = Cache::of(surroundings);
        Self { deadline: Self::DEADLINE, cache, surroundings: surroundings.clone() }
    }

    /// Uses a timeout for queries that a program may have to send to its service.
    pub fn at_length() -> Self {
        Self { deadline: Duration::from_secs(15), ..Self::from_env() }
    }

    /// Queries the version of a program.
    ///
    /// Needs a tokio runtime.
    pub async fn version(&self, found: &Found) -> Result<Version, ProbeError> {
        self.session(found).version().await
    }

    /// Queries the version of a program and the help pages that its manifest names.
    ///
    /// Needs a tokio runtime.
    pub async fn probe(&self, found: &Found) -> Result<Probe, ProbeError> {
        let mut session = self.session(found);
        let version = session.version().await?;
        let pages = session.pages().await?;
        Ok(Probe { version, pages, at: session.asked_at() })
    }

    /// Begins a session of several queries to one program.
    pub(crate) fn session<'a>(&'a self, found: &'a Found) -> Session<'a> {
        Session::new(self, found)
    }

    /// Returns the cached version and help pages of a program, without running it.
    pub(crate) fn remembered(&self, found: &Found) -> Option<Probe> {
        let probe = &found.manifest.probe;
        if probe.pages.is_empty() {
            return None;
        }
        let stamp = Stamp::of(found.native.as_deref().unwrap_or(&found.real))?;
        let answers = self.cache.as_ref()?.all(&stamp, clock::wall());
        let answer = |args: &[String]| answers.iter().find(|it| it.args == args).map(|it| &it.answer);
        let version = Version::find(answer(&found.manifest.detect.version_args)?)?;
        let pages = if is_proven(found.manifest, &version) {
            Vec::new()
        } else {
            // A failed query is not cached, and does not invalidate older answers.
            probe.pages.iter().filter_map(|args| Some(Page::read(args, answer(args)?))).collect()
        };
        let at = answers.iter().map(|it| it.at).min()?;
        Some(Probe { version, pages, at })
    }
}

/// Returns whether a version of a program passed the contract suite with this manifest. The suite has tested its options, so its
/// help pages, each of which costs a start, are not needed.
pub(crate) fn is_proven(manifest: &Manifest, version: &Version) -> bool {
    // By identity: a manifest of the user may have the name of a built-in one.
    let built_in = catalogue::by_name(&manifest.name).is_some_and(|known| std::ptr::eq(known, manifest));
    built_in && compat::certified(&manifest.name) == Some(version.to_string().as_str())
}

/// Runs a program that is not an agent, and returns its output.
pub(crate) async fn question(
    command: bowline_process::Command,
    deadline: Duration,
) -> Result<bowline_providers::probe::Answer, ProbeErrorKind> {
    ask::run(command, deadline, None).await
}

/// Queries the version of a program with default options.
///
/// Needs a tokio runtime.
pub async fn version(found: &Found) -> Result<Version, ProbeError> {
    Ask::from_env().version(found).await
}

/// Queries the version and the options of a program with default options.
///
/// Needs a tokio runtime.
pub async fn probe(found: &Found) -> Result<Probe, ProbeError> {
    Ask::from_env().probe(found).await
}
