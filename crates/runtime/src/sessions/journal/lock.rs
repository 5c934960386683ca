//! The lock of a living runner, on `events.jsonl`, which only the runner writes. The kernel releases it when the runner ends.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_protocol::Timestamp;

use super::append::Append;
use super::repair::repair_locked;
use super::{EVENTS_FILE, JournalError, Repaired, SessionMeta};

/// Held until it is dropped. Children do not inherit it: exec closes the descriptor.
#[derive(Debug)]
pub(crate) struct Lock {
    file: Arc<File>,
}

/// A process that checks the lock holds it for an instant, and so does a child between fork and exec.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

impl Lock {
    /// Takes the lock of a session's directory, or returns that another process holds it.
    pub(super) fn take(dir: &Path, events: &Append) -> Result<Self, JournalError> {
        Self::take_file(dir, events.file())
    }

    /// Takes the lock of a directory that exists; none if it does not. A directory without events gets an empty file.
    pub(super) fn hold(dir: &Path) -> Result<Option<Self>, JournalError> {
        let path = dir.join(EVENTS_FILE);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = match opened {
            Ok(file) => Arc::new(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(JournalError::io("open", &path, error)),
        };
        let lock = Self::take_file(dir, file)?;
        // `Registry::remove` renames the directory under the same lock. Then this file is no longer the one at the path.
        let same = |now: &Metadata| {
            lock.file.metadata().is_ok_and(|then| (then.dev(), then.ino()) == (now.dev(), now.ino()))
        };
        Ok(std::fs::metadata(&path).is_ok_and(|now| same(&now)).then_some(lock))
    }

    fn take_file(dir: &Path, file: Arc<File>) -> Result<Self, JournalError> {
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(locked(dir)),
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

/// A session that this process keeps, also between two of its runs: as long as one clone exists, no other process resumes, repairs or
/// removes the session, or takes it for one that is over.
#[derive(Clone, Debug)]
pub(crate) struct SessionHold {
    dir: PathBuf,
    lock: Arc<Lock>,
}

impl SessionHold {
    pub(super) fn new(dir: &Path, lock: Lock) -> Self {
        Self { dir: dir.to_owned(), lock: Arc::new(lock) }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Repairs the session as [`repair`](super::repair()) does, without giving up the lock. Its writer must be gone.
    pub(crate) fn repair(&self, now: Timestamp) -> Result<Repaired, JournalError> {
        repair_locked(&self.dir, &self.lock, now, Vec::new(), |_| ()).map(|end| end.repaired)
    }
}

/// Returns the error of a directory whose lock is held. Its runner may be dead, while another process cleans up after it.
pub(super) fn locked(dir: &Path) -> JournalError {
    let runner = SessionMeta::read(dir).ok().and_then(|meta| meta.runner);
    let pid = runner.filter(|runner| runner.is_there()).map(|runner| runner.pid);
    JournalError::Locked { path: dir.to_owned(), pid }
}

/// Releases a lock. Closing alone does not, while a child of another thread is between fork and exec.
pub(super) fn free(file: &File) {
    // Releasing a held lock cannot fail in practice; if it does, closing the file releases it.
    let _ = file.unlock();
}
