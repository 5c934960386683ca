//! The unfinished sessions of a data home: a mark for each in `open/`, beside `sessions/`.
//!
//! The cleanup after killed runners reads these marks, and so only a handful of names, however many sessions there are. A runner
//! sets the mark when it has the lock, and removes it when the final state is on file. A marked session without a held lock was
//! abandoned.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::append::{create_private, create_private_dir};
use super::{Home, JournalError};

/// The directory of the marks in the data home.
pub(super) const OPEN_DIR: &str = "open";

/// Marks a session as unfinished.
pub(super) fn mark(dir: &Path) -> Result<(), JournalError> {
    let Some(path) = path(dir) else { return Ok(()) };
    match create_private(&path) {
        // The first session of this home: the directory of the marks does not exist yet.
        Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        other => return other.map(drop),
    }
    if let Some(marks) = path.parent() {
        match create_private_dir(marks) {
            // Another process may have created it meanwhile.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(JournalError::io("create", marks, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    create_private(&path).map(drop)
}

/// Returns whether a session is marked as unfinished.
pub(crate) fn is_marked(dir: &Path) -> bool {
    path(dir).is_some_and(|path| path.exists())
}

/// Removes the mark of a session.
pub(crate) fn unmark(dir: &Path) -> Result<(), JournalError> {
    let Some(path) = path(dir) else { return Ok(()) };
    match std::fs::remove_file(&path) {
        // Another process removed it, or it never existed.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(JournalError::io("remove", &path, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns whether this home has marks at all.
pub(super) fn has_marks(home: &Home) -> bool {
    home.path().join(OPEN_DIR).is_dir()
}

/// Lists the directories of unfinished sessions, in the order of their names. A directory may be gone.
pub(crate) fn dirs(home: &Home) -> Result<Vec<PathBuf>, JournalError> {
    home.check()?;
    let (marks, sessions) = (home.path().join(OPEN_DIR), home.sessions_dir());
    let entries = match std::fs::read_dir(&marks) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(JournalError::read("list", &marks, error)),
    };
    let mut dirs = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| JournalError::read("list", &marks, error))?;
        dirs.push(sessions.join(entry.file_name()));
    }
    dirs.sort_unstable();
    Ok(dirs)
}

/// Returns how long ago a session was marked.
pub(crate) fn marked_for(dir: &Path, now: SystemTime) -> Option<Duration> {
    let marked = std::fs::metadata(path(dir)?).and_then(|mark| mark.modified()).ok()?;
    now.duration_since(marked).ok()
}

/// Returns the path of a session's mark: the home is two directories above the session.
fn path(dir: &Path) -> Option<PathBuf> {
    Some(dir.parent()?.parent()?.join(OPEN_DIR).join(dir.file_name()?))
}
