//! What `/proc` says about processes. A process id is only a name that gets reused: with the start time it is a process.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::rc::Rc;

use rustix::process::{Pid, PidfdFlags, Signal};

use super::wire::COMMAND;
use crate::command::{SESSION_VARIABLE, SPAWN_VARIABLE};
use crate::happening::Survivor;

/// One process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// In clock ticks since the machine started.
    pub(crate) start: u64,
    /// It has ended, and only its parent has not looked yet. Pid 1 of a container may never look.
    pub(crate) dead: bool,
}

impl Process {
    /// Reads one process; `None` if there is none.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Sends a signal to this process, and to no other one that has its number by now.
    ///
    /// Says whether it was sent; it is not when the process is gone, or not ours to signal.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            // Linux before 5.3, or a sandbox that forbids it: look and shoot, with a window of microseconds.
            return self.is_same() && rustix::process::kill_process(pid, signal).is_ok();
        };
        // The handle now holds whoever has the number; if that is the process we saw, it stays so.
        self.is_same() && rustix::process::pidfd_send_signal(handle, signal).is_ok()
    }

    fn is_same(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.start == self.start && !now.dead)
    }

    /// Describes it for a report.
    pub(crate) fn describe(&self) -> Survivor {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut line: Vec<u8> = line.into_iter().map(|byte| if byte == 0 { b' ' } else { byte }).collect();
        if line.is_empty() {
            line = fs::read(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        }
        line.truncate(COMMAND);
        let command = String::from_utf8_lossy(&line).trim_end().to_owned();
        Survivor { pid: self.pid.cast_unsigned(), command, killed: false }
    }

    /// Returns its environment as it was when it executed; empty if it cleared it or is not ours to read.
    pub(crate) fn environment(&self) -> Environment {
        Environment::parse(&fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default())
    }
}

/// What the environment of a process says about where it comes from.
#[derive(Debug)]
pub(crate) struct Environment {
    /// The marks of its spawn and of those around it.
    spawns: Vec<Vec<u8>>,
    session: Option<Vec<u8>>,
}

impl Environment {
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

    /// Returns the marks of its spawn and of those around it.
    pub(crate) fn spawns(&self) -> &[Vec<u8>] {
        &self.spawns
    }

    /// Says whether the process comes from this spawn, or from a spawn inside it.
    pub(crate) fn is_of_spawn(&self, token: &[u8]) -> bool {
        self.spawns.iter().any(|spawn| spawn == token)
    }

    /// Says whether the process belongs to this session.
    pub(crate) fn is_of_session(&self, marker: &[u8]) -> bool {
        self.session.as_deref() == Some(marker)
    }
}

/// Returns all processes.
pub(crate) fn all() -> Vec<Process> {
    let mut processes: Vec<Process> = numbers().into_iter().filter_map(Process::read).collect();
    // Parents first: a shell whose child is killed before it would still exit by itself.
    processes.reverse();
    processes
}

/// Returns the numbers of all processes, the highest first. One that forks and leaves all the time has one of the highest, and would be
/// gone before its turn came.
fn numbers() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers
}

/// Kills the process groups of these processes, dead ones included, if no living process in them is a stranger.
///
/// A signal to a group reaches all of it at one moment, and nothing forks in between. A process that forks and leaves all the time
/// cannot be hit by its number: it is another one by then.
pub(crate) fn kill_groups(all: &[Process], chosen: &[Process]) {
    let groups: BTreeSet<i32> = chosen.iter().map(|process| process.group).collect();
    let own = rustix::process::getpgrp().as_raw_nonzero().get();
    for group in groups.into_iter().filter(|group| *group > 1 && *group != own) {
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
/// The list is exact: only we can take a process from it, by reaping.
pub(crate) fn own_children() -> Option<Vec<i32>> {
    let list = fs::read_to_string("/proc/thread-self/children").ok()?;
    Some(list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// One look at the processes, read when it is first needed and then shared by all trees that are due.
#[derive(Debug, Default)]
pub(crate) struct View {
    own_children: OnceCell<Option<Vec<i32>>>,
    all: OnceCell<Vec<Process>>,
    environments: RefCell<HashMap<i32, Rc<Environment>>>,
}

impl View {
    /// Reads all processes, each together with its environment: one that soon leaves is still there then.
    pub(crate) fn with_environments() -> Self {
        let view = Self::default();
        let mut processes = Vec::new();
        for process in numbers().into_iter().filter_map(Process::read) {
            view.environments.borrow_mut().insert(process.pid, Rc::new(process.environment()));
            processes.push(process);
        }
        processes.reverse();
        // It is fresh, so that nothing is in there.
        let _ = view.all.set(processes);
        view
    }

    /// Says whether this process has children now that were not there when all were read, but for these.
    pub(crate) fn misses_children(&self, known: &HashSet<i32>) -> bool {
        let seen = |pid: i32| known.contains(&pid) || self.all().iter().any(|process| process.pid == pid);
        own_children().is_some_and(|children| !children.into_iter().all(seen))
    }

    pub(crate) fn own_children(&self) -> Option<&[i32]> {
        self.own_children.get_or_init(own_children).as_deref()
    }

    pub(crate) fn all(&self) -> &[Process] {
        self.all.get_or_init(all)
    }

    pub(crate) fn environment(&self, process: &Process) -> Rc<Environment> {
        let mut environments = self.environments.borrow_mut();
        environments.entry(process.pid).or_insert_with(|| Rc::new(process.environment())).clone()
    }
}

/// Adds to the chosen processes all that they started, and what these started.
pub(crate) fn with_descendants(
    processes: &[Process],
    mut is_chosen: impl FnMut(&Process) -> bool,
) -> Vec<Process> {
    let mut chosen: Vec<Process> = processes.iter().filter(|process| is_chosen(process)).copied().collect();
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

/// Reads `/proc/<pid>/stat`. The name in it may contain anything, also blanks and brackets.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[behind_name..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Process { pid, parent, group, session, start, dead: matches!(state, "Z" | "X" | "x") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_strange_name_is_read() {
        let stat = b"42 (a) Z (b) S 7 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2";
        assert_eq!(
            parse(42, stat),
            Some(Process { pid: 42, parent: 7, group: 40, session: 41, start: 98765, dead: false })
        );
        assert!(parse(42, b"42 (a) Z 7 40 41 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 98765").unwrap().dead);
        for cut in 0..20 {
            assert_eq!(parse(42, &stat[..cut]), None);
        }
    }

    #[test]
    fn we_see_ourselves() {
        let own = i32::try_from(std::process::id()).unwrap();
        let found = all().into_iter().find(|process| process.pid == own).unwrap();
        assert_eq!(Some(found), Process::read(own));
        assert!(found.describe().command.contains("process"), "{:?}", found.describe());
    }

    #[test]
    fn another_start_time_is_another_process() {
        let own = Process::read(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_same());
        assert!(!Process { start: own.start + 1, ..own }.is_same());
        assert!(!Process { start: own.start + 1, ..own }.signal(Signal::CONT));
    }

    #[test]
    fn markers_are_whole_variables() {
        let check = |environment: &[u8], spawn: bool, session: bool| {
            let environment = Environment::parse(environment);
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
        let process = |pid, parent| Process { pid, parent, group: 0, session: 0, start: 0, dead: false };
        let all = [process(5, 4), process(4, 3), process(3, 2), process(9, 1), process(2, 1)];
        let found = with_descendants(&all, |process| process.pid == 2);
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [2, 3, 4, 5]);
        // A loop cannot be, but what we read is not one moment: numbers may have been reused.
        let all = [process(2, 3), process(3, 2)];
        assert_eq!(with_descendants(&all, |process| process.pid == 2).len(), 2);
    }
}
