//! Session directories that cannot be read, and the removal of sessions.

use std::ffi::OsStr;
use std::path::Path;

use bowline_protocol::{SessionId, Timestamp};

use super::{Registry, RegistryError, lost};
use crate::sessions::journal::{self, JournalError, SessionMeta, unfinished};

/// A session's directory that cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct DamagedSession {
    /// The name of the directory, which is the id of the session.
    pub session: SessionId,
    /// When the directory was last changed.
    pub changed_at: Timestamp,
    /// The error.
    pub problem: JournalError,
    /// Whether a runner has it open, which then is one of a newer version.
    pub running: bool,
}

impl DamagedSession {
    /// Returns whether a newer version of Bowline wrote it, so that nothing is wrong with it.
    pub fn is_newer(&self) -> bool {
        matches!(self.problem, JournalError::NewerFormat { .. })
    }
}

impl Registry {
    /// Lists the directories of sessions that cannot be read, the newest name first: damaged ones, and those of a newer version.
    ///
    /// Leaves out names before `since`. A session that is just beginning is not damaged: its runner lives.
    pub fn damaged(&self, since: Option<&SessionId>) -> Result<Vec<DamagedSession>, RegistryError> {
        let mut damaged = Vec::new();
        for dir in self.home.session_dirs()? {
            let is_older =
                |since: &SessionId| dir.file_name().is_some_and(|name| name < OsStr::new(since.as_str()));
            if !since.is_some_and(is_older) {
                damaged.extend(damaged_session(&dir));
            }
        }
        damaged.sort_by(|one, other| other.session.as_str().cmp(one.session.as_str()));
        Ok(damaged)
    }

    /// Lists the sessions that runners of a newer version have open, the newest first.
    ///
    /// Such a session is marked as unfinished, so this opens no file of a session that is over, however many there are.
    /// [`Self::damaged`] reads the description of every session.
    pub fn of_newer_runners(&self) -> Result<Vec<DamagedSession>, RegistryError> {
        let mut newer: Vec<DamagedSession> =
            self.home.live_dirs()?.iter().filter_map(|dir| damaged_session(dir)).collect();
        // A runner may have ended since its lock was looked at.
        newer.retain(|it| it.is_newer() && it.running);
        newer.reverse();
        Ok(newer)
    }

    /// Removes a session that is over, or whose directory is damaged, with all its files. Ends processes that its agent left first.
    ///
    /// Needs a tokio runtime. Fails for a session whose runner lives ([`JournalError::Locked`]), and for a name without a
    /// directory in this data home.
    pub async fn remove(&self, session: &SessionId) -> Result<(), RegistryError> {
        bowline_process::check_runtime()?;
        self.home.check()?;
        let dir = self.home.session_dir(session)?;
        // Never follow a link: its target does not belong to us.
        if !std::fs::symlink_metadata(&dir).is_ok_and(|found| found.is_dir()) {
            return Err(JournalError::NoSession { path: dir }.into());
        }
        // Held until the directory is gone: a resume must not begin in between.
        let Some(_lock) = journal::hold(&dir)? else {
            return Err(JournalError::NoSession { path: dir }.into());
        };
        lost::end_of_session(&dir).await?;
        // Rename it first to a name that no list shows: an interrupted removal then leaves no half session.
        let gone = dir.with_file_name(format!(".removed-{}", session.as_str()));
        std::fs::rename(&dir, &gone).map_err(|source| io_error("rename", &dir, source))?;
        unfinished::unmark(&dir)?;
        Ok(std::fs::remove_dir_all(&gone).map_err(|source| io_error("remove", &gone, source))?)
    }
}

fn io_error(doing: &'static str, path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io { doing, path: path.to_owned(), source }
}

/// Returns a directory that cannot be read as a session.
fn damaged_session(dir: &Path) -> Option<DamagedSession> {
    let session = SessionId::from(dir.file_name()?.to_str()?);
    let (problem, running) = problem_of(dir)?;
    Some(DamagedSession { session, changed_at: changed_at(dir), problem, running })
}

/// Returns why a directory cannot be read as a session, and whether it runs.
fn problem_of(dir: &Path) -> Option<(JournalError, bool)> {
    let problem = SessionMeta::read(dir).err()?;
    // A held lock means that it is being created, if the description can be read by this version at all. A directory without events was never a session.
    let is_live = journal::is_live(dir).unwrap_or(false);
    let was_begun =
        |dir: &Path| std::fs::metadata(dir.join(journal::EVENTS_FILE)).is_ok_and(|it| it.len() > 0);
    let is_session = !matches!(problem, JournalError::NoSession { .. }) || was_begun(dir);
    let is_newer = matches!(problem, JournalError::NewerFormat { .. });
    (is_session && (!is_live || is_newer)).then_some((problem, is_live))
}

fn changed_at(dir: &Path) -> Timestamp {
    let changed = std::fs::metadata(dir).and_then(|found| found.modified());
    changed.map_or_else(|_| crate::system::clock::wall(), crate::system::clock::timestamp)
}
