//! Reads processes from `/proc`. The kernel reuses process ids: only the id and the start time together identify a process.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::rc::Rc;

use rustix::process::{Pid, PidfdFlags, Signal};

use super::wire::COMMAND;
use crate::child_event::TreeProcess;
use crate::command::{SESSION_VARIABLE, SPAWN_VARIABLE};

/// One process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// In clock ticks since the machine started.
    pub(crate) start: u64,
    /// It has ended, and its parent has not reaped it. Pid 1 of a container may never do so.
    pub(crate) dead: bool,
}

impl ProcessEntry {
    /// Reads one process; `None` if it does not exist.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses `/proc/<pid>/stat`. The name in it may contain anything, also blanks and brackets.
    pub(crate) fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let mut fields = std::str::from_utf8(&stat[behind_name..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        // Field 22, `starttime`: 15 fields are skipped after the session.
        let start = fields.nth(15)?.parse().ok()?;
        Some(Self { pid, parent, group, session, start, dead: matches!(state, "Z" | "X" | "x") })
    }

    /// Sends a signal to this process, and not to another one that has its id by now.
    ///
    /// Returns whether it was sent. It fails when the process is gone, or belongs to another user.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            // Linux before 5.3, or a sandbox that forbids the call. Check and signal; the id can be reused in the microseconds
            // between.
            return self.is_same() && rustix::process::kill_process(pid, signal).is_ok();
        };
        // The handle refers to the process that has the id now. If that is the process we saw, the handle cannot come to mean
        // another.
        self.is_same() && rustix::process::pidfd_send_signal(handle, signal).is_ok()
    }

    fn is_same(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.start == self.start && !now.dead)
    }

    /// Describes it for a report.
    pub(crate) fn describe(&self) -> TreeProcess {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut line: Vec<u8> = line.into_iter().map(|byte| if byte == 0 { b' ' } else { byte }).collect();
        // A zombie and a kernel thread have no command line (proc_pid_cmdline(5)). A program may also have cleared it.
        if line.is_empty() {
            line = fs::read(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        }
        line.truncate(COMMAND);
        let command = String::from_utf8_lossy(&line).trim_end().to_owned();
        TreeProcess { pid: self.pid.cast_unsigned(), command, killed: false }
    }

    /// Returns the marks in its environment as of its exec; none if it cleared them or belongs to another user.
    pub(crate) fn environment(&self) -> ProcessMarks {
        ProcessMarks::parse(&fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default())
    }
}

/// The spawns and the session that the environment of a process names.
#[derive(Debug)]
pub(crate) struct ProcessMarks {
    /// The token of its spawn and of the spawns around it.
    spawns: Vec<Vec<u8>>,
    session: Option<Vec<u8>>,
}

impl ProcessMarks {
    fn parse(environment: &[u8]) -> Self {
        let variable = |name: &str| {
            let mut variables = environment.split(|byte| *byte == 0);
            variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        };
        let chain = variable(SPAWN_VARIABLE).into_iter().flat_map(|chain| chain.split(|byte| *byte == b'/'));
        Self {
            spawns: chain.map(<[u8]>::to_vec).collect(),
            session: variable(SESSION_VARIABLE).map(<[u8]>::to_vec),
        }
    }

    /// Returns the token of its spawn and of the spawns around it.
    pub(crate) fn spawns(&self) -> &[Vec<u8>] {
        &self.spawns
    }

    /// Returns whether the process comes from this spawn, or from a spawn inside it.
    pub(crate) fn is_of_spawn(&self, token: &[u8]) -> bool {
        self.spawns.iter().any(|spawn| spawn == token)
    }

    /// Returns whether the process belongs to this session.
    pub(crate) fn is_of_session(&self, marker: &[u8]) -> bool {
        self.session.as_deref() == Some(marker)
    }
}

/// Returns all processes.
pub(crate) fn all() -> Vec<ProcessEntry> {
    let mut processes: Vec<ProcessEntry> = numbers().into_iter().filter_map(ProcessEntry::read).collect();
    // Parents first. If a shell's child is killed before the shell, the shell may exit by itself and not count as killed.
    processes.reverse();
    processes
}

/// Returns the ids of all processes, the highest first. A process that forks and exits again and again has one of the highest
/// ids, and would be gone before a rising walk reached it.
fn numbers() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers
}

/// Kills the process groups of these processes, dead ones included, if every living process of a group is among them.
///
/// A signal to a group reaches all its members at once, and nothing forks in between. A process that forks and exits again and
/// again cannot be hit by its id: a child with another id has replaced it by then.
pub(crate) fn kill_groups(all: &[ProcessEntry], chosen: &[ProcessEntry]) {
    let groups: BTreeSet<i32> = chosen.iter().map(|process| process.group).collect();
    // Not `getpgrp`: it returns 0 for a group outside our PID namespace, which `rustix` declares impossible.
    let own = all.iter().find(|process| process.pid.cast_unsigned() == std::process::id());
    let own = own.map(|process| process.group);
    // Group 1 is left out: `kill` with -1 signals every process that we may signal (kill(2)). Group 0 is outside our PID
    // namespace.
    for group in groups.into_iter().filter(|group| *group > 1 && Some(*group) != own) {
        let mut members = all.iter().filter(|process| process.group == group && !process.dead);
        if members.all(|member| chosen.contains(member))
            && let Some(group) = Pid::from_raw(group)
        {
            // It fails when the group is empty.
            let _: Result<(), _> = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// Returns the children of this process, if it has one thread and the kernel lists them.
///
/// The list is exact: a process leaves it only when we reap it.
pub(crate) fn own_children() -> Option<Vec<i32>> {
    // Only a kernel with CONFIG_PROC_CHILDREN has this file. Without it, the callers read all of `/proc`.
    let list = fs::read_to_string("/proc/thread-self/children").ok()?;
    Some(list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// One look at the processes. It is read when first needed, and shared by all trees that are due.
#[derive(Debug, Default)]
pub(crate) struct ProcessView {
    own_children: OnceCell<Option<Vec<i32>>>,
    all: OnceCell<Vec<ProcessEntry>>,
    environments: RefCell<HashMap<i32, Rc<ProcessMarks>>>,
}

impl ProcessView {
    /// Reads all processes, each together with its environment: a process that exits soon still exists then.
    pub(crate) fn with_environments() -> Self {
        let view = Self::default();
        let mut processes = Vec::new();
        for process in numbers().into_iter().filter_map(ProcessEntry::read) {
            view.environments.borrow_mut().insert(process.pid, Rc::new(process.environment()));
            processes.push(process);
        }
        processes.reverse();
        // The view is new, so the cell is empty and this succeeds.
        let _ = view.all.set(processes);
        view
    }

    /// Returns whether this process has children that are neither in the view nor in `known`.
    pub(crate) fn misses_children(&self, known: &HashSet<i32>) -> bool {
        let seen = |pid: i32| known.contains(&pid) || self.all().iter().any(|process| process.pid == pid);
        // A fresh list, not the cached one: a child that appeared after the view was read counts.
        own_children().is_some_and(|children| !children.into_iter().all(seen))
    }

    pub(crate) fn own_children(&self) -> Option<&[i32]> {
        self.own_children.get_or_init(own_children).as_deref()
    }

    pub(crate) fn all(&self) -> &[ProcessEntry] {
        self.all.get_or_init(all)
    }

    pub(crate) fn environment(&self, process: &ProcessEntry) -> Rc<ProcessMarks> {
        let mut environments = self.environments.borrow_mut();
        environments.entry(process.pid).or_insert_with(|| Rc::new(process.environment())).clone()
    }
}

/// Returns the chosen processes and all their descendants.
pub(crate) fn with_descendants(
    processes: &[ProcessEntry],
    mut is_chosen: impl FnMut(&ProcessEntry) -> bool,
) -> Vec<ProcessEntry> {
    let mut chosen: Vec<ProcessEntry> =
        processes.iter().filter(|process| is_chosen(process)).copied().collect();
    let mut next = 0;
    while let Some(parent) = chosen.get(next).map(|process| process.pid) {
        for process in processes.iter().filter(|process| process.parent == parent) {
            if !chosen.contains(process) {
                chosen.push(*process);
            }
        }
        next += 1;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_strange_name_is_read() {
        let stat = b"42 (a) Z (b) S 7 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2";
        assert_eq!(
            ProcessEntry::parse(42, stat),
            Some(ProcessEntry { pid: 42, parent: 7, group: 40, session: 41, start: 98765, dead: false })
        );
        assert!(
            ProcessEntry::parse(42, b"42 (a) Z 7 40 41 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 98765").unwrap().dead
        );
        for cut in 0..20 {
            assert_eq!(ProcessEntry::parse(42, &stat[..cut]), None);
        }
    }

    #[test]
    fn we_see_ourselves() {
        let own = i32::try_from(std::process::id()).unwrap();
        let found = all().into_iter().find(|process| process.pid == own).unwrap();
        assert_eq!(Some(found), ProcessEntry::read(own));
        assert!(found.describe().command.contains("process"), "{:?}", found.describe());
    }

    #[test]
    fn another_start_time_is_another_process() {
        let own = ProcessEntry::read(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_same());
        assert!(!ProcessEntry { start: own.start + 1, ..own }.is_same());
        assert!(!ProcessEntry { start: own.start + 1, ..own }.signal(Signal::CONT));
    }

    #[test]
    fn markers_are_whole_variables() {
        let check = |environment: &[u8], spawn: bool, session: bool| {
            let environment = ProcessMarks::parse(environment);
            assert_eq!((environment.is_of_spawn(b"t1"), environment.is_of_session(b"s1")), (spawn, session));
        };
        check(b"A=1\0BOWLINE_SPAWN=t1\0BOWLINE_SESSION_ID=s1\0", true, true);
        check(b"BOWLINE_SPAWN=t0/t1/t2\0BOWLINE_SESSION_ID=s11\0", true, false);
        check(b"BOWLINE_SPAWN=t11\0XBOWLINE_SESSION_ID=s1\0", false, false);
        check(b"A=BOWLINE_SPAWN=t1\0", false, false);
        check(b"", false, false);
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let process = |pid, parent| ProcessEntry { pid, parent, group: 0, session: 0, start: 0, dead: false };
        let all = [process(5, 4), process(4, 3), process(3, 2), process(9, 1), process(2, 1)];
        let found = with_descendants(&all, |process| process.pid == 2);
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [2, 3, 4, 5]);
        // Processes cannot form a loop. But the reads take time, and ids may be reused between them.
        let all = [process(2, 3), process(3, 2)];
        assert_eq!(with_descendants(&all, |process| process.pid == 2).len(), 2);
    }
}
