//! A place for a test.

use std::path::Path;

use crate::journal::{Home, new_session_id};
use crate::task::{Task, task};
use crate::{clock, host};

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
}

impl World {
    pub(super) fn new() -> Self {
        let name = new_session_id(clock::wall(), host::random());
        let root = std::env::temp_dir().join(format!("bowline-world-{name}"));
        if let Err(error) = host::private_dir(&root) {
            panic!("could not make `{}` for a test: {error}", root.display());
        }
        Self { home: Home::at(root) }
    }

    /// Returns the data home.
    pub fn home(&self) -> Home {
        self.home.clone()
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// Begins a task whose journal lies here.
    pub fn task(&self, prompt: impl Into<String>) -> Task {
        task(prompt).home(self.home())
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
