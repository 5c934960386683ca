//! The usage of a run so far, published for other runs, and the usage of those.
//!
//! A run updates both a few times a second, and only when something happens or a day or a project has a limit. A run that ends
//! sooner writes its line and nothing else. The process that finds the published usage of a killed run writes its line.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use bowline_engine::Session;
use bowline_engine::budget::{Amounts, BudgetScope};
use bowline_protocol::Millis;

use super::ledger::{Ledger, Line, Tally, session_of};
use super::today;
use crate::sessions::journal::Home;
use crate::system::clock;
use crate::system::host;

/// The time between two updates.
const PAUSE: Millis = Millis(250);

/// The same without a limit on a sum: then only processes with other settings read it, and hundreds of runs may share a process.
const LONG_PAUSE: Millis = Millis(5_000);

/// One run among others.
#[derive(Debug)]
pub(super) struct Running {
    ledger: Ledger,
    /// Its published line, with the amounts of the last update.
    line: Line,
    /// The lock, held after the first update until the run ends.
    lock: Option<File>,
    /// The sums with a limit, as of the last update.
    tallies: Vec<(BudgetScope, Tally, Amounts)>,
    /// When the next update is due, and whether there is anything new to publish.
    next: Millis,
    due: bool,
    /// The first error of publishing or reading.
    trouble: Option<io::Error>,
}

impl Running {
    pub(super) fn new(ledger: Ledger, line: Line, tallies: Vec<(BudgetScope, Tally, Amounts)>) -> Self {
        Self { ledger, line, lock: None, tallies, next: PAUSE, due: false, trouble: None }
    }

    /// Returns its line, to name it before the first update.
    pub(super) fn line(&mut self) -> &mut Line {
        &mut self.line
    }

    /// Returns when the next update is due.
    pub(super) fn deadline(&self) -> Option<Millis> {
        (self.due || !self.tallies.is_empty()).then_some(self.next)
    }

    /// Publishes the usage of a run, and returns the usage of other runs if it changed.
    pub(super) fn look(&mut self, run: &Session, up: Millis) -> Option<Vec<(BudgetScope, Amounts)>> {
        self.due = up < self.next;
        if self.due {
            return None;
        }
        self.next = up.plus(if self.tallies.is_empty() { LONG_PAUSE } else { PAUSE });
        let looked = self.tell(run).and_then(|()| self.others());
        looked.unwrap_or_else(|error| {
            if self.trouble.is_none() {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not share the spending of running sessions");
            }
            self.trouble.get_or_insert(error);
            None
        })
    }

    fn tell(&mut self, run: &Session) -> io::Result<()> {
        let sum = run.spent();
        let (cost, tokens) = (sum.cost, sum.usage.total());
        if (cost, tokens) == (self.line.cost_usd, self.line.tokens) {
            return Ok(());
        }
        let Some(id) = self.line.id() else { return Ok(()) };
        // Lock before the first publication: another process takes a published usage with a free lock for that of a killed
        // run.
        if self.lock.is_none() {
            let path = self.ledger.running_lock(id);
            path.parent().map_or(Ok(()), host::private_dir)?;
            let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
            if let Err(error) = lock.try_lock() {
                // Where files cannot be locked, other processes cannot check the lock either, and do not take this run for a killed one.
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

    fn others(&mut self) -> io::Result<Option<Vec<(BudgetScope, Amounts)>>> {
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

    /// Returns the first error, once.
    pub(super) fn trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }
}

impl Drop for Running {
    /// Removes the published usage of a run that has ended and has its line.
    fn drop(&mut self) {
        if let (Some(lock), Some(id)) = (self.lock.take(), self.line.id()) {
            forget(&self.ledger, id);
            // Closing alone would not free it, while a child of another thread is between fork and exec.
            let _ = lock.unlock();
        }
    }
}

/// Removes the published usage of a run. The lock file goes last: a process that gets the lock finds the rest gone.
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

/// Returns whether there are published usages, of current or killed runs.
pub(crate) fn is_being_spent(home: &Home) -> bool {
    // Ignore the error here: a run with a budget reports it.
    Ledger::of(home).running_ids().is_ok_and(|ids| !ids.is_empty())
}

/// Writes the lines of killed runs without a journal. The sessions in the list have a journal, and are repaired from it.
pub(crate) fn sweep(home: &Home, unfinished: &HashSet<String>) -> io::Result<()> {
    let ledger = Ledger::of(home);
    for id in ledger.running_ids()?.into_iter().filter(|id| !unfinished.contains(session_of(id))) {
        let lock = match File::open(ledger.running_lock(&id)) {
            Ok(lock) if lock.try_lock().is_err() => continue,
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // Check again now: the run that held the lock may have ended meanwhile and written its line.
        if let Some(line) = ledger.running_line(&id) {
            // The run may have been killed after it wrote its line, and before it removed this file.
            if !ledger.has(&id)? {
                ledger.add(&line)?;
            }
            forget(&ledger, &id);
        }
        drop(lock);
    }
    Ok(())
}
