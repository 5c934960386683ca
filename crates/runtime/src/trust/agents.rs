//! The files of a project from which agents would run code by themselves: hooks, MCP servers, plugins, settings.
//!
//! Which they are stands in each provider's manifest (`[repository]`). An agent that may only read or ask is kept from them
//! unless all of them are trusted.

use std::path::{Path, PathBuf};

use super::{ObservedFile, TrustError, hash_of_file};
use crate::config::{Places, pin_path};

/// The most files of a project that are pinned.
const MOST_FILES: usize = 2_000;

/// How deep directories of such files are looked into.
const DEEPEST: usize = 8;

/// Returns files as they are now.
pub(super) fn observed(project: &Path, files: &[PathBuf]) -> Vec<ObservedFile> {
    let one = |path: &PathBuf| ObservedFile { path: pin_path(project, path), hash: hash_of_file(path) };
    files.iter().map(one).collect()
}

/// Finds the files that these patterns name, from the working directory up to the project's.
pub(super) fn found(places: &Places, patterns: &[String]) -> Result<Vec<PathBuf>, TrustError> {
    let mut all = Vec::new();
    for dir in places.within_project() {
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
