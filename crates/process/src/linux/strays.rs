//! Ends what is left of a tree when its keeper is gone. Finds it by its marks in all of `/proc`, and repeats until none is
//! left.
//!
//! The leader dies with the keeper (the kernel sends it SIGKILL). Pid 1 inherits the others, but they have the marker in their
//! environment or are in the cgroup.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cgroup::{self, Cgroup};
use super::scan::{self, ProcessEntry, ProcessView};
use crate::child_event::TreeProcess;

const PATIENCE: Duration = Duration::from_secs(5);

/// How many looks in a row have to find nothing. On a busy machine about every second look misses a process that forks and
/// exits again and again: four looks in a row missed it in 3 of 160 tries.
const EMPTY_LOOKS: u32 = 16;

/// A tree whose keeper is gone.
#[derive(Debug)]
pub(crate) struct LostTree {
    pub(crate) token: Vec<u8>,
    pub(crate) cgroup: Option<Cgroup>,
}

/// The processes that were ended, and those that could not be.
pub(crate) type EndedAndSurvivors = (Vec<TreeProcess>, Vec<TreeProcess>);

/// Ends what is left of these trees, all at once. Blocks for at most some seconds.
pub(crate) fn end(lost: &[LostTree]) -> Vec<EndedAndSurvivors> {
    let ended = until_none(lost.len(), |number, view| {
        let LostTree { token, cgroup } = &lost[number];
        let inside = cgroup.as_ref().map(Cgroup::processes).unwrap_or_default();
        // After the list was read: once the processes are killed, the report could not name them.
        if let Some(cgroup) = cgroup {
            cgroup.kill();
        }
        scan::with_descendants(view.all(), |process| {
            inside.contains(&process.pid) || view.environment(process).is_of_spawn(token)
        })
    });
    lost.iter().filter_map(|lost| lost.cgroup.as_ref()).for_each(Cgroup::remove);
    ended
}

/// Ends every process of a session, found by the marker. Does nothing if this process is one of them: then the session is
/// alive.
///
/// A process that cleared its environment is found in the cgroup that its keeper abandoned. A cgroup belongs to the session if
/// a process in it has the marker. If no process in it has a marker, the session is unknown, and it is ended without a report.
pub(crate) fn end_session(marker: &str) -> EndedAndSurvivors {
    // Before the scan: each abandoned cgroup is locked from here on, so no keeper ends it under us.
    let abandoned = cgroup::all_abandoned();
    let is_marked = |view: &ProcessView, process: &ProcessEntry| {
        view.environment(process).is_of_session(marker.as_bytes())
    };
    let view = ProcessView::default();
    let marked: Vec<i32> = view.all().iter().filter(|one| is_marked(&view, one)).map(|one| one.pid).collect();
    let belongs = |cgroup: &&Cgroup| cgroup.processes().iter().any(|pid| marked.contains(pid));
    let ours: Vec<&Cgroup> = abandoned.iter().filter(belongs).collect();
    let find = |view: &ProcessView| {
        let inside: Vec<i32> = ours.iter().flat_map(|cgroup| cgroup.processes()).collect();
        scan::with_descendants(view.all(), |process| {
            inside.contains(&process.pid) || is_marked(view, process)
        })
    };
    let own = std::process::id().cast_signed();
    if find(&ProcessView::default()).iter().any(|process| process.pid == own) {
        return EndedAndSurvivors::default();
    }
    let ended = until_none(1, |_, view| {
        // Find before the kill, or the report could not name these processes.
        let found = find(view);
        ours.iter().for_each(|cgroup| cgroup.kill());
        found
    });
    // Not only `ours`: the keeper of each of them is dead.
    abandoned.iter().for_each(Cgroup::end);
    ended.into_iter().next().unwrap_or_default()
}

/// Kills the processes found of each tree until `EMPTY_LOOKS` looks in a row find none, or `PATIENCE` is over.
fn until_none(
    trees: usize,
    find: impl Fn(usize, &ProcessView) -> Vec<ProcessEntry>,
) -> Vec<EndedAndSurvivors> {
    let until = now() + PATIENCE;
    let own = std::process::id().cast_signed();
    let mut ended: Vec<BTreeMap<(i32, u64), TreeProcess>> = vec![BTreeMap::new(); trees];
    let mut empty_looks = 0;
    loop {
        let view = ProcessView::with_environments();
        let mut living: Vec<Vec<ProcessEntry>> = (0..trees).map(|number| find(number, &view)).collect();
        for (living, ended) in living.iter_mut().zip(&mut ended) {
            // Before the dead ones are dropped: the group of a process that forked and exited may hold its living child.
            scan::kill_groups(view.all(), living);
            living.retain(|process| !process.dead && process.pid != own);
            for process in living {
                let killed = || TreeProcess { killed: true, ..process.describe() };
                ended.entry((process.pid, process.start)).or_insert_with(killed);
                let _sent: bool = process.signal(Signal::KILL);
            }
        }
        empty_looks = if living.iter().all(Vec::is_empty) { empty_looks + 1 } else { 0 };
        if empty_looks == EMPTY_LOOKS || now() >= until {
            let report = |(mut ended, living): (BTreeMap<(i32, u64), TreeProcess>, Vec<ProcessEntry>)| {
                let survivors = living.iter().map(ProcessEntry::describe).collect();
                ended.retain(|key, _| !living.iter().any(|process| (process.pid, process.start) == *key));
                (ended.into_values().collect(), survivors)
            };
            return ended.into_iter().zip(living).map(report).collect();
        }
        // With `EMPTY_LOOKS` this pause adds about 30 ms to every search that finds nothing.
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[expect(clippy::disallowed_methods, reason = "patience is counted here")]
fn now() -> Instant {
    Instant::now()
}
