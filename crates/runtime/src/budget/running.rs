//! What a run has used so far, where others see it while it runs, and what those others use.
//!
//! Both are looked at a few times a second, and only when something happens or somebody limits a day or a project. A
//! run that is over sooner than that writes its line and nothing else. What a killed run had told is written down by whoever
//! finds it.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use bowline_engine::Run;
use bowline_engine::budget::{Amounts, Extent};
use bowline_protocol::Millis;

use super::ledger::{Ledger, Line, Tally};
use super::today;
use crate::journal::Home;
use crate::{clock, host};

/// How long after one look the next one is.
const PAUSE: Millis = Millis(250);

/// The same where nobody limits a sum: who looks at it then has other settings, and hundreds may run in one process.
const LONG_PAUSE: Millis = Millis(5_000);

/// One run among others.
#[derive(Debug)]
pub(super) struct Running {
    ledger: Ledger,
    /// What is told of it; the amounts are those that were told last.
    line: Line,
    /// Held as long as it lives, once something was told.
    lock: Option<File>,
    /// The sums that somebody limits, as they were last.
    tallies: Vec<(Extent, Tally, Amounts)>,
    /// When the next look is, and whether there is anything new to tell then.
    next: Millis,
    due: bool,
    /// What kept us from telling or from looking. The first is the one that counts.
    trouble: Option<io::Error>,
}

impl Running {
    pub(super) fn new(ledger: Ledger, line: Line, tallies: Vec<(Extent, Tally, Amounts)>) -> Self {
        Self { ledger, line, lock: None, tallies, next: PAUSE, due: false, trouble: None }
    }

    /// Returns when it has to be looked at.
    pub(super) fn deadline(&self) -> Option<Millis> {
        (self.due || !self.tallies.is_empty()).then_some(self.next)
    }

    /// Tells others what a run has used, and returns what they have used, if that is news.
    pub(super) fn look(&mut self, run: &Run, up: Millis) -> Option<Vec<(Extent, Amounts)>> {
        self.due = up < self.next;
        if self.due {
            return None;
        }
        self.next = up.plus(if self.tallies.is_empty() { LONG_PAUSE } else { PAUSE });
        let looked = self.tell(run).and_then(|()| self.others());
        looked.unwrap_or_else(|error| {
            if self.trouble.is_none() {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "what is being spent cannot be told or read");
            }
            self.trouble.get_or_insert(error);
            None
        })
    }

    fn tell(&mut self, run: &Run) -> io::Result<()> {
        let sum = run.spent();
        let (cost, tokens) = (sum.cost, sum.usage.total());
        if (cost, tokens) == (self.line.cost_usd, self.line.tokens) {
            return Ok(());
        }
        let Some(id) = self.line.id() else { return Ok(()) };
        if self.lock.is_none() {
            let path = self.ledger.running_lock(id);
            path.parent().map_or(Ok(()), host::private_dir)?;
            let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
            if let Err(error) = lock.try_lock() {
                // Where nothing can be locked, nobody can look either, and nobody takes it for a killed one.
                tracing::debug!(error = &error as &dyn std::error::Error, "a run could not be locked");
            }
            self.lock = Some(lock);
        }
        let at = clock::wall();
        let model = run.model().map(str::to_owned).or_else(|| self.line.model.clone());
        let line =
            Line { day: today(at), at, model, cost_usd: cost, basis: sum.basis, tokens, ..self.line.clone() };
        host::replace_file(&self.ledger.running_file(id), &serde_json::to_vec(&line)?)?;
        self.line = line;
        Ok(())
    }

    fn others(&mut self) -> io::Result<Option<Vec<(Extent, Amounts)>>> {
        if self.tallies.is_empty() {
            return Ok(None);
        }
        let running = self.ledger.running(self.line.id())?;
        let mut news = Vec::new();
        for (extent, tally, known) in &mut self.tallies {
            let amounts = tally.look(&self.ledger, &running)?;
            if amounts != *known {
                *known = amounts;
                news.push((*extent, amounts));
            }
        }
        Ok(Some(news).filter(|news| !news.is_empty()))
    }

    /// Says what went wrong, once.
    pub(super) fn trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }
}

impl Drop for Running {
    /// It is over, and has its line if it has used anything.
    fn drop(&mut self) {
        if let (Some(lock), Some(id)) = (self.lock.take(), self.line.id()) {
            forget(&self.ledger, id);
            // Closing alone would not free it, while a child of another thread is between fork and exec.
            let _ = lock.unlock();
        }
    }
}

/// Takes away what a run had told while it ran. The lock goes last: who has it finds the rest gone.
pub(super) fn forget(ledger: &Ledger, id: &str) {
    for path in [ledger.running_file(id), ledger.running_lock(id)] {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(path = %path.display(), error, "could not be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Says whether there are runs that tell what they use, or did so before they were killed.
pub(crate) fn is_being_spent(home: &Home) -> bool {
    // What cannot be listed is told of by whoever has a budget.
    Ledger::of(home).running_ids().is_ok_and(|ids| !ids.is_empty())
}

/// Writes down what killed runs had told that have no journal to be read. The sessions in the list have one, and are put in
/// order by it.
pub(crate) fn sweep(home: &Home, unfinished: &HashSet<String>) -> io::Result<()> {
    let ledger = Ledger::of(home);
    for id in ledger.running_ids()?.into_iter().filter(|id| !unfinished.contains(id)) {
        let lock = match File::open(ledger.running_lock(&id)) {
            Ok(lock) if lock.try_lock().is_err() => continue,
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // Only now: whoever had the lock may have ended meanwhile, and written its line.
        if let Some(line) = ledger.running_line(&id) {
            if !ledger.has(&id)? {
                ledger.add(&line)?;
            }
            forget(&ledger, &id);
        }
        drop(lock);
    }
    Ok(())
}
