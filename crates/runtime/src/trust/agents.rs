//! The files of a project from which agents would run code by themselves: hooks, MCP servers, plugins, settings.
//!
//! Which they are stands in each provider's manifest (`[repository]`). An agent that may only read or ask is kept from them
//! unless all of them are trusted.

use std::path::{Path, PathBuf};

use bowline_providers::manifest::Manifest;

use super::{ObservedFile, ProjectTrust, TrustError, TrustState, TrustStore, hash_of_file, judge};
use crate::config::{Places, pin_path};

/// The most files of a project that are pinned.
const MOST_FILES: usize = 2_000;

/// How deep directories of such files are looked into.
const DEEPEST: usize = 8;

/// The files of a project from which an agent would run code, and whether they are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentFiles {
    pub(crate) state: TrustState,
    pub(crate) found: Vec<PathBuf>,
}

/// Looks for the files from which one agent would run code.
pub(crate) fn agent_files(manifest: &Manifest, places: &Places, trust: ProjectTrust) -> AgentFiles {
    // More files than can be pinned are not trusted.
    let found = found(places, &manifest.repository.files).unwrap_or_else(|error| vec![error_path(error)]);
    let state = match (trust, places.project()) {
        (ProjectTrust::Always, _) => TrustState::Trusted,
        (ProjectTrust::Never, _) | (ProjectTrust::Pinned, None) => TrustState::Unpinned,
        (ProjectTrust::Pinned, Some(project)) => {
            let record = TrustStore::of(places).read(&project);
            // Without pins nothing is hashed.
            match record {
                Some(record) => judge(Some(&record), &observed(&project, &found)),
                None => TrustState::Unpinned,
            }
        }
    };
    AgentFiles { state, found }
}

fn error_path(error: TrustError) -> PathBuf {
    if let TrustError::TooMany { path } = error {
        return path;
    }
    PathBuf::from(error.to_string())
}

/// Returns files as they are now.
pub(super) fn observed(project: &Path, files: &[PathBuf]) -> Vec<ObservedFile> {
    let one = |path: &PathBuf| ObservedFile { path: pin_path(project, path), hash: hash_of_file(path).ok() };
    files.iter().map(one).collect()
}

/// Finds the files that these patterns name, in the working directory and above it.
pub(super) fn found(places: &Places, patterns: &[String]) -> Result<Vec<PathBuf>, TrustError> {
    let mut all = Vec::new();
    for dir in places.repository_dirs() {
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

fn files_below(dir: &Path, depth: usize, all: &mut Vec<PathBuf>) -> Result<(), TrustError> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        // What cannot be looked into has no content that a pin fits.
        all.push(dir.to_owned());
        return Ok(());
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if all.len() >= MOST_FILES || depth > DEEPEST {
            return Err(TrustError::TooMany { path: dir.to_owned() });
        }
        // Links to directories are followed; in a circle, the depth ends it.
        if path.is_dir() { files_below(&path, depth + 1, all)? } else { all.push(path) }
    }
    Ok(())
}
