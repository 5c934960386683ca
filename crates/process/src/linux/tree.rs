//! The processes of a tree, and how a tree is ended: repeatedly until none is left, because a process may fork between look and
//! signal.
//!
//! All processes of all trees descend from the keeper, which is their subreaper. Its direct children are leaders, and orphans
//! that it inherited. An orphan is assigned to a tree by its cgroup, its marker or its session. An orphan without any of these
//! (it cleared its environment, and there are no cgroups) ends with the last tree.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cgroup::Cgroup;
use super::scan::{self, ProcessEntry, ProcessView};
use crate::child_event::TreeProcess;

/// How long SIGKILL is repeated before a process that is left counts as a survivor.
const PATIENCE: Duration = Duration::from_secs(5);
/// A limit for the grace, so that adding it to the clock cannot overflow.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// The processes of one spawn.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    pub(crate) leader: i32,
    /// The leader was reaped: another process may have its id now.
    pub(crate) exited: bool,
    pub(crate) token: Vec<u8>,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) ending: Option<TreeEnding>,
}

/// The state of a tree that is being ended.
#[derive(Debug)]
pub(crate) struct TreeEnding {
    kill_at: Instant,
    next_look: Instant,
    pause: Duration,
    terminated: bool,
    looked_empty: bool,
    ended: BTreeMap<(i32, u64), TreeProcess>,
    pub(crate) answer: bool,
    pub(crate) forget: bool,
}

/// The result of ending a tree.
#[derive(Debug)]
pub(crate) struct TreeEnd {
    pub(crate) ended: Vec<TreeProcess>,
    pub(crate) survivors: Vec<TreeProcess>,
}

/// Facts about all trees that decide which tree an orphan belongs to.
#[derive(Debug, Default)]
pub(crate) struct AllTrees {
    /// The living leaders.
    pub(crate) leaders: HashSet<i32>,
    pub(crate) tokens: HashSet<Vec<u8>>,
}

impl ProcessTree {
    /// Begins to end the tree. Earlier requests stay in force, and the shorter grace applies.
    pub(crate) fn end(&mut self, now: Instant, grace: Duration, answer: bool, forget: bool) {
        let kill_at = now + grace.min(LONGEST_GRACE);
        let ending = self.ending.get_or_insert(TreeEnding {
            kill_at,
            next_look: now,
            pause: FIRST_PAUSE,
            terminated: false,
            looked_empty: false,
            ended: BTreeMap::new(),
            answer,
            forget,
        });
        ending.kill_at = ending.kill_at.min(kill_at);
        ending.next_look = now;
        ending.answer |= answer;
        ending.forget |= forget;
    }

    /// Returns when this tree is due for its next look.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.ending.as_ref().map(|ending| ending.next_look)
    }

    /// Schedules a look soon, because a process ended; not at once, because many may end together.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if let Some(ending) = &mut self.ending {
            ending.next_look = ending.next_look.min(now + FIRST_PAUSE);
        }
    }

    /// Does what is due. Returns the result when no process is left, or when `PATIENCE` is over.
    pub(crate) fn step(&mut self, now: Instant, view: &ProcessView, forest: &AllTrees) -> Option<TreeEnd> {
        if self.ending.as_ref().is_none_or(|ending| now < ending.next_look) {
            return None;
        }
        let members = self.members(view, forest);
        // A view may miss a process that forks and exits again and again, while its next copy is our child already. A cgroup's
        // list does not miss it.
        let is_stale = self.cgroup.is_none() && view.misses_children(&forest.leaders);
        let ending = self.ending.as_mut()?;
        let (seen, listed, sure) = match members {
            TreeMembers::None => (Vec::new(), false, true),
            TreeMembers::Seen { seen, listed } => (seen, listed, false),
        };
        let living: Vec<ProcessEntry> = seen.iter().filter(|process| !process.dead).copied().collect();
        let is_empty = living.is_empty() && !listed && (sure || !is_stale);
        // An empty list of children is proof. An empty look at `/proc` is not, and needs a second one that agrees.
        if is_empty && self.exited && (sure || ending.looked_empty) {
            let ended = std::mem::take(&mut ending.ended).into_values().collect();
            return Some(TreeEnd { ended, survivors: Vec::new() });
        }
        ending.looked_empty = is_empty;
        // The leader's own end is reported as its exit. After it was reaped, the same number is another process.
        for process in living.iter().filter(|process| process.pid != self.leader || self.exited) {
            ending.ended.entry((process.pid, process.start)).or_insert_with(|| process.describe());
        }
        if now >= ending.kill_at + PATIENCE {
            // A survivor is stuck in the kernel, or belongs to another user.
            let survivors: Vec<TreeProcess> = living.iter().map(ProcessEntry::describe).collect();
            let alive = |survivor: &TreeProcess| survivors.iter().any(|alive| alive.pid == survivor.pid);
            let ended = std::mem::take(&mut ending.ended).into_values().filter(|one| !alive(one)).collect();
            return Some(TreeEnd { ended, survivors });
        }
        if now >= ending.kill_at {
            // The kernel kills the whole cgroup at once, so no member can fork out of it. The signals below reach processes
            // that moved to another cgroup.
            if let Some(cgroup) = &self.cgroup {
                cgroup.kill();
            }
            send(&living, Signal::KILL);
            // `seen`, not `living`: the group of a process that forked and exited may hold its living child.
            scan::kill_groups(view.all(), &seen);
            for process in &living {
                if let Some(ended) = ending.ended.get_mut(&(process.pid, process.start)) {
                    ended.killed = true;
                }
            }
        } else if !ending.terminated {
            ending.terminated = true;
            send(&living, Signal::TERM);
            // A stopped process does not receive SIGTERM until it is continued.
            send(&living, Signal::CONT);
        }
        // The kernel does not report the end of grandchildren, so look again: soon at first, then less often.
        // A tree that looked empty needs one more look soon. The growing pause is for processes that take long to end.
        let pause = if ending.looked_empty { FIRST_PAUSE } else { ending.pause };
        ending.pause = (ending.pause * 2).min(LONGEST_PAUSE);
        ending.next_look = now + pause;
        // Do not sleep past the end of the grace.
        if now < ending.kill_at {
            ending.next_look = ending.next_look.min(ending.kill_at);
        }
        None
    }

    /// Sends a signal to all current processes of the tree.
    pub(crate) fn signal(&self, signal: Signal, forest: &AllTrees) {
        // A fresh view: the tree may have grown since the last look.
        if let TreeMembers::Seen { seen, .. } = self.members(&ProcessView::default(), forest) {
            let living: Vec<ProcessEntry> = seen.into_iter().filter(|process| !process.dead).collect();
            send(&living, signal);
        }
    }

    fn members(&self, view: &ProcessView, forest: &AllTrees) -> TreeMembers {
        let inside = self.cgroup.as_ref().map(Cgroup::processes).unwrap_or_default();
        let is_orphan = |pid: i32| !forest.leaders.contains(&pid);
        let no_orphans =
            view.own_children().is_some_and(|children| !children.iter().any(|pid| is_orphan(*pid)));
        // The keeper inherits an orphan at the moment its parent ends. So with the leader reaped and no orphan here, the tree
        // is empty. This saves reading all processes in the usual case.
        if self.exited && inside.is_empty() && no_orphans {
            return TreeMembers::None;
        }
        let own = std::process::id().cast_signed();
        let seen = scan::with_descendants(view.all(), |process| {
            if inside.contains(&process.pid) || (process.pid == self.leader && !self.exited) {
                return true;
            }
            process.parent == own && is_orphan(process.pid) && self.adopts(process, view, forest)
        });
        TreeMembers::Seen { seen, listed: !inside.is_empty() }
    }

    /// Decides whether an orphan comes from this tree.
    fn adopts(&self, orphan: &ProcessEntry, view: &ProcessView, forest: &AllTrees) -> bool {
        let judge = |process: &ProcessEntry| {
            let environment = view.environment(process);
            let is_ours = environment.is_of_spawn(&self.token);
            let is_known = is_ours || environment.spawns().iter().any(|spawn| forest.tokens.contains(spawn));
            is_known.then_some(is_ours)
        };
        // The orphan may have cleared its environment, while its descendants still have the marker.
        let family = || scan::with_descendants(view.all(), |process| process == orphan);
        let judged = judge(orphan).or_else(|| family().iter().find_map(judge));
        // The leader's id stays in use as long as a process is in its session, so an equal number is the same session. An
        // orphan without any mark belongs to the last tree that is left.
        judged.unwrap_or(orphan.session == self.leader || forest.tokens.len() == 1)
    }
}

enum TreeMembers {
    /// The tree certainly has no process.
    None,
    /// The processes that were seen, dead ones too. An empty list proves nothing: a parent may have ended between two reads.
    Seen {
        seen: Vec<ProcessEntry>,
        /// Whether the cgroup lists processes. A process that forks and exits again and again is listed, and may be gone from
        /// `/proc` at the moment of the look, with its next copy not there yet.
        listed: bool,
    },
}

fn send(processes: &[ProcessEntry], signal: Signal) {
    for process in processes {
        // It fails when the process is gone or belongs to another user. The next look shows which.
        let _sent: bool = process.signal(signal);
    }
}
