//! Empty directories for our own use, which go with the value that names them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use crate::sessions::journal::{new_session_id, temporary};
use crate::system::clock;
use crate::system::host::{self, Cleanup};

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
    let tail = new_session_id(clock::wall(), host::random());
    let path = std::env::temp_dir().join(format!("{name}-{tail}"));
    static SWEPT: Once = Once::new();
    // Once is enough: only killed processes leave such directories.
    SWEPT.call_once(|| temporary::sweep(&std::env::temp_dir(), clock::system()));
    let mut cleanup = Cleanup::default();
    cleanup.make(&path).map_err(|source| (path.clone(), source))?;
    Ok(Scratch { path, _cleanup: cleanup })
}
