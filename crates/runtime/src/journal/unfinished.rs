//! Which sessions of a data home are not over: a mark for each in `open/`, beside `sessions/`.
//!
//! Whoever looks after sessions whose runner was killed looks here, and so at a handful of names, however many sessions
//! there are. A runner sets the mark when it has the lock, and takes it away when the final state is on file; what is
//! marked and not locked was left.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::append::{create_private, create_private_dir};
use super::{Home, JournalError};

/// The directory of the marks in the data home.
pub(super) const OPEN_DIR: &str = "open";

/// Marks a session as not over.
pub(super) fn mark(dir: &Path) -> Result<(), JournalError> {
    let Some(path) = path(dir) else { return Ok(()) };
    match create_private(&path) {
        Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        other => return other.map(drop),
    }
    if let Some(marks) = path.parent() {
        match create_private_dir(marks) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(JournalError::io("create", marks, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    create_private(&path).map(drop)
}

/// Takes the mark of a session away.
pub(crate) fn unmark(dir: &Path) -> Result<(), JournalError> {
    let Some(path) = path(dir) else { return Ok(()) };
    match std::fs::remove_file(&path) {
        // Another one was faster, or it never had one.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(JournalError::io("remove", &path, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Says whether sessions of this home are marked at all.
pub(super) fn has_marks(home: &Home) -> bool {
    home.path().join(OPEN_DIR).is_dir()
}

/// Lists the directories of the sessions that are not over, in the order of their names. One may be gone.
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

/// Returns where the mark of a session is: the home is two directories above it.
fn path(dir: &Path) -> Option<PathBuf> {
    Some(dir.parent()?.parent()?.join(OPEN_DIR).join(dir.file_name()?))
}
