//! The account of a stream: turns, messages, tools and usage.
//!
//! Dialects say what they read; this account makes of it what every reader may rely on. A turn that starts ends
//! exactly once. A message that has text is finished once, before its turn ends. Usage is known at the end of a turn,
//! reported or estimated. Nothing here grows with the length of a stream, except by what is still open.
//!
//! States: *idle* (before the first turn, or between two), *open* (a turn runs). Agent events that belong to a turn
//! open one when none is; a verdict closes it; the end of the output closes whatever is left.

mod ending;

use bowline_protocol::kinds::{
    MessageFinished, Outcome, Phase, StopReason, TurnEnded, TurnOrigin, TurnStarted, Unrecognized,
    UsageReported,
};
use bowline_protocol::{
    Basis, Failure, Kind, MessageId, RawSpan, Source, TaskId, ToolId, Usage, UsageSource,
};

use crate::dialect::Draft;
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;
use crate::usage;

/// How many different error texts are remembered for a turn that does not end well.
const REMEMBERED_ERRORS: usize = 8;

/// The account of one stream.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The number of the current or last turn.
    number: u32,
    open: Option<Open>,
    /// What the last cumulative report said, to tell what a turn added to it.
    cumulative: Usage,
    cumulative_cost: Option<f64>,
    running_tasks: Vec<TaskId>,
    /// Whether the dialect understood anything at all.
    understood: bool,
    /// How many pieces of output nobody understood, and the last of them.
    unrecognized: u64,
    noise: Tail,
    /// Characters of the prompt, for the estimate of the first turn.
    pub(crate) prompt_chars: u64,
}

/// A turn that runs.
#[derive(Debug, Default)]
struct Open {
    /// Whether the agent has said or done anything in it.
    lively: bool,
    /// Messages of which text was said and that are not finished.
    messages: Vec<MessageId>,
    running_tools: Vec<ToolId>,
    errors: Vec<String>,
    /// The end of what was said: a program may print the reason of its failure where its answer should be.
    last_words: Tail,
    /// Whether the answer is complete, and why the model stopped, should the output end now.
    complete_at_eof: Option<Option<StopReason>>,
    said_chars: u64,
    prompt_chars: u64,
    usage: Option<Usage>,
    cost: Option<f64>,
    /// The last report per call, so that a repeated one replaces it.
    last_call: Option<(MessageId, Usage)>,
}

impl Turns {
    /// Takes an event of the agent.
    pub(crate) fn agent(&mut self, kind: Kind, raw: Option<RawSpan>, out: &mut Vec<Draft>) {
        self.understood = true;
        match &kind {
            Kind::TurnStarted(started) => {
                if self.open.as_ref().is_some_and(|open| !open.lively) {
                    // The turn was opened by the echo of its prompt, or announced twice.
                    return;
                }
                if self.open.is_some() {
                    self.close(
                        Outcome::Truncated,
                        None,
                        Some(ending::truncated("a new turn began")),
                        raw,
                        out,
                    );
                }
                self.start(started.clone(), Source::Agent, raw, out);
                return;
            }
            Kind::UserMessage(message) if message.parent.is_none() => {
                self.ensure_open(raw, out);
            }
            Kind::TextDelta(delta) => {
                let chars = delta.text.chars().count() as u64;
                let open = self.ensure_open(raw, out);
                open.lively = true;
                open.said_chars += chars;
                open.last_words.add(&delta.text);
                if open.messages.last() != Some(&delta.message) && !open.messages.contains(&delta.message) {
                    open.messages.push(delta.message.clone());
                }
            }
            Kind::ThinkingDelta(_) => self.ensure_open(raw, out).lively = true,
            Kind::MessageFinished(finished) => {
                // Only messages with text are finished, and only once.
                let Some(open) = &mut self.open else { return };
                let Some(place) = open.messages.iter().position(|open| *open == finished.message) else {
                    return;
                };
                open.messages.remove(place);
            }
            Kind::ToolStarted(tool) => {
                let open = self.ensure_open(raw, out);
                open.lively = true;
                if !open.running_tools.contains(&tool.id) {
                    open.running_tools.push(tool.id.clone());
                }
            }
            Kind::ToolFinished(tool) => {
                let open = self.ensure_open(raw, out);
                open.lively = true;
                open.running_tools.retain(|id| *id != tool.id);
            }
            Kind::BackgroundTaskStarted(task) => self.running_tasks.push(task.id.clone()),
            Kind::BackgroundTaskEnded(task) => self.running_tasks.retain(|id| *id != task.id),
            Kind::UsageReported(report) => {
                // Before the first turn it can only belong to that one; after a turn has ended it comes too late.
                if self.number == 0 {
                    self.ensure_open(raw, out);
                }
                self.count(report);
            }
            Kind::UserMessage(_)
            | Kind::SessionStarted(_)
            | Kind::SessionStateChanged(_)
            | Kind::SessionEnded(_)
            | Kind::ControlModeChanged(_)
            | Kind::TurnEnded(_)
            | Kind::TextRetracted(_)
            | Kind::ToolUpdated(_)
            | Kind::FilesTouched(_)
            | Kind::DiffAvailable(_)
            | Kind::PlanUpdated(_)
            | Kind::ApprovalAsked(_)
            | Kind::ApprovalDecided(_)
            | Kind::QuestionAsked(_)
            | Kind::QuestionAnswered(_)
            | Kind::Status(_)
            | Kind::ContextCompacted(_)
            | Kind::Retrying(_)
            | Kind::LimitReported(_)
            | Kind::UsageTick(_)
            | Kind::ContextGauge(_)
            | Kind::OptionsAdvertised(_)
            | Kind::OptionsChanged(_)
            | Kind::ModelChanged(_)
            | Kind::McpServerStatus(_)
            | Kind::Notice(_)
            | Kind::RouteChosen(_)
            | Kind::FallbackTaken(_)
            | Kind::CapabilityDegraded(_)
            | Kind::TransportSwitched(_)
            | Kind::ResumeAnswered(_)
            | Kind::DivergenceFound(_)
            | Kind::ProcessSpawned(_)
            | Kind::ProcessReaped(_)
            | Kind::ProcessLeaked(_)
            | Kind::Unrecognized(_)
            | Kind::Gap(_)
            | Kind::Unknown(_) => {}
        }
        self.append(Source::Agent, raw, kind, out);
    }

    /// Counts a piece of output that was understood and says nothing.
    pub(crate) fn recognised(&mut self) {
        self.understood = true;
    }

    /// Keeps a piece of output that nobody understood.
    pub(crate) fn unrecognized(&mut self, what: Unrecognized, raw: Option<RawSpan>, out: &mut Vec<Draft>) {
        self.unrecognized += 1;
        self.noise.add(&what.head.text);
        self.noise.add("\n");
        self.append(Source::Bowline, raw, Kind::Unrecognized(what), out);
    }

    /// Counts characters of the open turn's prompt, for the estimate.
    pub(crate) fn count_prompt(&mut self, chars: u64) {
        if let Some(open) = &mut self.open {
            open.prompt_chars += chars;
        }
    }

    /// Remembers an error that may explain how the turn ends. What is told after the last turn explains nothing.
    pub(crate) fn remember_error(&mut self, message: &str, raw: Option<RawSpan>, out: &mut Vec<Draft>) {
        if self.number > 0 && self.open.is_none() {
            return;
        }
        let errors = &mut self.ensure_open(raw, out).errors;
        let message = message.trim();
        if !message.is_empty()
            && errors.len() < REMEMBERED_ERRORS
            && !errors.iter().any(|seen| seen == message)
        {
            errors.push(message.to_owned());
        }
    }

    /// Forgets remembered errors.
    pub(crate) fn forget_errors(&mut self) {
        if let Some(open) = &mut self.open {
            open.errors.clear();
        }
    }

    /// From here on, the end of the output is a good end of the open turn, or of the first.
    pub(crate) fn complete_at_eof(
        &mut self,
        stop: Option<StopReason>,
        raw: Option<RawSpan>,
        out: &mut Vec<Draft>,
    ) {
        self.understood = true;
        if self.number == 0 || self.open.is_some() {
            self.ensure_open(raw, out).complete_at_eof = Some(stop);
        }
    }

    /// From here on, the end of the output is no good end of the open turn.
    pub(crate) fn incomplete_at_eof(&mut self) {
        if let Some(open) = &mut self.open {
            open.complete_at_eof = None;
        }
    }

    /// Ends the turn well, as the program says.
    pub(crate) fn completed(&mut self, stop: Option<StopReason>, raw: Option<RawSpan>, out: &mut Vec<Draft>) {
        self.understood = true;
        self.ensure_open(raw, out);
        self.close(Outcome::Completed, stop, None, raw, out);
    }

    /// Ends the turn as interrupted, as the program says.
    pub(crate) fn cancelled(&mut self, raw: Option<RawSpan>, out: &mut Vec<Draft>) {
        self.understood = true;
        self.ensure_open(raw, out);
        self.close(Outcome::Cancelled, Some(StopReason::Cancelled), None, raw, out);
    }

    /// Ends the turn badly, as the program says.
    pub(crate) fn failed(
        &mut self,
        report: &Report,
        stderr: &str,
        raw: Option<RawSpan>,
        now: &Moment,
        out: &mut Vec<Draft>,
    ) {
        self.understood = true;
        self.ensure_open(raw, out);
        let evidence = Evidence { report: Some(report), text: stderr, exit: None, timed_out: false };
        let failure = Failure { raw, ..failure::classify(&evidence, now) };
        self.close(Outcome::Failed, None, Some(failure), raw, out);
    }

    fn ensure_open(&mut self, raw: Option<RawSpan>, out: &mut Vec<Draft>) -> &mut Open {
        if self.open.is_none() {
            let origin = if self.number == 0 { TurnOrigin::Prompt } else { TurnOrigin::Agent };
            self.start(TurnStarted { origin, native_turn: None }, Source::Bowline, raw, out);
        }
        self.open.get_or_insert_default()
    }

    fn start(&mut self, started: TurnStarted, source: Source, raw: Option<RawSpan>, out: &mut Vec<Draft>) {
        self.number += 1;
        let prompt_chars = std::mem::take(&mut self.prompt_chars);
        self.open = Some(Open { prompt_chars, ..Open::default() });
        self.append(source, raw, Kind::TurnStarted(started), out);
    }

    /// Closes the open turn: unfinished messages, the estimate where nothing was reported, then the end itself.
    fn close(
        &mut self,
        outcome: Outcome,
        stop: Option<StopReason>,
        failure: Option<Failure>,
        raw: Option<RawSpan>,
        out: &mut Vec<Draft>,
    ) {
        let Some(open) = self.open.take() else { return };
        for message in open.messages {
            let finished = MessageFinished { message, phase: Phase::Final, model: None };
            self.append(Source::Bowline, raw, Kind::MessageFinished(finished), out);
        }
        let mut usage = open.usage;
        if usage.is_none() && (outcome == Outcome::Completed || open.said_chars > 0) {
            let estimated = usage::estimate(open.prompt_chars, open.said_chars);
            usage = Some(estimated);
            let report = UsageReported {
                usage: estimated,
                basis: Basis::PerTurn,
                source: UsageSource::Estimated,
                cost_usd: None,
                model: None,
                message: None,
            };
            self.append(Source::Bowline, raw, Kind::UsageReported(report), out);
        }
        let ended = TurnEnded {
            outcome,
            stop,
            failure: failure.map(Box::new),
            usage,
            cost_usd: open.cost,
            running_tools: open.running_tools,
            running_tasks: self.running_tasks.clone(),
        };
        self.append(Source::Bowline, raw, Kind::TurnEnded(ended), out);
    }

    /// Adds a report to what the open turn has used.
    fn count(&mut self, report: &UsageReported) {
        let (usage, cost) = match report.basis {
            Basis::Cumulative => {
                let cost = report.cost_usd.map(|cost| (cost - self.cumulative_cost.unwrap_or(0.0)).max(0.0));
                let usage = report.usage.since(&self.cumulative);
                if self.open.is_some() {
                    self.cumulative = report.usage;
                    self.cumulative_cost = report.cost_usd.or(self.cumulative_cost);
                }
                (usage, cost)
            }
            Basis::PerCall | Basis::PerTurn => (report.usage, report.cost_usd),
        };
        let Some(open) = &mut self.open else { return };
        match report.basis {
            Basis::PerTurn => {
                open.usage = Some(usage);
                open.cost = cost.or(open.cost);
            }
            Basis::PerCall => {
                // An agent repeats a call's numbers with each block of its message: the newest replace the older.
                let repeated =
                    open.last_call.as_ref().zip(report.message.as_ref()).is_some_and(|(a, b)| a.0 == *b);
                let before = open.usage.unwrap_or_default();
                let before = match (&open.last_call, repeated) {
                    (Some((_, last)), true) => before.since(last),
                    _ => before,
                };
                open.usage = Some(before.plus(&usage));
                open.last_call = report.message.clone().map(|message| (message, usage));
                open.cost = match (open.cost, cost) {
                    (None, None) => None,
                    (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
                };
            }
            Basis::Cumulative => {
                // Two cumulative reports in one turn: what they add is added up.
                open.usage = Some(open.usage.unwrap_or_default().plus(&usage));
                open.cost = match (open.cost, cost) {
                    (None, None) => None,
                    (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
                };
            }
        }
    }

    fn append(&self, source: Source, raw: Option<RawSpan>, kind: Kind, out: &mut Vec<Draft>) {
        let turn = (self.number > 0).then_some(self.number);
        out.push(Draft { turn, source, raw, kind });
    }
}

/// The end of a text that comes in pieces.
#[derive(Debug, Default)]
struct Tail(String);

impl Tail {
    const LENGTH: usize = 2 * 1024;

    fn add(&mut self, piece: &str) {
        self.0.push_str(&piece[piece.ceil_char_boundary(piece.len().saturating_sub(Self::LENGTH))..]);
        // Cut seldom, so that many short pieces cost no more than their length.
        if self.0.len() > 4 * Self::LENGTH {
            self.0.drain(..self.0.ceil_char_boundary(self.0.len() - Self::LENGTH));
        }
    }
}
