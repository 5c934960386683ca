//! The process that hosts runs: its keeper, its own name, and small things that only the outside can give.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_process::{KeeperError, Supervisor, keeper};

use crate::system::causes::in_full;

/// Makes this process able to promise that no agent outlives it.
///
/// Call it first in `main`. `#[tokio::main]`, of either flavour, is as good as a `main` of your own:
///
/// ```
/// #[tokio::main]
/// async fn main() {
///     bowline::init();
/// }
/// ```
///
/// Bowline then has a second, tiny process, the keeper, which starts the agents, inherits what they leave behind, and ends all of
/// it when this process is gone, however it went. The keeper is a copy of this process as long as that has one thread, and this
/// program executed again otherwise. An executed keeper never reaches your `main`. It starts here, so that the first run does not
/// wait for it; [`init_lazily`] starts it with the first run. Without either call runs work too, with the weaker guarantee that
/// [`guarantee`] names. A call that comes after the first run changes nothing, and logs a warning.
///
/// Agents inherit from the keeper what any child inherits: user, limits, namespaces. If you change these between this call and the
/// first run, the keeper is started anew. Rules that `/proc` does not show, such as those of Landlock, are not noticed: set them
/// before this call.
///
/// It also makes this process survive a file that reaches the user's limit (SIGXFSZ, unless you handle it): a journal that
/// cannot grow ends its run, and nothing else.
pub fn init() {
    init_lazily();
    start_keeper();
}

/// Does what [`init`] does, but starts the keeper with the first run: for a program that seldom runs an agent.
pub fn init_lazily() {
    keeper::run_if_asked();
    #[cfg(unix)]
    bowline_process::file_limit::ignore_signal();
    if let Some(supervisor) = &*the_supervisor()
        && supervisor.keeper().is_none()
    {
        INIT_IS_LATE.store(true, Ordering::Release);
        tracing::warn!("`bowline::init` was called after the first run: it changes nothing in this process");
    }
}

/// Starts the keeper of [`init_lazily`] now, unless it runs already. It is cheapest as long as this process has a single thread.
pub fn start_keeper() {
    if the_supervisor().is_none() {
        keeper::start_early();
    }
}

/// Returns which promise about processes that agents leave behind is in force, as a word and as a sentence.
///
/// The sentence also says why the promise is weaker than it could be, where that is known.
pub fn guarantee() -> Result<(&'static str, String), KeeperError> {
    let supervisor = supervisor()?;
    let guarantee = supervisor.guarantee();
    let mut about = guarantee.about().to_owned();
    if let Some(error) = supervisor.keeper_error() {
        about.push_str(&format!("; there is no keeper: {}", in_full(error)));
    } else if INIT_IS_LATE.load(Ordering::Acquire) {
        about.push_str("; there is no keeper: `bowline::init` was called after the first run");
    }
    Ok((guarantee.as_str(), about))
}

static INIT_IS_LATE: AtomicBool = AtomicBool::new(false);

fn the_supervisor() -> MutexGuard<'static, Option<Supervisor>> {
    static ONE: Mutex<Option<Supervisor>> = Mutex::new(None);
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the one supervisor of this process.
pub(crate) fn supervisor() -> Result<Supervisor, KeeperError> {
    // Held while the keeper starts, so that concurrent first runs start only one.
    let mut one = the_supervisor();
    if let Some(supervisor) = &*one {
        return Ok(supervisor.clone());
    }
    let supervisor = Supervisor::start()?;
    if let Some(error) = supervisor.keeper_error() {
        let error = error as &dyn std::error::Error;
        tracing::warn!(error, "there is no keeper: the guarantee about processes of agents is weaker");
    }
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
        let nanos = crate::system::clock::system()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |at| at.subsec_nanos());
        bytes[..4].copy_from_slice(&(nanos ^ std::process::id().rotate_left(16)).to_le_bytes());
    }
    bytes
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

/// Puts a file in the place of another one, as a whole, for its owner alone. Its directory is made if need be.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    private_dir(dir)?;
    // Random too: two threads of this process may replace the same file at once.
    let tail: String = random().iter().map(|byte| format!("{byte:02x}")).collect();
    let new = dir.join(format!(".new-{}-{tail}", std::process::id()));
    let written = private_file(&new, content).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // It may never have been made; the error that counts is the one above.
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// Directories to delete when neither the run nor a subscriber needs them.
#[derive(Debug, Default)]
pub(crate) struct Cleanup {
    dirs: Vec<PathBuf>,
    /// Locks on temporary directories, so that other processes can see when this one is gone.
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

    /// Takes over the directories of another cleanup.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.dirs.append(&mut other.dirs);
        self.locks.append(&mut other.locks);
    }

    /// Returns whether a path is in one of the directories.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.dirs.iter().any(|dir| path.starts_with(dir))
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        // The locks are still held here. They are fields, which are dropped after this function.
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
