//! Tracks the turns, messages, tools and usage of a stream.
//!
//! Dialects report what they read. This module turns the reports into a stream with guarantees. A turn that starts ends
//! exactly once. A message that has text is finished once, before its turn ends. Usage is known at the end of a turn,
//! reported or estimated. Memory does not grow with the length of a stream, only with the items that are still open.
//!
//! States: *idle* (before the first turn, or between two), *open* (a turn runs). Agent events that belong to a turn
//! open one if necessary. A verdict closes the turn. The end of the output closes everything that is left.

mod ending;
mod messages;
mod names;
mod noise;
mod open_turn;
mod running;
mod tools;
mod unfinished;
mod waiting;

use bowline_protocol::kinds::{
    Level, MessageFinished, Notice, Outcome, Phase, StopReason, TurnEnded, TurnOrigin, TurnStarted,
    Unrecognized, UsageReported, UserMessage, UserOrigin,
};
use bowline_protocol::{Excerpt, Exit, Failure, Kind, RawSpan, Source, TaskId, UsageSource};

use self::open_turn::{OpenTurn, TextTail};
use self::running::RunningIds;
use self::waiting::PendingRetry;
use super::dialect::{Commentary, UnnumberedEvent};
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;
use crate::usage::{self, TurnSpending};

/// The code of notices about fields and types that no recording of the program has.
pub(crate) const NOVEL: &str = "novel";

/// How many different error texts are remembered for a turn that does not end well.
const REMEMBERED_ERRORS: usize = 8;

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct TurnTracker {
    commentary: Commentary,
    /// The number of the current or last turn.
    number: u32,
    open: Option<OpenTurn>,
    /// The sum of the usage reports.
    count: usage::UsageCount,
    running_tasks: RunningIds<TaskId>,
    /// Whether background tasks ran when the last turn ended.
    left_tasks: bool,
    /// How many turns of the model the open turn took, by the program's own count.
    pub(crate) num_turns: Option<u32>,
    /// The last retry, until it has an effect.
    waiting: Option<PendingRetry>,
    /// Whether the dialect understood anything at all.
    understood: bool,
    /// The number of pieces of output that were not understood, and the last of them.
    unrecognized: u64,
    noise: TextTail,
    /// A run of consecutive pieces that were not understood.
    row: noise::NoiseRow,
    /// Whether the answer is plain text, which may contain the reason of a failure.
    pub(crate) plain: bool,
    /// Characters of the prompt, for the estimate of the first turn.
    pub(crate) prompt_chars: u64,
    /// The prompt that the caller sent, until the program has repeated it or the turn is over.
    prompt: Option<String>,
}

impl TurnTracker {
    /// Creates the state of a new stream.
    pub(crate) fn new(commentary: Commentary) -> Self {
        Self {
            commentary,
            number: 0,
            open: None,
            count: usage::UsageCount::default(),
            running_tasks: RunningIds::default(),
            left_tasks: false,
            num_turns: None,
            waiting: None,
            understood: false,
            unrecognized: 0,
            row: noise::NoiseRow::default(),
            noise: TextTail::default(),
            plain: false,
            prompt_chars: 0,
            prompt: None,
        }
    }

    /// Starts a turn with a prompt that was sent, or adds the prompt to the open one. If the program repeats the prompt, the
    /// repetition is dropped.
    pub(crate) fn prompt(&mut self, text: &str, out: &mut Vec<UnnumberedEvent>) {
        let chars = text.chars().count() as u64;
        self.close_at_prompt(None, out);
        match &mut self.open {
            Some(open) => open.prompt_chars += chars,
            None => {
                self.prompt_chars = chars;
                // The prompt opens the turn, so that a program that prints nothing still has a turn to fail.
                let started = TurnStarted { origin: TurnOrigin::Prompt, native_turn: None };
                self.start(started, Source::Bowline, None, out);
            }
        }
        let Excerpt { text: head, bytes } = Excerpt::of(text);
        let bytes = ((head.len() as u64) < bytes).then_some(bytes);
        self.prompt = Some(head.clone());
        let message = UserMessage { origin: UserOrigin::Human, text: head, bytes, parent: None };
        self.append(Source::Bowline, None, Kind::UserMessage(message), out);
    }

    /// Marks the open turn as work of the agent without a prompt: the program does not report its end.
    pub(crate) fn ends_at_prompt(&mut self) {
        if let Some(open) = &mut self.open {
            open.ends_at_prompt = true;
        }
    }

    /// Ends work without a prompt: a prompt follows.
    pub(crate) fn close_at_prompt(&mut self, raw: Option<RawSpan>, out: &mut Vec<UnnumberedEvent>) {
        if self.is_open_ended() {
            self.close(Outcome::Completed, None, None, raw, out);
        }
    }

    /// Returns whether the open turn is work without a prompt, whose end is the next prompt.
    pub(crate) fn is_open_ended(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.ends_at_prompt)
    }

    /// Handles an event of the agent.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other kinds change nothing here, and pass as they are"
    )]
    pub(crate) fn agent(&mut self, mut kind: Kind, raw: Option<RawSpan>, out: &mut Vec<UnnumberedEvent>) {
        self.understood = true;
        if let Some(open) = &mut self.open {
            // Before anything reads the id: every rule below works with unique ids.
            open.rename(&mut kind);
        }
        // First the effect on the state, with the event borrowed; then the event itself, which the second match moves.
        match &kind {
            Kind::UserMessage(message) if message.parent.is_none() => {
                self.ensure_open(raw, out);
                if self.is_prompt(message) {
                    return;
                }
            }
            Kind::TextDelta(delta) => self.text_delta(delta, raw, out),
            Kind::TextRetracted(retracted) => self.text_retracted(retracted),
            Kind::ThinkingDelta(thought) => self.thinking_delta(thought, raw, out),
            Kind::Retrying(notice) => self.waits_for(notice.category, &notice.message, raw),
            Kind::ToolStarted(tool) => self.tool_started(tool, raw, out),
            Kind::ToolFinished(tool) => self.tool_finished(tool, raw, out),
            Kind::BackgroundTaskStarted(task) => self.running_tasks.start(&task.id),
            Kind::BackgroundTaskEnded(task) => self.running_tasks.end(&task.id),
            Kind::UsageReported(report) => self.usage_reported(report, raw, out),
            _ => {}
        }
        match kind {
            Kind::MessageFinished(finished) => self.message_finished(finished, raw, out),
            Kind::TurnStarted(started) => self.turn_started(started, raw, out),
            kind => self.append(Source::Agent, raw, kind, out),
        }
    }

    /// Handles the start of a turn that the program announces. An open turn ends as truncated, unless it is that turn.
    fn turn_started(&mut self, started: TurnStarted, raw: Option<RawSpan>, out: &mut Vec<UnnumberedEvent>) {
        if let Some(open) = &mut self.open
            && !open.lively
            // A lively turn cannot be this one: the program announces a turn before it works in it.
            && open.may_be(started.native_turn.as_deref())
        {
            // The turn was opened by the echo of its prompt, or announced twice.
            open.native_turn = open.native_turn.take().or(started.native_turn);
            return;
        }
        if self.open.is_some() {
            let failure = ending::truncated("a new turn began");
            self.close(Outcome::Truncated, None, Some(failure), raw, out);
        }
        self.start(started, Source::Agent, raw, out);
    }

    /// Returns whether a message repeats the prompt that the caller sent.
    fn is_prompt(&self, message: &UserMessage) -> bool {
        self.prompt.as_deref().is_some_and(|prompt| prompt.trim() == message.text.trim())
    }

    /// Handles a report of usage.
    fn usage_reported(
        &mut self,
        report: &UsageReported,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        // Before the first turn it can only belong to that one; after a turn has ended it comes too late.
        if self.number == 0 {
            self.ensure_open(raw, out);
        }
        self.count.report(report);
    }

    /// Counts a piece of output that was understood and has no event.
    pub(crate) fn recognised(&mut self, out: &mut Vec<UnnumberedEvent>) {
        self.understood = true;
        self.row.end(out);
    }

    /// Emits a notice about a field or type that no recording of the program has.
    pub(crate) fn novel(&mut self, path: &str, count: u64, out: &mut Vec<UnnumberedEvent>) {
        let notice = Notice {
            level: Level::Info,
            text: format!("never seen before: {path} ({count} times)"),
            code: Some(NOVEL.to_owned()),
        };
        self.append(Source::Bowline, None, Kind::Notice(notice), out);
    }

    /// Keeps a piece of output that was not understood.
    pub(crate) fn unrecognized(
        &mut self,
        what: Unrecognized,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        self.unrecognized += 1;
        // Half a line of JSON explains nothing.
        if !what.head.text.starts_with('{') {
            self.noise.add(&what.head.text);
            self.noise.add("\n");
        }
        self.row.add(self.turn(), what, raw, out);
    }

    /// Counts characters of the open turn's prompt, for the estimate.
    pub(crate) fn count_prompt(&mut self, chars: u64) {
        // The prompt that the caller reported is already counted.
        if let Some(open) = self.open.as_mut().filter(|_| self.prompt.is_none()) {
            open.prompt_chars += chars;
        }
    }

    /// Remembers an error that may explain the end of the turn. Errors after the last turn are ignored.
    pub(crate) fn remember_error(
        &mut self,
        message: &str,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        // An error after the last turn must not open a turn that then fails.
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

    /// From now on, the end of the output completes the open turn, or the first one.
    pub(crate) fn complete_at_eof(
        &mut self,
        stop: Option<StopReason>,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        self.understood = true;
        if self.number == 0 || self.open.is_some() {
            self.ensure_open(raw, out).complete_at_eof = Some(stop);
        }
    }

    /// From now on, the end of the output no longer completes the open turn.
    pub(crate) fn incomplete_at_eof(&mut self) {
        if let Some(open) = &mut self.open {
            open.complete_at_eof = None;
        }
    }

    /// Ends the turn as completed: the verdict of the program.
    pub(crate) fn completed(
        &mut self,
        stop: Option<StopReason>,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        self.understood = true;
        self.ensure_open(raw, out);
        self.close(Outcome::Completed, stop, None, raw, out);
    }

    /// Ends the turn as cancelled: the verdict of the program.
    pub(crate) fn cancelled(&mut self, raw: Option<RawSpan>, out: &mut Vec<UnnumberedEvent>) {
        self.understood = true;
        self.ensure_open(raw, out);
        self.close(Outcome::Cancelled, Some(StopReason::Cancelled), None, raw, out);
    }

    /// Ends the turn as failed: the verdict of the program.
    pub(crate) fn failed(
        &mut self,
        report: &Report,
        stderr: &str,
        exit: Option<Exit>,
        raw: Option<RawSpan>,
        now: &Moment,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        self.understood = true;
        self.ensure_open(raw, out);
        let evidence = Evidence { report: Some(report), text: stderr, exit, timed_out: false };
        let failure = Failure { raw, ..failure::classify(&evidence, now) };
        self.close(Outcome::Failed, None, Some(failure), raw, out);
    }

    /// Returns whether the end of the output has to be judged: a turn is open, or there never was one.
    pub(crate) fn awaits_verdict(&self) -> bool {
        self.open.is_some() || self.number == 0
    }

    fn ensure_open(&mut self, raw: Option<RawSpan>, out: &mut Vec<UnnumberedEvent>) -> &mut OpenTurn {
        if self.open.is_none() {
            let origin = if self.number == 0 { TurnOrigin::Prompt } else { TurnOrigin::Agent };
            self.start(TurnStarted { origin, native_turn: None }, Source::Bowline, raw, out);
        }
        self.open.get_or_insert_default()
    }

    fn start(
        &mut self,
        started: TurnStarted,
        source: Source,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        self.number += 1;
        let prompt_chars = std::mem::take(&mut self.prompt_chars);
        let native_turn = started.native_turn.clone();
        self.open = Some(OpenTurn { native_turn, prompt_chars, ..OpenTurn::default() });
        self.count.begin();
        self.append(source, raw, Kind::TurnStarted(started), out);
    }

    /// Closes the open turn: unfinished messages, an estimate where no usage was reported, then the end itself.
    fn close(
        &mut self,
        outcome: Outcome,
        stop: Option<StopReason>,
        failure: Option<Failure>,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        // Taken even if no turn is open: the count must not pass to the next turn.
        let num_turns = self.num_turns.take();
        let Some(open) = self.open.take() else { return };
        self.prompt = None;
        self.waiting = None;
        // The order is the stream's guarantee: messages end, then usage, then the turn.
        self.decide(open.undecided, Phase::Final, raw, out);
        for (message, before_tool) in open.messages.into_rest() {
            let phase = if before_tool { Phase::Commentary } else { Phase::Final };
            let finished = MessageFinished { message: message.id, phase, model: None };
            self.append(Source::Bowline, raw, Kind::MessageFinished(finished), out);
        }
        // Read before `end`, which drops the count of the turn.
        let (mut usage, cost_usd) = (self.count.usage(), self.count.cost_usd());
        self.count.end();
        // A turn that failed before any text has probably used nothing: no estimate, rather than a wrong one.
        if usage.is_none() && (outcome == Outcome::Completed || open.said_chars > 0) {
            let estimated = usage::estimate(open.prompt_chars, open.said_chars);
            usage = Some(estimated);
            let spent = TurnSpending { usage: estimated, source: UsageSource::Estimated, cost_usd: None };
            self.append(Source::Bowline, raw, Kind::UsageReported(spent.of_turn()), out);
        }
        let running_tasks = self.running_tasks.to_vec();
        self.left_tasks = !running_tasks.is_empty();
        let ended = TurnEnded {
            outcome,
            stop,
            failure: failure.map(Box::new),
            usage,
            cost_usd,
            num_turns,
            running_tools: open.running_tools.to_vec(),
            running_tasks,
        };
        self.append(Source::Bowline, raw, Kind::TurnEnded(ended), out);
    }

    /// Returns the number of the open turn.
    pub(crate) fn open_turn(&self) -> Option<u32> {
        self.open.as_ref().map(|_| self.number)
    }

    /// Returns how many tool calls of the open turn run.
    pub(crate) fn running_tools(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.running_tools.len())
    }

    /// Returns whether the last turn ended while background tasks ran, and no turn has started since.
    pub(crate) fn has_left_tasks(&self) -> bool {
        self.left_tasks && self.open.is_none()
    }

    /// Returns the usage of the open turn so far, reported or else estimated from the text. `None` between turns.
    pub(crate) fn spent(&self) -> Option<TurnSpending> {
        let open = self.open.as_ref()?;
        let (usage, source) = match self.count.usage() {
            Some(usage) => (usage, UsageSource::Reported),
            None => (usage::estimate(open.prompt_chars, open.said_chars), UsageSource::Estimated),
        };
        Some(TurnSpending { usage, source, cost_usd: self.count.cost_usd() })
    }

    fn append(&mut self, source: Source, raw: Option<RawSpan>, kind: Kind, out: &mut Vec<UnnumberedEvent>) {
        self.row.end(out);
        out.push(UnnumberedEvent { turn: self.turn(), source, raw, kind });
    }

    fn turn(&self) -> Option<u32> {
        (self.number > 0).then_some(self.number)
    }
}

#[cfg(test)]
mod tests;
