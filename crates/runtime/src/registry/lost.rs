//! Sessions whose runner was killed: what it could not do at the end is done by the next one.
//!
//! The lock decides: it is free when its runner is gone, and a session is never taken up again, so that nobody is
//! disturbed. Two that look at once do the same, one after the other; the second finds nothing to do.

use std::io;
use std::path::Path;
use std::time::Duration;

use bowline_protocol::SessionId;
use bowline_protocol::kinds::ProcessLeaked;
use bowline_providers::invocation::docker;

use super::Registry;
use crate::container::Inside;
use crate::journal::{self, JournalError, SessionMeta, unfinished};
use crate::launch::SIDE_FILES;
use crate::{Error, budget, clock, host, warden};

impl Registry {
    /// Puts in order what killed runners left: files with secrets go, what its agent started is ended, in a container too, the
    /// journal is [repaired](journal::repair) and says how it ended, what it used is written down. Returns the sessions. Every
    /// process that runs sessions does this
    /// when it begins, and once a minute.
    ///
    /// Only sessions that are not over are looked at, by their marks; see `docs/journal.md`. Needs a tokio runtime.
    pub async fn settle_lost(&self) -> Result<Vec<SessionId>, Error> {
        bowline_process::check_runtime()?;
        let mut settled = Vec::new();
        let mut dirs = unfinished::dirs(&self.home)?;
        // Docker may take its time, or never answer: those who need it come last.
        dirs.sort_by_cached_key(|dir| SessionMeta::read(dir).is_ok_and(|meta| meta.container.is_some()));
        for dir in dirs {
            // Our own may be about to take its lock, or to end.
            if warden::by_dir(&dir).is_some() || journal::is_live(&dir)? {
                continue;
            }
            match settle(&dir).await {
                Ok(session) => settled.extend(session),
                // Another one looks at it, too.
                Err(Error::Journal(JournalError::Locked { .. })) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(dir = %dir.display(), error, "what a killed runner left is not in order");
                }
            }
        }
        // What is still not in order is put so later, and its own journal says more.
        let open = unfinished::dirs(&self.home)?.into_iter();
        let open = open.filter_map(|dir| Some(dir.file_name()?.to_str()?.to_owned())).collect();
        if let Err(error) = budget::sweep(&self.home, &open) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "what killed runs without a journal spent is not written down");
        }
        Ok(settled)
    }
}

/// Puts one session in order, if it is one.
async fn settle(dir: &Path) -> Result<Option<SessionId>, Error> {
    let files = dir.join(SIDE_FILES);
    match std::fs::remove_dir_all(&files) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(Error::SideFile { path: files.display().to_string(), source });
        }
        Ok(()) | Err(_) => {}
    }
    let meta = match SessionMeta::read(dir) {
        Ok(meta) => meta,
        // It was killed before it was a session, or somebody has removed it.
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
    let mut leaked = end_strays(&meta.id).await?;
    if let Some(container) = &meta.container {
        leaked.extend(end_inside(&meta, container).await?);
    }
    journal::repair_leaving(dir, clock::wall(), leaked, |meta| {
        if let Err(error) = budget::settle(dir, meta) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(dir = %dir.display(), error, "what a killed runner spent is not written down");
        }
    })?;
    Ok(Some(meta.id))
}

/// How long a session of a newer version keeps its mark: that version may come back and put it in order.
const NEWER_KEEPS_MARK: Duration = Duration::from_secs(24 * 3600);

/// Ends what a session left whose description cannot be read, by its name, and takes its mark away: looking again would not help.
/// Its files stay as they are.
async fn settle_unreadable(dir: &Path, problem: JournalError) -> Result<(), Error> {
    if !matches!(problem, JournalError::Damaged { .. } | JournalError::NewerFormat { .. }) {
        // The system may let us read it later.
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

/// Ends what the agent of a session may have left, which is known by the name of the session's directory.
pub(super) async fn end_of_session(dir: &Path) -> Result<(), Error> {
    let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    end_strays(&SessionId::from(name)).await.map(drop)
}

/// Removes the directory of what never became a session. One in which something was said stays, whoever spoiled it.
fn remove_if_nothing_was_said(dir: &Path) {
    let events = dir.join(journal::EVENTS_FILE);
    if std::fs::metadata(&events).is_ok_and(|events| events.len() > 0) {
        return;
    }
    for file in [events, dir.join("session.json.new")] {
        // It may never have been made.
        let _ = std::fs::remove_file(file);
    }
    if let Err(error) = std::fs::remove_dir(dir) {
        let error = &error as &dyn std::error::Error;
        tracing::debug!(dir = %dir.display(), error, "what never became a session is not removed");
    }
}

/// Ends the agent in a container, which does not end with its runner, and returns what could not be ended.
async fn end_inside(meta: &SessionMeta, container: &str) -> Result<Vec<ProcessLeaked>, Error> {
    let inside = Inside::new(host::supervisor()?, &meta.provider, container, &meta.id);
    let survivors = match inside.try_sweep().await {
        Ok(survivors) => survivors,
        // Nobody runs in a container that does not.
        Err(why) if docker::is_gone(&why) => Vec::new(),
        Err(why) => vec![inside.unanswered(&why)],
    };
    Ok(survivors.into_iter().map(|it| leaked(it.pid, it.command)).collect())
}

/// Ends what the agent had started and what outlived both the runner and its keeper: nobody else knows of it any more.
async fn end_strays(id: &SessionId) -> Result<Vec<ProcessLeaked>, Error> {
    let session = id.to_string();
    let ended = tokio::task::spawn_blocking(move || bowline_process::end_strays(&session)).await;
    let strays = ended.map_err(|error| Error::Background(io::Error::other(error)))?;
    for stray in &strays.ended {
        tracing::info!(session = %id, pid = stray.pid, "what a killed session had left was ended");
    }
    Ok(strays.survivors.into_iter().map(|it| leaked(it.pid, it.command)).collect())
}

fn leaked(pid: u32, command: String) -> ProcessLeaked {
    let reason = "its runner was killed, and it could not be ended afterwards";
    ProcessLeaked { pid, command, reason: reason.to_owned() }
}
