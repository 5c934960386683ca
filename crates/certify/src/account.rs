//! Totals over all runs of a suite: their output, the processes they left, and the lines that Bowline could not decode.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline::{Kind, Record};
use bowline_protocol::kinds::Outcome;
use bowline_providers::novelty;

use crate::case_failure::short;

/// The totals of a suite. Every run of every case adds to them.
#[derive(Debug, Default)]
pub(crate) struct SuiteTotals {
    inner: Mutex<RunTotals>,
}

/// The totals.
#[derive(Clone, Debug)]
pub(crate) struct RunTotals {
    /// Runs that completed.
    pub(crate) completed: u64,
    /// Runs in which a tool was called and which Bowline did not stop.
    pub(crate) with_tools: u64,
    /// Runs that ended without a cancellation or a deadline.
    pub(crate) by_themselves: u64,
    /// Runs that ended by a cancellation or a deadline.
    pub(crate) stopped: u64,
    /// Runs that called the model.
    pub(crate) asked: u64,
    pub(crate) kinds: BTreeMap<String, u64>,
    pub(crate) vocabulary: BTreeSet<String>,
    /// Lines that Bowline could not decode, with their case.
    pub(crate) unrecognized: Vec<String>,
    /// Processes that were alive at the end of a run, with their case.
    pub(crate) survivors: Vec<String>,
    /// How many connections went to anything but this machine, or why that is unknown.
    pub(crate) attempts_to_leave: Result<u64, String>,
    /// Processes that outlived a program which had exited by itself, with their case.
    pub(crate) left_behind: Vec<String>,
}

impl Default for RunTotals {
    fn default() -> Self {
        Self {
            completed: 0,
            with_tools: 0,
            by_themselves: 0,
            stopped: 0,
            asked: 0,
            kinds: BTreeMap::new(),
            vocabulary: BTreeSet::new(),
            unrecognized: Vec::new(),
            survivors: Vec::new(),
            attempts_to_leave: Err("not counted yet".to_owned()),
            left_behind: Vec::new(),
        }
    }
}

impl SuiteTotals {
    /// Adds a finished run that called the model this many times.
    pub(crate) fn enter(&self, case: &str, record: &Record, events: &[bowline::Event], asked: usize) {
        let mut sums = self.lock();
        let stopped = record.outcome == Outcome::Cancelled || record.timed_out.is_some();
        sums.completed += u64::from(record.is_completed());
        sums.with_tools += u64::from(record.tools > 0 && !stopped);
        sums.by_themselves += u64::from(!stopped);
        sums.stopped += u64::from(stopped);
        sums.asked += u64::from(asked > 0);
        for event in events {
            *sums.kinds.entry(event.kind.type_name().to_owned()).or_default() += 1;
            if let Kind::Unrecognized(line) = &event.kind {
                let seen = format!("{case}: {:?}: {}", line.reason, short(&line.head.text));
                sums.unrecognized.push(seen);
            }
        }
        for survivor in &record.survivors {
            sums.survivors.push(format!("{case}: pid {}: {}", survivor.pid, short(&survivor.command)));
        }
        for process in &record.left_behind {
            sums.left_behind.push(format!("{case}: pid {}: {}", process.pid, short(&process.command)));
        }
        if let Some(journal) = &record.journal {
            read_words(&journal.join("stdout.raw"), &mut sums.vocabulary);
        }
    }

    pub(crate) fn sums(&self) -> RunTotals {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, RunTotals> {
        // A case that panicked must not hide the totals of the others.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the field names of a program's output. A line that is not JSON has none.
fn read_words(file: &Path, vocabulary: &mut BTreeSet<String>) {
    let Ok(bytes) = std::fs::read(file) else { return };
    let text = String::from_utf8_lossy(&bytes);
    let mut any = false;
    for line in text.lines() {
        if let Ok(value) = serde_json::from_str(line) {
            any = true;
            novelty::each_path(&value, &mut |path| {
                vocabulary.insert(path.to_owned());
            });
        }
    }
    // The output may be one document over several lines.
    if !any && let Ok(value) = serde_json::from_str(&text) {
        novelty::each_path(&value, &mut |path| {
            vocabulary.insert(path.to_owned());
        });
    }
}
