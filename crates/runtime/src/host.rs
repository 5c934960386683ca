//! The process that hosts runs: its keeper, its own name, and small things that only the outside can give.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use bowline_process::{KeeperError, Supervisor, keeper};

use crate::journal::{new_session_id, temporary};

/// Makes this process able to promise that no agent outlives it.
///
/// Call it first in `main`, before any thread is started. Bowline then has a second, tiny process that starts the
/// agents, inherits what they leave behind, and ends all of it when this process is gone, however it went. That process
/// is this very program, started again: in it, the call never returns. Without it, runs work too, with the weaker
/// guarantee that [`guarantee`] names.
///
/// It also makes this process survive a file that reaches the user's limit (SIGXFSZ, unless you handle it): a journal that
/// cannot grow ends its run, and nothing else.
pub fn init() {
    keeper::run_if_asked();
    #[cfg(unix)]
    bowline_process::file_limit::ignore_signal();
}

/// Starts the second process of [`init`] now, which is cheaper as long as this one has a single thread: for a command that
/// is going to run an agent. Call it before the runtime is made; later it does nothing, and the process is started when an
/// agent is.
pub fn start_keeper() {
    keeper::start_early();
}

/// Returns which promise about processes that agents leave behind is in force, as a word and as a sentence.
pub fn guarantee() -> Result<(&'static str, &'static str), crate::Error> {
    let guarantee = supervisor()?.guarantee();
    Ok((guarantee.as_str(), guarantee.about()))
}

/// Returns the one supervisor of this process.
pub(crate) fn supervisor() -> Result<Supervisor, KeeperError> {
    static ONE: Mutex<Option<Supervisor>> = Mutex::new(None);
    let mut one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(supervisor) = &*one {
        return Ok(supervisor.clone());
    }
    let supervisor = Supervisor::start()?;
    *one = Some(supervisor.clone());
    Ok(supervisor)
}

/// Returns random bytes.
pub(crate) fn random() -> [u8; 5] {
    let mut bytes = [0; 5];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
    if read.is_err() {
        // Without it, the process and the time have to do: names must differ, they need not be secret.
        let nanos =
            crate::clock::system().duration_since(std::time::UNIX_EPOCH).map_or(0, |at| at.subsec_nanos());
        bytes[..4].copy_from_slice(&(nanos ^ std::process::id().rotate_left(16)).to_le_bytes());
    }
    bytes
}

/// Returns our environment, as far as it is text: a variable that is not is none that any agent's list names.
pub(crate) fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Makes a directory that only its owner can enter.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file that only its owner can read.
pub(crate) fn private_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)
}

/// Finds out whether a directory can be written to. It is made if need be.
pub(crate) fn try_out(dir: &Path) -> io::Result<()> {
    private_dir(dir)?;
    let file = dir.join(format!(".try-{}", std::process::id()));
    private_file(&file, b"x").and_then(|()| std::fs::remove_file(&file))
}

/// A directory of its own that goes with the value.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _cleanup: Cleanup,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes an empty directory for our own use; the error names it.
pub(crate) fn scratch(name: &str) -> Result<Scratch, (PathBuf, io::Error)> {
    let tail = new_session_id(crate::clock::wall(), random());
    let path = std::env::temp_dir().join(format!("{name}-{tail}"));
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| temporary::sweep(&std::env::temp_dir(), crate::clock::system()));
    let mut cleanup = Cleanup::default();
    cleanup.make(&path).map_err(|source| (path.clone(), source))?;
    Ok(Scratch { path, _cleanup: cleanup })
}

/// Puts a file in the place of another one, as a whole, for its owner alone. Its directory is made if need be.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    private_dir(dir)?;
    let tail: String = random().iter().map(|byte| format!("{byte:02x}")).collect();
    let new = dir.join(format!(".new-{}-{tail}", std::process::id()));
    let written = private_file(&new, content).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // It may never have been made; the error that counts is the one above.
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// Directories that go when nobody needs them any more: the run, or somebody who still reads its events.
#[derive(Debug, Default)]
pub(crate) struct Cleanup {
    dirs: Vec<PathBuf>,
    /// Held as long as we need a directory that nothing else tells of, so that others can see when we are gone.
    locks: Vec<File>,
}

impl Cleanup {
    /// Adds a directory.
    pub(crate) fn add(&mut self, dir: PathBuf) {
        self.dirs.push(dir);
    }

    /// Makes a directory in the place for temporary files, and adds it. If we are killed, `temporary::sweep` finds it.
    pub(crate) fn make(&mut self, dir: &Path) -> io::Result<()> {
        private_dir(dir)?;
        self.add(dir.to_owned());
        let lock = File::open(dir)?;
        // Where directories cannot be locked, the sweep cannot look either, and leaves it alone.
        if let Err(error) = lock.try_lock() {
            tracing::debug!(error = &error as &dyn std::error::Error, "a directory could not be locked");
        }
        self.locks.push(lock);
        Ok(())
    }

    /// Says whether a path lies in one of the directories.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.dirs.iter().any(|dir| path.starts_with(dir))
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        for path in &self.dirs {
            match std::fs::remove_dir_all(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), error = &error as &dyn std::error::Error, "could not be removed");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
}
