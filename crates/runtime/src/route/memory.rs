//! What the router remembers, on file: one small file of JSON, changed under a lock, replaced as a whole.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use bowline_engine::route::Memory;

use crate::journal::{Home, Runner};
use crate::task::{JournalChoice, Task};
use crate::{Error, host};

/// The file, in the data home.
const FILE: &str = "router.json";

/// What is locked while it is changed. The file itself cannot be: it is replaced.
const LOCK: &str = "router.lock";

/// Where it is kept; nowhere for tasks that leave no trace.
#[derive(Clone, Debug)]
pub(super) struct Store {
    dir: Option<PathBuf>,
    /// Whether what happens is written down.
    keeps: bool,
}

impl Store {
    pub(super) fn of(task: &Task) -> Self {
        let usual = || Home::from_env().ok();
        let (home, keeps) = match &task.journal {
            JournalChoice::At(home) => (Some(home.clone()), true),
            JournalChoice::Default => (usual(), true),
            // It goes by what is known, and adds nothing to it.
            JournalChoice::Temporary if !task.is_scripted() => (usual(), false),
            JournalChoice::Temporary | JournalChoice::None => (None, false),
        };
        Self { dir: home.map(|home| home.path().to_owned()), keeps }
    }

    /// Returns what is remembered.
    pub(super) fn read(&self) -> Result<Memory, Error> {
        let Some(dir) = &self.dir else { return Ok(Memory::default()) };
        let path = dir.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Memory::default()),
            Err(source) => {
                return Err(Error::Memory { doing: "read", path: path.display().to_string(), source });
            }
        };
        match serde_json::from_slice::<Memory>(&text) {
            Ok(mut memory) if memory.is_known() => {
                memory.forget_gone(is_there);
                Ok(memory)
            }
            Ok(_) | Err(_) => {
                // Nothing in it is dear: it is learnt again.
                tracing::warn!(path = %path.display(), "what the router remembered cannot be read, and is forgotten");
                Ok(Memory::default())
            }
        }
    }

    /// Changes what is remembered, while nobody else does. Where nothing is kept, what is known is looked at all the same.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> Result<T, Error> {
        let Some(dir) = self.dir.as_ref().filter(|_| self.keeps) else {
            return Ok(change(&mut self.read()?));
        };
        let failed =
            |source| Error::Memory { doing: "write", path: dir.join(FILE).display().to_string(), source };
        host::private_dir(dir).map_err(failed)?;
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join(LOCK));
        let lock = lock.map_err(failed)?;
        lock.lock().map_err(failed)?;
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

/// Names this process, such that another one with the same number is not taken for it.
pub(super) fn me() -> String {
    let Runner { pid, started, .. } = Runner::current();
    format!("{pid} {}", started.unwrap_or_default())
}

/// Says whether a process is there that was named so. Whom we cannot look for may be.
fn is_there(name: &str) -> bool {
    let named =
        name.split_once(' ').and_then(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)));
    named.is_none_or(|(pid, started): (u32, u64)| {
        started == 0 || Runner { pid, started: Some(started), sole: false }.is_there()
    })
}

fn free(lock: &File) {
    // Closing it frees it too; this way a child between fork and exec does not hold it.
    let _ = lock.unlock();
}
