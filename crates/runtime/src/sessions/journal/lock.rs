//! The lock of a living runner, on `events.jsonl`, which only the runner writes. The kernel releases it when the runner ends.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::append::Append;
use super::{EVENTS_FILE, JournalError};

/// Held until it is dropped. Children do not inherit it: exec closes the descriptor.
#[derive(Debug)]
pub(super) struct Lock {
    file: Arc<File>,
}

/// A process that checks the lock holds it for an instant, and so does a child between fork and exec.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

impl Lock {
    /// Takes the lock of a session's directory, or returns that another process holds it.
    pub(super) fn take(dir: &Path, events: &Append) -> Result<Self, JournalError> {
        let file = events.file();
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(JournalError::Locked { path: dir.to_owned() }),
                Err(TryLockError::Error(error)) => {
                    return Err(JournalError::io("lock", &dir.join(EVENTS_FILE), error));
                }
            }
        }
        Ok(Self { file })
    }

    /// Returns whether a process holds the lock.
    pub(super) fn is_taken(dir: &Path) -> Result<bool, JournalError> {
        let path = dir.join(EVENTS_FILE);
        // Opened anew, so this also sees a lock of this process: an `flock` belongs to the open file (flock(2)).
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(JournalError::read("open", &path, error)),
        };
        // Take a shared lock, so that two checks do not see each other.
        match file.try_lock_shared() {
            Ok(()) => {
                free(&file);
                Ok(false)
            }
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(JournalError::read("look at the lock", &path, error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        free(&self.file);
    }
}

/// Releases a lock. Closing alone does not, while a child of another thread is between fork and exec.
pub(super) fn free(file: &File) {
    // Releasing a held lock cannot fail in practice; if it does, closing the file releases it.
    let _ = file.unlock();
}
