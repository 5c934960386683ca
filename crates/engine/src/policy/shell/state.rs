//! The working directories and variables of a shell, as far as they can be followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::policy::paths;

/// The most directories that are followed at a time.
const MOST_DIRS: usize = 4;

/// The directories in which a command may run.
///
/// `cd sub; rm x` has two: `cd` may have failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::policy) struct WorkingDirs {
    /// Those that are known.
    pub(in crate::policy) known: Vec<PathBuf>,
    /// Whether there may be others.
    pub(in crate::policy) others: bool,
}

impl WorkingDirs {
    /// Of one directory.
    pub(in crate::policy) fn at(dir: &Path) -> Self {
        Self { known: vec![dir.to_owned()], others: false }
    }

    /// Of a directory that is not known.
    pub(in crate::policy) fn anywhere() -> Self {
        Self { known: Vec::new(), others: true }
    }

    /// Returns the directories of both.
    pub(in crate::policy) fn or(mut self, other: &Self) -> Self {
        self.others |= other.others;
        for dir in &other.known {
            if self.known.contains(dir) {
                continue;
            }
            if self.known.len() == MOST_DIRS {
                self.others = true;
                break;
            }
            self.known.push(dir.clone());
        }
        self
    }

    /// Returns the directories after `cd` to a path.
    pub(in crate::policy) fn joined(&self, path: &str) -> Self {
        let known = self.known.iter().map(|dir| paths::resolved(dir, path)).collect();
        let moved = Self { known, others: self.others && !path.starts_with('/') };
        Self::default().or(&moved)
    }
}

/// The known state of a shell while its script is walked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::policy) struct ShellState {
    /// Variables that were set; none: to a value that is not known.
    pub(in crate::policy) vars: BTreeMap<String, Option<String>>,
    /// Variables that a function or a trap sets at a time that is not known.
    pub(in crate::policy) volatile: BTreeSet<String>,
    /// The working directories.
    pub(in crate::policy) dirs: WorkingDirs,
    /// The home directory.
    pub(in crate::policy) home: Option<String>,
}

impl ShellState {
    /// Returns the value of a variable, if it is known.
    pub(in crate::policy) fn value(&self, name: &str) -> Option<String> {
        if self.volatile.contains(name) {
            return None;
        }
        match (self.vars.get(name), name) {
            (Some(value), _) => value.clone(),
            (None, "HOME") => self.home.clone(),
            (None, "PWD") => match &self.dirs {
                WorkingDirs { known, others: false } if known.len() == 1 => {
                    known[0].to_str().map(str::to_owned)
                }
                WorkingDirs { .. } => None,
            },
            (None, _) => None,
        }
    }

    /// Sets a variable.
    pub(in crate::policy) fn set(&mut self, name: &str, value: Option<String>) {
        // The tilde follows the variable: `HOME=/etc; rm ~/hosts` removes `/etc/hosts`.
        if name == "HOME" {
            self.home = value.clone();
        }
        self.vars.insert(name.to_owned(), value);
    }

    /// Makes every variable and the directory unknown: other code has run in this shell.
    pub(in crate::policy) fn forget(&mut self) {
        // Variables that were not set in this script are unknown already.
        let known: Vec<String> = self.vars.keys().cloned().collect();
        self.volatile.extend(known);
        self.volatile.extend(["HOME".to_owned(), "PWD".to_owned()]);
        self.dirs.others = true;
    }

    /// Returns the state after a part of a script that may have run or not: what differs is not known.
    pub(in crate::policy) fn merged(&self, before: &Self) -> Self {
        let mut merged = self.clone();
        for name in before.vars.keys().chain(self.vars.keys()) {
            if before.vars.get(name) != self.vars.get(name) {
                merged.vars.insert(name.clone(), None);
            }
        }
        merged.volatile.extend(before.volatile.iter().cloned());
        merged.dirs = merged.dirs.or(&before.dirs);
        merged
    }
}
