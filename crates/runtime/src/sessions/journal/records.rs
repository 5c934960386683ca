//! The buffer for records of `io.index`. A write costs far more than a record of 32 bytes, so they are written together. The bytes
//! that they describe are on file long before.
//!
//! A killed runner loses the records in this buffer: the time of those bytes, not the bytes. A repair reports it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bowline_protocol::RawSpan;

use super::JournalError;
use super::append::Append;
use super::index::{self, IndexRecord, RECORD};

/// The capacity of the buffer.
const TOGETHER: usize = 64;

/// The end of a growing index. The first byte creates its file, as for the raw files.
#[derive(Debug)]
pub(super) struct Records {
    path: PathBuf,
    file: Option<Append>,
    waiting: Vec<u8>,
}

impl Records {
    /// Begins a new index.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, waiting: Vec::new() }
    }

    /// Goes on with an index that a repair left valid. A missing one begins with the first byte.
    pub(super) fn open(path: PathBuf) -> Result<Self, JournalError> {
        let is_begun = std::fs::metadata(&path).is_ok_and(|found| found.len() > 0);
        let file = is_begun.then(|| Append::open(path.clone())).transpose()?;
        Ok(Self { path, file, waiting: Vec::new() })
    }

    /// Returns the length of the index, including the buffer.
    pub(super) fn len(&self) -> u64 {
        self.file.as_ref().map_or(0, Append::len) + self.waiting.len() as u64
    }

    /// Reserves space for one more record, so that writing it later succeeds even on a full disk.
    pub(super) fn make_room(&mut self) -> Result<(), JournalError> {
        if self.waiting.len() >= TOGETHER * RECORD {
            self.write()?;
        }
        // Create the file here, and not in `write`: a full disk shows before the bytes are written.
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut file = Append::create(self.path.clone())?;
                file.append(&index::header())?;
                self.file.insert(file)
            }
        };
        file.reserve((self.waiting.len() + RECORD) as u64)
    }

    /// Adds a record for which space is reserved.
    pub(super) fn push(&mut self, at: SystemTime, span: RawSpan) {
        let record = IndexRecord { micros: index::micros(at), span, recovered: false };
        self.waiting.extend_from_slice(&record.encode());
    }

    /// Writes the buffer. Keeps it if the write fails.
    pub(super) fn write(&mut self) -> Result<(), JournalError> {
        if let Some(file) = &mut self.file
            && !self.waiting.is_empty()
        {
            file.append(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Writes the buffer and releases unused space.
    pub(super) fn finish(&mut self) -> Result<(), JournalError> {
        self.write()?;
        self.file.as_mut().map_or(Ok(()), Append::release)
    }

    /// Returns the file if it has data to sync, and marks it as synced.
    pub(super) fn take_dirty(&mut self) -> Option<(Arc<File>, PathBuf)> {
        self.file.as_mut()?.take_dirty()
    }
}
