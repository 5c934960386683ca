//! The end of a run on file: what is still written once the journal has refused something, and what is left to do
//! when nothing is written any more.

use std::path::Path;
use std::sync::Arc;

use bowline_engine::{Action, Command, Ended, Input, Now, Step};
use bowline_protocol::kinds::{Outcome, SessionState};
use bowline_protocol::{Event, Kind};
use bowline_providers::views::Digest;

use super::{Driving, Pending};
use crate::journal::{self, Writer};
use crate::record::Record;
use crate::{clock, launch, trouble};

impl Driving {
    /// Closes the journal and makes the record.
    pub(super) fn finish(&mut self, ended: Ended) -> Record {
        let took = self.began.elapsed();
        let mut dir = None;
        let mut trouble = self.pending.trouble.take();
        // Before the session is over for others: who is killed in between has not forgotten it.
        let account = self.drive.account.take();
        let sum = account.and_then(|account| account.close(&self.digest));
        if let Some(journal) = self.drive.journal.take() {
            dir = Some(journal.dir().to_owned());
            let completed = ended.outcome == Outcome::Completed;
            let native = self.digest.native_session().cloned();
            // Once the session is over for others, nobody looks for what it leaves.
            drop(std::mem::take(&mut self.drive.side_files));
            let version = self.digest.version().map(str::to_owned);
            let closed = journal.close_with(|meta| {
                meta.state = if completed { SessionState::Completed } else { SessionState::Failed };
                meta.native_session = native.or(meta.native_session.take());
                // What it says while it runs is newer than what it said when it was asked.
                meta.provider_version = version.or(meta.provider_version.take());
            });
            if let Err(error) = closed {
                tracing::warn!(error = &error as &dyn std::error::Error, "the journal was not closed well");
                trouble.get_or_insert(error);
            }
        }
        let mut record =
            Record::new(self.drive.session.clone(), dir, std::mem::take(&mut self.digest), ended, took);
        if let Some((sum, unwritten)) = sum {
            (record.cost, record.cost_basis) = (sum.cost, Some(sum.basis));
            record.ledger_failure = unwritten.map(|error| error.to_string());
        }
        record.journal_failure = trouble.as_ref().map(trouble::of_journal);
        if let Some(dir) = record.journal.take_if(|dir| self.drive.cleanup.covers(dir)) {
            // It goes with the run, so what is only there has to be taken along.
            if !record.digest.is_whole()
                && let Some(whole) = last_words(&dir)
            {
                record.text = whole.text();
                record.digest = Arc::new(whole);
            }
        }
        record
    }
}

impl Drop for Driving {
    /// Whoever drops the future of a run wants no more of it. Its agent ends with it; its journal says that it ended.
    fn drop(&mut self) {
        let Some(journal) = &mut self.drive.journal else { return };
        if std::thread::panicking() {
            return;
        }
        let (mut step, up) = (Step::default(), super::up(self.began));
        let now = Now { wall: clock::wall(), up };
        self.drive.run.handle(Input::Command(Command::Kill), now, &mut step);
        let written = journal.events(&step.events);
        let ended = step.actions.into_iter().find_map(|action| match action {
            Action::Done(ended) => Some(*ended),
            Action::Prepare
            | Action::Spawn(_)
            | Action::Write(_)
            | Action::CloseStdin
            | Action::Signal(..)
            | Action::KillTree
            | Action::Sweep(_)
            | Action::LookAtFiles => None,
        });
        if let (Ok(()), Some(ended)) = (written, ended) {
            // Nobody was there yet who would have to be waited for.
            step.events.iter().for_each(|event| self.digest.event(event));
            self.finish(ended);
            return;
        }
        let dir = journal.dir().to_owned();
        drop(std::mem::take(&mut self.drive.side_files));
        // The lock goes with it. The agent is being ended, and nobody waits for its last words.
        self.drive.journal = None;
        match journal::repair(&dir, now.wall) {
            Ok(repaired) => repaired.appended.iter().for_each(|event| self.digest.event(event)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(session = %self.drive.session, error, "the end of a dropped run is not on file");
            }
        }
        if let Some(account) = self.drive.account.take() {
            account.close(&self.digest);
        }
    }
}

/// Reads an answer that was too long to be held, from a journal that is about to go.
fn last_words(dir: &Path) -> Option<Digest> {
    match launch::digest_from_journal(dir) {
        Ok(whole) => Some(whole),
        Err(_) => {
            // Without the error: what is damaged is quoted in it, and that is what somebody said.
            tracing::warn!("an answer that was too long for memory could not be read back from the journal");
            None
        }
    }
}

/// Writes what says how a run ended behind what is on file, and returns it as it can be shown.
pub(super) fn write(journal: &mut Writer, mut events: Vec<Event>, pending: &mut Pending) -> Vec<Event> {
    let all = events.len();
    // An agent may go on for as long as it takes to end it; the room that is kept is not for what it says.
    events.retain(|event| is_of_the_end(&event.kind));
    pending.lost += (all - events.len()) as u64;
    if events.is_empty() {
        return events;
    }
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

/// Says whether events of this kind tell how a run ended.
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
