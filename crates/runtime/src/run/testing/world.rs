//! A place for a test.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::Script;
use crate::run::task::{Task, task};
use crate::sessions::journal::{Home, new_session_id};
use crate::system::clock;
use crate::system::host;

/// A data home that goes when the value does.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let world = bowline::testing::world();
/// let script = bowline::testing::says("hello");
/// let task = world.task("Say hello").provider("claude").script(script);
/// let record = task.run().await?;
/// let journal = record.journal.expect("the world keeps it");
/// assert!(journal.starts_with(world.path()) && journal.join("events.jsonl").exists());
/// # Ok::<(), bowline::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct World {
    home: Home,
    scripts: Mutex<Vec<(String, Script)>>,
}

impl World {
    pub(super) fn new() -> Self {
        let name = new_session_id(clock::wall(), host::random());
        let root = std::env::temp_dir().join(format!("bowline-world-{name}"));
        if let Err(error) = host::private_dir(&root) {
            panic!("could not make `{}` for a test: {error}", root.display());
        }
        Self { home: Home::at(root), scripts: Mutex::default() }
    }

    /// Returns the data home.
    pub fn home(&self) -> Home {
        self.home.clone()
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// Sets the script of a provider, for the tasks that begin here from now on. Providers without a script count as not
    /// installed in those tasks.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let world = bowline::testing::world();
    /// world.provider("codex", bowline::testing::says("hello"));
    /// assert_eq!(world.task("Say hello").provider("codex").answer().await?, "hello");
    /// assert_eq!(world.task("Say hello").provider("claude").run().await?.exit_code(), bowline::exit::NOT_USABLE);
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub fn provider(&self, name: impl Into<String>, script: Script) {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner).push((name.into(), script));
    }

    /// Begins a task whose journal lies here, with the scripts of [`World::provider`].
    pub fn task(&self, prompt: impl Into<String>) -> Task {
        self.prepare(task(prompt))
    }

    /// Puts the journal and the scripts of this place into a task, such as that of a live session
    /// ([`SessionTask::with`](crate::SessionTask::with)).
    pub fn prepare(&self, task: Task) -> Task {
        let scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let with = |task: Task, (name, script): (String, Script)| task.script_for(&name, script);
        scripts.into_iter().fold(task.home(self.home()), with)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(self.home.path()) {
            let path = self.home.path().display();
            tracing::warn!(%path, error = &error as &dyn std::error::Error, "a test's directory is left");
        }
    }
}
