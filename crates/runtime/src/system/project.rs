//! The directory of a project: the nearest one with a `.bowline` or a `.git`.

use std::path::{Path, PathBuf};

/// Returns the directory of the project of a working directory: the nearest one with a `.bowline` or a `.git`, else the working
/// directory. A project does not lie at or above the home directory.
pub fn directory(cwd: &Path, home: Option<&Path>) -> PathBuf {
    let marked = |dir: &PathBuf| [".bowline", ".git"].iter().any(|mark| dir.join(mark).exists());
    directories_above(cwd, home).into_iter().find(marked).unwrap_or_else(|| cwd.to_owned())
}

/// Returns the working directory and all above it, up to the home directory. Files at home are the user's own, and no project's.
pub fn directories_above(cwd: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let real = home.and_then(|home| std::fs::canonicalize(home).ok());
    let within = |dir: &&Path| Some(*dir) != home && Some(*dir) != real.as_deref();
    cwd.ancestors().take_while(within).map(Path::to_owned).collect()
}

/// Returns a working directory without `..` and symbolic links, so that the directories above it are those of the kernel.
pub fn canonical(cwd: &Path) -> PathBuf {
    std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned())
}
