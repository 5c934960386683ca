//! A turn that runs: its events, and the handle that stops it.

use bowline_engine::Command;
use bowline_protocol::{Event, Millis, SessionId};
use tokio::sync::{mpsc, oneshot};

use crate::Error;
use crate::hub::Stream;
use crate::record::Record;

/// A turn that runs. Dropping it stops the agent; [`Turn::detach`] lets it go on.
///
/// Events and control are two things: [`Turn::control`] gives a handle that any task can use while this one reads.
#[derive(Debug)]
pub struct Turn {
    session: SessionId,
    events: Stream,
    control: Control,
    done: oneshot::Receiver<Result<Record, Error>>,
    /// Whether dropping it leaves the agent alone.
    detached: bool,
}

/// What a run is told from outside.
#[derive(Debug)]
pub(crate) enum Order {
    /// Somebody wants something.
    Command(Command),
    /// By the clock on the wall it took longer than this limit on all of it.
    Overdue(Millis),
}

/// Stops a turn, from any task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Control {
    orders: mpsc::Sender<Order>,
}

impl Control {
    pub(crate) fn new(orders: mpsc::Sender<Order>) -> Self {
        Self { orders }
    }

    /// Asks the agent to stop, in its own polite way first, and keeps what it has said. Within two seconds it is gone.
    /// A turn that is over stays as it is.
    pub fn cancel(&self) {
        self.send(Order::Command(Command::Cancel));
    }

    /// Ends the agent and all that it started at once.
    pub fn kill(&self) {
        self.send(Order::Command(Command::Kill));
    }

    /// Says whether the turn is over: there is no agent left to stop. What it said may still be read.
    pub fn is_over(&self) -> bool {
        self.orders.is_closed()
    }

    /// Ends the turn as one that took longer than this limit, with the time in which the machine slept.
    pub(crate) fn overdue(&self, limit: Millis) {
        self.send(Order::Overdue(limit));
    }

    pub(crate) fn send(&self, order: Order) {
        match self.orders.try_send(order) {
            // Over; or as many orders wait as fit, and each of them stops it.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_) | mpsc::error::TrySendError::Full(_)) => {}
        }
    }
}

impl Turn {
    pub(crate) fn new(
        session: SessionId,
        events: Stream,
        control: Control,
        done: oneshot::Receiver<Result<Record, Error>>,
    ) -> Self {
        Self { session, events, control, done, detached: false }
    }

    /// Returns the session's id; of several attempts, that of the first.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns a handle that stops the turn.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits for the next event; nothing when the turn is over, or when events cannot be read back from the journal,
    /// which [`Self::try_next`] tells apart. A reader may be as slow as it likes: what does not fit in memory is read
    /// from the journal.
    ///
    /// Cancel safe: if the future is dropped (a branch of `tokio::select!`, a timeout), no event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        match self.try_next().await {
            Ok(event) => event,
            Err(_) => {
                // Without the error: what is damaged is quoted in it, and that is what somebody said.
                tracing::warn!(session = %self.session, "events cannot be read back; `try_next` says why");
                None
            }
        }
    }

    /// Like [`Self::next`], but says when the journal could not be read. Cancel safe.
    pub async fn try_next(&mut self) -> Result<Option<Event>, Error> {
        Ok(self.events.next().await?)
    }

    /// Waits for the next events and returns those that are there, at most so many; none when the turn is over. Cancel safe.
    pub async fn next_batch(&mut self, most: usize) -> Result<Vec<Event>, Error> {
        Ok(self.events.next_batch(most).await?)
    }

    /// Waits for the end and returns the record: completed, failed, cancelled or truncated, with usage, files and
    /// survivors. Events that were not read are skipped.
    pub async fn outcome(mut self) -> Result<Record, Error> {
        // A run without a journal waits for its reader, as long as there is one.
        self.events.close();
        let record = (&mut self.done).await.unwrap_or(Err(Error::Lost));
        self.detached = true;
        record
    }

    /// Asks the agent to stop and waits until it and all that it started are gone.
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
