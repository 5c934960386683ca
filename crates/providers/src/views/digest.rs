//! The outcome and the answer of a stream, as values for callers of the library.

use std::collections::BTreeMap;

use bowline_protocol::kinds::{
    FilesTouched, Outcome, StopReason, ToolKind, ToolStatus, TouchSource, TouchedFile, UnrecognizedReason,
};
use bowline_protocol::{
    ApprovalId, Decision, Event, Failure, Kind, NativeSessionId, Source, ToolId, Usage, UsageSource,
};

use super::summary::{RunFacts, Summary, SummaryObject};
use super::tally::ModelSource;

/// How much text is kept. A longer answer is in the journal; memory does not grow with a stream.
const TEXT_LIMIT: usize = 2 * 1024 * 1024;

/// How many refusals and how many running tools are remembered.
const LIST_LIMIT: usize = 1000;

/// A tool call that was not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The tool's name.
    pub tool: String,
    /// The category of the tool.
    pub kind: ToolKind,
    /// The question, where there was an approval request.
    pub summary: Option<String>,
}

/// The state of a stream so far.
#[derive(Debug)]
pub struct Digest {
    summary: Summary,
    /// How many bytes of text may be held, how many are in all, and how many are of the last turn.
    limit: usize,
    held: usize,
    held_of_turn: usize,
    /// Whether the whole text became too long to hold, so that only the answer is kept.
    narrowed: bool,
    /// Whether the answer became too long to hold.
    overflowed: bool,
    /// How many lines were too long to be read.
    too_long: u64,
    /// Files by path, as git reports them or, without git, as the agent reports them.
    by_git: BTreeMap<String, TouchedFile>,
    by_agent: BTreeMap<String, TouchedFile>,
    tools: BTreeMap<ToolId, Refused>,
    /// Approvals that are not decided, each with the tool call that waits for it.
    asked: BTreeMap<ApprovalId, (Option<ToolId>, String)>,
    /// Each refusal with its tool call, where that is known: the call itself ends as denied, before or after.
    refused: Vec<(Option<ToolId>, Refused)>,
    version: Option<String>,
}

impl Default for Digest {
    fn default() -> Self {
        Self {
            summary: Summary::of_run(),
            limit: TEXT_LIMIT,
            held: 0,
            held_of_turn: 0,
            narrowed: false,
            overflowed: false,
            too_long: 0,
            by_git: BTreeMap::new(),
            by_agent: BTreeMap::new(),
            tools: BTreeMap::new(),
            asked: BTreeMap::new(),
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

    /// Returns the version that the program reports.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Handles one event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the tally looks at the other kinds")]
    pub fn event(&mut self, event: &Event) {
        match &event.kind {
            Kind::TextDelta(delta) => self.count_text(delta.text.len()),
            Kind::Unrecognized(what) if what.reason == UnrecognizedReason::TooLong => self.too_long += 1,
            Kind::SessionStarted(started) if event.source == Source::Agent => {
                self.version = started.version.clone().or(self.version.take());
            }
            // The answer is the last turn's, so a new turn has the whole limit again. `held` covers all turns and stays.
            Kind::TurnStarted(_) => (self.held_of_turn, self.overflowed) = (0, false),
            Kind::FilesTouched(touched) => self.touched(touched),
            Kind::ToolStarted(tool) if self.tools.len() < LIST_LIMIT => {
                let refused = Refused { tool: tool.name.clone(), kind: tool.kind, summary: None };
                self.tools.insert(tool.id.clone(), refused);
            }
            Kind::ToolFinished(tool) => {
                let known = self.tools.remove(&tool.id);
                if let Some(known) = known.filter(|_| tool.status == ToolStatus::Denied) {
                    self.refuse(Some(tool.id.clone()), known);
                }
            }
            Kind::ApprovalAsked(asked) if self.asked.len() < LIST_LIMIT => {
                self.asked.insert(asked.id.clone(), (asked.tool.clone(), asked.summary.clone()));
            }
            Kind::ApprovalDecided(decided) => {
                let denied = matches!(decided.decision, Decision::Deny | Decision::DenyAlways);
                if let Some((id, summary)) = self.asked.remove(&decided.id).filter(|_| denied) {
                    let known = id.as_ref().and_then(|id| self.tools.get(id));
                    let (tool, kind) =
                        known.map_or((String::new(), ToolKind::Other), |it| (it.tool.clone(), it.kind));
                    self.refuse(id, Refused { tool, kind, summary: Some(summary) });
                }
            }
            _ => {}
        }
        if self.overflowed {
            self.summary.without_text(event);
        } else {
            self.summary.with_text(event);
        }
    }

    /// Returns the answer; nothing if it is too long to hold in memory.
    pub fn text(&self) -> Option<String> {
        (!self.overflowed).then(|| self.summary.answer.text().to_string())
    }

    /// Returns the object of `-o json`, with the totals of the run.
    pub fn object<'a, A>(&'a self, run: &RunFacts<'a, A>) -> SummaryObject<'a, A> {
        let mut object = self.summary.object_of(run);
        if self.overflowed {
            object.forget_text();
        } else if self.narrowed {
            object.forget_all_text();
        }
        object
    }

    /// Returns whether the whole text is held. If not, the journal has it.
    pub fn is_whole(&self) -> bool {
        !self.narrowed && !self.overflowed
    }

    /// Returns how many lines were longer than the decoder reads, and so were skipped.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Drops text beyond the limit.
    fn count_text(&mut self, bytes: usize) {
        (self.held, self.held_of_turn) = (self.held + bytes, self.held_of_turn + bytes);
        // First drop what cannot be the answer; only if that is not enough, the answer itself.
        if self.held > self.limit && !self.narrowed {
            self.narrowed = true;
            self.summary.answer.keep_answer_only();
        }
        if self.held_of_turn > self.limit && !self.overflowed {
            self.overflowed = true;
            self.summary.answer.forget_text();
        }
    }

    /// Returns how the last turn ended; nothing while it runs.
    pub fn outcome(&self) -> Option<Outcome> {
        self.summary.answer.tally.outcome
    }

    /// Returns why the last turn failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.summary.answer.tally.failure.as_ref()
    }

    /// Returns why the model stopped in the last turn.
    pub fn stop(&self) -> Option<StopReason> {
        self.summary.answer.tally.stop
    }

    /// Returns the agent's own name for the session.
    pub fn native_session(&self) -> Option<&NativeSessionId> {
        self.summary.answer.tally.native_session.as_ref()
    }

    /// Returns the model that answered last, else the requested one.
    pub fn model(&self) -> Option<&str> {
        self.summary.answer.tally.named_model()
    }

    /// Returns where [`Self::model`] comes from.
    pub fn model_source(&self) -> Option<ModelSource> {
        self.summary.answer.tally.model_source()
    }

    /// Returns the usage of all ended turns.
    pub fn usage(&self) -> Option<Usage> {
        self.summary.answer.tally.usage
    }

    /// Returns where that usage comes from.
    pub fn usage_source(&self) -> Option<UsageSource> {
        self.summary.answer.tally.usage_source
    }

    /// Returns the cost of all ended turns in US dollars.
    pub fn cost_usd(&self) -> Option<f64> {
        self.summary.answer.tally.cost_usd
    }

    /// Returns how many tool calls began.
    pub fn tools(&self) -> u64 {
        self.summary.answer.tally.tools
    }

    /// Returns the number of pieces of output that were not understood.
    pub fn unrecognized(&self) -> u64 {
        self.summary.answer.tally.unrecognized
    }

    /// Returns how many events of a kind there were.
    pub fn count(&self, kind: &str) -> u64 {
        self.summary.answer.tally.count(kind)
    }

    /// Returns the changed files: from git, or, without git, from the agent.
    pub fn files(&self) -> Vec<TouchedFile> {
        // Git sees what commands changed too; an agent reports only its own edits. So git wins as a whole, and is not merged.
        let files = if self.by_git.is_empty() { &self.by_agent } else { &self.by_git };
        files.values().cloned().collect()
    }

    /// Returns the tool calls that were not allowed.
    pub fn refused(&self) -> Vec<Refused> {
        self.refused.iter().map(|(_, refused)| refused.clone()).collect()
    }

    /// Records a refusal. The approval and the tool call that waited for it report the same one: each fills in what the
    /// other lacks.
    fn refuse(&mut self, id: Option<ToolId>, refused: Refused) {
        let same = |(of, _): &&mut (Option<ToolId>, Refused)| id.is_some() && *of == id;
        if let Some((_, told)) = self.refused.iter_mut().find(same) {
            if told.tool.is_empty() {
                (told.tool, told.kind) = (refused.tool, refused.kind);
            }
            told.summary = told.summary.take().or(refused.summary);
        } else if self.refused.len() < LIST_LIMIT {
            self.refused.push((id, refused));
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
