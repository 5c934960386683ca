//! The account of a stream: turns, messages, tools and usage.
//!
//! Dialects say what they read; this account makes of it what every reader may rely on. A turn that starts ends
//! exactly once. A message that has text is finished once, before its turn ends. Usage is known at the end of a turn,
//! reported or estimated. Nothing here grows with the length of a stream, except by what is still open.
//!
//! States: *idle* (before the first turn, or between two), *open* (a turn runs). Agent events that belong to a turn
//! open one when none is; a verdict closes it; the end of the output closes whatever is left.

mod ending;
mod names;
mod noise;
mod waiting;

use bowline_protocol::kinds::{
    Level, MessageFinished, Notice, Outcome, Phase, StopReason, TextDelta, TurnEnded, TurnOrigin,
    TurnStarted, Unrecognized, UserMessage, UserOrigin,
};
use bowline_protocol::{
    Excerpt, Exit, Failure, Kind, MessageId, RawSpan, Source, TaskId, ToolId, UsageSource,
};

use crate::dialect::{Commentary, Draft};
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;
use crate::usage::{self, Spent};

use self::names::FinishedNames;
use self::waiting::Waiting;

/// The code of notices about fields and types that a program never used before.
pub(crate) const NOVEL: &str = "novel";

/// How many different error texts are remembered for a turn that does not end well.
const REMEMBERED_ERRORS: usize = 8;

/// The account of one stream.
#[derive(Debug)]
pub(crate) struct Turns {
    commentary: Commentary,
    /// The number of the current or last turn.
    number: u32,
    open: Option<Open>,
    /// What the reports add up to.
    count: usage::Count,
    running_tasks: Vec<TaskId>,
    /// The last retry, while nothing has come of it.
    waiting: Option<Waiting>,
    /// Whether the dialect understood anything at all.
    understood: bool,
    /// How many pieces of output nobody understood, and the last of them.
    unrecognized: u64,
    noise: Tail,
    /// Those of them that come one after the other.
    row: noise::Row,
    /// Whether the answer is plain text, in which a reason may stand.
    pub(crate) plain: bool,
    /// Characters of the prompt, for the estimate of the first turn.
    pub(crate) prompt_chars: u64,
    /// The prompt as we told it, until the program has repeated it or the turn is over.
    prompt: Option<String>,
}

/// How many messages may be undecided at once. What is older is taken for part of the answer.
const UNDECIDED: usize = 64;

/// A message that is not finished.
#[derive(Debug)]
struct Unfinished {
    id: MessageId,
    /// Whether a sub-agent says it.
    foreign: bool,
    /// Whether a tool was called since it was last heard.
    before_tool: bool,
    /// How many characters of it were said.
    chars: u64,
}

/// A turn that runs.
#[derive(Debug, Default)]
struct Open {
    /// The agent's own name for it.
    native_turn: Option<String>,
    /// Whether the agent has said or done anything in it.
    lively: bool,
    /// Messages of which text was said and that are not finished.
    messages: Vec<Unfinished>,
    /// Names of messages that are finished, and the names under which text goes on that comes for them all the same.
    names: FinishedNames,
    renamed: Vec<(MessageId, MessageId)>,
    /// Messages that are finished, but may yet turn out to be commentary.
    undecided: Vec<MessageFinished>,
    running_tools: Vec<ToolId>,
    errors: Vec<String>,
    /// The end of what was said: a program may print the reason of its failure where its answer should be.
    last_words: Tail,
    /// Whether the answer is complete, and why the model stopped, should the output end now.
    complete_at_eof: Option<Option<StopReason>>,
    said_chars: u64,
    prompt_chars: u64,
}

impl Open {
    /// Gives a message another name if the program uses that of one that is finished: what is finished stays so.
    fn rename(&mut self, kind: &mut Kind) {
        let message = if let Kind::TextDelta(delta) = kind {
            // The message that is being said is nearly always the last one.
            if self.names.is_empty() || self.messages.last().is_some_and(|last| last.id == delta.message) {
                return;
            }
            let known = self.renamed.iter().any(|(name, _)| *name == delta.message);
            if !known && self.names.contains(&delta.message) {
                let other = MessageId::from(format!("{}~{}", delta.message, self.names.len() + 1));
                self.renamed.push((delta.message.clone(), other));
            }
            &mut delta.message
        } else if let Kind::MessageFinished(finished) = kind {
            &mut finished.message
        } else if let Kind::TextRetracted(retracted) = kind {
            &mut retracted.message
        } else {
            return;
        };
        if let Some((_, other)) = self.renamed.iter().find(|(name, _)| name == message) {
            *message = other.clone();
        }
    }

    /// Takes note that a message is finished.
    fn finished(&mut self, message: &MessageId) {
        self.renamed.retain(|(_, other)| other != message);
        self.names.push(message.clone());
    }

    /// Takes note of a piece of a message, and says whether it begins one of the agent itself.
    fn heard(&mut self, delta: &TextDelta, chars: u64) -> bool {
        // The message that is being said is nearly always the last one.
        if let Some(message) = self.messages.iter_mut().rev().find(|message| message.id == delta.message) {
            message.before_tool = false;
            message.chars += chars;
            return false;
        }
        let foreign = delta.parent.is_some();
        self.messages.push(Unfinished { id: delta.message.clone(), foreign, before_tool: false, chars });
        !foreign
    }

    /// Says whether this may be the turn of that name: only two different names exclude it.
    fn may_be(&self, native_turn: Option<&str>) -> bool {
        self.native_turn.as_deref().zip(native_turn).is_none_or(|(ours, theirs)| ours == theirs)
    }
}

impl Turns {
    /// Begins an account.
    pub(crate) fn new(commentary: Commentary) -> Self {
        Self {
            commentary,
            number: 0,
            open: None,
            count: usage::Count::default(),
            running_tasks: Vec::new(),
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

    /// Begins the first turn with the prompt that was sent. A program that repeats it does not tell it again.
    pub(crate) fn prompt(&mut self, text: &str, out: &mut Vec<Draft>) {
        self.prompt_chars = text.chars().count() as u64;
        self.ensure_open(None, out);
        let Excerpt { text: head, bytes } = Excerpt::of(text);
        let bytes = ((head.len() as u64) < bytes).then_some(bytes);
        self.prompt = Some(head.clone());
        let message = UserMessage { origin: UserOrigin::Human, text: head, bytes, parent: None };
        self.append(Source::Bowline, None, Kind::UserMessage(message), out);
    }

    /// Takes an event of the agent.
    pub(crate) fn agent(&mut self, mut kind: Kind, raw: Option<RawSpan>, out: &mut Vec<Draft>) {
        self.understood = true;
        if let Some(open) = &mut self.open {
            open.rename(&mut kind);
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
                let chars = delta.text.chars().count() as u64;
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
                let message = |open: &mut Open| {
                    let message = open.messages.iter_mut().find(|message| message.id == retracted.message)?;
                    Some(std::mem::take(&mut message.chars))
                };
                if let Some(open) = open {
                    open.said_chars -= message(open).unwrap_or(0);
                }
            }
            Kind::ThinkingDelta(thought) => {
                if thought.parent.is_none() {
                    self.waiting = None;
                }
                self.ensure_open(raw, out).lively = true;
            }
            Kind::Retrying(notice) => self.waits_for(notice.category, &notice.message, raw),
            Kind::MessageFinished(finished) => {
                // Only messages with text are finished, and only once.
                let Some(open) = &mut self.open else { return };
                // The message that ends is nearly always the last one that began.
                let Some(place) = open.messages.iter().rposition(|open| open.id == finished.message) else {
                    return;
                };
                let message = open.messages.remove(place);
                open.finished(&message.id);
                let mut finished = finished.clone();
                if finished.phase == Phase::Final && message.before_tool {
                    finished.phase = Phase::Commentary;
                }
                let decided = match self.commentary {
                    Commentary::Told => true,
                    Commentary::AskedForTools => finished.phase == Phase::Final,
                    Commentary::BeforeTools | Commentary::AllButLast => finished.phase == Phase::Commentary,
                };
                if decided || message.foreign {
                    self.append(Source::Agent, raw, Kind::MessageFinished(finished), out);
                } else {
                    open.undecided.push(finished);
                    let first = open.undecided.len().saturating_sub(UNDECIDED);
                    if first > 0 {
                        let decided: Vec<_> = open.undecided.drain(..first).collect();
                        self.decide(decided, Phase::Final, raw, out);
                    }
                }
                return;
            }
            Kind::ToolStarted(tool) => {
                if tool.parent.is_none() {
                    self.waiting = None;
                }
                let speech_is_over = self.commentary == Commentary::BeforeTools && tool.parent.is_none();
                let open = self.ensure_open(raw, out);
                open.lively = true;
                if !open.running_tools.contains(&tool.id) {
                    open.running_tools.push(tool.id.clone());
                }
                if speech_is_over {
                    open.messages.iter_mut().for_each(|message| message.before_tool = !message.foreign);
                    let undecided = std::mem::take(&mut open.undecided);
                    self.decide(undecided, Phase::Commentary, raw, out);
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
                self.count.report(report);
            }
            Kind::UserMessage(_)
            | Kind::TextRetracted(_)
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

    /// Tells that messages are finished, now that it is known what they were.
    fn decide(
        &mut self,
        messages: impl IntoIterator<Item = MessageFinished>,
        phase: Phase,
        raw: Option<RawSpan>,
        out: &mut Vec<Draft>,
    ) {
        for finished in messages {
            let finished = MessageFinished { phase, ..finished };
            self.append(Source::Bowline, raw, Kind::MessageFinished(finished), out);
        }
    }

    /// Counts a piece of output that was understood and says nothing.
    pub(crate) fn recognised(&mut self, out: &mut Vec<Draft>) {
        self.understood = true;
        self.row.end(out);
    }

    /// Tells of a field or type that the program never used before.
    pub(crate) fn novel(&mut self, path: &str, count: u64, out: &mut Vec<Draft>) {
        let notice = Notice {
            level: Level::Info,
            text: format!("never seen before: {path} ({count} times)"),
            code: Some(NOVEL.to_owned()),
        };
        self.append(Source::Bowline, None, Kind::Notice(notice), out);
    }

    /// Keeps a piece of output that nobody understood.
    pub(crate) fn unrecognized(&mut self, what: Unrecognized, raw: Option<RawSpan>, out: &mut Vec<Draft>) {
        self.unrecognized += 1;
        // Half a line of JSON is no word about anything.
        if !what.head.text.starts_with('{') {
            self.noise.add(&what.head.text);
            self.noise.add("\n");
        }
        self.row.add(self.turn(), what, raw, out);
    }

    /// Counts characters of the open turn's prompt, for the estimate.
    pub(crate) fn count_prompt(&mut self, chars: u64) {
        // What we told ourselves is counted already.
        if let Some(open) = self.open.as_mut().filter(|_| self.prompt.is_none()) {
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
        exit: Option<Exit>,
        raw: Option<RawSpan>,
        now: &Moment,
        out: &mut Vec<Draft>,
    ) {
        self.understood = true;
        self.ensure_open(raw, out);
        let evidence = Evidence { report: Some(report), text: stderr, exit, timed_out: false };
        let failure = Failure { raw, ..failure::classify(&evidence, now) };
        self.close(Outcome::Failed, None, Some(failure), raw, out);
    }

    /// Says whether the end of the output would have to be judged: a turn is open, or there never was one.
    pub(crate) fn awaits_verdict(&self) -> bool {
        self.open.is_some() || self.number == 0
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
        let native_turn = started.native_turn.clone();
        self.open = Some(Open { native_turn, prompt_chars, ..Open::default() });
        self.count.begin();
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
        self.prompt = None;
        self.waiting = None;
        self.decide(open.undecided, Phase::Final, raw, out);
        for Unfinished { id: message, before_tool, .. } in open.messages {
            let phase = if before_tool { Phase::Commentary } else { Phase::Final };
            let finished = MessageFinished { message, phase, model: None };
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
            running_tools: open.running_tools,
            running_tasks: self.running_tasks.clone(),
        };
        self.append(Source::Bowline, raw, Kind::TurnEnded(ended), out);
    }

    /// Returns what the open turn has used so far, as it was reported or else by what was said; nothing between turns.
    pub(crate) fn spent(&self) -> Option<Spent> {
        let open = self.open.as_ref()?;
        let (usage, source) = match self.count.usage() {
            Some(usage) => (usage, UsageSource::Reported),
            None => (usage::estimate(open.prompt_chars, open.said_chars), UsageSource::Estimated),
        };
        Some(Spent { usage, source, cost_usd: self.count.cost_usd() })
    }

    fn append(&mut self, source: Source, raw: Option<RawSpan>, kind: Kind, out: &mut Vec<Draft>) {
        self.row.end(out);
        out.push(Draft { turn: self.turn(), source, raw, kind });
    }

    fn turn(&self) -> Option<u32> {
        (self.number > 0).then_some(self.number)
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
