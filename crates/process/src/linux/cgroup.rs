//! A cgroup (version 2) for every tree: the kernel's own list of the tree's processes.
//!
//! The keeper creates the directory below its own cgroup. That works for root, and where the directory was delegated to this
//! user. Otherwise the kernel refuses it, and the keeper works without cgroups.
//!
//! The name of a cgroup names its keeper, and the keeper holds a lock on the directory. A cgroup without a living keeper and
//! without a lock is abandoned: its keeper and its host were killed together. The next keeper in the same directory ends its
//! processes.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, FlockOperation, Mode, OFlags};

use super::fork;
use super::scan::ProcessEntry;

/// How often, and with what pause, the keeper checks whether an abandoned cgroup is empty. The next keeper tries again.
const EMPTY_LOOKS: u32 = 50;
const EMPTY_PAUSE: Duration = Duration::from_millis(1);

/// The directory in which a keeper creates cgroups.
#[derive(Debug)]
pub(crate) struct CgroupParent {
    path: PathBuf,
    name: CgroupName,
    /// The next cgroup, created in advance. That it could be created, and has the right type, proves that cgroups work here.
    spare: Option<Cgroup>,
}

impl CgroupParent {
    /// Finds our own cgroup and creates the first one below it.
    pub(crate) fn find() -> Option<Self> {
        let own = ProcessEntry::read(std::process::id().cast_signed())?;
        let name = CgroupName { pid: own.pid, start: own.start, number: 0 };
        let mut parent = Self { path: own_path()?, name, spare: None };
        // Sandboxes refuse `clone3`. Everything else that a start in a cgroup needs is older than `cgroup.kill` (Linux 5.14).
        if !fork::can_clone3() {
            return None;
        }
        let first = parent.make().ok()?;
        // In a threaded cgroup the new one is `domain invalid`. Moving into it also needs write access to our own.
        let kind = fs::read(first.path.join("cgroup.type")).unwrap_or_default();
        let works = first.path.join("cgroup.kill").exists()
            && kind == b"domain\n"
            && rustix::fs::access(parent.path.join("cgroup.procs"), Access::WRITE_OK).is_ok();
        if !works {
            first.remove();
            return None;
        }
        parent.spare = Some(first);
        Some(parent)
    }

    /// Returns a new cgroup.
    pub(crate) fn create(&mut self) -> io::Result<Cgroup> {
        self.spare.take().map_or_else(|| self.make(), Ok)
    }

    fn make(&mut self) -> io::Result<Cgroup> {
        self.name.number += 1;
        let path = self.path.join(self.name.to_string());
        fs::create_dir(&path)?;
        let directory = open(&path)?;
        // Another keeper that looks for abandoned cgroups may hold the lock for an instant; it sees that we are alive.
        let _: Result<(), _> = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive);
        Ok(Cgroup { path, directory: Some(Arc::new(directory)) })
    }

    /// Ends the processes of abandoned cgroups beside ours, and removes the cgroups.
    pub(crate) fn end_abandoned(&self) {
        for cgroup in abandoned_in(&self.path) {
            cgroup.end();
        }
        self.remove_unlocked();
    }

    /// Removes empty cgroups of version 2.0, whose names have no start time and whose keepers held no lock.
    fn remove_unlocked(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("bowline-")) else { continue };
            let Some((pid, _)) = rest.split_once('-').filter(|(_, rest)| !rest.contains('-')) else {
                continue;
            };
            // The kernel does not remove a cgroup with a process in it. A keeper that we cannot see loses an empty one at most.
            if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
                Cgroup::at(entry.path()).remove();
            }
        }
    }
}

impl Drop for CgroupParent {
    fn drop(&mut self) {
        // A keeper that started no agent still has its spare one. It never had a process, so the kernel removes it.
        if let Some(spare) = self.spare.take() {
            spare.remove();
        }
    }
}

/// The name of a cgroup: the keeper's process id and start time, and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CgroupName {
    pid: i32,
    start: u64,
    number: u64,
}

impl std::fmt::Display for CgroupName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bowline-{}-{}-{}", self.pid, self.start, self.number)
    }
}

impl CgroupName {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("bowline-")?.split('-');
        let name = Self {
            pid: parts.next()?.parse().ok().filter(|pid| *pid > 0)?,
            start: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(name)
    }

    fn keeper_lives(self) -> bool {
        // The start time too: after a reboot another process may have this id.
        ProcessEntry::read(self.pid).is_some_and(|keeper| keeper.start == self.start && !keeper.dead)
    }
}

/// Returns whether this is the name of a cgroup that a keeper created for a tree.
pub(crate) fn is_tree_name(name: &str) -> bool {
    CgroupName::parse(name).is_some()
}

/// Returns the abandoned cgroups in a directory, without one that this process is in.
fn abandoned_in(parent: &Path) -> Vec<Cgroup> {
    let own = own_path();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let abandoned = entries.filter_map(|entry| {
        let name = CgroupName::parse(entry.file_name().to_str()?)?;
        let path = entry.path();
        // A Bowline that runs inside an abandoned cgroup must not kill itself. If our own cgroup is unknown, we may be in any
        // of them.
        if name.keeper_lives() || own.as_ref().is_none_or(|own| own.starts_with(&path)) {
            return None;
        }
        // A keeper in another pid namespace is invisible here, or has another number; its lock shows that it is alive. Taking
        // the lock also keeps other keepers from ending the same cgroup.
        let directory = open(&path).ok()?;
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Cgroup { path, directory: Some(Arc::new(directory)) })
    });
    abandoned.collect()
}

/// Returns all abandoned cgroups of this machine: a session may have run in another login than ours.
pub(crate) fn all_abandoned() -> Vec<Cgroup> {
    let Some(mount) = fs::read("/proc/self/mounts").ok().and_then(|mounts| mount_point(&mounts)) else {
        return Vec::new();
    };
    directories(&mount).iter().flat_map(|path| abandoned_in(path)).collect()
}

fn own_path() -> Option<PathBuf> {
    let mount = mount_point(&fs::read("/proc/self/mounts").ok()?)?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    // `0::` is the line of version 2. The hierarchies of version 1 have other numbers (cgroups(7)).
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(mount.join(own.trim_start_matches('/')))
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    // Close-on-exec: an `flock` lives as long as any copy of its descriptor (flock(2)). An agent with a copy would make its
    // own cgroup look used after the keeper's death.
    Ok(rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())?)
}

/// One cgroup.
#[derive(Debug, Clone)]
pub(crate) struct Cgroup {
    path: PathBuf,
    /// Open in its keeper, which holds the lock on it. The lock marks the cgroup as in use.
    directory: Option<Arc<OwnedFd>>,
}

impl Cgroup {
    /// Refers to a cgroup that a keeper created.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, directory: None }
    }

    /// Returns the directory, to start a child in it.
    pub(crate) fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.directory.as_ref().map(AsFd::as_fd)
    }

    /// Kills all its processes, and removes it.
    pub(crate) fn end(&self) {
        for _ in 0..EMPTY_LOOKS {
            if self.processes().is_empty() {
                break;
            }
            // This only sends SIGKILL. The kernel refuses to remove the cgroup with EBUSY until the last process has exited.
            self.kill();
            std::thread::sleep(EMPTY_PAUSE);
        }
        self.remove();
    }

    pub(crate) fn path_bytes(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }

    /// Kills all its processes. A failed write means that the cgroup is gone, with its processes.
    pub(crate) fn kill(&self) {
        let _: io::Result<()> = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Returns the living processes in it and in the cgroups that they created below it.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mut found = Vec::new();
        for path in directories(&self.path) {
            // The kernel does not list zombies here. It lists a process outside our PID namespace as 0, and `kill` with 0
            // would signal our own group.
            let listed = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
        }
        found
    }

    /// Removes it, if it has no process.
    pub(crate) fn remove(&self) {
        // The kernel refuses to remove a cgroup that has another one inside: inner ones first.
        for path in directories(&self.path).iter().rev() {
            // EBUSY means that a process is left; the next keeper tries again. ENOENT means that the directory is gone.
            let _: io::Result<()> = fs::remove_dir(path);
        }
    }
}

/// Returns the directory and all directories below it, outer ones first.
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
        // The kernel writes blanks and backslashes as octal. A cgroup mount with one would be unusual, and is skipped.
        let plain = kind == b"cgroup2" && !path.contains(&b'\\');
        plain.then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_exactly() {
        let name = CgroupName { pid: 42, start: 7, number: 3 };
        assert_eq!(name.to_string(), "bowline-42-7-3");
        assert_eq!(CgroupName::parse("bowline-42-7-3"), Some(name));
        // Names of version 2.0 had no start time. Their keepers hold no lock, so nothing in them is ended.
        for other in
            ["bowline-42-1", "bowline-42-trial", "bowline-42-7-3-1", "bowline-0-7-3", "bowline--7-3", "x"]
        {
            assert_eq!(CgroupName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_with_another_start_is_not_the_keeper() {
        let own = ProcessEntry::read(std::process::id().cast_signed()).unwrap();
        let name = CgroupName { pid: own.pid, start: own.start, number: 1 };
        assert!(name.keeper_lives());
        assert!(!CgroupName { start: own.start + 1, ..name }.keeper_lives());
    }

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
