//! How a stream went and what it answered, as values for callers of the library.

use std::collections::BTreeMap;

use bowline_protocol::kinds::{
    FilesTouched, Outcome, StopReason, ToolKind, ToolStatus, TouchSource, TouchedFile,
};
use bowline_protocol::{Decision, Event, Failure, Kind, NativeSessionId, Source, ToolId, Usage, UsageSource};

use super::answer::{Answer, Keep};

/// How much text is kept. A longer answer is in the journal; memory does not grow with a stream.
const TEXT_LIMIT: usize = 2 * 1024 * 1024;

/// How many refusals and how many running tools are remembered.
const LIST_LIMIT: usize = 1000;

/// A tool call that was not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The tool's name.
    pub tool: String,
    /// What sort of tool it is.
    pub kind: ToolKind,
    /// What was asked, where somebody was asked.
    pub summary: Option<String>,
}

/// What is known about a stream so far.
#[derive(Debug)]
pub struct Digest {
    answer: Answer,
    /// How many bytes of text may be held, and how many are.
    limit: usize,
    held: usize,
    /// Whether the text became too long to be held.
    overflowed: bool,
    /// Files by path, as git sees them or, without git, as the agent says.
    by_git: BTreeMap<String, TouchedFile>,
    by_agent: BTreeMap<String, TouchedFile>,
    tools: BTreeMap<ToolId, Refused>,
    refused: Vec<Refused>,
    version: Option<String>,
}

impl Default for Digest {
    fn default() -> Self {
        Self {
            answer: Answer::new(Keep::Answer),
            limit: TEXT_LIMIT,
            held: 0,
            overflowed: false,
            by_git: BTreeMap::new(),
            by_agent: BTreeMap::new(),
            tools: BTreeMap::new(),
            refused: Vec::new(),
            version: None,
        }
    }
}

impl Digest {
    /// Makes a digest that holds the text however long it is.
    pub fn unlimited() -> Self {
        Self { limit: usize::MAX, ..Self::default() }
    }

    /// Returns the version that the program says it has.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Takes in one event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the tally looks at the other kinds")]
    pub fn event(&mut self, event: &Event) {
        match &event.kind {
            Kind::TextDelta(delta) if self.held + delta.text.len() > self.limit => {
                self.overflowed = true;
                self.answer.forget_text();
            }
            Kind::TextDelta(delta) => self.held += delta.text.len(),
            Kind::SessionStarted(started) if event.source == Source::Agent => {
                self.version = started.version.clone().or(self.version.take());
            }
            Kind::TurnStarted(_) => (self.held, self.overflowed) = (0, false),
            Kind::FilesTouched(touched) => self.touched(touched),
            Kind::ToolStarted(tool) if self.tools.len() < LIST_LIMIT => {
                let refused = Refused { tool: tool.name.clone(), kind: tool.kind, summary: None };
                self.tools.insert(tool.id.clone(), refused);
            }
            Kind::ToolFinished(tool) => {
                let known = self.tools.remove(&tool.id);
                if tool.status == ToolStatus::Denied {
                    self.refuse(known);
                }
            }
            Kind::ApprovalAsked(asked) if self.tools.len() < LIST_LIMIT => {
                let summary = Some(asked.summary.clone());
                let id = ToolId::from(format!("approval:{}", asked.id));
                self.tools.insert(id, Refused { tool: String::new(), kind: ToolKind::Other, summary });
            }
            Kind::ApprovalDecided(decided) => {
                let known = self.tools.remove(&ToolId::from(format!("approval:{}", decided.id)));
                if matches!(decided.decision, Decision::Deny | Decision::DenyAlways) {
                    self.refuse(known);
                }
            }
            _ => {}
        }
        if self.overflowed {
            self.answer.tally.event(event);
        } else {
            self.answer.event(event);
        }
    }

    /// Returns the answer; nothing when it is too long to be held in memory.
    pub fn text(&self) -> Option<String> {
        (!self.overflowed).then(|| self.answer.text().to_string())
    }

    /// Returns how the last turn ended; nothing while it runs.
    pub fn outcome(&self) -> Option<Outcome> {
        self.answer.tally.outcome
    }

    /// Returns why the last turn failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.answer.tally.failure.as_ref()
    }

    /// Returns why the model stopped in the last turn.
    pub fn stop(&self) -> Option<StopReason> {
        self.answer.tally.stop
    }

    /// Returns the agent's own name for the session.
    pub fn native_session(&self) -> Option<&NativeSessionId> {
        self.answer.tally.native_session.as_ref()
    }

    /// Returns the model that answered last.
    pub fn model(&self) -> Option<&str> {
        self.answer.tally.model.as_deref()
    }

    /// Returns what all ended turns used.
    pub fn usage(&self) -> Option<Usage> {
        self.answer.tally.usage
    }

    /// Returns where that usage comes from.
    pub fn usage_source(&self) -> Option<UsageSource> {
        self.answer.tally.usage_source
    }

    /// Returns what all ended turns cost in US dollars.
    pub fn cost_usd(&self) -> Option<f64> {
        self.answer.tally.cost_usd
    }

    /// Returns how many tool calls began.
    pub fn tools(&self) -> u64 {
        self.answer.tally.tools
    }

    /// Returns how many pieces of output nobody understood.
    pub fn unrecognized(&self) -> u64 {
        self.answer.tally.unrecognized
    }

    /// Returns how many events of a kind there were.
    pub fn count(&self, kind: &str) -> u64 {
        self.answer.tally.count(kind)
    }

    /// Returns the files that were changed: what git says, or, where git says nothing, what the agent says.
    pub fn files(&self) -> Vec<TouchedFile> {
        let files = if self.by_git.is_empty() { &self.by_agent } else { &self.by_git };
        files.values().cloned().collect()
    }

    /// Returns the tool calls that were not allowed.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    fn refuse(&mut self, known: Option<Refused>) {
        if self.refused.len() < LIST_LIMIT {
            self.refused.extend(known);
        }
    }

    fn touched(&mut self, touched: &FilesTouched) {
        let files = match touched.seen_by {
            TouchSource::Git => &mut self.by_git,
            TouchSource::Agent | TouchSource::Watch => &mut self.by_agent,
        };
        for file in &touched.files {
            let read = file.operation == bowline_protocol::kinds::FileOperation::Read;
            if !read && files.len() < LIST_LIMIT {
                files.insert(file.path.clone(), file.clone());
            }
        }
    }
}
