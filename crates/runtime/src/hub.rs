//! From one run to those who watch it.
//!
//! A watcher that keeps up gets events from memory. One that lags gets them from the journal: the file is the queue, so
//! a slow watcher costs no memory, holds nobody up and loses nothing. Only a run without a journal has to wait for its
//! watcher.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_protocol::Event;
use tokio::sync::mpsc;

use crate::host::Cleanup;
use crate::journal::{JournalError, Reader};

/// How many batches wait in memory for a watcher.
const WAITING: usize = 64;

/// How many events wait in memory for a watcher: a batch is what one read gave.
const WAITING_EVENTS: u64 = 4096;

/// The end into which a run puts its events.
#[derive(Debug)]
pub(crate) struct Outlet {
    sender: mpsc::Sender<Vec<Event>>,
    shared: Arc<Shared>,
    /// Whether what does not fit may be left to the journal.
    journal: bool,
}

/// The end from which a watcher takes them.
#[derive(Debug)]
pub(crate) struct Inlet {
    receiver: mpsc::Receiver<Vec<Event>>,
    shared: Arc<Shared>,
    /// What was taken out and not given on yet, last first.
    batch: Vec<Event>,
    next: u64,
    dir: Option<PathBuf>,
    /// A journal that goes with the run stays until its events are read.
    _cleanup: Arc<Cleanup>,
    /// A reader of the journal, and the number of the event that it gives next.
    reader: Option<(Reader, u64)>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The last event that is public.
    last: AtomicU64,
    /// The last event that the watcher took out of memory.
    taken: AtomicU64,
}

/// Makes both ends. With a directory, what does not fit in memory is read from the journal there.
pub(crate) fn hub(dir: Option<PathBuf>, cleanup: Arc<Cleanup>) -> (Outlet, Inlet) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let shared = Arc::new(Shared::default());
    let outlet = Outlet { sender, shared: shared.clone(), journal: dir.is_some() };
    (outlet, Inlet { receiver, shared, batch: Vec::new(), next: 1, dir, _cleanup: cleanup, reader: None })
}

impl Outlet {
    /// Says whether what does not fit in memory may be left to the journal.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal
    }

    /// Puts events out that are in the journal already.
    pub(crate) fn put(&self, events: Vec<Event>) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        let (before, last) = (first.seq.saturating_sub(1), last.seq);
        // In this order, and each seen by all in the same order: a watcher that goes to sleep has said first how far
        // it is, then looked how far we are. One of the two sees the other. What waits is counted without this
        // batch, so that a watcher which keeps up is woken however large it is.
        self.shared.last.store(last, Ordering::SeqCst);
        let waiting = before.saturating_sub(self.shared.taken.load(Ordering::SeqCst));
        if waiting <= WAITING_EVENTS {
            // Full, or nobody listens: the journal has them.
            let _ = self.sender.try_send(events);
        }
    }

    /// Puts events out that are only in memory. Gives them back when there is no room.
    pub(crate) fn offer(&self, events: Vec<Event>) -> Option<Vec<Event>> {
        match self.sender.try_send(events) {
            // Nobody listens any more: there is nobody to lose them.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
            Err(mpsc::error::TrySendError::Full(events)) => Some(events),
        }
    }

    /// Waits until there is room, or nobody who needs it.
    pub(crate) async fn room(&self) {
        let _ = self.sender.reserve().await;
    }
}

impl Inlet {
    /// Waits for the next event; nothing when there will be none.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, JournalError> {
        loop {
            if let Some(event) = self.batch.pop() {
                if event.seq < self.next {
                    continue;
                }
                if event.seq > self.next && self.dir.is_some() {
                    // The ones between were left to the journal.
                    self.batch.push(event);
                    if let Some(missing) = self.read_journal()? {
                        return Ok(Some(missing));
                    }
                    // They cannot be read either: a gap in the journal says so to whoever looks there.
                    self.next = self.batch.last().map_or(self.next, |event| event.seq);
                    continue;
                }
                self.next = event.seq + 1;
                return Ok(Some(event));
            }
            match self.receiver.try_recv() {
                Ok(batch) => self.take(batch),
                Err(mpsc::error::TryRecvError::Empty) => {
                    if let Some(event) = self.lagging()? {
                        return Ok(Some(event));
                    }
                    match self.receiver.recv().await {
                        Some(batch) => self.take(batch),
                        None => return self.lagging(),
                    }
                }
                Err(mpsc::error::TryRecvError::Disconnected) => return self.lagging(),
            }
        }
    }

    /// Waits for the next event and returns it with those that are there already, at most so many.
    ///
    /// Dropping the future loses nothing: it waits only before it has taken anything.
    pub(crate) async fn next_batch(&mut self, most: usize) -> Result<Vec<Event>, JournalError> {
        let Some(first) = self.next().await? else { return Ok(Vec::new()) };
        let mut events = vec![first];
        while events.len() < most
            && let Some(event) = self.batch.pop_if(|event| event.seq == self.next)
        {
            self.next = event.seq + 1;
            events.push(event);
        }
        Ok(events)
    }

    /// Takes no more events. A run that waits for its watcher waits no longer.
    pub(crate) fn close(&mut self) {
        self.receiver.close();
        // What is in memory already is of no use to anybody.
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
pub(crate) struct Stream {
    current: Option<Inlet>,
    /// The runs that are yet to come.
    more: Option<mpsc::UnboundedReceiver<Inlet>>,
}

impl Stream {
    /// The events of one run.
    pub(crate) fn one(inlet: Inlet) -> Self {
        Self { current: Some(inlet), more: None }
    }

    /// The events of runs that come one by one.
    pub(crate) fn several(more: mpsc::UnboundedReceiver<Inlet>) -> Self {
        Self { current: None, more: Some(more) }
    }

    /// Waits for the next event; nothing when there will be none.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, JournalError> {
        loop {
            let Some(inlet) = self.current().await else { return Ok(None) };
            match inlet.next().await? {
                Some(event) => return Ok(Some(event)),
                None => self.current = None,
            }
        }
    }

    /// Waits for the next event and returns it with those that are there already, at most so many.
    pub(crate) async fn next_batch(&mut self, most: usize) -> Result<Vec<Event>, JournalError> {
        loop {
            let Some(inlet) = self.current().await else { return Ok(Vec::new()) };
            let events = inlet.next_batch(most).await?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.current = None;
        }
    }

    /// Returns the run whose events are read, and waits for the next one when it is over.
    async fn current(&mut self) -> Option<&mut Inlet> {
        if self.current.is_none() {
            self.current = self.more.as_mut()?.recv().await;
        }
        self.current.as_mut()
    }

    /// Takes no more events.
    pub(crate) fn close(&mut self) {
        if let Some(inlet) = &mut self.current {
            inlet.close();
        }
        if let Some(more) = &mut self.more {
            more.close();
            // Dropping one closes it too.
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
        // There is no journal at that place: all of it has to come from memory.
        let (outlet, mut inlet) = hub(Some("/no/such/journal".into()), Arc::default());
        let watcher = tokio::spawn(async move {
            for seq in 1..=20_001 {
                assert_eq!(inlet.next().await.unwrap().unwrap().seq, seq);
            }
        });
        tokio::task::yield_now().await;
        outlet.put(events(1..=1));
        while outlet.shared.taken.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        outlet.put(events(2..=20_001));
        // The outlet lives on: its end must not be what wakes the watcher.
        watcher.await.unwrap();
        drop(outlet);
    }

    #[tokio::test]
    async fn a_watcher_that_closes_holds_nobody_up() {
        let (outlet, mut inlet) = hub(None, Arc::default());
        for seq in 1..=WAITING as u64 {
            assert_eq!(outlet.offer(events(seq..=seq)), None);
        }
        assert_eq!(outlet.offer(events(65..=65)), Some(events(65..=65)), "there is no room");
        assert_eq!(inlet.next().await.unwrap().unwrap().seq, 1);
        outlet.room().await;
        assert_eq!(outlet.offer(events(65..=65)), None);
        inlet.close();
        outlet.room().await;
        assert_eq!(outlet.offer(events(66..=66)), None);
        assert_eq!(inlet.next().await.unwrap(), None);
    }
}
