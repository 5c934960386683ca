//! What programs answered, kept as long as the file is the same.
//!
//! One small file of JSON, replaced as a whole: whoever reads it sees one writer's version or another's, never half of
//! one. Two processes that write at once may lose an answer of one of them, which is then asked for again. A file that cannot be
//! read as what it should be is as good as none, and the next writer replaces it. Answers are kept as they were printed,
//! so that a newer Bowline reads them with newer eyes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_protocol::Timestamp;
use bowline_providers::probe::Answer;
use serde::{Deserialize, Serialize};

use super::Surroundings;
use crate::host;

/// The version of the form.
const FORM: u32 = 1;

/// How long an answer is good: some programs update themselves behind a launcher that stays the same.
const GOOD_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The most programs that are remembered.
const MOST: usize = 64;

/// Where answers are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    path: PathBuf,
    /// Whether what is kept is passed over.
    anew: bool,
}

/// Which file answered.
///
/// npm gives every file of every release the same time of change, and a launcher often keeps its size; the time of the
/// last change of the inode is what tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    path: PathBuf,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Stamp {
    /// Looks at a file; none if it cannot be looked at, or if its path is not text.
    pub(super) fn of(path: &Path) -> Option<Self> {
        path.to_str()?;
        let meta = std::fs::metadata(path).ok()?;
        let (mtime, ctime) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        Some(Self { path: path.to_owned(), size: meta.len(), mtime, ctime })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    v: u32,
    programs: Vec<Program>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Program {
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
    /// Keeps answers in this file. It and its directory are made when there is something to keep.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), anew: false }
    }

    /// Keeps answers where the environment says: in `BOWLINE_HOME` if it is set, else in the XDG cache directory.
    pub fn from_env() -> Option<Self> {
        Self::of(&Surroundings::from_env())
    }

    /// Keeps answers where these surroundings say.
    pub fn of(surroundings: &Surroundings) -> Option<Self> {
        surroundings.cache_dir().map(|dir| Self::at(dir.join("probes.json")))
    }

    /// Keeps answers in the same place, and gives none that is there already: everything is asked anew.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { anew: true, ..self }
    }

    /// Says whether everything is asked anew.
    pub(crate) fn is_anew(&self) -> bool {
        self.anew
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an answer that is still good, and when it was given.
    pub(super) fn get(&self, file: &Stamp, args: &[String], now: Timestamp) -> Option<(Answer, Timestamp)> {
        if self.anew {
            return None;
        }
        let kept = self.read();
        let program = kept.programs.into_iter().find(|program| program.file == *file)?;
        let answered = program.answers.into_iter().find(|answered| answered.args == args)?;
        is_good(answered.at, now).then_some((answered.answer, answered.at))
    }

    /// Returns every answer of a program that is still good.
    pub(super) fn all(&self, file: &Stamp, now: Timestamp) -> Vec<Answered> {
        let program = self.read().programs.into_iter().find(|program| program.file == *file);
        let answers = program.map(|program| program.answers).unwrap_or_default();
        answers.into_iter().filter(|it| is_good(it.at, now)).collect()
    }

    /// Keeps an answer, in the place of what the same path answered when it was another file.
    pub(super) fn put(
        &self,
        file: &Stamp,
        args: &[String],
        answer: &Answer,
        now: Timestamp,
    ) -> std::io::Result<()> {
        /// The questions of one process do not lose each other's answers.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = self.read();
        let known = kept.programs.iter().position(|program| program.file == *file);
        let mut program = match known {
            Some(place) => kept.programs.remove(place),
            None => Program { file: file.clone(), answers: Vec::new() },
        };
        kept.programs.retain(|other| other.file.path != file.path);
        program.answers.retain(|other| other.args != args);
        program.answers.push(Answered { args: args.to_vec(), at: now, answer: answer.clone() });
        kept.programs.push(program);
        let extra = kept.programs.len().saturating_sub(MOST);
        kept.programs.drain(..extra);
        self.write(&kept)
    }

    fn read(&self) -> Kept {
        let nothing = || Kept { v: FORM, programs: Vec::new() };
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
        let kept: Option<Kept> = serde_json::from_slice(&bytes).ok();
        kept.filter(|kept| kept.v == FORM).unwrap_or_else(|| {
            tracing::debug!(path = %self.path.display(), "kept answers are damaged, or another version's; they are forgotten");
            nothing()
        })
    }

    fn write(&self, kept: &Kept) -> std::io::Result<()> {
        host::replace_file(&self.path, &serde_json::to_vec(kept)?)
    }
}

fn is_good(at: Timestamp, now: Timestamp) -> bool {
    let age = now.as_millis().checked_sub(at.as_millis());
    age.and_then(|age| u64::try_from(age).ok()).is_some_and(|age| Duration::from_millis(age) < GOOD_FOR)
}

#[cfg(test)]
mod tests;
