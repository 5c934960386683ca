//! Our own files that may lie in the tree: the data home, cached answers, the memory of our own agent, and the files
//! of a run in the directory for temporary files.

use std::path::{Path, PathBuf};

use crate::sessions::journal::{Home, temporary};
use crate::system::surroundings::Surroundings;

/// Our own files. All paths are without links.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    dirs: Vec<PathBuf>,
    temporary: PathBuf,
}

impl Ours {
    /// Returns what is ours for a run in this directory. Files of the agent are its work also if the directory
    /// lies in our data home: then only what we make in the home is ours.
    pub(super) fn beside(cwd: &Path, home: Option<&Home>, surroundings: &Surroundings) -> Self {
        let usual = Home::of(surroundings).ok();
        let mut dirs = Vec::new();
        for home in home.into_iter().chain(usual.as_ref()) {
            if cwd.starts_with(real(home.path())) {
                dirs.extend(home.own_dirs());
            } else {
                dirs.push(home.path().to_owned());
            }
        }
        dirs.extend([surroundings.cache_dir(), surroundings.state_dir()].into_iter().flatten());
        let dirs = dirs.iter().map(|dir| real(dir)).filter(|dir| !cwd.starts_with(dir)).collect();
        Self { dirs, temporary: real(&std::env::temp_dir()) }
    }

    /// Returns whether a file is ours.
    pub(super) fn has(&self, path: &Path) -> bool {
        let name = || path.strip_prefix(&self.temporary).ok()?.iter().next();
        self.dirs.iter().any(|dir| path.starts_with(dir)) || name().is_some_and(temporary::is_ours)
    }
}

/// Returns a path without links, as far as it is there.
pub(super) fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for there in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (there.canonicalize(), path.strip_prefix(there)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_does_in_our_home_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = real(dir.path());
        let home = Home::at(&root);
        let inside = Ours::beside(&root.join("work"), Some(&home), &Surroundings::from_env());
        assert!(inside.has(&root.join("sessions/s-1/events.jsonl")) && inside.has(&root.join("open/s-1")));
        assert!(!inside.has(&root.join("work/a")) && !inside.has(&root.join("a")));
        let beside = Ours::beside(Path::new("/elsewhere"), Some(&home), &Surroundings::from_env());
        assert!(beside.has(&root.join("a")) && !beside.has(&root.with_file_name("b")));
        let temporary = real(&std::env::temp_dir());
        assert!(beside.has(&temporary.join("bowline-s-1-files/mcp.json")));
        assert!(!beside.has(&temporary.join("bowline-notes/a")));
    }

    #[test]
    fn links_on_the_way_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&root, root.join("link")).unwrap();
        assert_eq!(real(&root.join("link/not/there")), root.join("not/there"));
        assert_eq!(real(&root.join("link")), root);
    }
}
