//! Totals over all runs of a suite: their output, the processes they left, and the lines that Bowline could not decode.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline::{Event, Kind, Record};
use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Exit, RawFile, RawSpan};
use bowline_providers::novelty;

use crate::case_failure::short;

const SIGKILL: i32 = 9;

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
    pub(crate) fn enter(&self, case: &str, record: &Record, events: &[Event], asked: usize) {
        let mut sums = self.lock();
        let stopped = record.outcome == Outcome::Cancelled || record.timed_out.is_some();
        sums.completed += u64::from(record.is_completed());
        sums.with_tools += u64::from(record.tools > 0 && !stopped);
        sums.by_themselves += u64::from(!stopped);
        sums.stopped += u64::from(stopped);
        sums.asked += u64::from(asked > 0);
        let stdout = record.journal.as_ref().and_then(|it| std::fs::read(it.join("stdout.raw")).ok());
        for (at, event) in events.iter().enumerate() {
            *sums.kinds.entry(event.kind.type_name().to_owned()).or_default() += 1;
            if let Kind::Unrecognized(line) = &event.kind
                && !is_cut_by_kill(event, &events[at..], stdout.as_deref().unwrap_or_default())
            {
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

/// Returns whether a line has no end because its process was killed with SIGKILL while it wrote. No program can finish a
/// line then.
fn is_cut_by_kill(event: &Event, after: &[Event], stdout: &[u8]) -> bool {
    let Some(RawSpan { file: RawFile::Stdout, end, .. }) = event.raw else { return false };
    // The end-of-line byte is not part of the span. The next byte, if there is one, was written by the next process.
    let ends = usize::try_from(end).ok().and_then(|end| stdout.get(end)).is_some_and(|it| *it == b'\n');
    let reaped = after.iter().find_map(|event| {
        let Kind::ProcessReaped(reaped) = &event.kind else { return None };
        Some(reaped.exit)
    });
    !ends && reaped == Some(Exit::Signal(SIGKILL))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A line from byte 4 to byte 8 of the output, and the end of its process.
    fn check(stdout: &[u8], exit: &str, expected: bool) {
        let line = r#"{"v":1,"seq":1,"at":"2026-11-16T08:00:00Z","session":"s","source":"agent","raw":{"file":"stdout","start":4,"end":8},
            "kind":{"type":"unrecognized","reason":"noise","head":{"text":"{\"a\"","bytes":4}}}"#;
        let reaped = format!(
            r#"{{"v":1,"seq":2,"at":"2026-11-16T08:00:00Z","session":"s","source":"bowline","kind":{{"type":"process_reaped","pid":7,"exit":{exit}}}}}"#
        );
        let events: Vec<Event> =
            [line, &reaped].map(|line| serde_json::from_str(line).expect("it is an event")).into();
        assert_eq!(is_cut_by_kill(&events[0], &events, stdout), expected, "{exit}");
    }

    #[test]
    fn a_line_is_cut_only_if_it_has_no_end_and_its_process_was_killed() {
        check(b"one\n{\"a\"", r#"{"signal":9}"#, true);
        // The next process wrote behind it.
        check(b"one\n{\"a\"{}\n", r#"{"signal":9}"#, true);
        check(b"one\n{\"a\"\n", r#"{"signal":9}"#, false);
        check(b"one\n{\"a\"", r#"{"signal":15}"#, false);
        check(b"one\n{\"a\"", r#"{"code":0}"#, false);
    }
}
