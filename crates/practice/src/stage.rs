//! The state that every dialect of the agent needs: the session, its messages, and its cost.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clock;
use crate::options::Mode;
use crate::out::Out;
use crate::tools::Call;

/// The session, and its output.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) out: Out,
    pub(crate) session: String,
    pub(crate) model: String,
    pub(crate) effort: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) prompt: String,
    pub(crate) tools: Vec<&'static str>,
    pub(crate) mcp_servers: Vec<String>,
    /// The answer, if it has to be JSON of a schema.
    pub(crate) structured: Option<Value>,
    pub(crate) started: Instant,
    /// The usage so far.
    pub(crate) usage: Usage,
    /// The text of the last finished message.
    pub(crate) last_text: String,
    /// Denied tool calls.
    pub(crate) denials: Vec<Call>,
    /// The number of the model's answers.
    pub(crate) turns: u64,
    /// The number of tool calls.
    pub(crate) calls: u64,
    /// The usage of the session before this turn, in a format whose process takes many prompts.
    pub(crate) earlier: Usage,
    /// The request of the host that the turn answers, in a two-way protocol.
    pub(crate) answers: Value,
    /// The number of the agent's own request, in a two-way protocol.
    pub(crate) request: u64,
    /// The tools that the host has allowed for the rest of the session.
    pub(crate) always: Vec<&'static str>,
    /// Ids of lines; unique within a session.
    ids: u64,
}

impl Stage {
    pub(crate) fn new(out: Out, session: String) -> Self {
        Self {
            out,
            session,
            model: "practice-1".to_owned(),
            effort: None,
            cwd: PathBuf::new(),
            mode: Mode::default(),
            prompt: String::new(),
            tools: Vec::new(),
            mcp_servers: Vec::new(),
            structured: None,
            started: clock::instant(),
            usage: Usage::default(),
            last_text: String::new(),
            denials: Vec::new(),
            turns: 0,
            calls: 0,
            earlier: Usage::default(),
            answers: Value::Null,
            request: 0,
            always: Vec::new(),
            ids: 0,
        }
    }

    /// Returns a new number for an id.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Counts an answer of the model, with the length of its text and tools.
    pub(crate) fn count(&mut self, letters: usize) -> Usage {
        let used = Usage {
            input: 12,
            cache_write: 340,
            cache_read: 15_600,
            output: letters.div_ceil(4).max(1) as u64,
        };
        self.turns += 1;
        self.usage.add(used);
        used
    }
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) cache_write: u64,
    pub(crate) cache_read: u64,
    pub(crate) output: u64,
}

impl Usage {
    pub(crate) fn add(&mut self, other: Self) {
        self.input += other.input;
        self.cache_write += other.cache_write;
        self.cache_read += other.cache_read;
        self.output += other.output;
    }

    /// Returns all of them.
    pub(crate) fn total(self) -> u64 {
        self.input + self.cache_write + self.cache_read + self.output
    }

    /// Returns their cost in US dollars, at made-up prices.
    pub(crate) fn cost(self) -> f64 {
        let millionths =
            [(self.input, 5.0), (self.cache_write, 6.25), (self.cache_read, 0.5), (self.output, 25.0)];
        millionths.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum()
    }
}
