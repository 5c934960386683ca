//! The providers by name: those that are built in, and those of the user's manifests.
//!
//! A user's own manifest is a file `providers/*.toml` in the configuration directory. It may use any dialect, and replaces a
//! built-in provider only with `override = true`. Each lookup reads the files, so a change applies to the next request. A file
//! with `kind = "executable"` describes a program that implements the CLI provider protocol, in a few lines. `acp:<command>` is
//! an agent that implements the Agent Client Protocol, without any file. A bad file only affects lookups of its own name and of
//! unknown names.
//!
//! Manifests are `&'static` everywhere. Those that are not built in are leaked, once for each content.

mod error;
mod health;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bowline_providers::manifest::{Manifest, ManifestError};
use bowline_providers::{acp, catalogue};

use crate::system::suggest::closest_name;
use crate::system::surroundings::Surroundings;

pub use bowline_providers::executable::{Executable, ExecutableKind, Streams};
pub use error::RosterError;
pub use health::{HealthReport, health};

/// Finds a provider by its name or one of its aliases, whatever the case and whether `-` or `_`.
///
/// ```
/// let agent = bowline::roster::find("Practice")?;
/// assert_eq!(agent.name, "practice");
/// # Ok::<(), bowline::roster::RosterError>(())
/// ```
pub fn find(name: &str) -> Result<&'static Manifest, RosterError> {
    Roster::from_env().find(name)
}

/// Where a provider's manifest comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestOrigin {
    /// It ships with Bowline.
    BuiltIn,
    /// A user's file.
    File(PathBuf),
}

impl std::fmt::Display for ManifestOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A provider of the roster.
#[derive(Clone, Debug)]
pub struct RosterEntry {
    /// Its manifest.
    pub manifest: &'static Manifest,
    /// The origin of the manifest.
    pub origin: ManifestOrigin,
}

/// The providers, by name.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    /// The directory of the user's manifests.
    dir: Option<PathBuf>,
}

/// A file in the directory: its provider, or its error and the names that it would have.
type Read = Result<RosterEntry, (Vec<String>, RosterError)>;

impl Roster {
    /// Uses the directory of the environment: `bowline/providers` in the XDG configuration directory.
    ///
    /// The default has the built-in providers only.
    pub fn from_env() -> Self {
        Self::of(&Surroundings::from_env())
    }

    /// Uses the directory that these variables name.
    pub fn of(surroundings: &Surroundings) -> Self {
        Self { dir: surroundings.config_dir().map(|dir| dir.join("providers")) }
    }

    /// Looks for the user's manifests in this directory.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: Some(dir.into()) }
    }

    /// Finds a provider by its name or one of its aliases, whatever the case and whether `-` or `_`.
    pub fn find(&self, name: &str) -> Result<&'static Manifest, RosterError> {
        if let Some(command) = name.strip_prefix("acp:") {
            let here = std::env::current_dir().unwrap_or_default();
            let manifest = acp::agent(command).map(|manifest| intern(located(manifest, &here)));
            return manifest.ok_or_else(|| RosterError::Unknown { name: name.to_owned(), nearest: None });
        }
        let built_in = catalogue::by_name(name);
        // A manifest that replaces a built-in provider has all of its names.
        let wanted: Vec<String> = built_in.iter().map(|it| plain(&it.name)).chain([plain(name)]).collect();
        let mut bad = None;
        for read in self.read()? {
            match read {
                Ok(entry) if wanted.iter().any(|name| answers_to(entry.manifest, name)) => {
                    return Ok(entry.manifest);
                }
                Ok(_) => {}
                Err((names, error)) if names.iter().any(|name| wanted.contains(&plain(name))) => {
                    return Err(error);
                }
                Err((_, error)) => bad = bad.or(Some(error)),
            }
        }
        match (built_in, bad) {
            (Some(manifest), _) => Ok(manifest),
            // The name may belong to the file that cannot be read.
            (None, Some(error)) => Err(error),
            (None, None) => Err(self.unknown(name)),
        }
    }

    /// Returns the error for an unknown name.
    fn unknown(&self, name: &str) -> RosterError {
        let all = self.all().map(|(all, _)| all).unwrap_or_default();
        let known = all.iter().flat_map(|entry| {
            let aliases = entry.manifest.aliases.iter().map(String::as_str);
            std::iter::once(entry.manifest.name.as_str()).chain(aliases)
        });
        RosterError::Unknown { name: name.to_owned(), nearest: closest_name(name, known).map(str::to_owned) }
    }

    /// Returns all providers, the built-in ones first, and the errors of files that cannot be used.
    pub fn all(&self) -> Result<(Vec<RosterEntry>, Vec<RosterError>), RosterError> {
        let (mut own, mut bad) = (Vec::new(), Vec::new());
        for read in self.read()? {
            match read {
                Ok(entry) => own.push(entry),
                Err((_, error)) => bad.push(error),
            }
        }
        let kept = |built_in: &&Manifest| {
            let name = plain(&built_in.name);
            !own.iter().any(|entry: &RosterEntry| plain(&entry.manifest.name) == name)
        };
        let built_in = catalogue::built_in().filter(kept);
        let built_in = built_in.map(|manifest| RosterEntry { manifest, origin: ManifestOrigin::BuiltIn });
        Ok((built_in.chain(own.iter().cloned()).collect(), bad))
    }

    /// Returns the errors of files that cannot be used.
    pub fn bad(&self) -> Result<Vec<RosterError>, RosterError> {
        Ok(self.read()?.into_iter().filter_map(|read| read.err().map(|(_, error)| error)).collect())
    }

    /// Reads the directory, in the order of the files' names.
    fn read(&self) -> Result<Vec<Read>, RosterError> {
        let Some(dir) = &self.dir else { return Ok(Vec::new()) };
        let failed = |source| RosterError::Read { path: dir.clone(), source };
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                files.push(path);
            }
        }
        files.sort();
        let mut all: Vec<Read> = Vec::new();
        for file in files {
            let known: Vec<RosterEntry> = all.iter().filter_map(|read| read.as_ref().ok()).cloned().collect();
            all.push(read(&file, &known));
        }
        Ok(all)
    }
}

fn read(file: &Path, known: &[RosterEntry]) -> Read {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(source) => return Err((stem(file), RosterError::Read { path: file.to_owned(), source })),
    };
    let parsed = if Executable::is_meant(&text) {
        Executable::parse(&text).and_then(|executable| executable.manifest())
    } else {
        Manifest::parse(&text)
    };
    let manifest = match parsed {
        Ok(manifest) => located(manifest, file.parent().unwrap_or(Path::new(""))),
        Err(error) => {
            let (place, reason) = (error.place(&text), error.reason());
            let error = RosterError::Bad { file: file.to_owned(), place, reason };
            return Err((names_in(&text, file), error));
        }
    };
    let names = || std::iter::once(&manifest.name).chain(&manifest.aliases);
    for name in names() {
        let wanted = plain(name);
        let taken = known.iter().find(|entry| answers_to(entry.manifest, &wanted));
        let first = match (taken, catalogue::by_name(name)) {
            (Some(entry), _) => entry.origin.clone(),
            (None, Some(built_in)) if manifest.replaces && plain(&built_in.name) == plain(&manifest.name) => {
                continue;
            }
            (None, Some(_)) => ManifestOrigin::BuiltIn,
            (None, None) => continue,
        };
        let error = RosterError::Taken { name: name.clone(), file: file.to_owned(), first };
        return Err((names().cloned().collect(), error));
    }
    Ok(RosterEntry { manifest: intern(manifest), origin: ManifestOrigin::File(file.to_owned()) })
}

/// Creates a provider from an executable with the commands `generate`, `stream` and `health`. A relative path is relative to
/// `dir`, the directory of the file that names it; a path without `/` is a name on `PATH`.
///
/// ```
/// use bowline::roster::{self, Executable};
///
/// let provider = roster::executable(&Executable::at("llama", "./ollama-provider"), "/opt/providers".as_ref())?;
/// assert_eq!(provider.program, "/opt/providers/ollama-provider");
/// let task = bowline::task("What is 2+2?").of_provider(provider);
/// # Ok::<(), bowline_providers::manifest::ManifestError>(())
/// ```
pub fn executable(executable: &Executable, dir: &Path) -> Result<&'static Manifest, ManifestError> {
    executable.manifest().map(|manifest| intern(located(manifest, dir)))
}

/// Resolves a relative path of a program against the directory of the file.
fn located(mut manifest: Manifest, dir: &Path) -> Manifest {
    if manifest.program.contains('/') {
        let program = dir.join(&manifest.program);
        manifest.program = std::path::absolute(&program).unwrap_or(program).to_string_lossy().into_owned();
    }
    manifest
}

/// Leaks a manifest, once for each content.
///
/// For manifests of your own; those that [`find`] returns are static already.
pub fn intern(manifest: Manifest) -> &'static Manifest {
    static KEPT: Mutex<Vec<&'static Manifest>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.iter().find(|known| ***known == manifest) {
        return known;
    }
    let manifest: &'static Manifest = Box::leak(Box::new(manifest));
    kept.push(manifest);
    manifest
}

/// Returns the names in a file that cannot be used, as far as they can be read.
fn names_in(text: &str, file: &Path) -> Vec<String> {
    let mut names = stem(file);
    // Line by line: the file may not be TOML at all.
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "name").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    };
    names.extend(text.lines().find_map(value));
    names
}

fn stem(file: &Path) -> Vec<String> {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).into_iter().collect()
}

fn answers_to(manifest: &Manifest, wanted: &str) -> bool {
    std::iter::once(&manifest.name).chain(&manifest.aliases).any(|name| plain(name) == wanted)
}

fn plain(name: &str) -> String {
    catalogue::plain(name)
}

#[cfg(test)]
mod tests;
