//! The session directory: all bytes that a session read and wrote, and all events that were decoded from them.
//!
//! A session is a directory under the data home. [`Writer`] belongs to the one runner of the session and appends; a runner
//! that resumes the session goes on in the same files ([`Writer::open`]). [`Reader`] reads from any position, also while the file grows. [`repair`] repairs the directory of a runner that was
//! killed. `docs/journal.md` describes the files.
//!
//! The writer writes raw bytes first, then the events decoded from them, so a public event always has its bytes on file. The
//! time of the bytes (`io.index`) may follow a little later. Nothing here waits, decides about a run, or reads the clock: the
//! time of bytes and events comes with them.

mod append;
mod digest;
pub(crate) mod ending;
mod error;
mod home;
mod index;
mod lock;
mod mask;
mod meta;
mod pending_sync;
mod prompts;
mod reader;
mod records;
mod repair;
mod snapshot;
pub(crate) mod stint;
pub(crate) mod temporary;
pub(crate) mod unfinished;
mod whole;
mod writer;

#[cfg(test)]
mod tests;

pub use crate::system::clock::BootMoment;
pub(crate) use digest::digest_of;
pub use error::{HomeProblem, JournalError};
pub(crate) use home::{ABORTS_DIR, SPENDING_DIR, SPENDING_NOW_DIR};
pub use home::{Home, SessionEntry, Sessions, new_session_id};
pub use index::{Index, IndexRecord};
pub(crate) use lock::{Lock, SessionHold};
pub use mask::Mask;
pub use meta::{
    Abort, KeptPolicies, KeptServer, META_FORMAT, Program, ResumeOptions, Runner, SessionMeta, update_meta,
};
pub use pending_sync::PendingSync;
pub use reader::Reader;
pub use repair::{Repaired, repair};
pub(crate) use repair::{current_meta, repair_leaving};
pub use snapshot::snapshot;
pub use stint::JournalEnd;
pub use writer::{Options, Writer};

use std::path::{Path, PathBuf};

use bowline_protocol::RawFile;

/// The file of a session's events, one JSON object on a line. A living runner holds its lock.
pub const EVENTS_FILE: &str = "events.jsonl";

/// The file with the time of each write to a raw file.
pub const INDEX_FILE: &str = "io.index";

/// The file that describes the session.
pub const META_FILE: &str = "session.json";

/// The directory of a session in which the agent finds what does not fit into its arguments.
pub(crate) const SIDE_FILES: &str = "files";

/// Every raw file of a session.
const RAW_FILES: [RawFile; 4] = [RawFile::Stdout, RawFile::Stderr, RawFile::Stdin, RawFile::Pty];

/// Returns whether the runner of a session's directory lives.
pub(crate) fn is_live(dir: &Path) -> Result<bool, JournalError> {
    lock::Lock::is_taken(dir)
}

/// Takes the lock of a session's directory, for a process that cleans up after its runner or removes it; none if there is no
/// such directory. As long as it is held, no runner can resume the session.
pub(crate) fn hold(dir: &Path) -> Result<Option<Lock>, JournalError> {
    Lock::hold(dir)
}

/// Returns the name of a raw file in the session's directory.
pub fn raw_name(file: RawFile) -> &'static str {
    match file {
        RawFile::Stdout => "stdout.raw",
        RawFile::Stderr => "stderr.raw",
        RawFile::Stdin => "stdin.raw",
        RawFile::Pty => "pty.raw",
    }
}

/// Returns the place of a raw file in [`RAW_FILES`].
fn slot_of(file: RawFile) -> usize {
    match file {
        RawFile::Stdout => 0,
        RawFile::Stderr => 1,
        RawFile::Stdin => 2,
        RawFile::Pty => 3,
    }
}

/// Returns the path of a raw file.
fn raw_path(dir: &Path, file: RawFile) -> PathBuf {
    dir.join(raw_name(file))
}
