//! The session monitor watches the runs of this process from outside: it obeys abort marks of other processes, and ends runs
//! whose deadline passed while the machine slept. At its start and once a minute it also checks the other sessions of the
//! same data home: those whose runner was killed, and those that took too long.
//!
//! It is one thread for the whole process, because it has to work for every runtime, also for one that is paused or busy. It
//! exists only while there are runs. Twice a second it checks one time stamp of the data home, which every new mark changes.
//! It reads the marks of its own sessions when that time stamp changed, once a minute, and when a clock has jumped. If the only
//! run is a live session that a process of its own runs, it looks once a minute: such a process is ended by a signal, and an idle
//! session must not keep the processor awake. It measures the time of a run by CLOCK_BOOTTIME, which counts sleep and cannot be set: setting the time of day ends no run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bowline_protocol::{Millis, SessionId};
use bowline_providers::prices::Row;

use crate::sessions::budget;
use crate::sessions::control::Control;
use crate::sessions::journal::{Home, SessionMeta, temporary, unfinished};
use crate::sessions::registry::{self, Registry, RegistryError};
use crate::system::clock;
use crate::system::surroundings::Surroundings;

/// How often the monitor checks the time stamp.
const TICK: Duration = Duration::from_millis(500);

/// How often the monitor checks everything.
const ROUND: Duration = Duration::from_secs(60);

/// By how much the two clocks may differ before one of them counts as jumped.
const JUMP: Duration = Duration::from_secs(5);

/// How much older than the last check a time stamp may be and still count as new: the file system's clock is coarse, and two
/// changes may have the same time.
const SLACK: Duration = Duration::from_secs(2);

/// By how much a run may exceed its limit by CLOCK_BOOTTIME before the monitor ends it.
const MARGIN: Millis = Millis(10_000);

/// A monitored run.
#[derive(Debug)]
pub(crate) struct MonitoredRun {
    pub(crate) session: SessionId,
    /// The caller's key and label.
    pub(crate) key: Option<String>,
    pub(crate) label: Option<String>,
    /// Its directory, if other processes can find it there.
    pub(crate) dir: Option<PathBuf>,
    /// Its data home, if other processes can find it there.
    pub(crate) home: Option<Home>,
    /// The user's own prices, for what killed runs of the same home spent.
    pub(crate) prices: Arc<[Row]>,
    /// The variables that its task captured.
    pub(crate) variables: Arc<Surroundings>,
    pub(crate) control: Control,
    /// When it began, by CLOCK_BOOTTIME.
    pub(crate) since: Millis,
    /// Its total time limit.
    pub(crate) limit: Option<Millis>,
    /// How soon the monitor has to see a mark.
    pub(crate) pace: MonitorPace,
}

/// How often the monitor has to look after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MonitorPace {
    /// At each tick: an abort mark may be the only way to end the run.
    Tick,
    /// Once a round: its process runs nothing else, so that other processes signal it.
    Round,
}

/// Keeps a run monitored until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the monitoring of the run"]
pub(crate) struct MonitorGuard(u64);

#[derive(Debug)]
struct MonitoredRuns {
    list: Vec<(u64, MonitoredRun)>,
    next: u64,
    thread: bool,
}

static RUNS: Mutex<MonitoredRuns> = Mutex::new(MonitoredRuns { list: Vec::new(), next: 0, thread: false });
/// Signalled when a run begins or ends.
static CHANGED: Condvar = Condvar::new();

fn runs() -> MutexGuard<'static, MonitoredRuns> {
    // No panic can leave the list half-changed.
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Monitors a run.
pub(crate) fn watch(run: MonitoredRun) -> MonitorGuard {
    let mut runs = runs();
    runs.next += 1;
    let id = runs.next;
    let needs_thread = run.dir.is_some() || run.limit.is_some();
    runs.list.push((id, run));
    CHANGED.notify_all();
    if needs_thread && !runs.thread {
        // Before the thread exists, so that `settled` waits for it from now on. Lock order: `RUNS`, then `LOOKING`, never the
        // other way round.
        let first = Looking::begin();
        let started =
            std::thread::Builder::new().name("bowline-monitor".to_owned()).spawn(move || look_after(first));
        match started {
            Ok(_) => runs.thread = true,
            // The run works without the monitor, and the next run tries to start it again.
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "abort marks of other processes will not be seen"
            ),
        }
    }
    MonitorGuard(id)
}

impl Drop for MonitorGuard {
    fn drop(&mut self) {
        runs().list.retain(|(id, _)| *id != self.0);
        CHANGED.notify_all();
    }
}

/// Returns the handle of a run of this process, by its directory.
pub(crate) fn by_dir(dir: &Path) -> Option<Control> {
    let runs = runs();
    let found = runs.list.iter().find(|(_, run)| run.dir.as_deref() == Some(dir));
    found.map(|(_, run)| run.control.clone())
}

/// A run that only this process knows of: its journal is temporary, or it has none.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) session: SessionId,
    pub(crate) label: Option<String>,
    pub(crate) control: Control,
}

/// Returns the runs with a key that only this process knows of.
pub(crate) fn hidden(key: &str) -> Vec<Hidden> {
    let runs = runs();
    let hidden = runs.list.iter().map(|(_, run)| run);
    let hidden = hidden.filter(|run| run.dir.is_none() && run.key.as_deref() == Some(key));
    let of = |run: &MonitoredRun| Hidden {
        session: run.session.clone(),
        label: run.label.clone(),
        control: run.control.clone(),
    };
    hidden.map(of).collect()
}

/// Returns the number of monitored runs.
pub(crate) fn count() -> usize {
    runs().list.len()
}

/// Returns whether a run is monitored.
pub(crate) fn has(session: &SessionId) -> bool {
    runs().list.iter().any(|(_, run)| run.session == *session)
}

/// The body of the monitor thread.
fn look_after(first: Looking) {
    static SWEPT: Once = Once::new();
    look_after_others(Round::First);
    drop(first);
    // Sweep here, where no run has to wait for it.
    SWEPT.call_once(|| temporary::sweep(&std::env::temp_dir(), clock::system()));
    go_round(clock::instant(), || is_needed_after_a_wait().then(Clocks::now));
}

/// Returns how long the monitor waits until it looks at these runs. `None` without runs.
fn wait_of<'a>(runs: impl IntoIterator<Item = &'a MonitoredRun>) -> Option<Duration> {
    let waits = runs.into_iter().map(|run| match (run.pace, run.limit) {
        (MonitorPace::Round, None) => ROUND,
        // Its own deadline does not count the time in which the machine sleeps.
        (MonitorPace::Round, Some(_)) | (MonitorPace::Tick, _) => TICK,
    });
    waits.min()
}

/// Waits, and returns whether there are still runs to monitor. If not, the thread ends.
fn is_needed_after_a_wait() -> bool {
    let runs = runs();
    let span = wait_of(runs.list.iter().map(|(_, run)| run));
    if span == Some(TICK) {
        // Not on the condition: every end of a run would wake this thread.
        drop(runs);
        std::thread::sleep(TICK);
        return true;
    }
    let span = span.unwrap_or(TICK);
    let (mut runs, _) = CHANGED.wait_timeout(runs, span).unwrap_or_else(PoisonError::into_inner);
    // Set under the lock: `watch` either sees the flag, or starts another thread.
    runs.thread = !runs.list.is_empty();
    runs.thread
}

/// The three clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    /// Never jumps, and stops while the machine sleeps. Deadlines use it.
    steady: Instant,
    /// Never jumps, and counts the time while the machine sleeps.
    boot: Millis,
    /// The time of day, which can be set. Time stamps of files use it.
    wall: SystemTime,
}

impl Clocks {
    fn now() -> Self {
        Self { steady: clock::instant(), boot: clock::since_boot(), wall: clock::system() }
    }

    /// Returns whether the machine slept since then: only one of the two clocks advanced.
    fn has_slept_since(&self, then: &Self) -> bool {
        let boot = Duration::from_millis(self.boot.0.saturating_sub(then.boot.0));
        boot > self.steady.duration_since(then.steady) + JUMP
    }

    /// Returns whether the time of day differs from the steady clock: it was set, or the machine slept.
    fn has_jumped_since(&self, then: &Self) -> bool {
        let steady = self.steady.duration_since(then.steady);
        match self.wall.duration_since(then.wall) {
            Ok(went) => went.abs_diff(steady) > JUMP,
            Err(back) => back.duration() > JUMP,
        }
    }
}

/// Checks everything that is due, each time `passed` returns the clocks. Ends when it returns none.
fn go_round(mut last_round: Instant, mut passed: impl FnMut() -> Option<Clocks>) {
    let mut seen: Option<Clocks> = None;
    while let Some(now) = passed() {
        // Setting the time of day does not change the time of a run, but marks of other processes may then have any time.
        let jumped = seen.is_none_or(|then| now.has_slept_since(&then) || now.has_jumped_since(&then));
        let before = seen.replace(now).map_or(now.wall, |before| before.wall);
        let round = now.steady - last_round >= ROUND;
        if jumped || round {
            last_round = now.steady;
            give_up_the_overdue(now.boot);
            obey_marks();
            // After a jump every other runner checks its own sessions too. Give them until the next round.
            if round && !jumped {
                look_after_others(Round::Later);
            }
        } else if is_announced_since(before) {
            obey_marks();
        }
    }
}

/// Returns whether a mark may have been set since the last check, which may be long ago if this process was stopped.
fn is_announced_since(before: SystemTime) -> bool {
    homes().into_keys().any(|home| {
        let changed = std::fs::metadata(registry::board(&Home::at(home))).and_then(|board| board.modified());
        // Without that file, no mark was ever set.
        changed.is_ok_and(|at| at + SLACK >= before)
    })
}

/// Returns the data homes of all runs, with the prices and the variables of one of its runs.
fn homes() -> BTreeMap<PathBuf, Registry> {
    let runs = runs();
    let mut all = BTreeMap::<PathBuf, (Arc<[Row]>, Arc<Surroundings>)>::new();
    for (_, run) in &runs.list {
        let Some(home) = &run.home else { continue };
        let of_run = || (run.prices.clone(), run.variables.clone());
        let known = all.entry(home.path().to_owned()).or_insert_with(of_run);
        // A task without settings has no prices.
        if known.0.is_empty() {
            *known = of_run();
        }
    }
    let registry = |(home, (prices, variables)): (PathBuf, (Arc<[Row]>, Arc<Surroundings>))| {
        let registry = Registry::at(Home::at(&home)).prices(prices).variables(variables);
        (home, registry)
    };
    all.into_iter().map(registry).collect()
}

/// Whether this is the first check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Most runs are short, and their first check finds nothing.
    First,
    Later,
}

/// Checks the sessions of the same homes whose own runners were killed, or hang.
///
/// It does so on a separate thread, one at a time, because it has to wait for runners to end, and for docker.
fn look_after_others(round: Round) {
    static BUSY: AtomicBool = AtomicBool::new(false);
    let mut homes = homes();
    if round == Round::First {
        homes.retain(|home, _| has_others(&Home::at(home)));
    }
    if homes.is_empty() || BUSY.swap(true, Ordering::SeqCst) {
        return;
    }
    let looking = Looking::begin();
    let started = std::thread::Builder::new().name("bowline-overdue".to_owned()).spawn(move || {
        let _looking = looking;
        for registry in homes.into_values() {
            if let Err(error) = settle(&registry, round) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not look for sessions without a runner");
            }
        }
        BUSY.store(false, Ordering::SeqCst);
    });
    if let Err(error) = started {
        BUSY.store(false, Ordering::SeqCst);
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "did not look for sessions without a runner");
    }
}

/// The number of checks of other sessions that are in progress.
static LOOKING: Mutex<usize> = Mutex::new(0);
static LOOKED: Condvar = Condvar::new();

/// A check in progress, or about to begin.
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

/// Waits until the checks in progress have cleaned up after killed runners: the end of the process would stop them. Returns
/// whether they are done.
pub(crate) fn settled(patience: Duration) -> bool {
    let looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = LOOKED.wait_timeout_while(looking, patience, |looking| *looking > 0);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
}

/// Returns whether a home has unfinished sessions of other processes, or runs that report their spending.
fn has_others(home: &Home) -> bool {
    let dirs = unfinished::dirs(home).unwrap_or_else(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "open sessions could not be listed");
        Vec::new()
    });
    dirs.iter().any(|dir| by_dir(dir).is_none()) || budget::is_being_spent(home)
}

fn settle(registry: &Registry, round: Round) -> Result<(), RegistryError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(RegistryError::Background)?;
    for session in runtime.block_on(registry.settle_lost())? {
        tracing::info!(%session, "a session whose runner was killed is in order");
    }
    if round == Round::Later {
        for registry::Killed { session, how, .. } in runtime.block_on(registry.kill_overdue())? {
            tracing::warn!(%session, ?how, "ended a session whose runner had not ended it in time");
        }
    }
    Ok(())
}

/// Cancels the runs that have an abort mark.
fn obey_marks() {
    // Copy the list. Reading files under the lock would delay every start and every end of a run.
    let runs: Vec<(PathBuf, Control)> =
        runs().list.iter().filter_map(|(_, run)| Some((run.dir.clone()?, run.control.clone()))).collect();
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

/// Ends the runs that took too long by CLOCK_BOOTTIME: their own deadlines do not count sleep.
fn give_up_the_overdue(now: Millis) {
    for (_, run) in &runs().list {
        let Some(limit) = run.limit.filter(|limit| is_overdue(run.since, *limit, now)) else { continue };
        run.control.overdue(limit);
    }
}

fn is_overdue(since: Millis, limit: Millis, now: Millis) -> bool {
    now > since.plus(limit).plus(MARGIN)
}

#[cfg(test)]
mod tests;
