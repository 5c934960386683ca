//! Which agents are on this machine: a look at `PATH` and at the places where logins lie.
//!
//! Nothing is started and nothing is read: a login is a variable that is set or a file that is there. What a program can
//! really do, and whether its login works, is a matter of asking it, and of another room.

use std::path::{Path, PathBuf};

use bowline_providers::catalogue;
use bowline_providers::manifest::{Chosen, Manifest};

/// Returns the providers whose program is on `PATH`, in the order of the catalogue. Those that are only chosen by name
/// are not among them.
pub fn installed() -> Vec<&'static Manifest> {
    let path = variable("PATH").unwrap_or_default();
    catalogue::built_in()
        .filter(|it| it.chosen != Chosen::ByName && find(&it.program, &path).is_some())
        .collect()
}

/// Returns those of the installed providers for which there is a login.
pub fn usable() -> Vec<&'static Manifest> {
    installed().into_iter().filter(|manifest| has_login(manifest)).collect()
}

/// Finds a program in a list of directories.
fn find(program: &str, path: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
}

fn has_login(manifest: &Manifest) -> bool {
    let home = variable("HOME").map(PathBuf::from);
    manifest.auth.env.iter().any(|name| variable(name).is_some())
        || home.is_some_and(|home| manifest.auth.files.iter().any(|file| home.join(file).exists()))
}

#[expect(clippy::disallowed_methods, reason = "this is an edge at which the environment is read")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
