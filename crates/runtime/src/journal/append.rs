//! A file that only grows, by whole pieces: what could not be written in full is cut off again.

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
/// The place is kept here and given with each write, rather than left to `O_APPEND`: a secret that was cut in two by a
/// flush has to be masked afterwards, in place.
#[derive(Debug)]
pub(super) struct Append {
    file: Arc<File>,
    path: PathBuf,
    len: u64,
    /// Up to where the file system has promised room.
    reserved: u64,
    /// Whether there is something that `fsync` would have to do.
    dirty: bool,
    /// A piece that was refused left bytes behind that could not be cut off; nothing may be added until they are.
    torn: bool,
}

impl Append {
    /// Makes a new file that only its owner may read, whatever the umask says.
    pub(super) fn create(path: PathBuf) -> Result<Self, JournalError> {
        let file = create_private(&path)?;
        Ok(Self { file: Arc::new(file), path, len: 0, reserved: 0, dirty: true, torn: false })
    }

    /// Opens a file for repair.
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

    /// Looks how long the file is, which somebody else may have written.
    pub(super) fn measure(&mut self) -> Result<(), JournalError> {
        self.len = self.file.metadata().map_err(|error| self.failed("look at", error))?.len();
        Ok(())
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the file, for who locks it.
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
            // A part may be on file. The disk is probably full, which does not hinder cutting.
            self.torn = true;
            self.cut(self.len)?;
            return Err(self.failed("write", error));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Writes over bytes that are on file already.
    pub(super) fn overwrite(&mut self, bytes: &[u8], at: u64) -> Result<(), JournalError> {
        debug_assert!(at + bytes.len() as u64 <= self.len, "only what is there can be written over");
        self.dirty = true;
        self.file.write_all_at(bytes, at).map_err(|error| self.failed("write", error))
    }

    /// Puts bytes in the place of everything from `at` on. Until it is done, what was there stays as long as it can.
    pub(super) fn replace_tail(&mut self, at: u64, bytes: &[u8]) -> Result<(), JournalError> {
        self.file.write_all_at(bytes, at).map_err(|error| self.failed("write", error))?;
        self.cut(at + bytes.len() as u64)
    }

    /// Makes the file this long: shorter, or longer by zeros.
    pub(super) fn cut(&mut self, len: u64) -> Result<(), JournalError> {
        self.file.set_len(len).map_err(|error| self.failed("cut", error))?;
        (self.len, self.dirty, self.torn) = (len, true, false);
        self.reserved = self.reserved.min(len);
        Ok(())
    }

    /// Asks the file system for room behind the end of the file, so that a later write cannot meet a full disk.
    ///
    /// A file system that cannot promise anything is not an error: the promise is then only weaker.
    pub(super) fn reserve(&mut self, room: u64) -> Result<(), JournalError> {
        let wanted = self.len + room;
        if wanted <= self.reserved {
            return Ok(());
        }
        // Few large steps for long sessions, small ones for the many short ones.
        let generous = wanted + self.len.clamp(64 << 10, 1 << 20);
        match self.promise(generous) {
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

    /// Gives back the room that was reserved and not used. Nothing is lost if that is not durable.
    pub(super) fn release(&mut self) -> Result<(), JournalError> {
        if self.reserved > self.len {
            let dirty = self.dirty;
            self.cut(self.len)?;
            self.dirty = dirty;
        }
        Ok(())
    }

    /// Returns the file if it has something to be synced, and takes note that it will be.
    pub(super) fn take_dirty(&mut self) -> Option<(Arc<File>, PathBuf)> {
        std::mem::take(&mut self.dirty).then(|| (Arc::clone(&self.file), self.path.clone()))
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> JournalError {
        JournalError::io(doing, &self.path, error)
    }
}

/// Makes a new file with the right mode, whatever the umask says.
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

/// Makes a directory for its owner alone, whatever the umask says. It must not exist.
pub(super) fn create_private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(DIR_MODE).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(DIR_MODE))
}
