//! Whether files of a project may make an agent run code: the pins of the user against the files that are there now.
//!
//! [`judge`] is the whole decision: the pins of a directory and what was found there go in, a [`TrustState`] comes out. Only
//! `Trusted` lifts a restriction. `bowline-config` reads and writes the pins; this module takes them as a value.
//!
//! Which files of a repository an agent runs code from stands in its manifest (`[repository]`). An agent that may only read or
//! ask is kept from them unless all of them are trusted.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bowline_providers::manifest::Manifest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::system::project::{self, canonical};

/// The most that a pinned file may hold.
pub const LARGEST_PINNED: u64 = 64 * 1024 * 1024;

/// Whether a project's own files may run programs, pass variables and name addresses.
///
/// ```
/// use bowline::trust::ProjectTrust;
///
/// // A service that works on checkouts of strangers ignores what its operator has pinned.
/// let task = bowline::task("Review this change").provider("claude").cwd("/srv/checkout").trust_project(ProjectTrust::Never);
/// # drop(task);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectTrust {
    /// Only what `bowline trust` has pinned, as long as its content is the same.
    #[default]
    Pinned,
    /// Never, whatever is pinned.
    Never,
    /// Always: the caller vouches for the project.
    Always,
}

/// The state of a project's files by the pins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "files")]
pub enum TrustState {
    /// The directory was never trusted.
    #[default]
    Unpinned,
    /// Every file has the content that was pinned.
    Trusted,
    /// The directory was trusted, and these files are new or have changed since.
    Changed(Vec<PathBuf>),
}

impl TrustState {
    /// Returns whether every file has the content that was pinned.
    pub fn is_trusted(&self) -> bool {
        *self == Self::Trusted
    }
}

/// The pins of one directory: the SHA-256 of each file, by its path from the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustRecord {
    /// The version of this form.
    pub v: u32,
    /// The directory, without symbolic links.
    pub directory: PathBuf,
    /// The SHA-256 of each file, in hexadecimal digits.
    pub files: BTreeMap<PathBuf, String>,
}

/// A file as it was found now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFile {
    /// The path from the directory that is trusted.
    pub path: PathBuf,
    /// The SHA-256 of its content; absent for one that cannot be read, which no pin fits.
    pub hash: Option<String>,
}

/// Decides whether files are trusted, by the pins of their directory.
pub fn judge(record: Option<&TrustRecord>, observed: &[ObservedFile]) -> TrustState {
    let Some(record) = record else { return TrustState::Unpinned };
    let differs =
        |file: &&ObservedFile| file.hash.is_none() || record.files.get(&file.path) != file.hash.as_ref();
    let changed: Vec<PathBuf> = observed.iter().filter(differs).map(|file| file.path.clone()).collect();
    if changed.is_empty() { TrustState::Trusted } else { TrustState::Changed(changed) }
}

/// The most files of a project that are pinned.
const MOST_FILES: usize = 2_000;

/// How deep directories of such files are looked into.
const DEEPEST: usize = 8;

/// A directory with more files than can be pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` has more files than can be pinned (2,000)", path = path.display())]
pub struct TooManyFiles {
    /// The directory.
    pub path: PathBuf,
}

/// The files of a project from which an agent would run code, and whether they are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFiles {
    /// Whether they are trusted.
    pub state: TrustState,
    /// The files.
    pub found: Vec<PathBuf>,
}

/// Looks for the files from which one agent would run code.
pub fn agent_files(
    manifest: &Manifest,
    place: &ProjectPlace,
    pins: Option<&TrustRecord>,
    trust: ProjectTrust,
) -> AgentFiles {
    // More files than can be pinned are not trusted.
    let found =
        repository_files(&place.above, &manifest.repository.files).unwrap_or_else(|many| vec![many.path]);
    // Pins of another directory do not count, even if its files have the same relative paths.
    let pins = pins.filter(|pins| pins.directory == canonical(&place.directory));
    let state = match (trust, pins) {
        (ProjectTrust::Always, _) => TrustState::Trusted,
        // Without pins nothing is hashed.
        (ProjectTrust::Never, _) | (ProjectTrust::Pinned, None) => TrustState::Unpinned,
        (ProjectTrust::Pinned, Some(pins)) => judge(Some(pins), &observed(&place.directory, &found)),
    };
    AgentFiles { state, found }
}

/// The project of a working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectPlace {
    /// Its directory.
    pub directory: PathBuf,
    /// The working directory and those above it, in which agents look for files of a repository.
    pub above: Vec<PathBuf>,
}

impl ProjectPlace {
    /// Finds the project of a working directory. The home directory belongs to no project.
    pub fn of(cwd: &Path, home: Option<&Path>) -> Self {
        let cwd = canonical(cwd);
        Self { directory: project::directory(&cwd, home), above: project::directories_above(&cwd, home) }
    }
}

/// Returns files as they are now.
pub fn observed(project: &Path, files: &[PathBuf]) -> Vec<ObservedFile> {
    let one = |path: &PathBuf| ObservedFile { path: pin_path(project, path), hash: hash_of_file(path).ok() };
    files.iter().map(one).collect()
}

/// Finds the files that these patterns name, in these directories.
pub fn repository_files(dirs: &[PathBuf], patterns: &[String]) -> Result<Vec<PathBuf>, TooManyFiles> {
    let mut all = Vec::new();
    for dir in dirs {
        for pattern in patterns {
            let path = dir.join(pattern.trim_end_matches('/'));
            // A symbolic link counts whether it leads anywhere or not: what it leads to may come later.
            if path.symlink_metadata().is_err() {
                continue;
            }
            if pattern.ends_with('/') && path.is_dir() {
                files_below(&path, 0, &mut all)?;
            } else {
                all.push(path);
            }
        }
    }
    all.sort();
    all.dedup();
    Ok(all)
}

fn files_below(dir: &Path, depth: usize, all: &mut Vec<PathBuf>) -> Result<(), TooManyFiles> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        // An unreadable file has no content that a pin fits.
        all.push(dir.to_owned());
        return Ok(());
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if all.len() >= MOST_FILES || depth > DEEPEST {
            return Err(TooManyFiles { path: dir.to_owned() });
        }
        // Links to directories are followed; in a circle, the depth ends it.
        if path.is_dir() { files_below(&path, depth + 1, all)? } else { all.push(path) }
    }
    Ok(())
}

/// Returns the SHA-256 of some bytes, in hexadecimal digits.
pub fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of a regular file's content. Fails for other files, and for files above 64 MiB.
pub fn hash_of_file(path: &Path) -> std::io::Result<String> {
    let too_large = || std::io::Error::other("it is larger than 64 MiB");
    // A FIFO in the place of a file must not block: it is opened without waiting, and is no regular file.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // Of the open file, not of the path: the path may lead to another file by now.
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if meta.len() > LARGEST_PINNED {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // One byte more than allowed: the file may have grown since its length was read.
    file.take(LARGEST_PINNED + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_PINNED { Err(too_large()) } else { Ok(hash_of(&bytes)) }
}

/// Returns the name under which a file is pinned: its path from the directory, or its own one if it leads out of that.
pub fn pin_path(base: &Path, path: &Path) -> PathBuf {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (base, path) = (real(base), real(path));
    path.strip_prefix(&base).map(Path::to_owned).unwrap_or(path)
}
