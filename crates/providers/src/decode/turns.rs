//! Tracks the turns, messages, tools and usage of a stream.
//!
//! Dialects report what they read. This module turns the reports into a stream with guarantees. A turn that starts ends
//! exactly once. A message that has text is finished once, before its turn ends. Usage is known at the end of a turn,
//! reported or estimated. Memory does not grow with the length of a stream, only with the items that are still open.
//!
//! States: *idle* (before the first turn, or between two), *open* (a turn runs). Agent events that belong to a turn
//! open one if necessary. A verdict closes the turn. The end of the output closes everything that is left.

mod ending;
mod names;
mod noise;
mod running;
mod unfinished;
mod waiting;

use bowline_protocol::kinds::{
    Level, MessageFinished, Notice, Outcome, Phase, StopReason, TextDelta, TurnEnded, TurnOrigin,
    TurnStarted, Unrecognized, UserMessage, UserOrigin,
};
use bowline_protocol::{
    Excerpt, Exit, Failure, Kind, MessageId, RawSpan, Source, TaskId, ToolId, UsageSource,
};

use crate::decode::dialect::{Commentary, UnnumberedEvent};
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;
use crate::usage::{self, Spent};

use self::names::{FinishedNames, RenamedMessages};
use self::running::RunningIds;
use self::unfinished::UnfinishedMessages;
use self::waiting::Waiting;

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
    open: Option<Open>,
    /// The sum of the usage reports.
    count: usage::Count,
    running_tasks: RunningIds<TaskId>,
    /// How many turns of the model the open turn took, by the program's own count.
    pub(crate) num_turns: Option<u32>,
    /// The last retry, until it has an effect.
    waiting: Option<Waiting>,
    /// Whether the dialect understood anything at all.
    understood: bool,
    /// The number of pieces of output that were not understood, and the last of them.
    unrecognized: u64,
    noise: Tail,
    /// A run of consecutive pieces that were not understood.
    row: noise::Row,
    /// Whether the answer is plain text, which may contain the reason of a failure.
    pub(crate) plain: bool,
    /// Characters of the prompt, for the estimate of the first turn.
    pub(crate) prompt_chars: u64,
    /// The prompt that the caller sent, until the program has repeated it or the turn is over.
    prompt: Option<String>,
}

/// The maximum number of undecided messages. Older ones count as part of the answer.
const UNDECIDED: usize = 64;

/// A turn that runs.
#[derive(Debug, Default)]
struct Open {
    /// The agent's own id of the turn.
    native_turn: Option<String>,
    /// Whether the agent has produced output or used a tool in it.
    lively: bool,
    /// Unfinished messages with text.
    messages: UnfinishedMessages,
    /// Ids of finished messages, and the new ids for text that arrives under a finished id.
    names: FinishedNames,
    renamed: RenamedMessages,
    /// Finished messages that may still become commentary.
    undecided: Vec<MessageFinished>,
    running_tools: RunningIds<ToolId>,
    errors: Vec<String>,
    /// The end of the text: a program may print the reason of its failure in place of an answer.
    last_words: Tail,
    /// Whether the end of the output now would complete the answer, and the stop reason of the model.
    complete_at_eof: Option<Option<StopReason>>,
    said_chars: u64,
    prompt_chars: u64,
}

impl Open {
    /// Returns a new id for a message whose id belongs to a finished message. A finished message never changes.
    fn rename(&mut self, kind: &mut Kind) {
        let message = if let Kind::TextDelta(delta) = kind {
            // The current message is nearly always the last one.
            if self.names.is_empty() || self.messages.last() == Some(&delta.message) {
                return;
            }
            let known = self.renamed.get(&delta.message).is_some();
            if !known && self.names.contains(&delta.message) {
                // Count over the whole turn, so that an id is never given twice.
                let other = MessageId::from(format!("{}~{}", delta.message, self.names.finished() + 1));
                self.renamed.push(delta.message.clone(), other);
            }
            &mut delta.message
        } else if let Kind::MessageFinished(finished) = kind {
            &mut finished.message
        } else if let Kind::TextRetracted(retracted) = kind {
            &mut retracted.message
        } else {
            return;
        };
        if let Some(other) = self.renamed.get(message) {
            *message = other.clone();
        }
    }

    /// Records that a message is finished.
    fn finished(&mut self, message: MessageId) {
        self.renamed.remove(&message);
        self.names.push(message);
    }

    /// Records a piece of a message. Returns whether it starts a message of the agent itself.
    fn heard(&mut self, delta: &TextDelta, chars: u64) -> bool {
        let foreign = delta.parent.is_some();
        self.messages.heard(&delta.message, foreign, chars) && !foreign
    }

    /// Returns whether this may be the turn with that id. Only two different ids exclude it.
    fn may_be(&self, native_turn: Option<&str>) -> bool {
        self.native_turn.as_deref().zip(native_turn).is_none_or(|(ours, theirs)| ours == theirs)
    }
}

impl TurnTracker {
    /// Creates the state of a new stream.
    pub(crate) fn new(commentary: Commentary) -> Self {
        Self {
            commentary,
            number: 0,
            open: None,
            count: usage::Count::default(),
            running_tasks: RunningIds::default(),
            num_turns: None,
            waiting: None,
            understood: false,
            unrecognized: 0,
            row: noise::Row::default(),
            noise: Tail::default(),
            plain: false,
            prompt_chars: 0,
            prompt: None,
        }
    }

    /// Starts the first turn with the prompt that was sent. If the program repeats the prompt, the repetition is dropped.
    pub(crate) fn prompt(&mut self, text: &str, out: &mut Vec<UnnumberedEvent>) {
        self.prompt_chars = text.chars().count() as u64;
        self.ensure_open(None, out);
        let Excerpt { text: head, bytes } = Excerpt::of(text);
        let bytes = ((head.len() as u64) < bytes).then_some(bytes);
        self.prompt = Some(head.clone());
        let message = UserMessage { origin: UserOrigin::Human, text: head, bytes, parent: None };
        self.append(Source::Bowline, None, Kind::UserMessage(message), out);
    }

    /// Handles an event of the agent.
    pub(crate) fn agent(&mut self, mut kind: Kind, raw: Option<RawSpan>, out: &mut Vec<UnnumberedEvent>) {
        self.understood = true;
        if let Some(open) = &mut self.open {
            open.rename(&mut kind);
        }
        if let Kind::MessageFinished(finished) = kind {
            return self.message_finished(finished, raw, out);
        }
        match &kind {
            Kind::TurnStarted(started) => {
                if let Some(open) = &mut self.open
                    && !open.lively
                    && open.may_be(started.native_turn.as_deref())
                {
                    // The turn was opened by the echo of its prompt, or announced twice.
                    open.native_turn = open.native_turn.take().or_else(|| started.native_turn.clone());
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
                if self.prompt.as_deref().is_some_and(|told| told.trim() == message.text.trim()) {
                    return;
                }
            }
            Kind::TextDelta(delta) => {
                // Only the estimate needs them, and only where the program has not reported what it used.
                let is_counted = self.count.usage().is_none();
                let chars = if is_counted { chars(&delta.text) } else { 0 };
                if delta.parent.is_none() {
                    self.waiting = None;
                }
                let plain = self.plain;
                let by_what_follows =
                    matches!(self.commentary, Commentary::AllButLast | Commentary::AskedForTools);
                let open = self.ensure_open(raw, out);
                open.lively = true;
                open.said_chars += chars;
                // Only of plain text is the end worth anything.
                if plain {
                    open.last_words.add(&delta.text);
                }
                let another = open.heard(delta, chars);
                if another && by_what_follows && !open.undecided.is_empty() {
                    let mut undecided = std::mem::take(&mut open.undecided);
                    self.decide(undecided.drain(..), Phase::Commentary, raw, out);
                    // Keep the room for the next message.
                    self.open.get_or_insert_default().undecided = undecided;
                }
            }
            Kind::TextRetracted(retracted) if retracted.from_block == 0 => {
                let open = self.open.as_mut();
                if let Some(open) = open
                    && let Some(message) = open.messages.get_mut(&retracted.message)
                {
                    open.said_chars -= std::mem::take(&mut message.chars);
                }
            }
            Kind::ThinkingDelta(thought) => {
                if thought.parent.is_none() {
                    self.waiting = None;
                }
                self.ensure_open(raw, out).lively = true;
            }
            Kind::Retrying(notice) => self.waits_for(notice.category, &notice.message, raw),
            Kind::ToolStarted(tool) => {
                if tool.parent.is_none() {
                    self.waiting = None;
                }
                let speech_is_over = self.commentary == Commentary::BeforeTools && tool.parent.is_none();
                let open = self.ensure_open(raw, out);
                open.lively = true;
                open.running_tools.start(&tool.id);
                if speech_is_over {
                    open.messages.tool_called();
                    let undecided = std::mem::take(&mut open.undecided);
                    self.decide(undecided, Phase::Commentary, raw, out);
                }
            }
            Kind::ToolFinished(tool) => {
                let open = self.ensure_open(raw, out);
                open.lively = true;
                open.running_tools.end(&tool.id);
            }
            Kind::BackgroundTaskStarted(task) => self.running_tasks.start(&task.id),
            Kind::BackgroundTaskEnded(task) => self.running_tasks.end(&task.id),
            Kind::UsageReported(report) => {
                // Before the first turn it can only belong to that one; after a turn has ended it comes too late.
                if self.number == 0 {
                    self.ensure_open(raw, out);
                }
                self.count.report(report);
            }
            Kind::UserMessage(_)
            | Kind::TextRetracted(_)
            | Kind::MessageFinished(_)
            | Kind::SessionStarted(_)
            | Kind::SessionStateChanged(_)
            | Kind::SessionEnded(_)
            | Kind::ControlModeChanged(_)
            | Kind::TurnEnded(_)
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

    /// Handles the end of a message. A message ends only if it has text, and only once.
    fn message_finished(
        &mut self,
        mut finished: MessageFinished,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        let Some(open) = &mut self.open else { return };
        let Some((message, before_tool)) = open.messages.finish(&finished.message) else { return };
        let foreign = message.foreign;
        open.finished(message.id);
        if finished.phase == Phase::Final && before_tool {
            finished.phase = Phase::Commentary;
        }
        let decided = match self.commentary {
            Commentary::Told => true,
            Commentary::AskedForTools => finished.phase == Phase::Final,
            Commentary::BeforeTools | Commentary::AllButLast => finished.phase == Phase::Commentary,
        };
        if decided || foreign {
            return self.append(Source::Agent, raw, Kind::MessageFinished(finished), out);
        }
        open.undecided.push(finished);
        let first = open.undecided.len().saturating_sub(UNDECIDED);
        if first > 0 {
            let decided: Vec<_> = open.undecided.drain(..first).collect();
            self.decide(decided, Phase::Final, raw, out);
        }
    }

    /// Emits the ends of messages, after their phase is known.
    fn decide(
        &mut self,
        messages: impl IntoIterator<Item = MessageFinished>,
        phase: Phase,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        for finished in messages {
            let finished = MessageFinished { phase, ..finished };
            self.append(Source::Bowline, raw, Kind::MessageFinished(finished), out);
        }
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

    fn ensure_open(&mut self, raw: Option<RawSpan>, out: &mut Vec<UnnumberedEvent>) -> &mut Open {
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
        self.open = Some(Open { native_turn, prompt_chars, ..Open::default() });
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
        let num_turns = self.num_turns.take();
        let Some(open) = self.open.take() else { return };
        self.prompt = None;
        self.waiting = None;
        self.decide(open.undecided, Phase::Final, raw, out);
        for (message, before_tool) in open.messages.into_rest() {
            let phase = if before_tool { Phase::Commentary } else { Phase::Final };
            let finished = MessageFinished { message: message.id, phase, model: None };
            self.append(Source::Bowline, raw, Kind::MessageFinished(finished), out);
        }
        let (mut usage, cost_usd) = (self.count.usage(), self.count.cost_usd());
        self.count.end();
        if usage.is_none() && (outcome == Outcome::Completed || open.said_chars > 0) {
            let estimated = usage::estimate(open.prompt_chars, open.said_chars);
            usage = Some(estimated);
            let spent = Spent { usage: estimated, source: UsageSource::Estimated, cost_usd: None };
            self.append(Source::Bowline, raw, Kind::UsageReported(spent.of_turn()), out);
        }
        let ended = TurnEnded {
            outcome,
            stop,
            failure: failure.map(Box::new),
            usage,
            cost_usd,
            num_turns,
            running_tools: open.running_tools.to_vec(),
            running_tasks: self.running_tasks.to_vec(),
        };
        self.append(Source::Bowline, raw, Kind::TurnEnded(ended), out);
    }

    /// Returns the usage of the open turn so far, reported or else estimated from the text. `None` between turns.
    pub(crate) fn spent(&self) -> Option<Spent> {
        let open = self.open.as_ref()?;
        let (usage, source) = match self.count.usage() {
            Some(usage) => (usage, UsageSource::Reported),
            None => (usage::estimate(open.prompt_chars, open.said_chars), UsageSource::Estimated),
        };
        Some(Spent { usage, source, cost_usd: self.count.cost_usd() })
    }

    fn append(&mut self, source: Source, raw: Option<RawSpan>, kind: Kind, out: &mut Vec<UnnumberedEvent>) {
        self.row.end(out);
        out.push(UnnumberedEvent { turn: self.turn(), source, raw, kind });
    }

    fn turn(&self) -> Option<u32> {
        (self.number > 0).then_some(self.number)
    }
}

/// Counts the characters of a text. Most pieces are ASCII, and that check is much cheaper than counting.
fn chars(text: &str) -> u64 {
    let chars = if text.is_ascii() { text.len() } else { text.chars().count() };
    chars as u64
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

#[cfg(test)]
mod tests;
