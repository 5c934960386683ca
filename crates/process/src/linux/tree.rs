//! Who belongs to a tree, and how a tree is ended: to a fixpoint, because a process may fork while we look.
//!
//! All processes of all trees descend from the keeper: it is their subreaper. Its direct children are leaders, and
//! orphans that it inherited. An orphan is given to a tree by its cgroup, its marker or its session. One that shows
//! none of these (it cleared its environment, and there are no cgroups) ends with the last tree.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cgroup::Cgroup;
use super::scan::{self, Process, View};
use crate::happening::Survivor;

/// How long SIGKILL is repeated before what is left counts as a survivor.
const PATIENCE: Duration = Duration::from_secs(5);
/// No clock overflows before this is over.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// What one spawn gave.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) leader: i32,
    /// The leader was reaped: its number may belong to somebody else.
    pub(crate) exited: bool,
    pub(crate) token: Vec<u8>,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) ending: Option<Ending>,
}

/// A tree that is being ended.
#[derive(Debug)]
pub(crate) struct Ending {
    kill_at: Instant,
    next_look: Instant,
    pause: Duration,
    told: bool,
    looked_empty: bool,
    ended: BTreeMap<(i32, u64), Survivor>,
    pub(crate) answer: bool,
    pub(crate) forget: bool,
}

/// What an ended tree leaves.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) ended: Vec<Survivor>,
    pub(crate) survivors: Vec<Survivor>,
}

/// All trees, as far as they matter for each of them.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    /// The living leaders.
    pub(crate) leaders: HashSet<i32>,
    pub(crate) tokens: HashSet<Vec<u8>>,
}

impl Tree {
    /// Asks for the end; what was asked before stays asked, and the shorter grace counts.
    pub(crate) fn end(&mut self, now: Instant, grace: Duration, answer: bool, forget: bool) {
        let kill_at = now + grace.min(LONGEST_GRACE);
        let ending = self.ending.get_or_insert(Ending {
            kill_at,
            next_look: now,
            pause: FIRST_PAUSE,
            told: false,
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

    /// Says when this tree has to be looked at again.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.ending.as_ref().map(|ending| ending.next_look)
    }

    /// Looks soon, because something ended; not at once, because many may end together.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if let Some(ending) = &mut self.ending {
            ending.next_look = ending.next_look.min(now + FIRST_PAUSE);
        }
    }

    /// Does what is due; gives the result when nothing is left, or nothing more can be done.
    pub(crate) fn step(&mut self, now: Instant, view: &View, forest: &Forest) -> Option<Ended> {
        if self.ending.as_ref().is_none_or(|ending| now < ending.next_look) {
            return None;
        }
        let members = self.members(view, forest);
        // What forks and leaves all the time may be missing in a view, and its next one is our child already. In a cgroup it is not.
        let is_stale = self.cgroup.is_none() && view.misses_children(&forest.leaders);
        let ending = self.ending.as_mut()?;
        let (seen, sure) = match members {
            Members::None => (Vec::new(), true),
            Members::Seen(seen) => (seen, false),
        };
        let living: Vec<Process> = seen.iter().filter(|process| !process.dead).copied().collect();
        let is_empty = living.is_empty() && (sure || !is_stale);
        if is_empty && self.exited && (sure || ending.looked_empty) {
            let ended = std::mem::take(&mut ending.ended).into_values().collect();
            return Some(Ended { ended, survivors: Vec::new() });
        }
        ending.looked_empty = is_empty;
        for process in living.iter().filter(|process| process.pid != self.leader || self.exited) {
            ending.ended.entry((process.pid, process.start)).or_insert_with(|| process.describe());
        }
        if now >= ending.kill_at + PATIENCE {
            let survivors: Vec<Survivor> = living.iter().map(Process::describe).collect();
            let alive = |survivor: &Survivor| survivors.iter().any(|alive| alive.pid == survivor.pid);
            let ended = std::mem::take(&mut ending.ended).into_values().filter(|one| !alive(one)).collect();
            return Some(Ended { ended, survivors });
        }
        if now >= ending.kill_at {
            if let Some(cgroup) = &self.cgroup {
                cgroup.kill();
            }
            send(&living, Signal::KILL);
            scan::kill_groups(view.all(), &seen);
            for process in &living {
                if let Some(ended) = ending.ended.get_mut(&(process.pid, process.start)) {
                    ended.killed = true;
                }
            }
        } else if !ending.told {
            ending.told = true;
            send(&living, Signal::TERM);
            // A stopped process would keep the signal waiting.
            send(&living, Signal::CONT);
        }
        // Grandchildren end without our being told, so look again; soon at first, then at leisure.
        let pause = if ending.looked_empty { FIRST_PAUSE } else { ending.pause };
        ending.pause = (ending.pause * 2).min(LONGEST_PAUSE);
        ending.next_look = now + pause;
        if now < ending.kill_at {
            ending.next_look = ending.next_look.min(ending.kill_at);
        }
        None
    }

    /// Sends a signal to all that belong to the tree now.
    pub(crate) fn signal(&self, signal: Signal, forest: &Forest) {
        if let Members::Seen(seen) = self.members(&View::default(), forest) {
            let living: Vec<Process> = seen.into_iter().filter(|process| !process.dead).collect();
            send(&living, signal);
        }
    }

    fn members(&self, view: &View, forest: &Forest) -> Members {
        let inside = self.cgroup.as_ref().map(Cgroup::processes).unwrap_or_default();
        let is_orphan = |pid: i32| !forest.leaders.contains(&pid);
        let no_orphans =
            view.own_children().is_some_and(|children| !children.iter().any(|pid| is_orphan(*pid)));
        // Orphans become ours in the moment in which their parent ends: with the leader reaped and no orphan here,
        // there is nobody. This spares the walk over all processes in the ordinary case.
        if self.exited && inside.is_empty() && no_orphans {
            return Members::None;
        }
        let own = std::process::id().cast_signed();
        Members::Seen(scan::with_descendants(view.all(), |process| {
            if inside.contains(&process.pid) || (process.pid == self.leader && !self.exited) {
                return true;
            }
            process.parent == own && is_orphan(process.pid) && self.adopts(process, view, forest)
        }))
    }

    /// Decides whether an orphan comes from this tree.
    fn adopts(&self, orphan: &Process, view: &View, forest: &Forest) -> bool {
        let judge = |process: &Process| {
            let environment = view.environment(process);
            let is_ours = environment.is_of_spawn(&self.token);
            let is_known = is_ours || environment.spawns().iter().any(|spawn| forest.tokens.contains(spawn));
            is_known.then_some(is_ours)
        };
        let family = || scan::with_descendants(view.all(), |process| process == orphan);
        let judged = judge(orphan).or_else(|| family().iter().find_map(judge));
        // Its number stays taken as long as somebody is in the session, so this is the leader's session. Who shows
        // nothing at all belongs to the last tree that is left.
        judged.unwrap_or(orphan.session == self.leader || forest.tokens.len() == 1)
    }
}

enum Members {
    /// There are none, and this is sure.
    None,
    /// Those that were seen, dead ones too. None seen is not proof: while we read, a parent may have ended.
    Seen(Vec<Process>),
}

fn send(processes: &[Process], signal: Signal) {
    for process in processes {
        // Whoever is gone, or not ours to signal, shows in the next look.
        let _sent: bool = process.signal(signal);
    }
}
