//! The router's memory: one small JSON file, changed under a lock and replaced as a whole.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use bowline_engine::route::RouteMemory;

use crate::run::error::Error;
use crate::run::task::{JournalChoice, Task};
use crate::sessions::journal::{Home, Runner};
use crate::system::host;

/// The file, in the data home.
const FILE: &str = "router.json";

/// The lock file. The memory file itself cannot be locked, because each change replaces it.
const LOCK: &str = "router.lock";

/// The place of the memory. There is none for tasks that leave no trace.
#[derive(Clone, Debug)]
pub(super) struct Store {
    dir: Option<PathBuf>,
    /// Whether changes are written.
    keeps: bool,
}

impl Store {
    pub(super) fn of(task: &Task) -> Self {
        let usual = || Home::of(task.variables()).ok();
        let (home, keeps) = match &task.journal {
            JournalChoice::At(home) => (Some(home.clone()), true),
            JournalChoice::Default => (usual(), true),
            // A temporary journal reads the memory and does not change it.
            JournalChoice::Temporary if !task.is_scripted() => (usual(), false),
            JournalChoice::Temporary | JournalChoice::None => (None, false),
        };
        Self { dir: home.map(|home| home.path().to_owned()), keeps }
    }

    /// Reads the memory.
    pub(super) fn read(&self) -> Result<RouteMemory, Error> {
        let Some(dir) = &self.dir else { return Ok(RouteMemory::default()) };
        let path = dir.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(RouteMemory::default()),
            Err(source) => {
                return Err(Error::Memory { doing: "read", path: path.display().to_string(), source });
            }
        };
        match serde_json::from_slice::<RouteMemory>(&text) {
            Ok(mut memory) if memory.is_known() => {
                memory.forget_gone(is_there);
                Ok(memory)
            }
            Ok(_) | Err(_) => {
                // Later runs fill it again.
                tracing::warn!(path = %path.display(), "cannot read the router's memory; starting with an empty one");
                Ok(RouteMemory::default())
            }
        }
    }

    /// Changes the memory under the lock. Without a place to write to, `change` gets a copy of the memory.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut RouteMemory) -> T) -> Result<T, Error> {
        let Some(dir) = self.dir.as_ref().filter(|_| self.keeps) else {
            return Ok(change(&mut self.read()?));
        };
        let failed =
            |source| Error::Memory { doing: "write", path: dir.join(FILE).display().to_string(), source };
        host::private_dir(dir).map_err(failed)?;
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join(LOCK));
        let lock = lock.map_err(failed)?;
        // This may block, but each holder only reads and replaces one small file.
        lock.lock().map_err(failed)?;
        // Read under the lock, or a change of another process in between would be lost.
        let mut memory = self.read()?;
        let changed = change(&mut memory);
        let written = serde_json::to_vec(&memory)
            .map_err(std::io::Error::from)
            .and_then(|text| host::replace_file(&dir.join(FILE), &text));
        free(&lock);
        written.map_err(failed)?;
        Ok(changed)
    }
}

/// Returns a name of this process that a later process with the same pid does not have.
pub(super) fn me() -> String {
    let Runner { pid, started, .. } = Runner::current();
    format!("{pid} {}", started.unwrap_or_default())
}

/// Returns whether the process with this name exists. True if that is unknown.
fn is_there(name: &str) -> bool {
    let named =
        name.split_once(' ').and_then(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)));
    named.is_none_or(|(pid, started): (u32, u64)| {
        started == 0 || Runner { pid, started: Some(started), sole: false }.is_there()
    })
}

fn free(lock: &File) {
    // Closing the file would free the lock too, but not while a child between fork and exec still has it open.
    let _ = lock.unlock();
}

#[cfg(test)]
mod tests {
    use bowline_engine::breaker::BreakerState;
    use bowline_protocol::{Category, Code};

    use super::*;
    use crate::run::testing::world;
    use crate::system::clock;

    #[test]
    fn a_request_that_tries_counts_while_its_process_is_there() {
        let world = world();
        let store = Store::of(&world.task("Say hello").captured());
        let now = clock::wall();
        let later = now.after(bowline_protocol::Millis(31_000));
        let failure = bowline_protocol::Failure::new(Category::Server, Code::ServerError, "500");
        let tried = |by: &str| {
            store
                .change(|memory| {
                    (0..5).for_each(|_| memory.failed("it", &failure, now));
                    memory.sent("it", by, later);
                })
                .unwrap();
            store.read().unwrap().state("it", later)
        };
        assert_eq!(tried(&me()), BreakerState::Probing);
        assert_eq!(
            tried("1 18446744073709551615"),
            BreakerState::HalfOpen,
            "another process has that number now"
        );
    }
}
