//! The event channel from a run to its subscriber.
//!
//! A subscriber that keeps up gets events from memory. A subscriber that lags reads them from the journal: the file is the
//! queue, so a slow subscriber costs no memory, delays nothing and loses nothing. Only a run without a journal has to wait
//! for its subscriber.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bowline_protocol::Event;
use tokio::sync::mpsc;

use crate::sessions::journal::{JournalError, Reader};
use crate::system::host::Cleanup;

/// The number of batches that may wait in memory for a subscriber.
const WAITING: usize = 64;

/// The number of events that may wait in memory for a subscriber. A batch has the events of one read.
const WAITING_EVENTS: u64 = 4096;

/// The run's end of the channel.
#[derive(Debug)]
pub(crate) struct EventSender {
    sender: mpsc::Sender<Vec<Event>>,
    shared: Arc<Shared>,
    /// Whether the subscriber can read from the journal what does not fit.
    journal: bool,
}

/// The subscriber's end of the channel.
#[derive(Debug)]
pub(crate) struct EventReceiver {
    receiver: mpsc::Receiver<Vec<Event>>,
    shared: Arc<Shared>,
    /// Events taken from the channel and not returned yet, last first.
    batch: Vec<Event>,
    next: u64,
    dir: Option<PathBuf>,
    /// Keeps a temporary journal on disk until its events are read.
    _cleanup: Arc<Cleanup>,
    /// A reader of the journal, and the number of the event that it returns next.
    reader: Option<(Reader, u64)>,
}

#[derive(Debug)]
struct Shared {
    /// The last event that is public.
    last: AtomicU64,
    /// The last event that the subscriber took from memory.
    taken: AtomicU64,
}

/// Creates a channel for the events of a run from its first one on. With a directory, the subscriber reads events that do not
/// fit in memory from the journal there.
pub(crate) fn event_channel(
    dir: Option<PathBuf>,
    cleanup: Arc<Cleanup>,
    first_seq: u64,
) -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::channel(WAITING);
    // The events of earlier runs of the session do not wait for this subscriber.
    let before = first_seq - 1;
    let shared = Arc::new(Shared { last: AtomicU64::new(before), taken: AtomicU64::new(before) });
    let sender = EventSender { sender, shared: shared.clone(), journal: dir.is_some() };
    let receiver = EventReceiver {
        receiver,
        shared,
        batch: Vec::new(),
        next: first_seq,
        dir,
        _cleanup: cleanup,
        reader: None,
    };
    (sender, receiver)
}

impl EventSender {
    /// Returns whether the subscriber can read from the journal what does not fit in memory.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal
    }

    /// Sends events that are in the journal already.
    pub(crate) fn put(&self, events: Vec<Event>) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        let (before, last) = (first.seq.saturating_sub(1), last.seq);
        // SeqCst on both sides: before it parks, the receiver stores `taken` and then loads `last`; we store `last` and then
        // load `taken`. At least one side sees the other's store, so no wake-up is lost. This batch does not count as
        // waiting, so that a subscriber that keeps up is woken even by a large batch.
        self.shared.last.store(last, Ordering::SeqCst);
        let waiting = before.saturating_sub(self.shared.taken.load(Ordering::SeqCst));
        if waiting <= WAITING_EVENTS {
            // If the channel is full or closed, the journal has the events.
            let _ = self.sender.try_send(events);
        }
    }

    /// Sends events that are only in memory. Returns them if the channel is full.
    pub(crate) fn offer(&self, events: Vec<Event>) -> Option<Vec<Event>> {
        match self.sender.try_send(events) {
            // A closed channel has no subscriber, so nothing is lost.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
            Err(mpsc::error::TrySendError::Full(events)) => Some(events),
        }
    }

    /// Waits until the channel has room or is closed.
    pub(crate) async fn room(&self) {
        let _ = self.sender.reserve().await;
    }
}

impl EventReceiver {
    /// Waits for the next event; none after the last one.
    #[cfg(test)]
    async fn next(&mut self) -> Result<Option<Event>, JournalError> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Returns the next event; none after the last one.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Event>, JournalError>> {
        loop {
            if let Some(event) = self.batch.pop() {
                // The subscriber has read this one from the journal already.
                if event.seq < self.next {
                    continue;
                }
                if event.seq > self.next && self.dir.is_some() {
                    // The events in between are only in the journal.
                    self.batch.push(event);
                    if let Some(missing) = self.read_journal()? {
                        return Poll::Ready(Ok(Some(missing)));
                    }
                    // The journal does not have them either. Its gap in the numbers shows that.
                    self.next = self.batch.last().map_or(self.next, |event| event.seq);
                    continue;
                }
                self.next = event.seq + 1;
                return Poll::Ready(Ok(Some(event)));
            }
            match self.receiver.try_recv() {
                Ok(batch) => self.take(batch),
                Err(mpsc::error::TryRecvError::Empty) => {
                    // Look at the journal before parking: `put` sends nothing through the channel to a subscriber that lags.
                    if let Some(event) = self.lagging()? {
                        return Poll::Ready(Ok(Some(event)));
                    }
                    match ready!(self.receiver.poll_recv(context)) {
                        Some(batch) => self.take(batch),
                        // The run is over. Events that did not fit into the channel are only in the journal.
                        None => return Poll::Ready(self.lagging()),
                    }
                }
                Err(mpsc::error::TryRecvError::Disconnected) => return Poll::Ready(self.lagging()),
            }
        }
    }

    /// Returns the next event if it is in memory.
    fn ready(&mut self) -> Option<Event> {
        let event = self.batch.pop_if(|event| event.seq == self.next)?;
        self.next = event.seq + 1;
        Some(event)
    }

    /// Closes the channel. A run that waits for its subscriber goes on.
    pub(crate) fn close(&mut self) {
        self.receiver.close();
        // Free the events in memory.
        while self.receiver.try_recv().is_ok() {}
        self.batch.clear();
    }

    fn take(&mut self, mut batch: Vec<Event>) {
        if let Some(last) = batch.last() {
            self.shared.taken.store(last.seq, Ordering::SeqCst);
        }
        batch.reverse();
        self.batch = batch;
    }

    /// Reads the next event from the journal if it is public and not in memory.
    fn lagging(&mut self) -> Result<Option<Event>, JournalError> {
        let last = self.shared.last.load(Ordering::SeqCst);
        if self.dir.is_none() || last < self.next {
            return Ok(None);
        }
        let event = self.read_journal()?;
        // These count as taken, so that `put` uses the channel again once the subscriber has caught up.
        self.shared.taken.store(self.next - 1, Ordering::SeqCst);
        Ok(event)
    }

    fn read_journal(&mut self) -> Result<Option<Event>, JournalError> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let (reader, at) = match &mut self.reader {
            Some(reader) => reader,
            None => self.reader.insert((Reader::open(dir)?, 1)),
        };
        if *at != self.next {
            reader.seek(self.next)?;
        }
        let event = reader.next_event()?;
        if let Some(event) = &event {
            self.next = event.seq + 1;
            *at = self.next;
        }
        Ok(event)
    }
}

/// The events of one run, or of several that follow each other.
#[derive(Debug)]
pub(crate) struct EventStream {
    current: Option<EventReceiver>,
    /// The receivers of later runs.
    more: Option<mpsc::UnboundedReceiver<EventReceiver>>,
}

impl EventStream {
    /// Returns the events of one run.
    pub(crate) fn one(receiver: EventReceiver) -> Self {
        Self { current: Some(receiver), more: None }
    }

    /// Returns the events of several runs, one after the other.
    pub(crate) fn several(more: mpsc::UnboundedReceiver<EventReceiver>) -> Self {
        Self { current: None, more: Some(more) }
    }

    /// Waits for the next event; none after the last one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, JournalError> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Returns the next event; none after the last one.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Event>, JournalError>> {
        loop {
            if self.current.is_none() {
                let Some(more) = &mut self.more else { return Poll::Ready(Ok(None)) };
                self.current = ready!(more.poll_recv(context));
            }
            let Some(receiver) = &mut self.current else { return Poll::Ready(Ok(None)) };
            match ready!(receiver.poll_next(context))? {
                Some(event) => return Poll::Ready(Ok(Some(event))),
                None => self.current = None,
            }
        }
    }

    /// Waits for the next event and returns it with those that are already in memory, at most `most`.
    ///
    /// Cancel safe: it only waits before it has taken an event.
    pub(crate) async fn next_batch(&mut self, most: usize) -> Result<Vec<Event>, JournalError> {
        let Some(first) = self.next().await? else { return Ok(Vec::new()) };
        let mut events = vec![first];
        while events.len() < most
            && let Some(event) = self.current.as_mut().and_then(EventReceiver::ready)
        {
            events.push(event);
        }
        Ok(events)
    }

    /// Closes the stream.
    pub(crate) fn close(&mut self) {
        if let Some(receiver) = &mut self.current {
            receiver.close();
        }
        if let Some(more) = &mut self.more {
            more.close();
            // Dropping a receiver closes it too.
            while more.try_recv().is_ok() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_protocol::kinds::{SessionState, SessionStateChanged};
    use bowline_protocol::{FORMAT_VERSION, Kind, SessionId, Source, Timestamp};

    use super::*;

    fn events(seqs: std::ops::RangeInclusive<u64>) -> Vec<Event> {
        let event = |seq| Event {
            v: FORMAT_VERSION,
            seq,
            at: Timestamp::EPOCH,
            session: SessionId::from("s-1"),
            turn: None,
            source: Source::Bowline,
            raw: None,
            kind: Kind::SessionStateChanged(SessionStateChanged {
                state: SessionState::Running,
                reason: None,
            }),
        };
        seqs.map(event).collect()
    }

    #[tokio::test]
    async fn a_watcher_that_keeps_up_is_woken_by_a_batch_of_any_size() {
        // There is no journal in that directory: all events have to come from memory.
        let (sender, mut receiver) = event_channel(Some("/no/such/journal".into()), Arc::default(), 1);
        let watcher = tokio::spawn(async move {
            for seq in 1..=20_001 {
                assert_eq!(receiver.next().await.unwrap().unwrap().seq, seq);
            }
        });
        tokio::task::yield_now().await;
        sender.put(events(1..=1));
        while sender.shared.taken.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        sender.put(events(2..=20_001));
        // Keep the sender alive: dropping it must not be what wakes the receiver.
        watcher.await.unwrap();
        drop(sender);
    }

    #[tokio::test]
    async fn a_watcher_that_closes_holds_nobody_up() {
        let (sender, mut receiver) = event_channel(None, Arc::default(), 1);
        for seq in 1..=WAITING as u64 {
            assert_eq!(sender.offer(events(seq..=seq)), None);
        }
        assert_eq!(sender.offer(events(65..=65)), Some(events(65..=65)), "there is no room");
        assert_eq!(receiver.next().await.unwrap().unwrap().seq, 1);
        sender.room().await;
        assert_eq!(sender.offer(events(65..=65)), None);
        receiver.close();
        sender.room().await;
        assert_eq!(sender.offer(events(66..=66)), None);
        assert_eq!(receiver.next().await.unwrap(), None);
    }
}
