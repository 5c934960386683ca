//! Reports that a file was removed, renamed or replaced.
//!
//! It watches the file itself and its directory, not the entries of the directory: neighbours come and go there, and each of
//! them would wake every idle process that waits.

use std::io;
use std::path::Path;

/// A watch of one path. Only Linux has it.
#[derive(Debug)]
pub struct PathWatch {
    #[cfg(target_os = "linux")]
    reports: crate::linux::inotify::Reports,
}

impl PathWatch {
    /// Watches a file from now on. Needs a tokio runtime with IO.
    ///
    /// # Errors
    ///
    /// The path does not exist, the system has no such watch, or the user has none left (`fs.inotify.max_user_instances`).
    pub fn of(path: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        return Ok(Self { reports: crate::linux::inotify::Reports::of(path)? });
        #[cfg(not(target_os = "linux"))]
        {
            let _ = path;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Waits until something happened to the file; the caller has to look what. Cancel safe.
    pub async fn changed(&self) {
        #[cfg(target_os = "linux")]
        return self.reports.next().await;
        #[cfg(not(target_os = "linux"))]
        std::future::pending().await
    }
}
