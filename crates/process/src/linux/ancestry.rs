//! The parents of a process in `/proc`, and the peer of a socket.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};

use super::cgroup;
use super::keeper::KEEPER_NAME;
use super::scan::ProcessEntry;
use crate::origin::{self, ProcessOrigin};

/// How often a walk is repeated because a process above the peer ended meanwhile.
const WALKS: u32 = 5;

/// More parents than any real process has: reused ids could form a circle.
const PARENTS: usize = 4096;

/// The process that connected a socket.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    /// 0 if it is in a pid namespace that this process does not see.
    pid: i32,
    /// A handle of the process itself; none if the process had ended when the socket was accepted.
    handle: Option<OwnedFd>,
}

/// Returns the user and the process that connected a socket.
#[expect(
    unsafe_code,
    reason = "`rustix` declares that the process id is never 0, and has no call for the handle"
)]
pub(crate) fn peer(socket: BorrowedFd<'_>) -> io::Result<(u32, PeerProcess)> {
    // The kernel stores them at `connect` (unix(7)): a peer that changes its user later does not change them.
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the structure.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut number: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: as above; the descriptor that the kernel returns is new, so this function owns it.
    let handle = unsafe {
        let result = libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut number).cast(),
            &raw mut length,
        );
        if result == 0 { Ok(OwnedFd::from_raw_fd(number)) } else { Err(io::Error::last_os_error()) }
    };
    let handle = match handle {
        Ok(handle) => Some(handle),
        // Linux before 6.5. The process may have ended since it connected, and another one may have its id by now. The window
        // is the time between `connect` and `accept`.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Pid::from_raw(credentials.pid)
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()),
        // ESRCH or EINVAL, by version: the process has been reaped.
        Err(_) => None,
    };
    Ok((credentials.uid, PeerProcess { pid: credentials.pid, handle }))
}

impl PeerProcess {
    pub(crate) fn pid(&self) -> Option<u32> {
        u32::try_from(self.pid).ok().filter(|pid| *pid != 0)
    }

    pub(crate) fn origin(&self) -> ProcessOrigin {
        // The kernel translates the id into our namespace, and reports 0 where it has none there.
        if self.pid <= 0 {
            return unknown("the process is in a pid namespace that the runner does not see");
        }
        let found = origin(self.pid);
        // After the walk: as long as the process exists, the kernel gives its id to no other process.
        if self.has_ended() { unknown("the process that connected has ended") } else { found }
    }

    /// Returns whether the process descends from another one.
    pub(crate) fn is_below(&self, ancestor: i32) -> bool {
        let walk = stable_walk(self.pid);
        // After the walk, as in `origin`.
        !self.has_ended()
            && walk.is_some_and(|walk| walk.iter().skip(1).any(|step| step.process.pid == ancestor))
    }

    /// Returns the program that the process executes.
    pub(crate) fn program(&self) -> io::Result<PathBuf> {
        let program = fs::read_link(format!("/proc/{}/exe", self.pid))?;
        // After the read, as in `origin`.
        if self.has_ended() {
            return Err(io::Error::other("the process that connected has ended"));
        }
        // The link of a file that was deleted ends in ` (deleted)` (proc_pid_exe(5)).
        if fs::metadata(&program)?.is_file() { Ok(program) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn has_ended(&self) -> bool {
        let Some(handle) = &self.handle else { return true };
        // A pidfd becomes readable when its process ends (pidfd_open(2)).
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&at_once)), Ok(0))
    }
}

/// Finds out whether a process belongs to an agent.
pub(crate) fn origin(pid: i32) -> ProcessOrigin {
    let mut gap = String::new();
    for _ in 0..WALKS {
        let first = match parents(pid) {
            Ok(first) => first,
            Err(reason) => {
                gap = reason;
                continue;
            }
        };
        if let Some(reason) = evidence(&first) {
            return ProcessOrigin::Agent { reason };
        }
        if let Err(reason) = in_our_namespace(pid) {
            gap = reason;
            continue;
        }
        // A process above may have ended during the walk, and another one may have got its id before the walk came to it. Two
        // equal walks exclude that: a process that lived through both was read as itself.
        if parents(pid).as_ref() == Ok(&first) {
            return ProcessOrigin::Outside;
        }
        gap = "the processes above it keep changing".to_owned();
    }
    ProcessOrigin::Unknown { reason: gap }
}

/// Returns the process that started the nearest keeper above a process.
pub(crate) fn runner_above(pid: i32) -> Option<u32> {
    let walk = stable_walk(pid)?;
    let keeper = walk.iter().find(|step| step.is_keeper)?;
    u32::try_from(keeper.process.parent).ok().filter(|parent| *parent > 1)
}

/// Returns the parents of a process, if two walks find the same.
fn stable_walk(pid: i32) -> Option<Vec<WalkStep>> {
    if pid <= 0 {
        return None;
    }
    (0..WALKS).find_map(|_| {
        let first = parents(pid).ok()?;
        (parents(pid).as_ref() == Ok(&first)).then_some(first)
    })
}

/// One process of a walk. Two are equal if they are the same process with the same parent.
#[derive(Debug)]
struct WalkStep {
    process: ProcessEntry,
    is_keeper: bool,
}

impl PartialEq for WalkStep {
    fn eq(&self, other: &Self) -> bool {
        let identity =
            |step: &Self| (step.process.pid, step.process.start, step.process.parent, step.is_keeper);
        identity(self) == identity(other)
    }
}

/// Walks from a process up to pid 1, or to the limit of our pid namespace.
fn parents(pid: i32) -> Result<Vec<WalkStep>, String> {
    let mut walk = Vec::new();
    let mut next = pid;
    while walk.len() < PARENTS {
        // One read, so that name and parent belong to the same process.
        let stat = fs::read(format!("/proc/{next}/stat")).ok();
        let Some(process) = stat.as_ref().and_then(|stat| ProcessEntry::parse(next, stat)) else {
            // Also where `/proc` hides the processes of other users (`hidepid`). `sudo -u` inside a tree would look the same.
            return Err(format!("process {next} cannot be read"));
        };
        if process.dead && walk.is_empty() {
            return Err("the process has ended".to_owned());
        }
        let is_keeper = stat.is_some_and(|stat| name(&stat) == KEEPER_NAME.to_bytes());
        let parent = process.parent;
        walk.push(WalkStep { process, is_keeper });
        if is_top(next, parent, std::process::id().cast_signed()) {
            return Ok(walk);
        }
        next = parent;
    }
    Err("it has too many parents".to_owned())
}

/// Returns whether a walk ends at a process: nothing above it can be ours.
fn is_top(pid: i32, parent: i32, own: i32) -> bool {
    // The parent 0 is outside of our pid namespace (pid_namespaces(7)), and above everything that we could have started. Pid 1
    // is the init that every orphan gets, unless we are that process: the only program of a container is its pid 1.
    pid == 1 || parent < 1 || (parent == 1 && own != 1)
}

/// Returns why the process at the beginning of a walk belongs to an agent.
fn evidence(walk: &[WalkStep]) -> Option<String> {
    if let Some(keeper) = walk.iter().find(|step| step.is_keeper) {
        return Some(format!("it descends from the keeper {}", keeper.process.pid));
    }
    let own = std::process::id().cast_signed();
    // An agent without a keeper is our own child. With a keeper our children are not agents, but for example the terminals of a
    // host that is an editor.
    if origin::has_own_trees() && walk.iter().skip(1).any(|step| step.process.pid == own) {
        return Some(format!("it descends from the runner {own}"));
    }
    // Below: the keeper was killed, and the runner has not ended the rest of its trees yet.
    for WalkStep { process, .. } in walk {
        if !process.environment().spawns().is_empty() {
            return Some(format!("process {} has the marker of an agent", process.pid));
        }
        // The environment is that of the last exec, which may have cleared it. The cgroup is a second mark, which an exec keeps.
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).unwrap_or_default();
        if groups.lines().any(|line| line.split('/').any(cgroup::is_tree_name)) {
            return Some(format!("process {} is in the cgroup of an agent", process.pid));
        }
    }
    None
}

/// Checks that a process is in our pid namespace. A container's init process shows no keeper above it, whatever started it.
fn in_our_namespace(pid: i32) -> Result<(), String> {
    let depth = |process: &str| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        // One number for each namespace, from that of `/proc` to the process's own (proc_pid_status(5)).
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        Some(ids.split_whitespace().count())
    };
    match (depth(&pid.to_string()), depth("self")) {
        (Some(its), Some(ours)) if its == ours => Ok(()),
        (Some(_), Some(_)) => Err("the process is in another pid namespace, such as a container".to_owned()),
        _ => Err(format!("process {pid} cannot be read")),
    }
}

/// Returns the name of the program in `/proc/PID/stat`. It may contain brackets and blanks.
fn name(stat: &[u8]) -> &[u8] {
    // The last bracket ends the name, not the next one: a program may call itself `a) S 1 (b`.
    let begin = stat.iter().position(|byte| *byte == b'(').map_or(0, |at| at + 1);
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(0);
    stat.get(begin..end).unwrap_or_default()
}

fn unknown(reason: &str) -> ProcessOrigin {
    ProcessOrigin::Unknown { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_name_is_all_between_the_outer_brackets() {
        assert_eq!(name(b"42 (bowline-keeper) S 7"), b"bowline-keeper");
        assert_eq!(name(b"42 (a) (b) S 7"), b"a) (b");
        assert_eq!(name(b"42 S 7"), b"");
        assert_eq!(name(b") ("), b"");
    }

    #[test]
    fn the_peer_of_our_own_socket_is_this_process() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (user, process) = peer(ours.as_fd()).unwrap();
        assert_eq!(user, rustix::process::geteuid().as_raw());
        assert_eq!(process.pid(), Some(std::process::id()));
        assert!(!process.has_ended());
    }

    #[test]
    fn a_peer_without_a_process_is_unknown() {
        let ended = PeerProcess { pid: std::process::id().cast_signed(), handle: None };
        assert_eq!(ended.origin(), unknown("the process that connected has ended"));
        let hidden = PeerProcess { pid: 0, handle: None };
        assert_eq!(hidden.pid(), None);
        assert!(matches!(hidden.origin(), ProcessOrigin::Unknown { .. }));
    }

    #[test]
    fn a_walk_ends_at_the_first_process() {
        let own = std::process::id().cast_signed();
        let walk = parents(own).unwrap();
        assert_eq!(walk.first().unwrap().process.pid, own);
        assert!(walk.last().unwrap().process.parent <= 1);
        assert_eq!(parents(own).unwrap(), walk);
        // The highest id that the kernel gives is below 2^22 (proc_sys_kernel(5)).
        assert_eq!(origin(1 << 30), unknown("process 1073741824 cannot be read"));
    }

    #[test]
    fn the_child_of_a_runner_without_a_keeper_is_an_agents() {
        origin::note_own_tree();
        #[expect(clippy::disallowed_methods, reason = "a child that no keeper owns")]
        let mut child = std::process::Command::new("/bin/sleep").arg("60").env_clear().spawn().unwrap();
        let found = origin(child.id().cast_signed());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(found, ProcessOrigin::Agent { .. }), "{found:?}");
    }

    #[test]
    fn the_program_of_a_peer_is_its_own() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (_, here) = peer(ours.as_fd()).unwrap();
        assert_eq!(here.program().unwrap(), std::env::current_exe().unwrap());
        drop(theirs);
        let ended = PeerProcess { pid: here.pid, handle: None };
        assert!(ended.program().is_err(), "its id may be another process's by now");
    }

    #[test]
    fn the_walk_of_a_containers_only_program_ends_at_itself() {
        let (init, host, child) = (1, 70, 80);
        assert!(!is_top(child, host, host));
        assert!(is_top(host, init, host), "an init of the system starts no agents");
        assert!(!is_top(child, init, init), "the agent of a host that is pid 1 descends from that host");
        assert!(is_top(init, 0, init));
        assert!(is_top(child, 0, init), "`docker exec` starts beside the container's pid 1");
    }

    #[test]
    fn a_process_is_below_its_parents_only() {
        let own = std::process::id().cast_signed();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (_, peer) = peer(ours.as_fd()).unwrap();
        let parent = parents(own).unwrap()[0].process.parent;
        // In a pid namespace of its own the test's parent is pid 1, which is above everything, or not visible at all.
        assert_eq!(peer.is_below(parent), parent > 1);
        assert!(!peer.is_below(own), "a process is not below itself");
        assert!(!peer.is_below(1 << 30));
        let ended = PeerProcess { pid: own, handle: None };
        assert!(!ended.is_below(parent));
        assert!(!PeerProcess { pid: 0, handle: None }.is_below(1));
    }
}
