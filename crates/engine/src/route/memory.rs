//! What is remembered between requests: who failed, who is slow, whose turn it is. Kept in a file by somebody else.

use std::collections::BTreeMap;

use bowline_protocol::{Failure, Millis, Timestamp};
use serde::{Deserialize, Serialize};

use crate::breaker::{Breaker, State};

/// The version of the form.
const FORM: u32 = 1;

/// The most providers, profiles and models that are remembered.
const MOST: usize = 512;

/// How much the latest measurement counts.
const WEIGHT: f64 = 0.3;

/// All that is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    v: u32,
    /// Whose turn it was last, where they take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// By provider, profile and model.
    #[serde(default)]
    entries: BTreeMap<String, Entry>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { v: FORM, last: None, entries: BTreeMap::new() }
    }
}

/// What is remembered of one provider, profile and model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Whether it is left alone.
    pub breaker: Breaker,
    /// How long it takes to the first word, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// When it was last asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Returns the name under which something is remembered.
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

impl Memory {
    /// Says whether it was written in a form that this version reads.
    pub fn is_known(&self) -> bool {
        self.v == FORM
    }

    /// Returns whether somebody is left alone.
    pub fn state(&self, key: &str, now: Timestamp) -> State {
        self.entries.get(key).map_or(State::Closed, |entry| entry.breaker.state(now))
    }

    /// Forgets requests that try, where whoever sent them is gone.
    pub fn forget_gone(&mut self, is_there: impl Fn(&str) -> bool) {
        self.entries.values_mut().for_each(|entry| entry.breaker.forget_gone(&is_there));
    }

    /// Returns how long somebody takes to the first word.
    pub fn latency(&self, key: &str) -> Option<Millis> {
        self.entries.get(key)?.latency_ms.map(|millis| Millis(millis.round() as u64))
    }

    /// Says whose turn it is, so that the next one comes next.
    pub fn takes_turn(&mut self, name: &str) {
        self.last = Some(name.to_owned());
    }

    /// Says that somebody is asked, and by whom.
    pub fn sent(&mut self, key: &str, by: &str, now: Timestamp) {
        self.entry(key, now).breaker.sent(by, now);
    }

    /// Says that somebody answered, and how long the first word took.
    pub fn answered(&mut self, key: &str, first_word: Option<Millis>, now: Timestamp) {
        let entry = self.entry(key, now);
        entry.breaker.answered();
        if let Some(Millis(millis)) = first_word {
            let before = entry.latency_ms.unwrap_or(millis as f64);
            entry.latency_ms = Some(before + WEIGHT * (millis as f64 - before));
        }
    }

    /// Says that somebody failed.
    pub fn failed(&mut self, key: &str, failure: &Failure, now: Timestamp) {
        self.entry(key, now).breaker.failed(failure, now);
    }

    /// Says that nobody waited for the answer.
    pub fn abandoned(&mut self, key: &str, now: Timestamp) {
        self.entry(key, now).breaker.abandoned();
    }

    fn entry(&mut self, key: &str, now: Timestamp) -> &mut Entry {
        if self.entries.len() >= MOST && !self.entries.contains_key(key) {
            // Whoever was asked longest ago is forgotten, those who are left alone last.
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
