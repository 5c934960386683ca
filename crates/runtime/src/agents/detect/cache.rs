//! The cache of programs' answers, valid as long as the program's file is the same.
//!
//! One small JSON file, replaced as a whole, so that a reader never sees half of it. Two processes that write at once may lose
//! an answer, which is then queried again. A file that cannot be parsed counts as absent, and the next write replaces it. The
//! cache keeps answers as they were printed, so that a newer Bowline can interpret them better.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_protocol::Timestamp;
use bowline_providers::probe::Answer;
use serde::{Deserialize, Serialize};

use super::Surroundings;
use crate::system::host;

/// The version of the file format.
const FORM: u32 = 1;

/// How long an answer is valid: some programs update themselves behind a launcher that stays the same.
const GOOD_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The limit on cached programs.
const MOST: usize = 64;

/// A cache of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    path: PathBuf,
    /// Whether to ignore cached answers.
    anew: bool,
}

/// The identity of a program's file.
///
/// npm gives every file of every release the same modification time, and a launcher often keeps its size, so the ctime of the
/// inode is needed too. The kernel gives the same time to all writes within 4 ms, so the inode number is needed too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    path: PathBuf,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
    /// Absent in files of earlier versions.
    #[serde(default)]
    inode: u64,
}

impl Stamp {
    /// Reads the identity of a file; none if the file cannot be read, or if its path is not UTF-8.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        path.to_str()?;
        let meta = std::fs::metadata(path).ok()?;
        let (mtime, ctime) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        Some(Self { path: path.to_owned(), size: meta.len(), mtime, ctime, inode: meta.ino() })
    }

    /// Returns a text that differs for another file, for the key of an answer.
    pub(crate) fn text(path: &Path) -> String {
        let place = path.display();
        match Self::of(path) {
            Some(Self { size, mtime, ctime, inode, .. }) => {
                format!("{place} {size} {}.{:09} {}.{:09} {inode}", mtime.0, mtime.1, ctime.0, ctime.1)
            }
            None => format!("{place} unknown"),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct CacheFile {
    v: u32,
    programs: Vec<CachedProgram>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CachedProgram {
    file: Stamp,
    answers: Vec<Answered>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) args: Vec<String>,
    pub(super) at: Timestamp,
    pub(super) answer: Answer,
}

impl Cache {
    /// Uses this file. The first answer creates it and its directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), anew: false }
    }

    /// Uses the file of the environment: in `BOWLINE_HOME` if it is set, else in the XDG cache directory.
    pub fn from_env() -> Option<Self> {
        Self::of(&Surroundings::from_env())
    }

    /// Uses the file of these surroundings.
    pub fn of(surroundings: &Surroundings) -> Option<Self> {
        surroundings.cache_dir().map(|dir| Self::at(dir.join("probes.json")))
    }

    /// Writes answers to the same file, but ignores cached ones: each query runs the program.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { anew: true, ..self }
    }

    /// Returns whether cached answers are ignored.
    pub(crate) fn is_anew(&self) -> bool {
        self.anew
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an answer that is still valid, and its time.
    pub(super) fn get(&self, file: &Stamp, args: &[String], now: Timestamp) -> Option<(Answer, Timestamp)> {
        if self.anew {
            return None;
        }
        let kept = self.read();
        let program = kept.programs.into_iter().find(|program| program.file == *file)?;
        let answered = program.answers.into_iter().find(|answered| answered.args == args)?;
        is_good(answered.at, now).then_some((answered.answer, answered.at))
    }

    /// Returns every answer of a program that is still valid.
    pub(super) fn all(&self, file: &Stamp, now: Timestamp) -> Vec<Answered> {
        let program = self.read().programs.into_iter().find(|program| program.file == *file);
        let answers = program.map(|program| program.answers).unwrap_or_default();
        answers.into_iter().filter(|it| is_good(it.at, now)).collect()
    }

    /// Writes an answer. Replaces answers of an earlier file at the same path.
    pub(super) fn put(
        &self,
        file: &Stamp,
        args: &[String],
        answer: &Answer,
        now: Timestamp,
    ) -> std::io::Result<()> {
        /// Serialises writes, so that queries of one process do not lose each other's answers.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = self.read();
        let known = kept.programs.iter().position(|program| program.file == *file);
        let mut program = match known {
            Some(place) => kept.programs.remove(place),
            None => CachedProgram { file: file.clone(), answers: Vec::new() },
        };
        // Another file was at this path before: the program was updated.
        kept.programs.retain(|other| other.file.path != file.path);
        program.answers.retain(|other| other.args != args);
        program.answers.push(Answered { args: args.to_vec(), at: now, answer: answer.clone() });
        kept.programs.push(program);
        // The program in use is last now, so the oldest ones are first.
        let extra = kept.programs.len().saturating_sub(MOST);
        kept.programs.drain(..extra);
        self.write(&kept)
    }

    fn read(&self) -> CacheFile {
        let nothing = || CacheFile { v: FORM, programs: Vec::new() };
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    let path = self.path.display();
                    tracing::warn!(%path, error = &error as &dyn std::error::Error, "kept answers cannot be read");
                }
                return nothing();
            }
        };
        let kept: Option<CacheFile> = serde_json::from_slice(&bytes).ok();
        kept.filter(|kept| kept.v == FORM).unwrap_or_else(|| {
            tracing::debug!(path = %self.path.display(), "kept answers are damaged, or another version's; they are forgotten");
            nothing()
        })
    }

    fn write(&self, kept: &CacheFile) -> std::io::Result<()> {
        host::replace_file(&self.path, &serde_json::to_vec(kept)?)
    }
}

fn is_good(at: Timestamp, now: Timestamp) -> bool {
    // An answer from the future was written with a wrong clock, and does not count.
    let age = now.as_millis().checked_sub(at.as_millis());
    age.and_then(|age| u64::try_from(age).ok()).is_some_and(|age| Duration::from_millis(age) < GOOD_FOR)
}

#[cfg(test)]
mod tests;
