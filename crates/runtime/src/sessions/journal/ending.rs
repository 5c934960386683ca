//! Reads the state of a session from its last events, those of its last stint. The rest of the file may be long, and there may be many sessions.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use bowline_protocol::kinds::{EndReason, SessionState};
use bowline_protocol::{Event, Kind};

use super::stint::is_stint_start;
use super::{EVENTS_FILE, JournalError};

/// The number of bytes to read. The event that ends a session is the last one, and a short line.
const TAIL: u64 = 16 * 1024;

/// The state in the last events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The state; `session.json` has the first and the last only.
    pub(crate) state: Option<SessionState>,
    /// Why the session is over.
    pub(crate) reason: Option<EndReason>,
}

/// Reads the end of a session's events.
pub(crate) fn of(dir: &Path) -> Result<Ending, JournalError> {
    let path = dir.join(EVENTS_FILE);
    let failed = |error| JournalError::io("read", &path, error);
    let mut file = match File::open(&path) {
        // The session has no events.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ending::default()),
        other => other.map_err(failed)?,
    };
    let length = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).map_err(failed)?;
    let mut tail = Vec::new();
    // Its writer may go on.
    file.take(TAIL).read_to_end(&mut tail).map_err(failed)?;
    let mut ending = Ending::default();
    // The first line may be half a line. A torn last line does not count.
    for line in tail.split(|byte| *byte == b'\n') {
        let Ok(event) = serde_json::from_slice::<Event>(line) else { continue };
        if let Kind::SessionStateChanged(changed) = event.kind {
            ending.state = Some(changed.state);
        } else if let Kind::SessionEnded(ended) = event.kind {
            ending.reason = Some(ended.reason);
        } else if is_stint_start(&event) {
            // The session was resumed: the end before this event is that of an earlier stint.
            ending = Ending { state: Some(SessionState::Starting), reason: None };
        }
    }
    if ending.state.is_none() && length > TAIL {
        // An agent that prints this much is working: in every other state it is quiet.
        ending.state = Some(SessionState::Running);
    }
    Ok(ending)
}
