//! A turn that runs: its events, and the handle that stops it.

use bowline_engine::RunCommand;
use bowline_protocol::{Event, Millis, SessionId};
use tokio::sync::{mpsc, oneshot};

use crate::run::error::Error;
use crate::run::record::Record;
use crate::run::subscribe::EventStream;

/// A running turn. Dropping it stops the agent; [`Turn::detach`] lets it go on.
///
/// [`Turn::control`] returns a handle that another task can use while this one reads events.
#[derive(Debug)]
pub struct Turn {
    session: SessionId,
    events: EventStream,
    control: Control,
    done: oneshot::Receiver<Result<Record, Error>>,
    /// Whether the agent goes on when the turn is dropped.
    detached: bool,
}

/// An order from outside of the run.
#[derive(Debug)]
pub(crate) enum RunOrder {
    /// A command of the caller.
    Command(RunCommand),
    /// The run exceeded this total limit, counting the time in which the machine slept.
    Overdue(Millis),
}

/// Stops a turn, from any task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Control {
    orders: mpsc::Sender<RunOrder>,
}

impl Control {
    pub(crate) fn new(orders: mpsc::Sender<RunOrder>) -> Self {
        Self { orders }
    }

    /// Stops the agent, first with its own stop signal, and keeps the partial answer. The agent is gone within two seconds.
    /// Does nothing if the turn is over.
    pub fn cancel(&self) {
        self.send(RunOrder::Command(RunCommand::Cancel));
    }

    /// Kills the agent and every process that it started, at once.
    pub fn kill(&self) {
        self.send(RunOrder::Command(RunCommand::Kill));
    }

    /// Returns whether the turn is over and there is no agent left to stop. There may still be events to read.
    pub fn is_over(&self) -> bool {
        self.orders.is_closed()
    }

    /// Ends the turn because it exceeded this limit, counting the time in which the machine slept.
    pub(crate) fn overdue(&self, limit: Millis) {
        self.send(RunOrder::Overdue(limit));
    }

    pub(crate) fn send(&self, order: RunOrder) {
        match self.orders.try_send(order) {
            // The turn is over, or the queue is full of orders that all stop it.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_) | mpsc::error::TrySendError::Full(_)) => {}
        }
    }
}

impl Turn {
    pub(crate) fn new(
        session: SessionId,
        events: EventStream,
        control: Control,
        done: oneshot::Receiver<Result<Record, Error>>,
    ) -> Self {
        Self { session, events, control, done, detached: false }
    }

    /// Returns the session's id; with several attempts, that of the first.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns a handle that stops the turn.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits for the next event; none when the turn is over, or when the journal cannot be read. [`Self::try_next`]
    /// distinguishes the two. A slow reader loses nothing: events that do not fit in memory come from the journal.
    ///
    /// Cancel safe: if the future is dropped (a branch of `tokio::select!`, a timeout), no event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        match self.try_next().await {
            Ok(event) => event,
            Err(_) => {
                // Do not log the error: it quotes the damaged line, which is part of the conversation.
                tracing::warn!(session = %self.session, "events cannot be read back; `try_next` says why");
                None
            }
        }
    }

    /// Like [`Self::next`], but returns an error if the journal cannot be read. Cancel safe.
    pub async fn try_next(&mut self) -> Result<Option<Event>, Error> {
        Ok(self.events.next().await?)
    }

    /// Waits for the next events and returns those that are in memory, at most `most`; none when the turn is over. Cancel safe.
    pub async fn next_batch(&mut self, most: usize) -> Result<Vec<Event>, Error> {
        Ok(self.events.next_batch(most).await?)
    }

    /// Waits for the end and returns the record: completed, failed, cancelled or truncated, with usage, files and
    /// survivors. Events that were not read are skipped.
    pub async fn outcome(mut self) -> Result<Record, Error> {
        // A run without a journal waits for its subscriber, as long as there is one.
        self.events.close();
        let record = (&mut self.done).await.unwrap_or(Err(Error::Lost));
        self.detached = true;
        record
    }

    /// Stops the agent and waits until it and every process that it started are gone.
    pub async fn stop(self) -> Result<Record, Error> {
        self.control.cancel();
        self.outcome().await
    }

    /// Lets the turn go on without a reader, until it ends by itself. Returns a handle that can still stop it.
    pub fn detach(mut self) -> Control {
        self.detached = true;
        self.events.close();
        self.control.clone()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.detached {
            self.control.kill();
        }
    }
}
