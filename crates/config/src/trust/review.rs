//! The effects of a project's files, for the user to read before they are pinned.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bowline::trust::{hash_of_file, observed, repository_files};

use super::{Claim, ObservedFile, TrustError, TrustState, TrustStore, foreign_owner, judge};
use crate::{Places, ProjectFile, base_of, project_files};

/// A file of a project, and what it would do if it were trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReviewedFile {
    /// The file.
    pub path: PathBuf,
    /// The part of the file and what it would do.
    pub claims: Vec<(String, Claim)>,
    /// The agents that would run code by it or take settings from it.
    pub agents: Vec<String>,
    /// Whether it is a program that another file names.
    pub is_program: bool,
    /// Whether it has the content that was pinned.
    pub state: TrustState,
}

/// All that a project's files would do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TrustReview {
    /// The project's directory.
    pub directory: PathBuf,
    /// The files.
    pub files: Vec<ReviewedFile>,
    /// Whether the project is trusted as it is now.
    pub state: TrustState,
    store: TrustStore,
    pins: BTreeMap<PathBuf, Vec<ObservedFile>>,
}

impl TrustReview {
    /// Reads the files of the project that the working directory belongs to.
    pub fn of(places: &Places) -> Result<Self, TrustError> {
        let directory = places.project().ok_or(TrustError::NoProject)?;
        let mut review = Self {
            directory: directory.clone(),
            files: Vec::new(),
            state: TrustState::Unpinned,
            store: TrustStore::of(places),
            // The directory is always in the map, so that `remove` finds its pins even if all files are gone.
            pins: BTreeMap::from([(directory.clone(), Vec::new())]),
        };
        for file in project_files(places)? {
            let base = base_of(&file.path).unwrap_or(&directory).to_owned();
            review.settings_file(&base, file)?;
        }
        review.agent_files(&directory, places)?;
        review.judge();
        Ok(review)
    }

    /// Pins the content that was read. Returns the directories that are trusted now.
    pub fn pin(&self) -> Result<Vec<PathBuf>, TrustError> {
        // Pin the hashes from the review. A second read could pin a content that the user has not seen.
        for (directory, observed) in &self.pins {
            let pinned = observed.iter().map(|file| match &file.hash {
                Some(hash) => Ok((file.path.clone(), hash.clone())),
                None => Err(unpinnable(directory.join(&file.path))),
            });
            self.store.pin(directory, pinned.collect::<Result<Vec<_>, _>>()?)?;
        }
        Ok(self.pins.keys().cloned().collect())
    }

    /// Withdraws the trust. Returns whether there was any.
    pub fn remove(&self) -> Result<bool, TrustError> {
        let mut any = false;
        for directory in self.pins.keys() {
            any |= self.store.remove(directory)?;
        }
        Ok(any)
    }

    /// Adds a file that Bowline reads, and the programs of the project that it names.
    fn settings_file(&mut self, base: &Path, file: ProjectFile) -> Result<(), TrustError> {
        // Several entries may run one program.
        let programs: BTreeSet<PathBuf> =
            file.programs.iter().filter(|path| path.exists()).cloned().collect();
        for path in &programs {
            owned(path)?;
        }
        self.pins.entry(base.to_owned()).or_default().extend(file.observed);
        self.files.push(ReviewedFile {
            path: file.path,
            claims: file.claims,
            agents: Vec::new(),
            is_program: false,
            state: TrustState::Unpinned,
        });
        self.files.extend(programs.into_iter().map(|path| ReviewedFile {
            path,
            claims: Vec::new(),
            agents: Vec::new(),
            is_program: true,
            state: TrustState::Unpinned,
        }));
        Ok(())
    }

    /// Adds the files from which agents would run code by themselves.
    fn agent_files(&mut self, directory: &Path, places: &Places) -> Result<(), TrustError> {
        let (all, _) = places.roster().all().unwrap_or_default();
        let dirs = places.repository_dirs();
        let mut by_path: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
        for entry in all {
            for path in repository_files(&dirs, &entry.manifest.repository.files)? {
                by_path.entry(path).or_default().push(entry.manifest.name.clone());
            }
        }
        for (path, agents) in by_path {
            owned(&path)?;
            let observed = observed(directory, std::slice::from_ref(&path));
            self.pins.entry(directory.to_owned()).or_default().extend(observed);
            let claims = Vec::new();
            self.files.push(ReviewedFile {
                path,
                claims,
                agents,
                is_program: false,
                state: TrustState::Unpinned,
            });
        }
        Ok(())
    }

    /// Compares what was read with the pins.
    fn judge(&mut self) {
        let records: BTreeMap<&PathBuf, _> =
            self.pins.keys().map(|directory| (directory, self.store.read(directory))).collect();
        let mut changed = Vec::new();
        let mut pinned = false;
        for (directory, observed) in &self.pins {
            let record = records.get(directory).and_then(Option::as_ref);
            match judge(record, observed) {
                TrustState::Trusted => pinned = true,
                TrustState::Unpinned => {
                    changed.extend(observed.iter().map(|file| directory.join(&file.path)))
                }
                TrustState::Changed(files) => {
                    pinned = true;
                    changed.extend(files.iter().map(|file| directory.join(file)));
                }
            }
        }
        self.state = match (pinned, changed.is_empty()) {
            (true, true) => TrustState::Trusted,
            (true, false) => TrustState::Changed(changed.clone()),
            (false, _) => TrustState::Unpinned,
        };
        for file in &mut self.files {
            let real = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
            let differs = |path: &PathBuf| *path == file.path || *path == real;
            file.state = match &self.state {
                TrustState::Changed(_) if changed.iter().any(differs) => {
                    TrustState::Changed(vec![file.path.clone()])
                }
                TrustState::Changed(_) => TrustState::Trusted,
                other @ (TrustState::Trusted | TrustState::Unpinned) => other.clone(),
            };
        }
    }
}

/// Refuses a file of another user: it could be replaced after it was looked at.
fn owned(path: &Path) -> Result<(), TrustError> {
    match std::fs::metadata(path).ok().as_ref().and_then(foreign_owner) {
        Some(uid) => Err(TrustError::Foreign { path: path.to_owned(), uid }),
        None => Ok(()),
    }
}

/// Returns why a file has no hash. It reads the file again, because an observation has no errors.
fn unpinnable(path: PathBuf) -> TrustError {
    let now = hash_of_file(&path).err();
    let source = now.unwrap_or_else(|| std::io::Error::other("it could not be read before, and can be now"));
    TrustError::Unpinnable { path, source }
}
