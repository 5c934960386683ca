//! The digest of a whole session, read from its journal: for texts that are too long for memory during a run.

use std::path::Path;

use bowline_providers::views::Digest;

use super::{JournalError, Reader};

/// Reads a journal into a digest with the whole text.
pub(crate) fn digest_of(dir: &Path) -> Result<Digest, JournalError> {
    let mut reader = Reader::open(dir)?;
    let mut digest = Digest::unlimited();
    while let Some(event) = reader.next_event()? {
        digest.event(&event);
    }
    Ok(digest)
}
