//! A reader of journals that shares no code with the one that is tested: it knows only the form of the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The journal of a session that has ended.
pub(crate) struct Journal {
    pub(crate) dir: PathBuf,
    pub(crate) events: Vec<Value>,
}

impl Journal {
    /// Reads every session of a data home.
    pub(crate) fn all(home: &Path) -> Vec<Self> {
        let Ok(sessions) = std::fs::read_dir(home.join("sessions")) else { return Vec::new() };
        let mut dirs: Vec<PathBuf> = sessions.map(|entry| entry.expect("an entry").path()).collect();
        dirs.sort();
        dirs.into_iter().map(Self::open).collect()
    }

    fn open(dir: PathBuf) -> Self {
        let text = std::fs::read_to_string(dir.join("events.jsonl")).expect("the events");
        assert!(text.is_empty() || text.ends_with('\n'), "the last line is complete");
        let events = text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        Self { dir, events }
    }

    /// Checks what is true of every journal: numbers, turns, the end, spans and the index.
    #[track_caller]
    pub(crate) fn check(&self) -> &Self {
        let mut open = BTreeMap::new();
        for (event, expected) in self.events.iter().zip(1..) {
            assert_eq!(event["seq"].as_u64(), Some(expected), "the numbers are gapless: {event}");
            let (turn, kind) = (event["turn"].as_u64(), kind(event));
            match kind {
                "turn_started" => {
                    assert!(open.values().all(|ends| *ends == 1), "a turn began in a turn: {event}");
                    assert_eq!(open.insert(turn, 0), None, "a turn began twice: {event}");
                }
                "turn_ended" => *open.get_mut(&turn).expect("the turn had begun") += 1,
                _ => {}
            }
            self.check_span(&event["raw"]);
            self.check_span(&event["kind"]["failure"]["raw"]);
        }
        assert!(!open.is_empty() && open.values().all(|ends| *ends == 1), "turns and their ends: {open:?}");
        let stints = self.events.iter().filter(|event| is_stint_start(event)).count();
        let ends = self.events.iter().filter(|event| kind(event) == "session_ended").count();
        assert_eq!(
            (ends, self.events.last().map(kind)),
            (stints.max(1), Some("session_ended")),
            "the end is the last word of each stint"
        );
        for pair in self.events.windows(2).filter(|pair| kind(&pair[0]) == "session_ended") {
            assert!(is_stint_start(&pair[1]), "another runner begins with its start: {}", pair[1]);
        }
        self.check_index();
        self
    }

    fn check_span(&self, span: &Value) {
        let Some(file) = span["file"].as_str() else { return };
        let (start, end) = (span["start"].as_u64().expect("a start"), span["end"].as_u64().expect("an end"));
        assert!(start <= end && end <= self.raw_len(file), "{span} is not in {file}");
    }

    /// Every byte of the raw files has one record, in order.
    fn check_index(&self) {
        // An agent that never said or got anything has no index.
        let header = || [&b"BOWLNIDX"[..], &[0; 24]].concat();
        let index = std::fs::read(self.dir.join("io.index")).unwrap_or_else(|_| header());
        assert_eq!((&index[..8], index.len() % 32), (&b"BOWLNIDX"[..], 0), "records of one size");
        let mut ends = [0_u64; 5];
        for record in index.chunks(32).skip(1) {
            let number = |from: usize, to: usize| {
                record[from..to].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
            };
            let stream = usize::from(record[20]);
            assert_eq!(number(8, 16), ends[stream], "stream {stream} has no hole");
            ends[stream] += number(16, 20);
        }
        for (name, stream) in [("stdout", 1), ("stderr", 2), ("stdin", 3), ("pty", 4)] {
            assert_eq!(self.raw_len(name), ends[stream], "the length of {name}");
        }
    }

    fn raw_len(&self, name: &str) -> u64 {
        std::fs::metadata(self.dir.join(format!("{name}.raw"))).map_or(0, |it| it.len())
    }

    /// Returns the bytes of a raw file; none if there is no such file.
    pub(crate) fn raw(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.join(format!("{name}.raw"))).unwrap_or_default()
    }

    /// Returns the events of a kind.
    pub(crate) fn of(&self, wanted: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| kind(event) == wanted).collect()
    }

    pub(crate) fn count(&self, wanted: &str) -> usize {
        self.of(wanted).len()
    }

    /// Returns all that was said.
    pub(crate) fn text(&self) -> String {
        self.of("text_delta").iter().filter_map(|event| event["kind"]["text"].as_str()).collect()
    }

    /// Returns how the last turn ended: outcome, category and code of its failure.
    #[track_caller]
    pub(crate) fn outcome(&self) -> (String, Option<String>, Option<String>) {
        let ended = &self.of("turn_ended").pop().expect("a turn ended")["kind"];
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let failure = &ended["failure"];
        (word(&ended["outcome"]).expect("an outcome"), word(&failure["category"]), word(&failure["code"]))
    }

    /// Checks how the last turn ended, as `outcome` or `outcome category code`.
    #[track_caller]
    pub(crate) fn ended(&self, expect: &str) -> &Self {
        let (outcome, category, code) = self.outcome();
        let words: Vec<String> = [Some(outcome), category, code].into_iter().flatten().collect();
        assert_eq!(words.join(" "), expect);
        self
    }

    /// Returns the time between two events in milliseconds.
    #[track_caller]
    pub(crate) fn between(&self, from: impl Fn(&Value) -> bool, to: impl Fn(&Value) -> bool) -> i128 {
        let to = self.events.iter().rfind(|event| to(event)).expect("the second event");
        self.until(from, time(to))
    }

    /// Returns the time from an event to a moment in milliseconds.
    #[track_caller]
    pub(crate) fn until(&self, from: impl Fn(&Value) -> bool, to: jiff::Timestamp) -> i128 {
        let from = self.events.iter().find(|event| from(event)).expect("the first event");
        to.duration_since(time(from)).as_millis()
    }
}

fn time(event: &Value) -> jiff::Timestamp {
    event["at"].as_str().expect("a time").parse().expect("a time")
}

/// Returns whether an event is the first one of a runner.
pub(crate) fn is_stint_start(event: &Value) -> bool {
    kind(event) == "session_started" && event["source"] == "bowline"
}

/// Returns the kind of an event.
pub(crate) fn kind(event: &Value) -> &str {
    event["kind"]["type"].as_str().expect("a kind")
}

/// Returns whether an event tells that the answer is complete.
pub(crate) fn is_answered(event: &Value) -> bool {
    kind(event) == "turn_ended"
}

/// Returns whether an event tells that the run is being stopped.
pub(crate) fn is_stopping(event: &Value) -> bool {
    kind(event) == "session_state_changed" && event["kind"]["state"] == "stopping"
}

/// Returns whether an event tells that the agent's process is gone.
pub(crate) fn is_reaped(event: &Value) -> bool {
    kind(event) == "process_reaped"
}
