//! Readers of events with a cursor of their own: of one session, or of the sessions of a routed request, one after the other.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bowline_protocol::{Event, SessionId};
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::run::error::Error;
use crate::sessions::journal::{JournalError, Reader};
use crate::system::host::Cleanup;

/// A place in the events of a session: behind the event with this number. It is the cursor of all that may have several sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EventCursor {
    /// The session.
    pub session: SessionId,
    /// The number of the event.
    pub seq: u64,
}

impl From<&Event> for EventCursor {
    fn from(event: &Event) -> Self {
        Self { session: event.session.clone(), seq: event.seq }
    }
}

/// A run whose events can be read, from its registration on: before its first event is public.
#[derive(Clone, Debug)]
pub(crate) struct WatchedRun {
    pub(crate) session: SessionId,
    /// The directory of its journal, if it keeps one.
    pub(crate) dir: Option<PathBuf>,
    /// The number of its first event.
    pub(crate) first_seq: u64,
    /// The number of the last public event. It closes with the run.
    pub(crate) head: watch::Receiver<u64>,
    /// Keeps a temporary journal on disk.
    pub(crate) cleanup: Option<Arc<Cleanup>>,
}

/// The runs of a request so far. It closes when no further one follows.
#[derive(Clone, Debug)]
pub(crate) struct WatchedRuns(watch::Receiver<Vec<WatchedRun>>);

/// The end of [`WatchedRuns`] to which runs are added.
#[derive(Debug)]
pub(crate) struct RunsSender(watch::Sender<Vec<WatchedRun>>);

impl RunsSender {
    pub(crate) fn add(&self, run: WatchedRun) {
        // Also without a watch: one that begins later reads from the first run on.
        self.0.send_modify(|runs| runs.push(run));
    }
}

impl WatchedRuns {
    /// Returns a request of a single run.
    pub(crate) fn one(run: WatchedRun) -> Self {
        // The sender is dropped, so that no further run is waited for.
        Self(watch::Sender::new(vec![run]).subscribe())
    }

    /// Returns a request of several runs, one after the other.
    pub(crate) fn several() -> (RunsSender, Self) {
        let (sender, receiver) = watch::channel(Vec::new());
        (RunsSender(sender), Self(receiver))
    }

    /// Begins to read the first run's session at a number.
    pub(crate) fn watch_from(&self, seq: u64) -> Result<EventWatch, Error> {
        let first = self.0.borrow().first().cloned().ok_or(Error::NoJournal)?;
        EventWatch::open(self.clone(), 0, &first, seq)
    }

    /// Begins to read behind a cursor, in the first run of its session.
    pub(crate) fn watch_after(&self, cursor: &EventCursor) -> Result<EventWatch, Error> {
        let found = self.0.borrow().iter().position(|run| run.session == cursor.session);
        let unknown = || JournalError::NoSession { path: PathBuf::from(cursor.session.as_str()) };
        let place = found.ok_or_else(unknown)?;
        let run = self.0.borrow()[place].clone();
        EventWatch::open(self.clone(), place, &run, cursor.seq.saturating_add(1))
    }
}

/// A reader of events with a cursor of its own. It waits for new ones, and ends with the runner of the session, or with the last run of
/// a request. Also a [`Stream`].
pub struct EventWatch {
    runs: WatchedRuns,
    /// The run that is read, by its place.
    place: usize,
    session: SessionId,
    reader: Reader,
    /// Events below this number are left out: a reader that is ahead of the file stops at its end.
    from: u64,
    /// The head of that run; nothing once it is over.
    head: Option<watch::Receiver<u64>>,
    waiting: Option<Waiting>,
    cleanup: Option<Arc<Cleanup>>,
}

/// A wait for the next event or the next run. It owns its channel, because the watch is polled and keeps no borrow in between.
type Waiting = Pin<Box<dyn Future<Output = WokenBy> + Send + Sync>>;

enum WokenBy {
    /// There is more to read; none if the run is over.
    Head(Option<watch::Receiver<u64>>),
    /// A further run began; false if none will.
    Runs(WatchedRuns, bool),
}

impl EventWatch {
    fn open(runs: WatchedRuns, place: usize, run: &WatchedRun, seq: u64) -> Result<Self, Error> {
        let reader = open_at(run, seq)?;
        let WatchedRun { session, head, cleanup, .. } = run.clone();
        Ok(Self { runs, place, session, reader, from: seq, head: Some(head), waiting: None, cleanup })
    }

    /// Waits for the next event; none when the runner has ended. Cancel safe: no event is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Event>, JournalError> {
        std::future::poll_fn(|context| self.poll_event(context)).await.transpose()
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Event, JournalError>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                let woken = ready!(waiting.as_mut().poll(context));
                self.waiting = None;
                match woken {
                    WokenBy::Head(head) => self.head = head,
                    WokenBy::Runs(runs, true) => self.runs = runs,
                    WokenBy::Runs(runs, false) => {
                        self.runs = runs;
                        // A run may have been added just before the channel closed.
                        match self.enter_next_run() {
                            Ok(true) => {}
                            Ok(false) => return Poll::Ready(None),
                            Err(error) => return Poll::Ready(Some(Err(error))),
                        }
                    }
                }
            }
            // Before the file is read: an event that comes in between wakes the wait below.
            if let Some(head) = &mut self.head {
                head.mark_unchanged();
            }
            match self.reader.next_event() {
                Ok(Some(event)) if event.seq < self.from => continue,
                Ok(None) => {}
                read => return Poll::Ready(read.transpose()),
            }
            if let Some(mut head) = self.head.take() {
                self.waiting = Some(Box::pin(async move {
                    // A run writes its last events before its head closes, so they are read once more then.
                    let is_open = head.changed().await.is_ok();
                    WokenBy::Head(is_open.then_some(head))
                }));
                continue;
            }
            match self.enter_next_run() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            let (mut runs, known) = (self.runs.clone(), self.place + 1);
            self.waiting = Some(Box::pin(async move {
                let has_more = runs.0.wait_for(|runs| runs.len() > known).await.is_ok();
                WokenBy::Runs(runs, has_more)
            }));
        }
    }

    /// Continues with the next run. Returns false if no further run has started.
    fn enter_next_run(&mut self) -> Result<bool, JournalError> {
        let Some(run) = self.runs.0.borrow().get(self.place + 1).cloned() else { return Ok(false) };
        // A run that continues the session appends to the same file, where the reader stands at its first event or behind it.
        if run.session != self.session {
            self.reader = match open_at(&run, run.first_seq) {
                Ok(reader) => reader,
                Err(Error::Journal(error)) => return Err(error),
                // All runs of a request keep their journals in the same way.
                Err(_) => return Ok(false),
            };
            self.from = run.first_seq;
        }
        self.place += 1;
        (self.session, self.head, self.cleanup) = (run.session, Some(run.head), run.cleanup);
        Ok(true)
    }
}

fn open_at(run: &WatchedRun, seq: u64) -> Result<Reader, Error> {
    let mut reader = Reader::open(run.dir.as_deref().ok_or(Error::NoJournal)?)?;
    if seq > 1 {
        reader.seek(seq)?;
    }
    Ok(reader)
}

impl Stream for EventWatch {
    type Item = Result<Event, JournalError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(context)
    }
}

impl std::fmt::Debug for EventWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWatch")
            .field("session", &self.session)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}
