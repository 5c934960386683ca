//! Temporary directories: journals, files for agents, and home directories for queries. Removes those of killed processes.
//!
//! A runner removes its own. A killed runner could not, and the conversation must not stay on disk. The next run removes such
//! directories: ours, not new, with a free lock, of a process that is gone. A journal has its own lock; any other directory is
//! locked itself (`Cleanup::make`).

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bowline_protocol::SessionId;

use super::lock::Lock;
use super::{Home, SessionMeta};

const PREFIX: &str = "bowline-";

/// The minimum age of a directory: before its lock is taken, a new one looks like an abandoned one.
const NEW: Duration = Duration::from_secs(60);

/// Returns the temporary home of one session.
pub(crate) fn place(session: &SessionId) -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{session}"))
}

/// Returns the variable that sets the location of a path: of a temporary home, or of the data home.
pub(super) fn variable(path: &Path) -> &'static str {
    let below = path.strip_prefix(std::env::temp_dir()).ok();
    let first = below.and_then(|below| below.components().next());
    match first.and_then(|first| kind_of(first.as_os_str())) {
        Some(_) => "TMPDIR",
        None => "BOWLINE_HOME",
    }
}

/// Removes the directories of killed runners.
pub(crate) fn sweep(base: &Path, now: SystemTime) {
    let entries = match std::fs::read_dir(base) {
        Ok(entries) => entries,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            return tracing::debug!(error, "could not look for directories of killed runners");
        }
    };
    for entry in entries.flatten() {
        let Some(kind) = kind_of(&entry.file_name()) else { continue };
        let path = entry.path();
        match is_left(&path, &kind, now).and_then(|left| match left {
            true => std::fs::remove_dir_all(&path).map(|()| true),
            false => Ok(false),
        }) {
            Ok(true) => {
                tracing::info!(path = %path.display(), "removed the directory of a killed runner")
            }
            Ok(false) => {}
            // Another run may have removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(path = %path.display(), error, "could not remove the directory of a killed runner");
            }
        }
    }
}

/// Returns whether a temporary directory of this name is ours.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    kind_of(name).is_some()
}

/// The purpose of a directory.
enum Kind {
    /// The journal of a session.
    Journal(SessionId),
    /// Files for an agent without a journal, or a home directory for a query.
    Scratch,
}

/// Returns the purpose of a directory of this name.
fn kind_of(name: &OsStr) -> Option<Kind> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    let scratch = ["probe-s-", "live-s-"].iter().any(|start| name.starts_with(start))
        || (name.starts_with("s-") && name.ends_with("-files"));
    match scratch {
        true => Some(Kind::Scratch),
        false => name.starts_with("s-").then(|| Kind::Journal(SessionId::from(name))),
    }
}

fn is_left(path: &Path, kind: &Kind, now: SystemTime) -> io::Result<bool> {
    // Not `metadata`: every user may put a link into the temporary directory, and the sweep must not follow it.
    let meta = std::fs::symlink_metadata(path)?;
    let old = now.duration_since(meta.modified()?).is_ok_and(|age| age > NEW);
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() || !old {
        return Ok(false);
    }
    let session = match kind {
        Kind::Journal(session) => session,
        Kind::Scratch => return Ok(std::fs::File::open(path)?.try_lock().is_ok()),
    };
    let Ok(dir) = Home::at(path).session_dir(session) else { return Ok(false) };
    // Keep a directory that cannot be checked.
    if Lock::is_taken(&dir).unwrap_or(true) {
        return Ok(false);
    }
    // The lock is free when the run has ended, but a subscriber may still read its last events.
    let runner = SessionMeta::read(&dir).ok().and_then(|meta| meta.runner);
    Ok(!runner.is_some_and(|runner| runner.is_there()))
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Runner, Writer};
    use super::*;

    fn journal(base: &Path, id: &str, runner: Option<Runner>) -> Writer {
        let mut meta = SessionMeta::new(SessionId::from(id), "any", crate::system::clock::wall());
        meta.runner = runner;
        let home = Home::at(base.join(format!("{PREFIX}{id}")));
        Writer::create(&home, meta, Options::default()).unwrap()
    }

    #[test]
    fn only_what_nobody_needs_any_more_goes() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        let live = journal(base, "s-live", None);
        drop(journal(base, "s-read", Some(Runner::current())));
        let gone = Runner { pid: 1, started: Some(u64::MAX), sole: true };
        drop(journal(base, "s-left", Some(gone)));
        let mut needed = crate::system::host::Cleanup::default();
        needed.make(&base.join("bowline-s-live-files")).unwrap();
        needed.make(&base.join("bowline-probe-s-live")).unwrap();
        let scratch = ["bowline-s-left-files", "bowline-probe-s-left"];
        for other in scratch.into_iter().chain(["bowline-demo-1", "bowline-probe-notes", "s-left"]) {
            std::fs::create_dir(base.join(other)).unwrap();
        }
        std::os::unix::fs::symlink(base.join("s-left"), base.join("bowline-s-link")).unwrap();
        let names = || {
            let mut names: Vec<String> = std::fs::read_dir(base)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        };
        let all = names();
        sweep(base, crate::system::clock::system());
        assert_eq!(names(), all, "what is new is left alone");
        sweep(base, crate::system::clock::system() + 2 * NEW);
        let gone = |name: &str| name == "bowline-s-left" || scratch.contains(&name);
        let kept: Vec<String> = all.into_iter().filter(|name| !gone(name)).collect();
        assert_eq!(names(), kept);
        drop(live);
        sweep(base, crate::system::clock::system() + 2 * NEW);
        assert!(!base.join("bowline-s-live").exists(), "its runner is not known, and its lock is free");
        sweep(&base.join("absent"), crate::system::clock::system());
    }
}
