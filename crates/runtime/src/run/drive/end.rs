//! The end of a run on file: the events still written after a journal error, closing the journal, and dropped runs.

use std::path::Path;
use std::sync::Arc;

use bowline_engine::{Now, RunAction, RunCommand, RunEnd, RunInput, RunStep};
use bowline_protocol::kinds::{Outcome, SessionState};
use bowline_protocol::{Code, Event, Kind};
use bowline_providers::views::Digest;

use super::{ActiveRun, Pending};
use crate::run::failures;
use crate::run::record::Record;
use crate::sessions::journal::{Writer, digest_of};
use crate::system::causes::in_full;
use crate::system::clock;

impl ActiveRun {
    /// Closes the journal and makes the record.
    pub(super) fn finish(&mut self, ended: RunEnd) -> Record {
        let (took, first_seq) = (self.began.elapsed(), self.drive.first_seq);
        let mut dir = None;
        let mut trouble = self.pending.trouble.take();
        // Close the tracker before the journal: if the process is killed in between, the repair still counts the spending.
        let spend = self.drive.spend.take();
        let sum = spend.and_then(|spend| spend.close(&self.digest));
        if let Some(journal) = self.drive.journal.take() {
            dir = Some(journal.dir().to_owned());
            let completed = ended.outcome == Outcome::Completed;
            // An agent that rejects a resume may begin another session. That of the earlier stints is still the one to resume.
            let rejected = ended.failure.as_ref().is_some_and(|it| it.code == Code::SessionNotFound);
            let native = self.digest.native_session().filter(|_| first_seq == 1 || !rejected).cloned();
            // Delete the files before the session is marked as over: no later cleanup looks at a finished session.
            drop(std::mem::take(&mut self.drive.side_files));
            let version = self.digest.version().map(str::to_owned);
            let changed = self.drive.engine.options().cloned().unwrap_or_default();
            let closed = journal.close_with(|meta| {
                meta.state = if completed { SessionState::Completed } else { SessionState::Failed };
                meta.note_native(native);
                meta.changed_options(&changed);
                // The version that the program reports during the run is newer than the probed one.
                meta.provider_version = version.or(meta.provider_version.take());
            });
            if let Err(error) = closed {
                tracing::warn!(error = &error as &dyn std::error::Error, "the journal was not closed well");
                trouble.get_or_insert(error);
            }
        }
        let digest = std::mem::take(&mut self.digest);
        let numbers = (first_seq, self.drive.engine.numbering());
        let mut record = Record::new(self.drive.session.clone(), dir, digest, numbers, ended, took);
        if let Some((sum, unwritten)) = sum {
            (record.cost, record.cost_basis) = (sum.cost, Some(sum.basis));
            record.ledger_failure = unwritten.map(|error| in_full(&error));
        }
        record.journal_failure = trouble.as_ref().map(failures::of_journal);
        if let Some(dir) = record.journal.take_if(|dir| self.drive.cleanup.covers(dir)) {
            // This journal is deleted with the run, so copy text that is only there.
            if !record.digest.is_whole()
                && let Some(whole) = last_words(&dir, first_seq)
            {
                record.text = whole.text();
                record.digest = Arc::new(whole);
            }
        }
        record
    }
}

impl Drop for ActiveRun {
    /// Dropping the future of a run kills its agent. The journal records the end.
    fn drop(&mut self) {
        let Some(journal) = &mut self.drive.journal else { return };
        // The engine may be in the middle of a step. The next run repairs this journal.
        if std::thread::panicking() {
            return;
        }
        let (mut step, up) = (RunStep::default(), super::up(self.began));
        let now = Now { wall: clock::wall(), up };
        self.drive.engine.handle(RunInput::Command(RunCommand::Kill), now, &mut step);
        let written = journal.events(&step.events);
        let ended = step.actions.into_iter().find_map(|action| {
            let RunAction::Done(ended) = action else { return None };
            Some(*ended)
        });
        if let (Ok(()), Some(ended)) = (written, ended) {
            // There was no agent to wait for yet.
            step.events.iter().for_each(|event| self.digest.event(event));
            self.finish(ended);
            return;
        }
        // The router may keep the lock for a retry, so the repair goes by the same lock. The agent is being killed, and its last
        // output is not read.
        let hold = journal.hold();
        drop(std::mem::take(&mut self.drive.side_files));
        self.drive.journal = None;
        match hold.repair(now.wall) {
            Ok(repaired) => repaired.appended.iter().for_each(|event| self.digest.event(event)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(session = %self.drive.session, error, "the end of a dropped run is not on file");
            }
        }
        if let Some(spend) = self.drive.spend.take() {
            spend.close(&self.digest);
        }
    }
}

/// Reads an answer that was too long for memory from a journal that is about to be deleted.
fn last_words(dir: &Path, first_seq: u64) -> Option<Digest> {
    match digest_of(dir, first_seq) {
        Ok(whole) => Some(whole),
        Err(_) => {
            // Do not log the error: it quotes the damaged line, which is part of the conversation.
            tracing::warn!("an answer that was too long for memory could not be read back from the journal");
            None
        }
    }
}

/// Appends the events of the end to the journal, and returns them as subscribers may see them.
pub(super) fn write(journal: &mut Writer, mut events: Vec<Event>, pending: &mut Pending) -> Vec<Event> {
    let all = events.len();
    // The agent may print until it is killed. The reserved space is not for its output.
    events.retain(|event| is_of_the_end(&event.kind));
    pending.lost += (all - events.len()) as u64;
    if events.is_empty() {
        return events;
    }
    // `closing` counts the lost events by the distance to the last number on file, and writes them as a `gap`.
    let first = journal.last_seq() + 1 + pending.lost;
    for (event, seq) in events.iter_mut().zip(first..) {
        event.seq = seq;
    }
    if !pending.given_up {
        match journal.closing(events.clone()) {
            Ok(written) => {
                pending.lost = 0;
                return written;
            }
            Err(error) => {
                pending.given_up = true;
                tracing::error!(error = &error as &dyn std::error::Error, "the end is not in the journal");
                pending.trouble.get_or_insert(error);
            }
        }
    }
    pending.lost += events.len() as u64;
    events
}

/// Returns whether events of this kind describe the end of a run.
fn is_of_the_end(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::TurnStarted(_)
            | Kind::TurnEnded(_)
            | Kind::SessionStateChanged(_)
            | Kind::SessionEnded(_)
            | Kind::ProcessSpawned(_)
            | Kind::ProcessReaped(_)
            | Kind::ProcessLeaked(_)
            | Kind::FallbackTaken(_)
            | Kind::FilesTouched(_)
            | Kind::Notice(_)
    )
}
