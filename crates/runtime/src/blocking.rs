//! The same calls for programs without tokio.
//!
//! ```
//! # use bowline::testing;
//! # fn main() -> Result<(), bowline::Error> {
//! let task = bowline::task("Name this branch: fixes login race").provider("claude").no_tools();
//! # let task = task.script(testing::says("fix/login-race"));
//! let name = bowline::blocking::answer(task)?;
//! assert_eq!(name, "fix/login-race");
//! # Ok(()) }
//! ```
//!
//! A turn is an iterator over its events:
//!
//! ```
//! # use bowline::{Kind, testing};
//! # fn main() -> Result<(), bowline::Error> {
//! let task = bowline::task("Audit this repository").provider("codex");
//! # let task = task.script(testing::says("All is well."));
//! let mut turn = bowline::blocking::start(task)?;
//! for event in &mut turn {
//!     if let Kind::TextDelta(delta) = &event.kind {
//!         print!("{}", delta.text);
//!     }
//! }
//! let record = turn.outcome()?;
//! assert!(record.is_completed());
//! # Ok(()) }
//! ```
//!
//! All runs are driven by one thread in the background, which is started by the first call. The calls wait for it by
//! ordinary means, so they also work on a thread of another async runtime; that thread is then as blocked as with
//! any other call that waits. In async code, use the calls of the crate's root.

use std::future::Future;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use bowline_protocol::{Event, SessionId};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use crate::run::error::Error;
use crate::run::record::Record;
use crate::run::task::Task;
use crate::run::turn::Turn;
use crate::sessions::control::Control;
use crate::sessions::registry::{Killed, Registry};

/// How many events are fetched from the background together, when they are there.
const AT_ONCE: usize = 256;

/// Runs a task and returns the answer; see [`Task::answer`].
pub fn answer(task: Task) -> Result<String, Error> {
    wait(task.answer())
}

/// Runs a task and returns the answer as a type, with the record; see [`Task::run_as`].
pub fn run_as<T>(task: Task) -> Result<(T, Record), Error>
where
    T: DeserializeOwned + schemars::JsonSchema + Send + 'static,
{
    wait(task.run_as())
}

/// Runs a task and reads the answer as a type, see [`Task::answer_as`].
pub fn answer_as<T>(task: Task) -> Result<T, Error>
where
    T: DeserializeOwned + schemars::JsonSchema + Send + 'static,
{
    wait(task.answer_as())
}

/// Runs a task and returns its record, whatever the outcome, see [`Task::run`].
pub fn run(task: Task) -> Result<Record, Error> {
    wait(task.run())
}

/// Starts a task and returns the turn, see [`Task::start`].
pub fn start(task: Task) -> Result<BlockingTurn, Error> {
    let turn = wait(task.start())?;
    let (control, session) = (turn.control(), turn.session().clone());
    Ok(BlockingTurn { session, control, turn: Some(turn), fetched: Vec::new().into_iter(), problem: None })
}

/// Ends all sessions with a key and waits until they are gone, see [`Registry::kill_all`].
pub fn kill_all(registry: &Registry, key: &str, reason: &str) -> Result<Vec<Killed>, Error> {
    let (registry, key, reason) = (registry.clone(), key.to_owned(), reason.to_owned());
    wait(async move { Ok(registry.kill_all(&key, &reason).await?) })
}

/// Ends the sessions that are older than that, see [`Registry::kill_stale`].
pub fn kill_stale(registry: &Registry, max_age: Duration) -> Result<Vec<Killed>, Error> {
    let registry = registry.clone();
    wait(async move { Ok(registry.kill_stale(max_age).await?) })
}

/// A running turn: an iterator over its events. Dropping it stops the agent; [`BlockingTurn::detach`] lets it go on.
#[derive(Debug)]
pub struct BlockingTurn {
    session: SessionId,
    control: Control,
    /// Not there only while the background has it.
    turn: Option<Turn>,
    /// Events that were fetched and not given out yet.
    fetched: std::vec::IntoIter<Event>,
    /// Why events could not be read.
    problem: Option<Error>,
}

impl BlockingTurn {
    /// Returns the session's id.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns a handle that stops the turn, from any thread.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits for the end and returns the record. Events that were not read are skipped.
    pub fn outcome(mut self) -> Result<Record, Error> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        wait(self.turn.take().ok_or(Error::Lost)?.outcome())
    }

    /// Stops the agent and waits until it and all that it started are gone.
    pub fn stop(self) -> Result<Record, Error> {
        self.control.cancel();
        self.outcome()
    }

    /// Lets the turn go on without a reader, until it ends by itself. Returns a handle that can still stop it.
    pub fn detach(self) -> Control {
        if let Some(turn) = self.turn {
            turn.detach();
        }
        self.control
    }
}

impl Iterator for BlockingTurn {
    type Item = Event;

    /// Waits for the next event; nothing when the turn is over. If events cannot be read back from the journal, they
    /// end as well, and [`BlockingTurn::outcome`] says why.
    fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.fetched.next() {
            return Some(event);
        }
        let mut turn = self.turn.take()?;
        let answer = wait(async move {
            let events = turn.next_batch(AT_ONCE).await;
            Ok((turn, events))
        });
        let events = answer.and_then(|(turn, events)| {
            self.turn = Some(turn);
            events
        });
        match events {
            Ok(events) => {
                self.fetched = events.into_iter();
                self.fetched.next()
            }
            Err(error) => {
                self.problem = Some(error);
                None
            }
        }
    }
}

/// Lets the background do it, and waits.
fn wait<T: Send + 'static>(
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    // Space for the one result: the thread that drives all runs must not wait for a caller.
    let (sender, receiver) = mpsc::sync_channel(1);
    background()?.spawn(async move {
        // The caller is blocked in `recv`, so the receiver exists.
        let _: Result<(), _> = sender.send(future.await);
    });
    receiver.recv().unwrap_or(Err(Error::Lost))
}

/// Returns the way to the one thread that drives everything, and starts it when it is first needed.
fn background() -> Result<Handle, Error> {
    static ONE: Mutex<Option<Handle>> = Mutex::new(None);
    let mut one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*one {
        return Ok(handle.clone());
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Background)?;
    let handle = runtime.handle().clone();
    // The thread never ends: a run may outlive the call that started it.
    std::thread::Builder::new()
        .name("bowline-blocking".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))
        .map_err(Error::Background)?;
    Ok(one.insert(handle).clone())
}

#[cfg(test)]
mod tests;
