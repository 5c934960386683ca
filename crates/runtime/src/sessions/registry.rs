//! Sessions by the caller's key: lists them, and ends them together from this process or another.
//!
//! The data home is the registry. `session.json` has the key and the label of a session, a lock shows that its runner lives,
//! and an abort mark there ends it. The runner sees the mark within half a second and cancels the run. If it does not, and
//! exists for that session alone, the registry ends the runner, and its keeper ends the agent's processes.
//!
//! A session may miss its deadline: the machine slept, or the runner was stopped or hangs. Each process that runs sessions
//! checks the limits of its own sessions once a minute, and when the wall clock jumps, and ends those that are over. It does
//! the same for other sessions of its data home whose limit passed so long ago that their runners had their chance
//! ([`Registry::kill_overdue`]). A session without a limit is never ended for its age, except by [`Registry::kill_stale`].
//! [`Registry::settle_lost`] cleans up after a killed runner.
//!
//! ```
//! # use bowline::{registry::Registry, testing};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # let world = testing::world();
//! # let script = testing::script(r#"{"steps": [{"say": "Well"}, {"hang": true}]}"#);
//! # let home = world.home();
//! let turn = bowline::task("Count to a million").provider("claude").key("chat-42").home(home.clone());
//! # let turn = turn.script(script);
//! let turn = turn.start().await?;
//!
//! let registry = Registry::at(home);
//! assert!(registry.has_active("chat-42")?);
//! let killed = registry.kill_all("chat-42", "the user said stop").await?;
//! assert_eq!(killed.len(), 1);
//! assert!(!registry.has_active("chat-42")?);
//! assert!(registry.was_aborted("chat-42")?); // until `clear_abort`
//! # drop(turn);
//! # Ok::<(), bowline::Error>(()) }).unwrap();
//! ```

mod damaged;
mod error;
mod lost;
mod marks;
mod overdue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bowline_process::check_runtime;
use bowline_protocol::kinds::EndReason;
use bowline_protocol::{Millis, SessionId, Timestamp};
use bowline_providers::prices::Row;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::sessions::control::Control;
use crate::sessions::journal::{
    Abort, Home, JournalError, Runner, SessionEntry, SessionMeta, ending, is_live, update_meta,
};
use crate::sessions::names::check_name;
use crate::sessions::session_monitor;
use crate::system::clock::{self, BootMoment};
use crate::system::surroundings::Surroundings;

pub use damaged::DamagedSession;
pub use error::RegistryError;
pub(crate) use lost::settle_before_resume;
pub(crate) use marks::board;

/// Waits until this process has finished cleaning up after killed runners, at most `patience`. For a command that is about to
/// exit, which would stop the cleanup. Returns whether it is finished.
pub fn settled(patience: Duration) -> bool {
    session_monitor::settled(patience)
}

/// The time for a runner to end by itself: it sees the mark, stops the agent, escalates if needed, and writes the end.
const GRACE: Duration = Duration::from_secs(5);

/// How long to wait after the kill.
const LAST: Duration = Duration::from_secs(5);

/// How often to check whether they are gone.
const LOOK: Duration = Duration::from_millis(20);

/// The sessions of a data home, by their callers' keys.
#[derive(Clone, Debug)]
pub struct Registry {
    home: Home,
    prices: Arc<[Row]>,
    variables: Option<Arc<Surroundings>>,
}

/// A session whose runner lives.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Active {
    /// The session.
    pub session: SessionId,
    /// The caller's key.
    pub key: Option<String>,
    /// The caller's label.
    pub label: Option<String>,
    /// The provider.
    pub provider: String,
    /// The process that runs it.
    pub runner: Option<Runner>,
    /// When it was registered, by the wall clock.
    pub registered_at: Timestamp,
}

/// The sessions to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFilter {
    /// Sessions whose runners live.
    Running,
    /// Also sessions that are over.
    All,
}

/// A session of the data home.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ListedSession {
    /// Its description.
    pub meta: SessionMeta,
    /// Whether its runner lives.
    pub running: bool,
    /// Why it is over. None for a running session, and for one whose runner was killed until it is repaired.
    pub end: Option<EndReason>,
}

/// A session that the registry tried to end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Killed {
    /// The session.
    pub session: SessionId,
    /// The caller's label.
    pub label: Option<String>,
    /// The result.
    pub how: StopResult,
}

/// The result of ending a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopResult {
    /// Its runner cancelled it.
    Politely,
    /// Its runner did not cancel it, and was killed, or had to kill the agent.
    Killed,
    /// It still runs: the kill did not help, or its process has other work and must not be killed.
    Survived,
}

impl Registry {
    /// Opens the registry of this data home.
    pub fn at(home: Home) -> Self {
        Self { home, prices: Arc::default(), variables: None }
    }

    /// Sets the user's own prices, by which [`Self::settle_lost`] computes what killed runs spent.
    #[must_use]
    pub fn prices(mut self, prices: impl Into<Arc<[Row]>>) -> Self {
        self.prices = prices.into();
        self
    }

    /// Sets the variables by which [`Self::settle_lost`] reaches docker and finds where projects end. Without them, that call reads
    /// the variables of this process.
    #[must_use]
    pub fn variables(mut self, variables: impl Into<Arc<Surroundings>>) -> Self {
        self.variables = Some(variables.into());
        self
    }

    /// Opens the registry of the user's data home.
    pub fn from_env() -> Result<Self, RegistryError> {
        Ok(Self::at(Home::from_env()?))
    }

    /// Lists the sessions whose runners live. The lock decides, not the state on file.
    pub fn active(&self) -> Result<Vec<Active>, RegistryError> {
        let entries = self.live(|_| true)?;
        let active = |SessionEntry { meta, .. }| Active {
            session: meta.id,
            key: meta.key,
            label: meta.label,
            provider: meta.provider,
            runner: meta.runner,
            registered_at: meta.registered_at,
        };
        Ok(entries.into_iter().map(active).collect())
    }

    /// Lists sessions with their descriptions, the newest first.
    pub fn list(&self, which: SessionFilter) -> Result<Vec<ListedSession>, RegistryError> {
        let entries: Vec<SessionEntry> = match which {
            SessionFilter::Running => self.live(|_| true)?,
            SessionFilter::All => self.entries(|_| true)?.collect(),
        };
        let mut list = Vec::new();
        for entry in entries {
            let listed = listed(entry)?;
            if which == SessionFilter::All || listed.running {
                list.push(listed);
            }
        }
        // Names begin with the time.
        list.sort_by(|one, other| other.meta.id.as_str().cmp(one.meta.id.as_str()));
        Ok(list)
    }

    /// Lists at most `most` sessions with this key, or of all keys, the newest first.
    ///
    /// Names begin with the time, so older sessions are not read.
    pub fn newest(
        &self,
        which: SessionFilter,
        key: Option<&str>,
        most: usize,
    ) -> Result<Vec<ListedSession>, RegistryError> {
        if which == SessionFilter::Running {
            let mut running = self.list(which)?;
            running.retain(|listed| key.is_none() || listed.meta.key.as_deref() == key);
            running.truncate(most);
            return Ok(running);
        }
        let mut list = Vec::new();
        for entry in self.home.sessions()?.rev() {
            if list.len() == most {
                break;
            }
            match entry {
                Ok(entry) if key.is_some() && entry.meta.key.as_deref() != key => {}
                Ok(entry) => list.push(listed(entry)?),
                Err(error) => left_out(&error),
            }
        }
        Ok(list)
    }

    /// Returns whether there is a session with this id, running or not.
    pub fn contains(&self, session: &SessionId) -> bool {
        self.home.session_dir(session).is_ok_and(|dir| SessionMeta::read(&dir).is_ok())
    }

    /// Returns whether a session with this key runs.
    pub fn has_active(&self, key: &str) -> Result<bool, RegistryError> {
        Ok(!self.live(has_key(key))?.is_empty())
    }

    /// Ends all sessions with this key and waits until they are gone. Returns them with the results.
    ///
    /// Marks the key as aborted also if nothing runs: a caller that is about to start a session can check
    /// [`Self::was_aborted`]. Needs a tokio runtime; without one it returns [`RegistryError::NoRuntime`] after setting the marks.
    pub async fn kill_all(&self, key: &str, reason: &str) -> Result<Vec<Killed>, RegistryError> {
        let live = self.live(has_key(key))?;
        // Sessions of versions before the limit can still be ended; no new mark is written for such a key.
        if live.is_empty() {
            check_name("key", Some(key))?;
        }
        let mut targets = mark(live, reason)?;
        // Last, because this makes runners read their marks.
        marks::set(&self.home, key, &abort(reason))?;
        targets.extend(session_monitor::hidden(key).into_iter().map(Target::Hidden));
        end(targets).await
    }

    /// Ends the running sessions that match, with any key, and waits until they are gone. Returns them with the results. Needs a
    /// tokio runtime.
    pub async fn kill(
        &self,
        meant: impl Fn(&SessionId) -> bool,
        reason: &str,
    ) -> Result<Vec<Killed>, RegistryError> {
        self.end_marked(self.live(|meta| meant(&meta.id))?, reason).await
    }

    /// Returns whether the sessions of this key were aborted, until [`Self::clear_abort`].
    pub fn was_aborted(&self, key: &str) -> Result<bool, RegistryError> {
        if marks::is_set(&self.home, key)? {
            return Ok(true);
        }
        // A single session may be marked.
        Ok(self.entries(|meta| has_key(key)(meta) && meta.abort.is_some())?.next().is_some())
    }

    /// Removes the abort marks of this key.
    pub fn clear_abort(&self, key: &str) -> Result<(), RegistryError> {
        for SessionEntry { dir, .. } in self.entries(|meta| has_key(key)(meta) && meta.abort.is_some())? {
            match update_meta(&dir, |meta| meta.abort = None) {
                // The session was removed meanwhile.
                Err(error) if !dir.exists() => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "gone")
                }
                other => other.map(drop)?,
            }
        }
        Ok(marks::clear(&self.home, key)?)
    }

    /// Ends the sessions that were registered longer ago than this, by the wall clock, which counts the time in which the machine
    /// slept. Returns them with the results.
    ///
    /// Runners end sessions by their own limits. This is for a supervisor of runners, and also ends sessions without a limit. Needs
    /// a tokio runtime.
    pub async fn kill_stale(&self, max_age: Duration) -> Result<Vec<Killed>, RegistryError> {
        let age = Millis(u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX));
        let now = clock::wall();
        let stale = self.live(|meta| now > meta.registered_at.after(age))?;
        self.end_marked(stale, "it exceeded the maximum age").await
    }

    /// Ends the sessions of other processes whose limit passed long ago: their runners hang, or were stopped. Returns them with
    /// the results. Every process that runs sessions does this once a minute.
    ///
    /// It measures by CLOCK_BOOTTIME, which counts sleep and cannot be set: setting the time of day ends no session. Needs a tokio
    /// runtime.
    pub async fn kill_overdue(&self) -> Result<Vec<Killed>, RegistryError> {
        let (wall, up) = (clock::wall(), BootMoment::now());
        let over = |meta: &SessionMeta| overdue::is_abandoned(meta, wall, up.as_ref());
        let mut overdue = self.live(over)?;
        // The session monitor ends our own sessions, as turns that took too long.
        overdue.retain(|entry| session_monitor::by_dir(&entry.dir).is_none());
        self.end_marked(overdue, "it exceeded its time limit, and its runner did not end it").await
    }

    async fn end_marked(
        &self,
        entries: Vec<SessionEntry>,
        reason: &str,
    ) -> Result<Vec<Killed>, RegistryError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let targets = mark(entries, reason)?;
        // Last, because this makes runners read their marks.
        marks::announce(&self.home)?;
        end(targets).await
    }

    /// Lists sessions with living runners.
    fn live(&self, wanted: impl Fn(&SessionMeta) -> bool) -> Result<Vec<SessionEntry>, RegistryError> {
        let mut live = Vec::new();
        for dir in self.home.live_dirs()? {
            match SessionMeta::read(&dir) {
                Ok(meta) if wanted(&meta) => live.push(SessionEntry { dir, meta }),
                Ok(_) => {}
                Err(error) => left_out(&error),
            }
        }
        Ok(live)
    }

    /// Lists sessions. Logs and skips one that cannot be read.
    fn entries<'a>(
        &self,
        wanted: impl Fn(&SessionMeta) -> bool + 'a,
    ) -> Result<impl Iterator<Item = SessionEntry> + 'a, JournalError> {
        let entries = self.home.sessions()?;
        Ok(entries.filter_map(move |entry| match entry {
            Ok(entry) => wanted(&entry.meta).then_some(entry),
            Err(error) => {
                left_out(&error);
                None
            }
        }))
    }
}

/// Reads the state of a session.
fn listed(SessionEntry { dir, mut meta }: SessionEntry) -> Result<ListedSession, JournalError> {
    // Check the lock first: a session that ends meanwhile then has its end on file.
    let (running, last) = (is_live(&dir)?, ending::of(&dir)?);
    meta.state = last.state.filter(|_| running).unwrap_or(meta.state);
    Ok(ListedSession { meta, running, end: last.reason.filter(|_| !running) })
}

fn left_out(error: &JournalError) {
    tracing::warn!(error = error as &dyn std::error::Error, "a session is left out");
}

fn has_key(key: &str) -> impl Fn(&SessionMeta) -> bool {
    move |meta| meta.key.as_deref() == Some(key)
}

fn abort(reason: &str) -> Abort {
    Abort { at: clock::wall(), reason: (!reason.is_empty()).then(|| reason.to_owned()) }
}

/// Marks sessions, so that their runners end them.
fn mark(entries: Vec<SessionEntry>, reason: &str) -> Result<Vec<Target>, RegistryError> {
    let mut targets = Vec::new();
    for entry in entries {
        match update_meta(&entry.dir, |meta| meta.abort = Some(abort(reason))) {
            // The session ended and was removed meanwhile.
            Err(_) if !entry.dir.exists() => {}
            Err(error) => return Err(error.into()),
            Ok(_) => targets.push(Target::Listed(Box::new(entry))),
        }
    }
    Ok(targets)
}

/// Wakes the runners, waits, and kills those that do not end their session.
async fn end(targets: Vec<Target>) -> Result<Vec<Killed>, RegistryError> {
    check_runtime()?;
    targets.iter().for_each(Target::ask);
    let mut forced = vec![false; targets.len()];
    if !gone_within(&targets, GRACE).await? {
        for (target, forced) in targets.iter().zip(&mut forced) {
            *forced = target.is_live()? && target.force();
        }
        gone_within(&targets, LAST).await?;
    }
    let mut killed = Vec::new();
    for (target, forced) in targets.into_iter().zip(forced) {
        let how = match (target.is_live()?, forced) {
            (true, _) => StopResult::Survived,
            (false, true) => StopResult::Killed,
            (false, false) => StopResult::Politely,
        };
        let (session, label) = match target {
            Target::Listed(entry) => (entry.meta.id, entry.meta.label),
            Target::Hidden(hidden) => (hidden.session, hidden.label),
        };
        killed.push(Killed { session, label, how });
    }
    Ok(killed)
}

/// A session that is being ended.
enum Target {
    /// A session of the data home.
    Listed(Box<SessionEntry>),
    /// A session that only this process knows of.
    Hidden(session_monitor::Hidden),
}

impl Target {
    fn is_live(&self) -> Result<bool, JournalError> {
        match self {
            Self::Listed(entry) => entry.is_live(),
            Self::Hidden(hidden) => Ok(session_monitor::has(&hidden.session)),
        }
    }

    /// Returns the handle of a run of this process.
    fn control(&self) -> Option<Control> {
        match self {
            Self::Listed(entry) => session_monitor::by_dir(&entry.dir),
            Self::Hidden(hidden) => Some(hidden.control.clone()),
        }
    }

    /// Cancels a run of this process, or sends SIGTERM to a runner without other work. Any other runner sees the mark later.
    fn ask(&self) {
        match self.control() {
            Some(control) => control.cancel(),
            None => drop(self.signal(Signal::TERM)),
        }
    }

    /// Kills the session, and returns whether that was possible.
    fn force(&self) -> bool {
        match self.control() {
            Some(control) => {
                control.kill();
                true
            }
            None => self.signal(Signal::KILL),
        }
    }

    /// Signals the runner if its pid still belongs to it, it is not this process, and it has no other work.
    fn signal(&self, signal: Signal) -> bool {
        let Self::Listed(entry) = self else { return false };
        let Some(runner) = entry.meta.runner.filter(|runner| runner.sole && runner.is_there()) else {
            return false;
        };
        let pid = i32::try_from(runner.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|_| runner.pid != std::process::id()) else { return false };
        let sent = kill_process(pid, signal);
        if let Err(error) = &sent {
            // Ignore the error: the process is gone, or the result shows that the signal was not permitted.
            tracing::debug!(pid = runner.pid, error = error as &dyn std::error::Error, "not signalled");
        }
        sent.is_ok()
    }
}

/// Waits until none of them is live, up to a limit. Returns whether they are gone.
async fn gone_within(targets: &[Target], span: Duration) -> Result<bool, RegistryError> {
    let until = Instant::now() + span;
    loop {
        let mut live = false;
        for target in targets {
            live |= target.is_live()?;
        }
        if !live || Instant::now() >= until {
            return Ok(!live);
        }
        tokio::time::sleep(LOOK).await;
    }
}
