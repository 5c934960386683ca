//! The part of a sync that waits for the disk. A thread of its own may run it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::{JournalError, meta};

/// A pending sync.
#[derive(Debug)]
#[must_use = "nothing is durable until it runs"]
pub struct PendingSync {
    pub(super) files: Vec<(Arc<File>, PathBuf)>,
    pub(super) dir: Option<PathBuf>,
    pub(super) is_new: bool,
}

impl PendingSync {
    /// Syncs the raw files first, then their index, then the events.
    pub fn run(self) -> Result<(), JournalError> {
        // In this order, so that after a loss of power no record and no event refers to missing bytes.
        for (file, path) in &self.files {
            file.sync_data().map_err(|error| JournalError::io("sync", path, error))?;
        }
        let Some(dir) = &self.dir else { return Ok(()) };
        if self.is_new {
            let meta = meta::path(dir);
            let synced = File::open(&meta).and_then(|file| file.sync_all());
            synced.map_err(|error| JournalError::io("sync", &meta, error))?;
        }
        meta::sync_dir(dir)?;
        // The session's own name stands in the directory above.
        dir.parent().filter(|_| self.is_new).map_or(Ok(()), meta::sync_dir)
    }
}
