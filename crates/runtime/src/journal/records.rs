//! The records of `io.index` on their way to the disk. A write costs far more than a record of 32 bytes, so they gather here
//! and go together; the bytes that they speak of are on file long before.
//!
//! A runner that is killed takes with it what waits here: when those bytes came, not the bytes. A repair says so.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bowline_protocol::RawSpan;

use super::JournalError;
use super::append::Append;
use super::index::{self, RECORD, Record};

/// How many records go together.
const TOGETHER: usize = 64;

/// The end of an index that grows. Its file is made when the first byte comes, like those of the bytes.
#[derive(Debug)]
pub(super) struct Records {
    path: PathBuf,
    file: Option<Append>,
    waiting: Vec<u8>,
}

impl Records {
    /// Begins an index that is not there yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, waiting: Vec::new() }
    }

    /// Returns how long the index is, with what waits.
    pub(super) fn len(&self) -> u64 {
        self.file.as_ref().map_or(0, Append::len) + self.waiting.len() as u64
    }

    /// Sees to it that one more record can be taken, and put on file later, whatever becomes of the disk meanwhile.
    pub(super) fn make_room(&mut self) -> Result<(), JournalError> {
        if self.waiting.len() >= TOGETHER * RECORD {
            self.write()?;
        }
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

    /// Takes a record for which there is room.
    pub(super) fn push(&mut self, at: SystemTime, span: RawSpan) {
        let record = Record { micros: index::micros(at), span, recovered: false };
        self.waiting.extend_from_slice(&record.encode());
    }

    /// Puts on file what waits. If that fails, it goes on waiting.
    pub(super) fn write(&mut self) -> Result<(), JournalError> {
        if let Some(file) = &mut self.file
            && !self.waiting.is_empty()
        {
            file.append(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Puts on file what waits, and gives back the room that is not needed.
    pub(super) fn finish(&mut self) -> Result<(), JournalError> {
        self.write()?;
        self.file.as_mut().map_or(Ok(()), Append::release)
    }

    /// Returns the file if it has something to be synced, and takes note that it will be.
    pub(super) fn take_dirty(&mut self) -> Option<(Arc<File>, PathBuf)> {
        self.file.as_mut()?.take_dirty()
    }
}
