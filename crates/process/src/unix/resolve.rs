//! Finds the file of a command. The host searches, so the keeper gets absolute paths only.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::command::Command;
use crate::error::SpawnErrorKind;

/// Returns the absolute path of the program.
pub(crate) fn program(command: &Command) -> Result<PathBuf, SpawnErrorKind> {
    if is_path(&command.program) {
        return std::path::absolute(&command.program)
            .map_err(SpawnErrorKind::other("making the path of the program absolute"));
    }
    let path = command.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    search(&command.program, path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin")))
}

fn is_path(program: &Path) -> bool {
    program.as_os_str().as_encoded_bytes().contains(&b'/')
}

/// Searches like `execvp`: skips a file that is not executable, and reports it only if no other is found.
fn search(program: &Path, path: &OsStr) -> Result<PathBuf, SpawnErrorKind> {
    let mut found_unfit = false;
    if program.as_os_str().is_empty() {
        return Err(SpawnErrorKind::NotFound);
    }
    // Skip a relative directory: it would mean another file after the change of directory.
    for directory in std::env::split_paths(path).filter(|directory| directory.is_absolute()) {
        let candidate = directory.join(program);
        let Ok(metadata) = candidate.metadata() else { continue };
        // `access` checks the rights of the real user, not of the effective one (access(2)). They differ only in a
        // set-user-ID host.
        if metadata.is_file() && access(&candidate, Access::EXEC_OK).is_ok() {
            return Ok(candidate);
        }
        found_unfit |= metadata.is_file();
    }
    Err(if found_unfit { SpawnErrorKind::NotExecutable } else { SpawnErrorKind::NotFound })
}

/// Returns the absolute path of the working directory.
pub(crate) fn cwd(command: &Command) -> Result<PathBuf, SpawnErrorKind> {
    let cwd = command.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
    let own = || std::env::current_dir();
    let absolute = if cwd.is_absolute() { Ok(cwd.clone()) } else { own().map(|own| own.join(&cwd)) };
    absolute.map_err(|source| SpawnErrorKind::NoSuchCwd { cwd, source })
}
