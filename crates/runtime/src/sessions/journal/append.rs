//! A file that only grows, by whole pieces. A piece that could not be written in full is cut off again.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::JournalError;

/// The mode of every file of a session.
const FILE_MODE: u32 = 0o600;

/// The mode of a session's directory.
const DIR_MODE: u32 = 0o700;

/// A file that only its one writer changes.
///
/// Each write passes its offset, instead of using `O_APPEND`: a secret that a flush cut in two has to be masked in place
/// afterwards.
#[derive(Debug)]
pub(super) struct Append {
    file: Arc<File>,
    path: PathBuf,
    len: u64,
    /// The length that the file system has reserved.
    reserved: u64,
    /// Whether there is data for `fsync`.
    dirty: bool,
    /// A failed write left bytes that could not be cut off. Nothing may be appended until they are.
    torn: bool,
}

impl Append {
    /// Creates a file that only its owner may read, whatever the umask is.
    pub(super) fn create(path: PathBuf) -> Result<Self, JournalError> {
        let file = create_private(&path)?;
        Ok(Self { file: Arc::new(file), path, len: 0, reserved: 0, dirty: true, torn: false })
    }

    /// Opens a file that may exist, for a repair or to go on with it.
    pub(super) fn open(path: PathBuf) -> Result<Self, JournalError> {
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(&path);
        let file = made.map_err(|error| JournalError::io("open", &path, error))?;
        let mut opened = Self { file: Arc::new(file), path, len: 0, reserved: 0, dirty: false, torn: false };
        opened.measure()?;
        Ok(opened)
    }

    /// Reads the length of the file, which another process may have written.
    pub(super) fn measure(&mut self) -> Result<(), JournalError> {
        self.len = self.file.metadata().map_err(|error| self.failed("look at", error))?.len();
        Ok(())
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the file, for locking.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Appends all of the bytes, or none of them. One system call where the system does not split it.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        if self.torn {
            self.cut(self.len)?;
        }
        self.dirty = true;
        if let Err(error) = self.file.write_all_at(bytes, self.len) {
            // A part may be on file. The disk is probably full, but truncating still works.
            // Set it before the cut, which clears it. If the cut fails too, the next append cuts again.
            self.torn = true;
            self.cut(self.len)?;
            return Err(self.failed("write", error));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Overwrites bytes that are on file already.
    pub(super) fn overwrite(&mut self, bytes: &[u8], at: u64) -> Result<(), JournalError> {
        debug_assert!(at + bytes.len() as u64 <= self.len, "only what is there can be written over");
        self.dirty = true;
        self.file.write_all_at(bytes, at).map_err(|error| self.failed("write", error))
    }

    /// Replaces everything from `at` on. Keeps the old bytes as long as possible.
    pub(super) fn replace_tail(&mut self, at: u64, bytes: &[u8]) -> Result<(), JournalError> {
        self.file.write_all_at(bytes, at).map_err(|error| self.failed("write", error))?;
        self.cut(at + bytes.len() as u64)
    }

    /// Sets the length of the file: truncates it, or appends zeros.
    pub(super) fn cut(&mut self, len: u64) -> Result<(), JournalError> {
        self.file.set_len(len).map_err(|error| self.failed("cut", error))?;
        (self.len, self.dirty, self.torn) = (len, true, false);
        self.reserved = self.reserved.min(len);
        Ok(())
    }

    /// Reserves disk space behind the end of the file, so that a later write cannot fail on a full disk.
    ///
    /// A file system that cannot reserve space is not an error; the later write may then fail.
    pub(super) fn reserve(&mut self, room: u64) -> Result<(), JournalError> {
        let wanted = self.len + room;
        if wanted <= self.reserved {
            return Ok(());
        }
        // Long sessions take few large steps, the many short ones take small steps.
        let generous = wanted + self.len.clamp(64 << 10, 1 << 20);
        match self.promise(generous) {
            // The generous step may not fit where the needed one still does.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.promise(wanted).map_err(|error| self.failed("reserve room in", error))
            }
            other => other.map_err(|error| self.failed("reserve room in", error)),
        }
    }

    #[cfg(target_os = "linux")]
    fn promise(&mut self, end: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(&*self.file, FallocateFlags::KEEP_SIZE, self.len, end - self.len) {
            // The file system has no `fallocate` (fallocate(2)). Count the space as reserved, so that no later write tries
            // again.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                self.reserved = end;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn promise(&mut self, end: u64) -> io::Result<()> {
        self.reserved = end;
        Ok(())
    }

    /// Releases the reserved space that is not used. This need not be durable.
    pub(super) fn release(&mut self) -> Result<(), JournalError> {
        if self.reserved > self.len {
            let dirty = self.dirty;
            // Setting the length frees the blocks that `fallocate` reserved behind it. That changes no data, so there is
            // nothing new to sync.
            self.cut(self.len)?;
            self.dirty = dirty;
        }
        Ok(())
    }

    /// Returns the file if it has data to sync, and marks it as synced.
    pub(super) fn take_dirty(&mut self) -> Option<(Arc<File>, PathBuf)> {
        std::mem::take(&mut self.dirty).then(|| (Arc::clone(&self.file), self.path.clone()))
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> JournalError {
        JournalError::io(doing, &self.path, error)
    }
}

/// Creates a file with the right mode, whatever the umask is.
pub(super) fn create_private(path: &Path) -> Result<File, JournalError> {
    let made =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(FILE_MODE).open(path);
    let file = made.map_err(|error| JournalError::io("create", path, error))?;
    // The mode of `open` only loses bits to the umask; this adds those that a strange umask took.
    let mode =
        file.metadata().map_err(|error| JournalError::io("look at", path, error))?.permissions().mode();
    if mode & 0o777 != FILE_MODE {
        let set = file.set_permissions(Permissions::from_mode(FILE_MODE));
        set.map_err(|error| JournalError::io("set the mode of", path, error))?;
    }
    Ok(file)
}

/// Creates a directory for its owner alone, whatever the umask is. It must not exist.
pub(super) fn create_private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(DIR_MODE).create(path)?;
    // The umask may have removed bits of the mode (umask(2)).
    std::fs::set_permissions(path, Permissions::from_mode(DIR_MODE))
}
