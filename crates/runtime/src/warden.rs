//! Who looks after the runs of this process from outside of them: abort marks that other processes left, and deadlines
//! that passed while the machine slept. At its beginning and once a minute it also looks at the other sessions of the same
//! data home: at those whose runner was killed, and at those that took too long.
//!
//! One thread for the whole process, because it has to work for every runtime, also for one that is paused or busy. It is
//! there only while runs are. Twice a second it looks at one time stamp of the data home, which whoever sets a mark
//! changes; only then, once a minute, and when a clock has jumped, it reads the marks of its own sessions. How long a run
//! takes goes by CLOCK_BOOTTIME, which counts sleep and cannot be set: a step of the time of day ends nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bowline_protocol::{Millis, SessionId};

use crate::journal::{Home, SessionMeta, temporary, unfinished};
use crate::registry::{self, Registry};
use crate::turn::Control;
use crate::{Error, budget, clock};

/// How often the time stamp is looked at.
const TICK: Duration = Duration::from_millis(500);

/// How often everything is looked at.
const ROUND: Duration = Duration::from_secs(60);

/// By how much the two clocks may differ before we say that one has jumped.
const JUMP: Duration = Duration::from_secs(5);

/// How much older than the last look a time stamp may be and still be news: the file system's clock is coarse, and two
/// changes may have the same time.
const SLACK: Duration = Duration::from_secs(2);

/// What a run may take longer by the clock that goes on while the machine sleeps than by its own.
const MARGIN: Millis = Millis(10_000);

/// A run, as far as it is looked after.
#[derive(Debug)]
pub(crate) struct Ward {
    pub(crate) session: SessionId,
    /// The caller's key and label.
    pub(crate) key: Option<String>,
    pub(crate) label: Option<String>,
    /// Its directory, if others can find it there.
    pub(crate) dir: Option<PathBuf>,
    /// Its data home, if others can find it there.
    pub(crate) home: Option<Home>,
    pub(crate) control: Control,
    /// When it began, by the clock that goes on while the machine sleeps.
    pub(crate) since: Millis,
    /// How long it may take in all.
    pub(crate) limit: Option<Millis>,
}

/// A run is looked after as long as this lives.
#[derive(Debug)]
#[must_use = "without it nobody looks after the run"]
pub(crate) struct Watched(u64);

#[derive(Debug)]
struct Wards {
    list: Vec<(u64, Ward)>,
    next: u64,
    thread: bool,
}

static WARDS: Mutex<Wards> = Mutex::new(Wards { list: Vec::new(), next: 0, thread: false });
static GONE: Condvar = Condvar::new();

fn wards() -> MutexGuard<'static, Wards> {
    // The list is never half-changed.
    WARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks after a run.
pub(crate) fn watch(ward: Ward) -> Watched {
    let mut wards = wards();
    wards.next += 1;
    let id = wards.next;
    let needs_thread = ward.dir.is_some() || ward.limit.is_some();
    wards.list.push((id, ward));
    if needs_thread && !wards.thread {
        let first = Looking::begin();
        let started =
            std::thread::Builder::new().name("bowline-warden".to_owned()).spawn(move || look_after(first));
        match started {
            Ok(_) => wards.thread = true,
            // The run itself works without; the next one tries again.
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "abort marks of other processes will not be seen"
            ),
        }
    }
    Watched(id)
}

impl Drop for Watched {
    fn drop(&mut self) {
        wards().list.retain(|(id, _)| *id != self.0);
        GONE.notify_all();
    }
}

/// Returns the handle of a run of this process, by its directory.
pub(crate) fn by_dir(dir: &Path) -> Option<Control> {
    let wards = wards();
    let found = wards.list.iter().find(|(_, ward)| ward.dir.as_deref() == Some(dir));
    found.map(|(_, ward)| ward.control.clone())
}

/// A run that only this process knows of: its journal goes with it, or it has none.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) session: SessionId,
    pub(crate) label: Option<String>,
    pub(crate) control: Control,
}

/// Returns the runs with a key that only this process knows of.
pub(crate) fn hidden(key: &str) -> Vec<Hidden> {
    let wards = wards();
    let hidden = wards.list.iter().map(|(_, ward)| ward);
    let hidden = hidden.filter(|ward| ward.dir.is_none() && ward.key.as_deref() == Some(key));
    let of = |ward: &Ward| Hidden {
        session: ward.session.clone(),
        label: ward.label.clone(),
        control: ward.control.clone(),
    };
    hidden.map(of).collect()
}

/// Returns how many runs of this process are looked after.
pub(crate) fn count() -> usize {
    wards().list.len()
}

/// Says whether a run is looked after.
pub(crate) fn has(session: &SessionId) -> bool {
    wards().list.iter().any(|(_, ward)| ward.session == *session)
}

/// The thread.
fn look_after(first: Looking) {
    static SWEPT: Once = Once::new();
    look_after_others(Round::First);
    drop(first);
    // Here, because nobody has to wait for it.
    SWEPT.call_once(|| temporary::sweep(&std::env::temp_dir(), clock::system()));
    go_round(clock::instant(), || is_needed_after(TICK).then(Clocks::now));
}

/// Waits. Says whether there are still runs to look after; if not, the thread is given up.
fn is_needed_after(span: Duration) -> bool {
    let wards = wards();
    if !wards.list.is_empty() {
        drop(wards);
        std::thread::sleep(span);
        return true;
    }
    let (mut wards, _) = GONE.wait_timeout(wards, span).unwrap_or_else(PoisonError::into_inner);
    wards.thread = !wards.list.is_empty();
    wards.thread
}

/// The three clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    /// Never jumps, and stands still while the machine sleeps: deadlines go by it.
    steady: Instant,
    /// Never jumps, and goes on while the machine sleeps.
    boot: Millis,
    /// The time of day, which can be set. Files have it.
    wall: SystemTime,
}

impl Clocks {
    fn now() -> Self {
        Self { steady: clock::instant(), boot: clock::since_boot(), wall: clock::system() }
    }

    /// Says whether the machine slept since then: only the one clock went on.
    fn has_slept_since(&self, then: &Self) -> bool {
        let boot = Duration::from_millis(self.boot.0.saturating_sub(then.boot.0));
        boot > self.steady.duration_since(then.steady) + JUMP
    }

    /// Says whether the time of day went another way than the steady clock: it was set, or the machine slept.
    fn has_jumped_since(&self, then: &Self) -> bool {
        let steady = self.steady.duration_since(then.steady);
        match self.wall.duration_since(then.wall) {
            Ok(went) => went.abs_diff(steady) > JUMP,
            Err(back) => back.duration() > JUMP,
        }
    }
}

/// Looks at what is due, whenever time has passed. It is given the clocks, and ends when it is not given them any more.
fn go_round(mut last_round: Instant, mut passed: impl FnMut() -> Option<Clocks>) {
    let mut seen: Option<Clocks> = None;
    while let Some(now) = passed() {
        // A time of day that was set says nothing about how long a run takes; but marks of others may bear any time then.
        let jumped = seen.is_none_or(|then| now.has_slept_since(&then) || now.has_jumped_since(&then));
        let before = seen.replace(now).map_or(now.wall, |before| before.wall);
        let round = now.steady - last_round >= ROUND;
        if jumped || round {
            last_round = now.steady;
            give_up_the_overdue(now.boot);
            obey_marks();
            // After a jump everybody else looks at their own too: they get until the next round.
            if round && !jumped {
                look_after_others(Round::Later);
            }
        } else if is_announced_since(before) {
            obey_marks();
        }
    }
}

/// Says whether a mark may have been set since the last look, which may be long ago: this process may have been stopped.
fn is_announced_since(before: SystemTime) -> bool {
    homes().into_iter().any(|home| {
        let changed = std::fs::metadata(registry::board(&Home::at(home))).and_then(|board| board.modified());
        // If it is not there, nobody has ever set a mark.
        changed.is_ok_and(|at| at + SLACK >= before)
    })
}

/// Returns the data homes of all runs.
fn homes() -> BTreeSet<PathBuf> {
    let wards = wards();
    let homes = wards.list.iter().filter_map(|(_, ward)| ward.home.as_ref());
    homes.map(|home| home.path().to_owned()).collect()
}

/// How often it was looked already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Most runs are short, and most find nothing.
    First,
    Later,
}

/// Looks at the sessions of the same homes whose own runners do not do it any more: they were killed, or hang.
///
/// On a thread of its own, one at a time: a runner that is asked to end has to be waited for, and so has docker.
fn look_after_others(round: Round) {
    static BUSY: AtomicBool = AtomicBool::new(false);
    let mut homes = homes();
    if round == Round::First {
        homes.retain(|home| has_others(&Home::at(home)));
    }
    if homes.is_empty() || BUSY.swap(true, Ordering::SeqCst) {
        return;
    }
    let looking = Looking::begin();
    let started = std::thread::Builder::new().name("bowline-overdue".to_owned()).spawn(move || {
        let _looking = looking;
        for home in homes {
            if let Err(error) = settle(Home::at(home), round) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "sessions that nobody looks after could not be looked for");
            }
        }
        BUSY.store(false, Ordering::SeqCst);
    });
    if let Err(error) = started {
        BUSY.store(false, Ordering::SeqCst);
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "sessions that nobody looks after were not looked for");
    }
}

/// How many are looking after the sessions of others.
static LOOKING: Mutex<usize> = Mutex::new(0);
static LOOKED: Condvar = Condvar::new();

/// One who looks, or is about to.
#[derive(Debug)]
struct Looking;

impl Looking {
    fn begin() -> Self {
        *LOOKING.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        *LOOKING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        LOOKED.notify_all();
    }
}

/// Waits until what killed runners left is in order, if somebody sees to it: a process that ends takes them with it.
/// Returns whether it is.
pub(crate) fn settled(patience: Duration) -> bool {
    let looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = LOOKED.wait_timeout_while(looking, patience, |looking| *looking > 0);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
}

/// Says whether a home has sessions that are not over, besides our own, or runs that tell what they use.
fn has_others(home: &Home) -> bool {
    let dirs = unfinished::dirs(home).unwrap_or_else(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "open sessions could not be listed");
        Vec::new()
    });
    dirs.iter().any(|dir| by_dir(dir).is_none()) || budget::is_being_spent(home)
}

fn settle(home: Home, round: Round) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (runtime, registry) = (runtime.map_err(Error::Background)?, Registry::at(home));
    for session in runtime.block_on(registry.settle_lost())? {
        tracing::info!(%session, "a session whose runner was killed is in order");
    }
    if round == Round::Later {
        for registry::Killed { session, how, .. } in runtime.block_on(registry.kill_overdue())? {
            tracing::warn!(%session, ?how, "a session that its runner had forgotten was ended");
        }
    }
    Ok(())
}

/// Cancels the runs that somebody marked.
fn obey_marks() {
    let runs: Vec<(PathBuf, Control)> =
        wards().list.iter().filter_map(|(_, ward)| Some((ward.dir.clone()?, ward.control.clone()))).collect();
    for (dir, control) in runs {
        match SessionMeta::read(&dir) {
            Ok(meta) if meta.abort.is_some() => control.cancel(),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a mark could not be looked for");
            }
        }
    }
}

/// Ends the runs that took too long by the clock that goes on while the machine sleeps: their own deadlines slept with it.
fn give_up_the_overdue(now: Millis) {
    for (_, ward) in &wards().list {
        let Some(limit) = ward.limit.filter(|limit| is_overdue(ward.since, *limit, now)) else { continue };
        ward.control.overdue(limit);
    }
}

fn is_overdue(since: Millis, limit: Millis, now: Millis) -> bool {
    now > since.plus(limit).plus(MARGIN)
}

#[cfg(test)]
mod tests;
