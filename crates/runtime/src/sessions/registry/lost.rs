//! Sessions whose runner was killed: the next runner cleans up after it.
//!
//! The lock decides: it is free when the runner is gone. The process that cleans up holds it from the first step to the last,
//! because a new runner may resume the session at any time: its agent has the same session id, and must not be ended. Two
//! processes that clean up at once do so one after the other; the second finds nothing to do.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_protocol::SessionId;
use bowline_protocol::kinds::ProcessLeaked;
use bowline_providers::invocation::docker;
use bowline_providers::prices::Row;

use super::{Registry, RegistryError};
use crate::sessions::budget;
use crate::sessions::journal::{self, JournalError, SIDE_FILES, SessionMeta, unfinished};
use crate::sessions::session_monitor;
use crate::system::clock;
use crate::system::container::Inside;
use crate::system::host;
use crate::system::surroundings::Surroundings;

impl Registry {
    /// Cleans up after killed runners: deletes files with secrets, ends the processes of the agent, in a container too,
    /// [repairs](journal::repair) the journal so that it has an end, and writes the spending to the ledger. Returns the sessions.
    /// Every process that runs sessions does this at its start, and once a minute.
    ///
    /// Checks only sessions that are marked as unfinished; see `docs/journal.md`. Needs a tokio runtime.
    pub async fn settle_lost(&self) -> Result<Vec<SessionId>, RegistryError> {
        bowline_process::check_runtime()?;
        let variables = self.variables.clone().unwrap_or_else(|| Arc::new(Surroundings::from_env()));
        let mut settled = Vec::new();
        let mut dirs = unfinished::dirs(&self.home)?;
        // Docker may be slow, or never answer: sessions in containers come last.
        dirs.sort_by_cached_key(|dir| SessionMeta::read(dir).is_ok_and(|meta| meta.container.is_some()));
        for dir in dirs {
            // A session of this process may be about to take its lock, or to end.
            if session_monitor::by_dir(&dir).is_some() || journal::is_live(&dir)? {
                continue;
            }
            match settle(&dir, &self.prices, &variables).await {
                Ok(session) => settled.extend(session),
                // Another process cleans it up.
                Err(RegistryError::Journal(JournalError::Locked { .. })) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(dir = %dir.display(), error, "could not clean up after a killed runner");
                }
            }
        }
        // The next check tries again, and the journal of that session says more.
        let open = unfinished::dirs(&self.home)?.into_iter();
        let open = open.filter_map(|dir| Some(dir.file_name()?.to_str()?.to_owned())).collect();
        if let Err(error) = budget::sweep(&self.home, &open) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "could not record the spending of killed runs without a journal");
        }
        Ok(settled)
    }
}

/// Cleans up after the killed runner of a session that is about to be resumed. Does nothing if no runner was killed.
pub(crate) async fn settle_before_resume(
    dir: &Path,
    prices: &[Row],
    variables: &Surroundings,
) -> Result<(), RegistryError> {
    if unfinished::is_marked(dir) && !journal::is_live(dir)? {
        settle(dir, prices, variables).await?;
    }
    Ok(())
}

/// Cleans up one session.
async fn settle(
    dir: &Path,
    prices: &[Row],
    variables: &Surroundings,
) -> Result<Option<SessionId>, RegistryError> {
    // Lock order: this lock on `events.jsonl` for the whole cleanup, then that of the directory for each change of `session.json`. The
    // ledger needs no lock; `Ledger::has` finds a line that the killed runner wrote.
    // Without a directory, only the mark is left.
    let Some(lock) = journal::hold(dir)? else {
        unfinished::unmark(dir)?;
        return Ok(None);
    };
    // Another process may have cleaned up, or resumed and ended the session, until the lock was free.
    if !unfinished::is_marked(dir) {
        return Ok(None);
    }
    // First, because these files may have secrets: an error further below must not keep them on disk.
    let files = dir.join(SIDE_FILES);
    match std::fs::remove_dir_all(&files) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(RegistryError::SideFile { path: files.display().to_string(), source });
        }
        Ok(()) | Err(_) => {}
    }
    let meta = match SessionMeta::read(dir) {
        Ok(meta) => meta,
        // The runner was killed before the session existed, or the session was removed.
        Err(JournalError::NoSession { .. }) => {
            remove_if_nothing_was_said(dir);
            unfinished::unmark(dir)?;
            return Ok(None);
        }
        Err(error) => {
            settle_unreadable(dir, error).await?;
            return Ok(None);
        }
    };
    // Before the repair, whose events name the processes that are left.
    let mut leaked = end_strays(&meta.id).await?;
    if let Some(container) = &meta.container {
        leaked.extend(end_inside(&meta, container, variables).await?);
    }
    journal::repair_leaving(dir, &lock, clock::wall(), leaked, |meta| {
        if let Err(error) = budget::settle(dir, meta, prices, variables.home().as_deref()) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(dir = %dir.display(), error, "could not record the spending of a killed runner");
        }
    })?;
    Ok(Some(meta.id))
}

/// How long a session of a newer version keeps its mark: that version may run again and clean it up.
const NEWER_KEEPS_MARK: Duration = Duration::from_secs(24 * 3600);

/// Ends the processes of a session whose description cannot be read, by its id, and removes its mark: another check would not
/// help. Keeps its files.
async fn settle_unreadable(dir: &Path, problem: JournalError) -> Result<(), RegistryError> {
    if !matches!(problem, JournalError::Damaged { .. } | JournalError::NewerFormat { .. }) {
        // A later read may succeed.
        return Err(problem.into());
    }
    end_of_session(dir).await?;
    let age = unfinished::marked_for(dir, clock::system());
    if matches!(problem, JournalError::NewerFormat { .. }) && age.is_none_or(|age| age < NEWER_KEEPS_MARK) {
        return Ok(());
    }
    tracing::warn!(
        error = &problem as &dyn std::error::Error,
        "a session cannot be read, and is left as it is"
    );
    Ok(unfinished::unmark(dir)?)
}

/// Ends processes that the agent of a session left. They carry the name of the session's directory.
pub(super) async fn end_of_session(dir: &Path) -> Result<(), RegistryError> {
    let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    end_strays(&SessionId::from(name)).await.map(drop)
}

/// Removes a directory that never became a session. Keeps a directory with events, even if it is damaged.
fn remove_if_nothing_was_said(dir: &Path) {
    let events = dir.join(journal::EVENTS_FILE);
    if std::fs::metadata(&events).is_ok_and(|events| events.len() > 0) {
        return;
    }
    for file in [events, dir.join("session.json.new")] {
        // It may not exist.
        let _ = std::fs::remove_file(file);
    }
    if let Err(error) = std::fs::remove_dir(dir) {
        let error = &error as &dyn std::error::Error;
        tracing::debug!(dir = %dir.display(), error, "could not remove the directory of a session that never began");
    }
}

/// Ends the agent in a container, which outlives its runner. Returns the processes that could not be ended.
async fn end_inside(
    meta: &SessionMeta,
    container: &str,
    variables: &Surroundings,
) -> Result<Vec<ProcessLeaked>, RegistryError> {
    let inside = Inside::new(host::supervisor()?, &meta.provider, container, &meta.id, variables);
    let survivors = match inside.try_sweep().await {
        Ok(survivors) => survivors,
        // A stopped container has no processes.
        Err(why) if docker::is_gone(&why) => Vec::new(),
        Err(why) => vec![inside.unanswered(&why)],
    };
    Ok(survivors.into_iter().map(|it| leaked(it.pid, it.command)).collect())
}

/// Ends processes of the agent that outlived both the runner and its keeper.
async fn end_strays(id: &SessionId) -> Result<Vec<ProcessLeaked>, RegistryError> {
    let session = id.to_string();
    let ended = tokio::task::spawn_blocking(move || bowline_process::end_strays(&session)).await;
    let strays = ended.map_err(|error| RegistryError::Background(io::Error::other(error)))?;
    for stray in &strays.ended {
        tracing::info!(session = %id, pid = stray.pid, "ended a process of a killed session");
    }
    Ok(strays.survivors.into_iter().map(|it| leaked(it.pid, it.command)).collect())
}

fn leaked(pid: u32, command: String) -> ProcessLeaked {
    let reason = "its runner was killed, and it could not be ended afterwards";
    ProcessLeaked { pid, command, reason: reason.to_owned() }
}
