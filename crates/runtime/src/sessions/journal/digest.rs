//! The digest of a whole stint, read from its journal: for texts that are too long for memory during a run.

use std::path::Path;

use bowline_protocol::Kind;
use bowline_providers::views::Digest;

use super::stint::is_stint_start;
use super::{JournalError, Reader};

/// Reads the stint that begins with this event into a digest with the whole text.
pub(crate) fn digest_of(dir: &Path, first_seq: u64) -> Result<Digest, JournalError> {
    let mut reader = Reader::open(dir)?;
    reader.seek(first_seq)?;
    let mut digest = Digest::unlimited();
    while let Some(event) = reader.next_event()? {
        // The session may have been resumed since. A stint whose end could not be written has no `session_ended`.
        if event.seq > first_seq && is_stint_start(&event) {
            break;
        }
        digest.event(&event);
        if matches!(event.kind, Kind::SessionEnded(_)) {
            break;
        }
    }
    Ok(digest)
}
