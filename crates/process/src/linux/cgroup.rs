//! A cgroup (version 2) for every tree: the kernel's own account of who belongs to it.
//!
//! The directory is made below our own cgroup, which works for root and where the directory was delegated to us; it
//! is refused otherwise, quietly, and the keeper does without.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::fork;

/// Where cgroups can be made.
#[derive(Debug)]
pub(crate) struct Parent(PathBuf);

impl Parent {
    /// Finds our own cgroup and tries whether in a child of it one can be born, and ended with all of its own.
    pub(crate) fn find() -> Option<Self> {
        let mounts = fs::read("/proc/self/mounts").ok()?;
        let mount = mount_point(&mounts)?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let parent = Self(mount.join(own.trim_start_matches('/')));
        parent.remove_abandoned();
        let trial = parent.create("trial").ok()?;
        // `cgroup.kill` came with Linux 5.14.
        let works = trial.path.join("cgroup.kill").exists()
            && trial.open().is_ok_and(|directory| fork::can_be_born_in(directory.as_fd()));
        trial.remove();
        works.then_some(parent)
    }

    /// Removes empty cgroups of keepers that were killed together with their hosts: nobody else would.
    fn remove_abandoned(&self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let keeper = name.to_str().and_then(|name| name.strip_prefix("bowline-")?.split('-').next());
            // One in which somebody lives cannot be removed, so a keeper that we cannot see loses nothing but time.
            if keeper.is_some_and(|keeper| !Path::new("/proc").join(keeper).exists()) {
                Cgroup { path: entry.path() }.remove();
            }
        }
    }

    /// Makes a cgroup. The name is unique through our process id.
    pub(crate) fn create(&self, name: &str) -> io::Result<Cgroup> {
        let path = self.0.join(format!("bowline-{}-{name}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Cgroup { path })
    }
}

/// One cgroup.
#[derive(Debug, Clone)]
pub(crate) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Takes over a cgroup that somebody else made.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path_bytes(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }

    /// Opens the directory, for a child to be born in.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        Ok(rustix::fs::open(&self.path, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())?)
    }

    /// Ends all that is in it. That it is gone meanwhile is no error: then nothing is in it.
    pub(crate) fn kill(&self) {
        let _: io::Result<()> = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Returns the living processes in it and in the cgroups that they made below it.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mut found = Vec::new();
        for path in directories(&self.path) {
            let listed = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
        }
        found
    }

    /// Removes it, if nobody lives in it.
    pub(crate) fn remove(&self) {
        for path in directories(&self.path).iter().rev() {
            let _: io::Result<()> = fs::remove_dir(path);
        }
    }
}

/// The directory and all below it, outer ones first.
fn directories(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next) {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let inner: Vec<PathBuf> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        found.extend(inner);
        next += 1;
    }
    found
}

/// Finds where version 2 is mounted: `/sys/fs/cgroup`, or beside version 1 in `/sys/fs/cgroup/unified`.
fn mount_point(mounts: &[u8]) -> Option<PathBuf> {
    let mut lines = mounts.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b' '));
    lines.find_map(|mut fields| {
        let (_, path, kind) = (fields.next()?, fields.next()?, fields.next()?);
        // Blanks and backslashes are written as octal; a cgroup mount with one would be strange, and is passed over.
        let plain = kind == b"cgroup2" && !path.contains(&b'\\');
        plain.then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_wherever_it_is() {
        let check = |mounts: &str, expected: Option<&str>| {
            assert_eq!(mount_point(mounts.as_bytes()), expected.map(PathBuf::from), "{mounts}");
        };
        check("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", Some("/sys/fs/cgroup"));
        check(
            "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
            Some("/sys/fs/cgroup/unified"),
        );
        check("cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n", None);
        check("x /a\\040b cgroup2 rw 0 0\n", None);
        check("", None);
    }
}
