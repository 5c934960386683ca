//! Which agents are on this machine, which version each is, and which options it really has.
//!
//! [`find`] looks for a program: where the caller says, on `PATH`, in the places that its own installer and the package
//! managers use. It starts nothing. [`version`] and [`probe`] ask the program itself, through the one spawner, with a
//! home directory of its own: nobody's settings are read or written because we asked for help. Answers are kept
//! ([`Cache`]) as long as the file is the same. What an answer means is `bowline_providers::probe`'s business.
//!
//! A login is a variable that is set or a file that is there; it is not read, and whether it works only a run can tell.

mod ask;
mod cache;
mod places;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_process::{KeeperError, SpawnErrorKind};
use bowline_protocol::Timestamp;
use bowline_providers::catalogue;
use bowline_providers::manifest::{Chosen, Manifest};
use bowline_providers::probe::{Page, Version};

pub(crate) use ask::run as asked;
pub use cache::Cache;
pub(crate) use places::install_hint;

/// Where a program is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The directories of `PATH`, as the variable has them.
    pub path: OsString,
    /// The home directory, in which installers have their places.
    pub home: Option<PathBuf>,
}

impl Search {
    /// Looks where this process would.
    pub fn from_env() -> Self {
        Self { path: variable("PATH").unwrap_or_default(), home: home() }
    }
}

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
}

impl Found {
    /// Returns the program to start.
    pub fn program(&self) -> &Path {
        self.native.as_deref().unwrap_or(&self.path)
    }

    /// Returns the value of `PATH` with which it runs. In the places of a package manager, a script's interpreter lies
    /// beside it, where `PATH` may not lead.
    pub(crate) fn search_path(&self, path: &OsStr) -> OsString {
        match (self.how, self.path.parent()) {
            (How::Place, Some(dir)) => {
                let dirs = std::env::split_paths(path).chain([dir.to_owned()]);
                std::env::join_paths(dirs).unwrap_or_else(|_| path.to_owned())
            }
            (How::Given | How::Own | How::Path | How::Place, _) => path.to_owned(),
        }
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

/// Finds a provider's program: the one that the caller names, else where it usually is.
pub fn find(manifest: &'static Manifest, binary: Option<&Path>, search: &Search) -> Result<Found, Missing> {
    places::find(manifest, binary, search)
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
    #[error("it prints no version, but {}", if said.is_empty() { "nothing" } else { said })]
    NoVersion {
        /// The beginning of what it said, made harmless.
        said: String,
    },
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

    /// Asks a program for its version.
    pub async fn version(&self, found: &Found) -> Result<Version, ProbeError> {
        ask::Session::new(self, found).version().await
    }

    /// Asks a program for its version and for the pages of help that its manifest names.
    pub async fn probe(&self, found: &Found) -> Result<Probe, ProbeError> {
        let mut session = ask::Session::new(self, found);
        let version = session.version().await?;
        let mut pages = Vec::new();
        for args in &found.manifest.probe.pages {
            pages.push(Page::read(args, &session.answer(args).await?));
        }
        Ok(Probe { version, pages, at: session.asked_at() })
    }
}

/// Asks a program for its version, in the usual way.
pub async fn version(found: &Found) -> Result<Version, ProbeError> {
    Ask::from_env().version(found).await
}

/// Asks a program for its version and its options, in the usual way.
pub async fn probe(found: &Found) -> Result<Probe, ProbeError> {
    Ask::from_env().probe(found).await
}

/// Returns the providers whose program is installed, in the order of the catalogue. Those that are only chosen by name
/// are not among them.
pub fn installed() -> Vec<&'static Manifest> {
    let search = Search::from_env();
    catalogue::built_in()
        .filter(|it| it.chosen != Chosen::ByName && find(it, None, &search).is_ok())
        .collect()
}

/// Returns those of the installed providers for which there is a login.
pub fn usable() -> Vec<&'static Manifest> {
    installed().into_iter().filter(|manifest| has_login(manifest)).collect()
}

fn has_login(manifest: &Manifest) -> bool {
    let set = |name: &String| variable(name).is_some_and(|value| !value.to_string_lossy().trim().is_empty());
    manifest.auth.env.iter().any(set)
        || home().is_some_and(|home| manifest.auth.files.iter().any(|file| home.join(file).exists()))
}

fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

#[expect(clippy::disallowed_methods, reason = "this is an edge at which the environment is read")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
