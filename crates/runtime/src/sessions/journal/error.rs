//! Errors of the journal, in types that a caller can act on.

use std::io;
use std::path::{Path, PathBuf};

use bowline_protocol::RawSpan;

use super::temporary;

/// An error of the journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The session has written as much as it may. Closing events are still accepted.
    #[error("the session has reached its disk quota of {limit} bytes")]
    QuotaExceeded {
        /// The quota in bytes.
        limit: u64,
    },
    /// The disk, or the user's share of it, is full. Earlier content is intact.
    #[error("the disk is full: {} could not grow", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file is as large as the user's limit lets it get.
    #[error("{} is as large as a file may get here", path.display())]
    FileTooLarge {
        /// The file that could not grow.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// This process may not write there.
    #[error("{} may not be written", path.display())]
    NotWritable {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process writes this session.
    #[error("{} is in use by {}", path.display(), holder(*pid))]
    Locked {
        /// The session's directory.
        path: PathBuf,
        /// The process id of its runner. None if the runner is dead, and another process cleans up after it.
        pid: Option<u32>,
    },
    /// A session with that id exists.
    #[error("{} exists already", path.display())]
    Exists {
        /// The session's directory.
        path: PathBuf,
    },
    /// There is no such session.
    #[error("there is no session at {}", path.display())]
    NoSession {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The id cannot be the name of a directory.
    #[error("`{id}` cannot name a session: use letters, digits, `-`, `_` and `.`, not `.` in front")]
    BadId {
        /// The id.
        id: String,
    },
    /// A newer Bowline wrote it.
    #[error("{} has format {found}; this version reads up to {known}", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: u32,
        /// The newest version that we read.
        known: u32,
    },
    /// A complete line or record of a file is invalid.
    #[error("{} is damaged at byte {offset}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
        /// The reason.
        reason: String,
        /// The error of the parser, if the line is not valid JSON.
        source: Option<serde_json::Error>,
    },
    /// A span points at bytes that are not on file.
    #[error("bytes {} to {} are not in {}, which has {len}", span.start, span.end, path.display())]
    NoSuchBytes {
        /// The raw file.
        path: PathBuf,
        /// The requested span.
        span: RawSpan,
        /// How many bytes the file has.
        len: u64,
    },
    /// The caller's events do not follow those on file.
    #[error("event {got} does not follow: the journal expects {expected}")]
    OutOfOrder {
        /// The number that comes next.
        expected: u64,
        /// The number of the event.
        got: u64,
    },
    /// An event could not be written as JSON.
    #[error("event {seq} could not be written as JSON")]
    Unwritable {
        /// Its number.
        seq: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// Neither `BOWLINE_HOME` nor a home directory is known.
    #[error("no place for sessions is known: BOWLINE_HOME, XDG_DATA_HOME and HOME are all unset")]
    NoHome,
    /// Other users could change what is in the data home.
    #[error("the data home {} is not used: {problem}", path.display())]
    UnsafeHome {
        /// The directory.
        path: PathBuf,
        /// The reason.
        problem: HomeProblem,
    },
    /// Any other error of the system.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Why a data home is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HomeProblem {
    /// It belongs to another user.
    #[error("it belongs to user {owner}, and this process is user {own}")]
    Owner {
        /// The owner's user id.
        owner: u32,
        /// The user id of this process.
        own: u32,
    },
    /// Its group or all users may write in it.
    #[error("other users may write in it (mode {mode:o})")]
    Writable {
        /// The permissions that it has.
        mode: u32,
    },
}

/// Describes the process that holds the lock of a session.
fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("its runner, process {pid}"),
        None => "another process, which cleans up after a killed runner".to_owned(),
    }
}

impl JournalError {
    /// Converts an error of the system.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        let kind = source.kind();
        if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            Self::DiskFull { path, source }
        } else if kind == io::ErrorKind::FileTooLarge {
            Self::FileTooLarge { path, source }
        } else if matches!(kind, io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied) {
            Self::NotWritable { path, source }
        } else {
            Self::Io { doing, path, source }
        }
    }

    /// Converts an error of a read: there, a missing permission does not mean a read-only home.
    pub(super) fn read(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source }
    }

    /// Converts an error of opening the file that makes a directory a session.
    pub(super) fn open(path: &Path, dir: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            Self::NoSession { path: dir.to_owned() }
        } else {
            Self::read("open", path, source)
        }
    }

    /// Returns whether the quota, the disk or a file limit is reached. Then only closing events can follow.
    pub fn is_out_of_room(&self) -> bool {
        matches!(self, Self::QuotaExceeded { .. } | Self::DiskFull { .. } | Self::FileTooLarge { .. })
    }

    /// Returns a hint, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::QuotaExceeded { .. } => {
                Some("raise the quota of the session, or check what the agent prints".to_owned())
            }
            Self::DiskFull { path, .. } => Some(format!(
                "free some space where {} lies, or set {} to a directory on another disk",
                path.display(),
                temporary::variable(path)
            )),
            Self::FileTooLarge { .. } => Some("raise the limit: `ulimit -f` shows it".to_owned()),
            Self::NotWritable { path, .. } => {
                Some(format!("set {} to a directory that you may write", temporary::variable(path)))
            }
            Self::NoHome => Some("set BOWLINE_HOME to a directory that you may write".to_owned()),
            Self::UnsafeHome { path, problem: HomeProblem::Writable { .. } } => {
                Some(format!("chmod 700 {}", path.display()))
            }
            Self::UnsafeHome { problem: HomeProblem::Owner { .. }, .. } => {
                Some("set BOWLINE_HOME to a directory of your own, or run this as its owner".to_owned())
            }
            Self::Locked { pid: Some(_), .. } => Some("wait until it ends, or stop it first".to_owned()),
            Self::Locked { pid: None, .. } => Some("try again in a few seconds".to_owned()),
            Self::NewerFormat { .. } => Some("update bowline".to_owned()),
            Self::Damaged { .. } => Some(
                "its raw files are kept as they are; a session goes on by the agent's own name for it, too"
                    .to_owned(),
            ),
            Self::Exists { .. }
            | Self::NoSession { .. }
            | Self::BadId { .. }
            | Self::NoSuchBytes { .. }
            | Self::OutOfOrder { .. }
            | Self::Unwritable { .. }
            | Self::Io { .. } => None,
        }
    }
}
