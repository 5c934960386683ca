//! The router's memory between requests: failures, latencies, and the last turn. The caller stores it in a file.

use std::collections::BTreeMap;

use bowline_protocol::{Failure, Millis, Timestamp};
use serde::{Deserialize, Serialize};

use crate::breaker::{Breaker, BreakerState};

/// The version of the format.
const FORM: u32 = 1;

/// The most entries to keep.
const MOST: usize = 512;

/// The weight of the latest measurement.
const WEIGHT: f64 = 0.3;

/// The memory of the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteMemory {
    v: u32,
    /// The candidate that had the last turn, for round-robin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Entries by provider, profile and model.
    #[serde(default)]
    entries: BTreeMap<String, MemoryEntry>,
}

impl Default for RouteMemory {
    fn default() -> Self {
        Self { v: FORM, last: None, entries: BTreeMap::new() }
    }
}

/// The memory of one provider, profile and model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryEntry {
    /// Its circuit breaker.
    pub breaker: Breaker,
    /// The average time to the first output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// When it was last used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Returns the key of an entry.
pub fn key(provider: &str, profile: Option<&str>, model: Option<&str>) -> String {
    let mut key = provider.to_owned();
    if let Some(profile) = profile {
        key.push('@');
        key.push_str(profile);
    }
    if let Some(model) = model {
        key.push('#');
        key.push_str(model);
    }
    key
}

impl RouteMemory {
    /// Returns whether this version can read the format.
    pub fn is_known(&self) -> bool {
        self.v == FORM
    }

    /// Returns the state of a candidate's breaker.
    pub fn state(&self, key: &str, now: Timestamp) -> BreakerState {
        self.entries.get(key).map_or(BreakerState::Closed, |entry| entry.breaker.state(now))
    }

    /// Forgets probing requests whose sender is gone.
    pub fn forget_gone(&mut self, is_there: impl Fn(&str) -> bool) {
        self.entries.values_mut().for_each(|entry| entry.breaker.forget_gone(&is_there));
    }

    /// Returns the average time to the first output.
    pub fn latency(&self, key: &str) -> Option<Millis> {
        self.entries.get(key)?.latency_ms.map(|millis| Millis(millis.round() as u64))
    }

    /// Records which candidate has its turn, so that the next one follows.
    pub fn takes_turn(&mut self, name: &str) {
        self.last = Some(name.to_owned());
    }

    /// Records that a process sends a request to a candidate.
    pub fn sent(&mut self, key: &str, by: &str, now: Timestamp) {
        self.entry(key, now).breaker.sent(by, now);
    }

    /// Records that a candidate answered, and its time to the first output.
    pub fn answered(&mut self, key: &str, first_word: Option<Millis>, now: Timestamp) {
        let entry = self.entry(key, now);
        entry.breaker.answered();
        if let Some(Millis(millis)) = first_word {
            // An exponential average: one slow start does not move a candidate behind all others.
            let before = entry.latency_ms.unwrap_or(millis as f64);
            entry.latency_ms = Some(before + WEIGHT * (millis as f64 - before));
        }
    }

    /// Records that a candidate failed.
    pub fn failed(&mut self, key: &str, failure: &Failure, now: Timestamp) {
        self.entry(key, now).breaker.failed(failure, now);
    }

    /// Records that the caller cancelled the request.
    pub fn abandoned(&mut self, key: &str, now: Timestamp) {
        self.entry(key, now).breaker.abandoned();
    }

    fn entry(&mut self, key: &str, now: Timestamp) -> &mut MemoryEntry {
        if self.entries.len() >= MOST && !self.entries.contains_key(key) {
            // Forget the entry that was used longest ago; keep entries with an active breaker as long as possible.
            let oldest = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| (!entry.breaker.is_quiet(now), entry.at))
                .map(|(key, _)| key.clone());
            oldest.and_then(|key| self.entries.remove(&key));
        }
        let entry = self.entries.entry(key.to_owned()).or_default();
        entry.at = Some(now);
        entry
    }
}
