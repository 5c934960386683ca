//! Which sessions run, by the caller's key, and how they are ended together: from this process or another.
//!
//! The data home is the registry. A session's key and label stand in its `session.json`, its lock says whether its runner
//! lives, and who wants it ended leaves a mark there. The runner sees the mark within half a second and cancels politely;
//! if it does not, and exists for that session alone, it is ended itself, and its keeper ends what it had started.
//!
//! A session may be forgotten: its machine slept through its deadline, or its runner was stopped and hangs. Each process
//! that runs sessions looks once a minute, and when the clock on the wall jumps, at the limits of its own, and ends those
//! that are over. For the other sessions of its data home it does the same when their limit is so long over that their own
//! runners had their chance ([`Registry::kill_overdue`]). A session without a limit is never ended for its age, unless
//! somebody asks for that ([`Registry::kill_stale`]). What a killed runner left is put in order ([`Registry::settle_lost`]).
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
mod lost;
mod marks;
mod overdue;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bowline_process::check_runtime;
use bowline_protocol::kinds::EndReason;
use bowline_protocol::{Millis, SessionId, Timestamp};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::clock::BootMoment;
use crate::journal::{
    Abort, Home, JournalError, Runner, SessionEntry, SessionMeta, ending, is_live, update_meta,
};
use crate::{Control, Error, clock, task, warden};

pub use damaged::DamagedSession;
pub(crate) use marks::board;

/// Waits until what killed runners left in the data homes of this process's runs is in order, as far as somebody sees to it
/// right now, but not longer than this: for a command that is about to end, and would take the work with it. Returns whether it
/// is.
pub fn settled(patience: Duration) -> bool {
    warden::settled(patience)
}

/// How long a runner gets for the polite way: it notices, asks the agent, climbs its own ladder, writes the end.
const GRACE: Duration = Duration::from_secs(5);

/// How long we wait after the last means.
const LAST: Duration = Duration::from_secs(5);

/// How often we look whether they are gone.
const LOOK: Duration = Duration::from_millis(20);

/// The sessions of a data home, by the keys of those who started them.
#[derive(Clone, Debug)]
pub struct Registry {
    home: Home,
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
    /// When it was registered, by the clock on the wall.
    pub registered_at: Timestamp,
}

/// Which sessions are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those whose runners live.
    Running,
    /// Also those that are over.
    All,
}

/// A session of the data home.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Listed {
    /// What it is.
    pub meta: SessionMeta,
    /// Whether its runner lives.
    pub running: bool,
    /// Why it is over. Nothing for one that runs, and for one whose runner was killed as long as nobody put it in order.
    pub end: Option<EndReason>,
}

/// A session that was to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Killed {
    /// The session.
    pub session: SessionId,
    /// The caller's label.
    pub label: Option<String>,
    /// What it took.
    pub how: How,
}

/// What it took to end a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its runner cancelled it.
    Politely,
    /// Its runner did not, and was killed, or told to kill.
    Killed,
    /// Nothing helped, or nothing more could be done without ending a process that has other work.
    Survived,
}

impl Registry {
    /// Looks at the sessions of this data home.
    pub fn at(home: Home) -> Self {
        Self { home }
    }

    /// Looks at the sessions of the user's data home.
    pub fn from_env() -> Result<Self, Error> {
        Ok(Self::at(Home::from_env()?))
    }

    /// Lists the sessions whose runners live. A runner that died is not among them, whatever its session's state says.
    pub fn active(&self) -> Result<Vec<Active>, Error> {
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

    /// Lists sessions with all that is known of them, the newest first.
    pub fn list(&self, which: Which) -> Result<Vec<Listed>, Error> {
        let entries: Vec<SessionEntry> = match which {
            Which::Running => self.live(|_| true)?,
            Which::All => self.entries(|_| true)?.collect(),
        };
        let mut list = Vec::new();
        for entry in entries {
            let listed = listed(entry)?;
            if which == Which::All || listed.running {
                list.push(listed);
            }
        }
        // Their names begin with their time.
        list.sort_by(|one, other| other.meta.id.as_str().cmp(one.meta.id.as_str()));
        Ok(list)
    }

    /// Lists at most so many of the sessions with this key, or of all, the newest first.
    ///
    /// Their names begin with their time, so that older ones are not even looked at.
    pub fn newest(&self, which: Which, key: Option<&str>, most: usize) -> Result<Vec<Listed>, Error> {
        if which == Which::Running {
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

    /// Says whether there is a session of this name, whether it runs or not.
    pub fn contains(&self, session: &SessionId) -> bool {
        self.home.session_dir(session).is_ok_and(|dir| SessionMeta::read(&dir).is_ok())
    }

    /// Says whether a session with this key runs.
    pub fn has_active(&self, key: &str) -> Result<bool, Error> {
        Ok(!self.live(has_key(key))?.is_empty())
    }

    /// Ends all sessions with this key and waits until they are gone. Returns which, and what it took.
    ///
    /// The key is marked as aborted also if nothing runs: whoever is about to start something for it can ask
    /// [`Self::was_aborted`]. Needs a tokio runtime; without one it is [`Error::NoRuntime`], and the marks are set.
    pub async fn kill_all(&self, key: &str, reason: &str) -> Result<Vec<Killed>, Error> {
        let live = self.live(has_key(key))?;
        // Sessions of versions before the limit can still be ended; no new mark is written for such a key.
        if live.is_empty() {
            task::check_name("key", Some(key))?;
        }
        let mut targets = mark(live, reason)?;
        // Last, because it is what makes runners look at their marks.
        marks::set(&self.home, key, &abort(reason))?;
        targets.extend(warden::hidden(key).into_iter().map(Target::Hidden));
        end(targets).await
    }

    /// Ends the running sessions that are meant, whatever their keys, and waits until they are gone. Returns which, and what
    /// it took. Needs a tokio runtime.
    pub async fn kill(&self, meant: impl Fn(&SessionId) -> bool, reason: &str) -> Result<Vec<Killed>, Error> {
        self.end_marked(self.live(|meta| meant(&meta.id))?, reason).await
    }

    /// Says whether somebody ended the sessions of this key, until [`Self::clear_abort`].
    pub fn was_aborted(&self, key: &str) -> Result<bool, Error> {
        if marks::is_set(&self.home, key)? {
            return Ok(true);
        }
        // A session may have been marked by itself.
        Ok(self.entries(|meta| has_key(key)(meta) && meta.abort.is_some())?.next().is_some())
    }

    /// Forgets that the sessions of this key were ended.
    pub fn clear_abort(&self, key: &str) -> Result<(), Error> {
        for SessionEntry { dir, .. } in self.entries(|meta| has_key(key)(meta) && meta.abort.is_some())? {
            match update_meta(&dir, |meta| meta.abort = None) {
                // It was removed meanwhile.
                Err(error) if !dir.exists() => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "gone")
                }
                other => other.map(drop)?,
            }
        }
        Ok(marks::clear(&self.home, key)?)
    }

    /// Ends the sessions that were registered longer ago than that, by the clock on the wall, which also went on while
    /// the machine slept. Returns which, and what it took.
    ///
    /// Runners end sessions by the limits that these were started with. This is for those who look after the runners,
    /// and it also ends sessions that have no limit. Needs a tokio runtime.
    pub async fn kill_stale(&self, max_age: Duration) -> Result<Vec<Killed>, Error> {
        let age = Millis(u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX));
        let now = clock::wall();
        let stale = self.live(|meta| now > meta.registered_at.after(age))?;
        self.end_marked(stale, "it is older than it may get").await
    }

    /// Ends the sessions of other processes whose own limit is long over: their runners hang, or were stopped. Returns which,
    /// and what it took. Every process that runs sessions does this once a minute.
    ///
    /// The time goes by CLOCK_BOOTTIME, which counts sleep and cannot be set, so that a step of the time of day ends nothing. Needs a
    /// tokio runtime.
    pub async fn kill_overdue(&self) -> Result<Vec<Killed>, Error> {
        let (wall, up) = (clock::wall(), BootMoment::now());
        let over = |meta: &SessionMeta| overdue::is_abandoned(meta, wall, up.as_ref());
        let mut overdue = self.live(over)?;
        // Our own are given up by the warden, as turns that took too long.
        overdue.retain(|entry| warden::by_dir(&entry.dir).is_none());
        self.end_marked(overdue, "it took longer than it may, and its runner did not end it").await
    }

    async fn end_marked(&self, entries: Vec<SessionEntry>, reason: &str) -> Result<Vec<Killed>, Error> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let targets = mark(entries, reason)?;
        marks::announce(&self.home)?;
        end(targets).await
    }

    /// Lists sessions with living runners.
    fn live(&self, wanted: impl Fn(&SessionMeta) -> bool) -> Result<Vec<SessionEntry>, Error> {
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

    /// Lists sessions. One that cannot be read is nobody's, and is told of.
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

/// Looks at how far a session is.
fn listed(SessionEntry { dir, mut meta }: SessionEntry) -> Result<Listed, JournalError> {
    // First: what ends meanwhile is over, with its end.
    let (running, last) = (is_live(&dir)?, ending::of(&dir)?);
    meta.state = last.state.filter(|_| running).unwrap_or(meta.state);
    Ok(Listed { meta, running, end: last.reason.filter(|_| !running) })
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
fn mark(entries: Vec<SessionEntry>, reason: &str) -> Result<Vec<Target>, Error> {
    let mut targets = Vec::new();
    for entry in entries {
        match update_meta(&entry.dir, |meta| meta.abort = Some(abort(reason))) {
            // It ended and was removed meanwhile: there is nothing to end.
            Err(_) if !entry.dir.exists() => {}
            Err(error) => return Err(error.into()),
            Ok(_) => targets.push(Target::Listed(Box::new(entry))),
        }
    }
    Ok(targets)
}

/// Wakes the runners, waits, and uses force where that does not help.
async fn end(targets: Vec<Target>) -> Result<Vec<Killed>, Error> {
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
            (true, _) => How::Survived,
            (false, true) => How::Killed,
            (false, false) => How::Politely,
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
    /// One of the data home.
    Listed(Box<SessionEntry>),
    /// One that only this process knows of.
    Hidden(warden::Hidden),
}

impl Target {
    fn is_live(&self) -> Result<bool, JournalError> {
        match self {
            Self::Listed(entry) => entry.is_live(),
            Self::Hidden(hidden) => Ok(warden::has(&hidden.session)),
        }
    }

    /// Returns the handle of a run of this process.
    fn control(&self) -> Option<Control> {
        match self {
            Self::Listed(entry) => warden::by_dir(&entry.dir),
            Self::Hidden(hidden) => Some(hidden.control.clone()),
        }
    }

    /// Wakes its runner. One that is not woken sees the mark by itself a little later.
    fn ask(&self) {
        match self.control() {
            Some(control) => control.cancel(),
            None => drop(self.signal(Signal::TERM)),
        }
    }

    /// Uses the last means, and says whether there was one.
    fn force(&self) -> bool {
        match self.control() {
            Some(control) => {
                control.kill();
                true
            }
            None => self.signal(Signal::KILL),
        }
    }

    /// Signals the runner if it is the process that it was, is not this one, and has no other work.
    fn signal(&self, signal: Signal) -> bool {
        let Self::Listed(entry) = self else { return false };
        let Some(runner) = entry.meta.runner.filter(|runner| runner.sole && runner.is_there()) else {
            return false;
        };
        let pid = i32::try_from(runner.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|_| runner.pid != std::process::id()) else { return false };
        let sent = kill_process(pid, signal);
        if let Err(error) = &sent {
            // Gone is what was wanted; that it is not allowed shows in the end.
            tracing::debug!(pid = runner.pid, error = error as &dyn std::error::Error, "not signalled");
        }
        sent.is_ok()
    }
}

/// Waits until none of them is live, but not for ever. Says whether they are gone.
async fn gone_within(targets: &[Target], span: Duration) -> Result<bool, Error> {
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
