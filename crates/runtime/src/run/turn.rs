//! A turn that runs: its events and its outcome.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bowline_protocol::{Event, SessionId};
use futures_core::Stream;
use tokio::sync::oneshot;

use crate::run::approval::Approval;
use crate::run::error::Error;
use crate::run::record::Record;
use crate::run::subscribe::EventStream;
use crate::run::watch::{EventCursor, EventWatch, WatchedRuns};
use crate::sessions::control::Control;

/// A running turn, and a [`Stream`] of its events. Dropping it stops the agent; [`Turn::detach`] lets it go on.
///
/// [`Turn::control`] returns a handle that another task can use while this one reads events.
#[derive(Debug)]
pub struct Turn {
    session: SessionId,
    events: EventStream,
    /// Its runs, for further readers.
    runs: WatchedRuns,
    control: Control,
    done: oneshot::Receiver<Result<Record, Error>>,
    /// Whether the agent goes on when the turn is dropped.
    detached: bool,
}

impl Turn {
    pub(crate) fn new(
        session: SessionId,
        events: EventStream,
        runs: WatchedRuns,
        control: Control,
        done: oneshot::Receiver<Result<Record, Error>>,
    ) -> Self {
        Self { session, events, runs, control, done, detached: false }
    }

    /// Returns the session's id; with several attempts, that of the first.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns a handle that stops the turn.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Returns the approval that an event asks for, as a value that decides it. The task must let a person decide
    /// ([`Task::ask_a_person`](crate::Task::ask_a_person)).
    pub fn approval(&self, event: &Event) -> Option<Approval> {
        Approval::of(event, &self.control)
    }

    /// Returns the events from a number of the first session on, and those of every session that follows it: a fallback of the router
    /// is a session of its own, a retry goes on with the numbers of its session. Any number of watches can read, each at its own pace,
    /// and after the turn is over or detached.
    ///
    /// # Errors
    ///
    /// [`Error::NoJournal`] if the task keeps no journal, which only [`Self::next`] can read.
    pub fn watch_from(&self, seq: u64) -> Result<EventWatch, Error> {
        self.runs.watch_from(seq)
    }

    /// Returns the events behind a cursor, which may be in any session of the turn.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let task = bowline::task("Audit this repository").script(bowline::testing::says("All is well."));
    /// let mut turn = task.provider("claude").start().await?;
    /// let first = turn.next().await.expect("an event");
    /// let mut watch = turn.watch_after(&bowline::EventCursor::from(&first))?;
    /// assert_eq!(watch.next().await?.map(|event| event.seq), Some(first.seq + 1));
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As those of [`Self::watch_from`]; [`JournalError::NoSession`](crate::journal::JournalError::NoSession) if the turn has no such
    /// session.
    pub fn watch_after(&self, cursor: &EventCursor) -> Result<EventWatch, Error> {
        self.runs.watch_after(cursor)
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
        // The run is over, so dropping `self` must not kill it. If this future is dropped earlier, that does.
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

impl Stream for Turn {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(self.get_mut().events.poll_next(context));
        Poll::Ready(event.map_err(Error::from).transpose())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.detached {
            self.control.kill();
        }
    }
}
