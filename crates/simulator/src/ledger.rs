//! The ledger: every request as it came, what it was taken for, and what was served.
//!
//! An entry is made when a request has been read, and is finished when the answer is sent or the client has left. The
//! file gets finished entries only, a line each, so that a line is never changed.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::address::Operation;
use crate::apis::{Asked, Image, Shape};
use crate::pick::{PickedBy, Side};
use crate::reply;
use crate::scenario::{FaultKind, Usage};

/// A request, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
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
    /// What was asked for.
    pub operation: Operation,
    /// What the request says, in words that all APIs share. Absent where no answer of a model was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<Facts>,
    /// The whole body: as JSON, or as a text if it is none.
    pub body: Arc<Value>,
    /// What answered it. Absent where no answer of a model was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The tools that the answer calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<String>,
    /// The status that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The usage that is told to the client; absent where the answer did not come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How it ended.
    pub outcome: Outcome,
}

/// What a request says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// The model.
    pub model: Option<String>,
    /// Whether the answer is streamed, and how.
    pub shape: Shape,
    /// How much thought is asked for, in the program's word.
    pub effort: Option<String>,
    /// The settings for thinking, as they were sent.
    pub thinking: Option<Value>,
    /// The most tokens that the answer may have.
    pub max_tokens: Option<u64>,
    /// The system prompt.
    pub system: String,
    /// The names of the tools that are offered.
    pub tools: Vec<String>,
    /// What the user said, in order, without the remarks in tags that programs put in front of it and behind it.
    pub users: Vec<String>,
    /// How many answers of the model the conversation has.
    pub answers: usize,
    /// The images.
    pub images: Vec<Image>,
    /// The schema for the answer.
    pub schema: Option<Value>,
    /// The earlier response that this one follows, by its id.
    pub previous: Option<String>,
}

impl Facts {
    pub(crate) fn of(asked: &Asked) -> Self {
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

/// What answered a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The scenario.
    pub scenario: String,
    /// What named it.
    pub picked_by: PickedBy,
    /// The step of it, from 1. Absent for side requests, which no scenario answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// What the request is beside the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// The fault that was played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultKind>,
    /// Whether there is no such scenario; the request was refused then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It goes on.
    Open,
    /// The answer was sent to its end.
    Sent,
    /// The simulator broke it off, as the scenario says.
    BrokenOff,
    /// The client left before the end.
    ClientLeft,
    /// The simulator was stopped.
    Stopped,
}

/// What the simulator tells whoever watches it.
#[derive(Clone, Debug)]
pub enum News {
    /// A request is over.
    Over(Box<Entry>),
    /// The file of the ledger could not be written; nothing more is written to it.
    LedgerLost(String),
}

/// All entries, and where they go.
#[derive(Debug)]
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    entries: Vec<Entry>,
    file: Option<File>,
    watcher: Option<UnboundedSender<News>>,
}

impl Ledger {
    pub(crate) fn new(file: Option<File>, watcher: Option<UnboundedSender<News>>) -> Self {
        Self { inner: Mutex::new(Inner { entries: Vec::new(), file, watcher }) }
    }

    /// Writes a request down. The number of the entry is given here.
    pub(crate) fn open(self: &Arc<Self>, mut entry: Entry) -> Ticket {
        let mut inner = self.lock();
        entry.seq = inner.entries.len() as u64 + 1;
        let seq = entry.seq;
        inner.entries.push(entry);
        drop(inner);
        Ticket { ledger: Arc::clone(self), seq, over: false }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    /// Ends what is still open, because the simulator ends.
    pub(crate) fn stop(&self) {
        let open: Vec<u64> =
            self.lock().entries.iter().filter(|it| it.outcome == Outcome::Open).map(|it| it.seq).collect();
        for seq in open {
            self.end(seq, Outcome::Stopped);
        }
    }

    fn end(&self, seq: u64, outcome: Outcome) {
        let mut inner = self.lock();
        let Some(entry) = usize::try_from(seq - 1).ok().and_then(|index| inner.entries.get_mut(index)) else {
            return;
        };
        if entry.outcome != Outcome::Open {
            return;
        }
        entry.outcome = outcome;
        if outcome != Outcome::Sent {
            entry.usage = None;
        }
        entry.ended_at = Some(Timestamp::now());
        let entry = entry.clone();
        if let Some(file) = &mut inner.file {
            let written = serde_json::to_vec(&entry).map_err(std::io::Error::from).and_then(|mut line| {
                line.push(b'\n');
                file.write_all(&line)
            });
            if let Err(error) = written {
                inner.file = None;
                inner.tell(News::LedgerLost(error.to_string()));
            }
        }
        inner.tell(News::Over(Box::new(entry)));
    }

    fn change(&self, seq: u64, change: impl FnOnce(&mut Entry)) {
        let mut inner = self.lock();
        if let Some(entry) = usize::try_from(seq - 1).ok().and_then(|index| inner.entries.get_mut(index)) {
            change(entry);
        }
    }

    /// A panic elsewhere leaves the entries as they are, and they are what somebody will want to see then.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn tell(&self, news: News) {
        if let Some(watcher) = &self.watcher {
            // Whoever watched may have enough.
            let _ = watcher.send(news);
        }
    }
}

/// An entry that is still open. Dropping it means that the client left: whoever serves is dropped then.
#[derive(Debug)]
pub(crate) struct Ticket {
    ledger: Arc<Ledger>,
    seq: u64,
    over: bool,
}

impl Ticket {
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    pub(crate) fn choose(&self, choice: Choice) {
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

    pub(crate) fn end(mut self, outcome: Outcome) {
        self.over = true;
        self.ledger.end(self.seq, outcome);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.over {
            self.ledger.end(self.seq, Outcome::ClientLeft);
        }
    }
}
