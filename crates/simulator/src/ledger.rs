//! The ledger: every request, how the simulator understood it, and what it served.
//!
//! An entry is created when a request has been read, and finished when the response is sent or the client has left. The
//! file gets finished entries only, one on each line, so a line never changes.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::address::ApiOperation;
use crate::apis::{ParsedRequest, RequestImage, ResponseShape};
use crate::pick::{PickedBy, SidePurpose};
use crate::reply;
use crate::scenario::{FaultKind, Usage};

/// A request and its result.
#[derive(Clone, Debug, Serialize)]
pub struct LedgerEntry {
    /// The number of the request, from 1.
    pub seq: u64,
    /// When it was read.
    pub at: Timestamp,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The method.
    pub method: String,
    /// The path with its query; a key in it is masked.
    pub path: String,
    /// The route, which names the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The headers, in order; secrets are masked.
    pub headers: Vec<(String, String)>,
    /// The operation.
    pub operation: ApiOperation,
    /// The facts of the request, in terms that all APIs share. Absent if the request is not for an answer of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<RequestFacts>,
    /// The whole body: as JSON, or as a string if it is not JSON.
    pub body: Arc<Value>,
    /// The scenario that answered. Absent if the request is not for an answer of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<ScenarioChoice>,
    /// The tools that the answer calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<String>,
    /// The status that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The usage that the client received; absent if the response did not reach its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How it ended.
    pub outcome: RequestOutcome,
}

/// The facts of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestFacts {
    /// The model.
    pub model: Option<String>,
    /// Whether the answer is streamed, and how.
    pub shape: ResponseShape,
    /// The requested effort, in the program's word.
    pub effort: Option<String>,
    /// The settings for thinking, as sent.
    pub thinking: Option<Value>,
    /// The limit of tokens for the answer.
    pub max_tokens: Option<u64>,
    /// The system prompt.
    pub system: String,
    /// The names of the offered tools.
    pub tools: Vec<String>,
    /// The user's messages, in order, without the tagged remarks that programs put before and after them.
    pub users: Vec<String>,
    /// The number of the model's answers in the conversation.
    pub answers: usize,
    /// The images.
    pub images: Vec<RequestImage>,
    /// The schema for the answer.
    pub schema: Option<Value>,
    /// The id of the earlier response that this one follows.
    pub previous: Option<String>,
}

impl RequestFacts {
    pub(crate) fn of(asked: &ParsedRequest) -> Self {
        Self {
            model: asked.model.clone(),
            shape: asked.shape,
            effort: asked.effort.clone(),
            thinking: asked.thinking.clone(),
            max_tokens: asked.max_tokens,
            system: asked.system.clone(),
            tools: asked.tools.iter().map(|tool| tool.name.clone()).collect(),
            users: reply::users(asked).map(str::to_owned).collect(),
            answers: crate::pick::answers(&asked.said),
            images: asked.images.clone(),
            schema: asked.schema.clone(),
            previous: asked.previous.clone(),
        }
    }
}

/// The scenario of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScenarioChoice {
    /// The scenario.
    pub scenario: String,
    /// The source of its name.
    pub picked_by: PickedBy,
    /// The step, from 1. Absent for side requests, which no scenario answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The purpose of a side request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<SidePurpose>,
    /// The fault that was played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultKind>,
    /// Whether there is no such scenario; the simulator then returned an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestOutcome {
    /// It is in progress.
    Open,
    /// The whole response was sent.
    Sent,
    /// The simulator broke it off, as the scenario requires.
    BrokenOff,
    /// The client left before the end.
    ClientLeft,
    /// The simulator was stopped.
    Stopped,
}

/// Notifications of the simulator.
#[derive(Clone, Debug)]
pub enum LedgerNews {
    /// A request is over.
    Over(Box<LedgerEntry>),
    /// The ledger's file could not be written; the simulator writes no more to it.
    LedgerLost(String),
}

/// All entries, and where they go.
#[derive(Debug)]
pub(crate) struct Ledger {
    inner: Mutex<LedgerState>,
}

#[derive(Debug)]
struct LedgerState {
    entries: Vec<LedgerEntry>,
    file: Option<File>,
    watcher: Option<UnboundedSender<LedgerNews>>,
}

impl Ledger {
    pub(crate) fn new(file: Option<File>, watcher: Option<UnboundedSender<LedgerNews>>) -> Self {
        Self { inner: Mutex::new(LedgerState { entries: Vec::new(), file, watcher }) }
    }

    /// Records a request. The entry gets its number here.
    pub(crate) fn open(self: &Arc<Self>, mut entry: LedgerEntry) -> OpenEntry {
        let mut inner = self.lock();
        entry.seq = inner.entries.len() as u64 + 1;
        let seq = entry.seq;
        inner.entries.push(entry);
        drop(inner);
        OpenEntry { ledger: Arc::clone(self), seq, over: false }
    }

    pub(crate) fn entries(&self) -> Vec<LedgerEntry> {
        self.lock().entries.clone()
    }

    /// Ends the open entries, because the simulator stops.
    pub(crate) fn stop(&self) {
        // Collect the numbers first: `end` takes the same lock, and a `Mutex` is not reentrant.
        let open: Vec<u64> = self
            .lock()
            .entries
            .iter()
            .filter(|it| it.outcome == RequestOutcome::Open)
            .map(|it| it.seq)
            .collect();
        for seq in open {
            self.end(seq, RequestOutcome::Stopped);
        }
    }

    fn end(&self, seq: u64, outcome: RequestOutcome) {
        let mut inner = self.lock();
        let Some(entry) = usize::try_from(seq - 1).ok().and_then(|index| inner.entries.get_mut(index)) else {
            return;
        };
        // `stop` may have ended it already, before its client left. The first outcome counts.
        if entry.outcome != RequestOutcome::Open {
            return;
        }
        entry.outcome = outcome;
        if outcome != RequestOutcome::Sent {
            entry.usage = None;
        }
        entry.ended_at = Some(Timestamp::now());
        // A copy, because the entry borrows `inner`, whose file is written next.
        let entry = entry.clone();
        // Write under the lock, so that the lines are in the order of the ends.
        if let Some(file) = &mut inner.file {
            let written = serde_json::to_vec(&entry).map_err(std::io::Error::from).and_then(|mut line| {
                line.push(b'\n');
                file.write_all(&line)
            });
            if let Err(error) = written {
                // No more lines after a lost one: the file would look complete.
                inner.file = None;
                inner.tell(LedgerNews::LedgerLost(error.to_string()));
            }
        }
        inner.tell(LedgerNews::Over(Box::new(entry)));
    }

    fn change(&self, seq: u64, change: impl FnOnce(&mut LedgerEntry)) {
        let mut inner = self.lock();
        if let Some(entry) = usize::try_from(seq - 1).ok().and_then(|index| inner.entries.get_mut(index)) {
            change(entry);
        }
    }

    /// A panic elsewhere leaves the entries intact, and they are needed to find its cause.
    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerState {
    fn tell(&self, news: LedgerNews) {
        if let Some(watcher) = &self.watcher {
            // The receiver may be gone.
            let _ = watcher.send(news);
        }
    }
}

/// An open entry. Dropping it means that the client left: hyper drops the service then.
#[derive(Debug)]
pub(crate) struct OpenEntry {
    ledger: Arc<Ledger>,
    seq: u64,
    over: bool,
}

impl OpenEntry {
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    pub(crate) fn choose(&self, choice: ScenarioChoice) {
        self.ledger.change(self.seq, |entry| entry.choice = Some(choice));
    }

    pub(crate) fn status(&self, status: u16) {
        self.ledger.change(self.seq, |entry| entry.status = Some(status));
    }

    pub(crate) fn called(&self, tools: Vec<String>) {
        self.ledger.change(self.seq, |entry| entry.called = tools);
    }

    pub(crate) fn usage(&self, usage: Usage) {
        self.ledger.change(self.seq, |entry| entry.usage = Some(usage));
    }

    pub(crate) fn end(mut self, outcome: RequestOutcome) {
        self.over = true;
        self.ledger.end(self.seq, outcome);
    }
}

impl Drop for OpenEntry {
    fn drop(&mut self) {
        if !self.over {
            self.ledger.end(self.seq, RequestOutcome::ClientLeft);
        }
    }
}
