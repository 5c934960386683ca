//! What is left of a tree when its keeper is gone: found by its marks in all of `/proc`, and ended to a fixpoint.
//!
//! The leader dies with the keeper (the kernel sends it SIGKILL). The others went to pid 1 and are ours no more, but
//! they carry the marker or sit in the cgroup.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cgroup::{self, Cgroup};
use super::scan::{self, Process, View};
use crate::happening::Survivor;

const PATIENCE: Duration = Duration::from_secs(5);

/// How many looks in a row have to find nothing: one that forks and leaves all the time may be missed by a look.
const EMPTY_LOOKS: u32 = 4;

/// A tree whose keeper is gone.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) token: Vec<u8>,
    pub(crate) cgroup: Option<Cgroup>,
}

/// What was ended, and what could not be.
pub(crate) type Ended = (Vec<Survivor>, Vec<Survivor>);

/// Ends what is left of these trees, all at once. Blocks, at most for some seconds.
pub(crate) fn end(lost: &[Lost]) -> Vec<Ended> {
    let ended = until_none(lost.len(), |number, view| {
        let Lost { token, cgroup } = &lost[number];
        let inside = cgroup.as_ref().map(Cgroup::processes).unwrap_or_default();
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

/// Ends every process of a session, found by the marker. If we are one of them it is not a stray: then nothing is
/// done.
///
/// What cleared its environment is found in the cgroup that its keeper abandoned. A cgroup belongs to the session if a process in
/// it has the marker; one in which no process has a marker cannot be told whose it is, and is ended without a report.
pub(crate) fn end_session(marker: &str) -> Ended {
    let abandoned = cgroup::all_abandoned();
    let is_marked =
        |view: &View, process: &Process| view.environment(process).is_of_session(marker.as_bytes());
    let view = View::default();
    let marked: Vec<i32> = view.all().iter().filter(|one| is_marked(&view, one)).map(|one| one.pid).collect();
    let belongs = |cgroup: &&Cgroup| cgroup.processes().iter().any(|pid| marked.contains(pid));
    let ours: Vec<&Cgroup> = abandoned.iter().filter(belongs).collect();
    let find = |view: &View| {
        let inside: Vec<i32> = ours.iter().flat_map(|cgroup| cgroup.processes()).collect();
        scan::with_descendants(view.all(), |process| {
            inside.contains(&process.pid) || is_marked(view, process)
        })
    };
    let own = std::process::id().cast_signed();
    if find(&View::default()).iter().any(|process| process.pid == own) {
        return Ended::default();
    }
    let ended = until_none(1, |_, view| {
        let found = find(view);
        ours.iter().for_each(|cgroup| cgroup.kill());
        found
    });
    abandoned.iter().for_each(Cgroup::end);
    ended.into_iter().next().unwrap_or_default()
}

/// Kills what is found of each tree until several looks in a row find nothing of any, or the patience is over.
fn until_none(trees: usize, find: impl Fn(usize, &View) -> Vec<Process>) -> Vec<Ended> {
    let until = now() + PATIENCE;
    let own = std::process::id().cast_signed();
    let mut ended: Vec<BTreeMap<(i32, u64), Survivor>> = vec![BTreeMap::new(); trees];
    let mut empty_looks = 0;
    loop {
        let view = View::with_environments();
        let mut living: Vec<Vec<Process>> = (0..trees).map(|number| find(number, &view)).collect();
        for (living, ended) in living.iter_mut().zip(&mut ended) {
            scan::kill_groups(view.all(), living);
            living.retain(|process| !process.dead && process.pid != own);
            for process in living {
                let killed = || Survivor { killed: true, ..process.describe() };
                ended.entry((process.pid, process.start)).or_insert_with(killed);
                let _sent: bool = process.signal(Signal::KILL);
            }
        }
        empty_looks = if living.iter().all(Vec::is_empty) { empty_looks + 1 } else { 0 };
        if empty_looks == EMPTY_LOOKS || now() >= until {
            let report = |(mut ended, living): (BTreeMap<(i32, u64), Survivor>, Vec<Process>)| {
                let survivors = living.iter().map(Process::describe).collect();
                ended.retain(|key, _| !living.iter().any(|process| (process.pid, process.start) == *key));
                (ended.into_values().collect(), survivors)
            };
            return ended.into_iter().zip(living).map(report).collect();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[expect(clippy::disallowed_methods, reason = "patience is counted here")]
fn now() -> Instant {
    Instant::now()
}
