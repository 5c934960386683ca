//! Writes events to the journal, hands them to subscribers, and puts both on disk.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bowline_engine::RunStep;
use bowline_protocol::{Millis, RawFile};

use super::{ActiveRun, SYNC_PATIENCE, end, up};
use crate::sessions::journal::JournalError;

impl ActiveRun {
    /// Writes events to the journal, then sends them to subscribers.
    pub(super) fn publish(&mut self, step: &mut RunStep) -> Result<(), JournalError> {
        if step.events.is_empty() {
            return Ok(());
        }
        let mut events = std::mem::take(&mut step.events);
        if self.on_terminal() {
            // Decoders know one stream of output, a pipe or a terminal.
            for raw in events.iter_mut().filter_map(|event| event.raw.as_mut()) {
                if raw.file == RawFile::Stdout {
                    raw.file = RawFile::Pty;
                }
            }
        }
        match &mut self.drive.journal {
            Some(journal) if self.pending.closing => events = end::write(journal, events, &mut self.pending),
            Some(journal) => {
                if let Err(error) = journal.events(&events) {
                    // Events that are not on file must not become public: the journal gives their numbers to other
                    // events. A gap in the numbers shows how many were lost.
                    self.pending.lost += events.len() as u64;
                    return Err(error);
                }
            }
            None => {}
        }
        for event in &events {
            self.digest.event(event);
            if let Some(callback) = &mut self.drive.callback {
                callback(event);
            }
        }
        if let Some((alerts, control)) = &self.drive.alerts {
            alerts.batch(&events, control);
        }
        if let Some(last) = events.last() {
            self.drive.head.send_replace(last.seq);
        }
        self.pending.sync_due |= step.durable && !self.pending.closing;
        match &self.drive.sender {
            Some(sender) => {
                // Subscribers still get an end that could not be written.
                let on_file = sender.has_journal() && !self.pending.given_up;
                // While older events wait in the backlog, newer ones queue behind them. Otherwise the subscriber would get
                // them out of order.
                if on_file && self.pending.backlog.is_empty() {
                    sender.put(events);
                } else {
                    self.pending.backlog.push_back(events);
                    self.give_on();
                }
            }
            None => {
                // Keep the capacity for the next input.
                events.clear();
                step.events = events;
            }
        }
        Ok(())
    }

    /// Sends events that are only in memory, as far as the subscriber's queue has room.
    pub(super) fn give_on(&mut self) {
        let Some(sender) = &self.drive.sender else { return self.pending.backlog.clear() };
        while let Some(events) = self.pending.backlog.pop_front() {
            if let Some(events) = sender.offer(events) {
                return self.pending.backlog.push_front(events);
            }
        }
    }

    /// Writes the records of `io.index` if they are due.
    pub(super) fn write_index(&mut self, up: Millis) -> Result<(), JournalError> {
        match (&mut self.drive.journal, self.pending.index_due.take_if(|due| *due <= up)) {
            (Some(journal), Some(_)) if !self.pending.closing => journal.write_index(),
            _ => Ok(()),
        }
    }

    /// Starts the sync that decisions on approvals wait for, on a thread that may wait for the disk. Unlike [`Self::sync`] it is never
    /// delayed: the agent waits for it. One at a time; a later one covers all decisions before it.
    pub(super) fn sync_decisions(&mut self) -> Result<(), JournalError> {
        // A journal that failed ends the run, so the agent gets no decision any more.
        if self.pending.decision_sync.is_some() || self.pending.closing {
            return Ok(());
        }
        let Some(sync) = self.pending.sync_wanted.take() else { return Ok(()) };
        self.pending.decision_sync = Some(match &mut self.drive.journal {
            Some(journal) => {
                let work = journal.pending_sync()?;
                self.pending.sync_due = false;
                let task = tokio::task::spawn_blocking(move || work.run());
                Box::pin(async move {
                    match task.await {
                        Ok(done) => (sync, done),
                        // The runtime shuts down. Nothing may follow.
                        Err(_) => std::future::pending().await,
                    }
                })
            }
            None => Box::pin(std::future::ready((sync, Ok(())))),
        });
        Ok(())
    }

    /// Starts a due sync on a thread that may wait for the disk, one at a time. Not while an agent is being spawned: the
    /// thread would take CPU time from it. The sync then follows when the agent has started.
    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        let Some(journal) = &mut self.drive.journal else { return Ok(()) };
        if !self.pending.sync_due || self.pending.spawn.is_some() || up(self.began) < SYNC_PATIENCE {
            return Ok(());
        }
        if self.pending.sync.as_ref().is_some_and(|sync| !sync.is_finished()) {
            return Ok(());
        }
        if let Some(mut sync) = self.pending.sync.take() {
            // The task is finished, so the poll never needs its waker.
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(Ok(Err(error))) = Pin::new(&mut sync).poll(&mut context) {
                return Err(error);
            }
        }
        self.pending.sync_due = false;
        let sync = journal.pending_sync()?;
        self.pending.sync = Some(tokio::task::spawn_blocking(move || sync.run()));
        Ok(())
    }
}
