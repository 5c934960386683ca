//! The files that an agent has to find because they do not fit into its arguments.

use std::path::{Path, PathBuf};

use bowline_protocol::SessionId;
use bowline_providers::invocation::Invocation;

use crate::run::error::Error;
use crate::sessions::journal::{SIDE_FILES, Writer};
use crate::system::host;
use crate::system::host::Cleanup;

/// Where the files of a run lie.
#[derive(Clone, Debug)]
pub(crate) struct SideFiles {
    dir: PathBuf,
    /// Whether the directory is a part of the session's own.
    in_session: bool,
}

impl SideFiles {
    /// Chooses the place: the session's directory, else one for temporary files.
    pub(super) fn of(session: &SessionId, journal: Option<&Writer>) -> Self {
        let dir = match journal {
            Some(journal) => journal.dir().join(SIDE_FILES),
            None => std::env::temp_dir().join(format!("bowline-{session}-files")),
        };
        // The agent may run in another directory than we do.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        Self { dir, in_session: journal.is_some() }
    }

    /// Returns the directory, which is there once something was written.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the files of invocations, and adds what has to be removed. They may carry secrets that no journal keeps, so they
    /// go with the run.
    pub(super) fn write(&self, invocations: &[Invocation], cleanup: &mut Cleanup) -> Result<(), Error> {
        let files = || invocations.iter().flat_map(|invocation| &invocation.files);
        let dir = &self.dir;
        if files().next().is_none() {
            return Ok(());
        }
        if dir.to_str().is_none() {
            return Err(Error::NotText { path: dir.clone() });
        }
        let made = if self.in_session {
            // Before a file is written, so that a failure halfway still removes the directory.
            cleanup.add(dir.clone());
            host::private_dir(dir)
        } else {
            // The cleanup after a killed run does not find it by the session, so it has a lock of its own.
            cleanup.make(dir)
        };
        made.map_err(|source| Error::SideFile { path: dir.display().to_string(), source })?;
        for file in files() {
            let path = dir.join(&file.name);
            host::private_file(&path, file.content.as_bytes())
                .map_err(|source| Error::SideFile { path: path.display().to_string(), source })?;
        }
        Ok(())
    }
}
