//! Renders a run for people: events in, bytes for standard output and standard error out.
//!
//! Pure: it writes no stream and reads no clock, so a test can show a run on any terminal.
//!
//! **The two streams.** Standard output gets the answer and nothing else; everything else goes to standard error. When
//! both are a terminal they share a cursor, and a line never begins in the middle of text.
//!
//! **Standard output.** On a terminal, text is shown as it arrives, and is made harmless. In a pipe or file, a message is
//! written unchanged, once it is known to be part of the answer and not commentary; beyond 2 MiB, as it arrives. So
//! `bowline run … > answer.txt` has the answer alone, even if the agent withdrew text. A cancelled run writes the text so far.
//! Text of sub-agents is never the answer.
//!
//! **Standard error, on a terminal.** One line for each tool call when it ends; a status line (running tool, retry, compaction
//! or spinner) that is erased before anything else is printed; remarks; then the footer.
//! **Standard error, in a pipe.** Warnings, errors, denials, and why there is no complete answer. No tool lines, no status, no
//! footer. With `-v`, everything is printed as plain lines.
//!
//! **Detail.** `-q` leaves out progress, tool calls and the footer. `-v` adds thinking, sub-agents, retries, plans, processes,
//! tool output and unrecognized output; `-vv` also tool input, the beginning of unrecognized output, and a line for each event
//! except pieces of text.
//!
//! Colour never carries a meaning alone. All text of an agent is untrusted, including names of tools and files.
//!
//! The loop that drives it, through `output::Sink`, which writes:
//!
//! ```ignore
//! let mut renderer = Renderer::new(RenderOptions { screen, glyphs, detail, zone, permission, remedies, cwd, provider });
//! loop {
//!     let pieces = select! {
//!         event = events.next() => match event { Some(event) => renderer.event(&event, now()), None => break },
//!         _ = sleep(TICK) => renderer.tick(now()),
//!         _ = ctrl_c() => renderer.interrupted(Interrupt::First, now()),
//!     };
//!     write(pieces)?; // in this order, and flushed
//! }
//! write(renderer.finish(&RunSummary { now: now(), took, session, journal }))?;
//! ```

mod activity;
mod agent_text;
mod ask;
mod calls;
mod canvas;
mod error_text;
mod files;
mod footer;
mod line;
mod markdown;
mod options;
mod refusals;
mod remarks;
mod rendered;
mod run_end;
mod suspended;
mod task_table;
#[cfg(test)]
mod tests;
mod tool_details;
mod words;

use bowline_protocol::kinds::{
    Level, LimitState, ModelChanged, Outcome, SessionStarted, ToolFinished, ToolStatus, TurnEnded,
};
use bowline_protocol::{Event, Kind, Millis, Source, Timestamp};
use bowline_providers::ansi;
use bowline_providers::views::Tally;

pub(crate) use self::activity::status_of;
use self::activity::{ActivityState, ends_text, is_background, is_work, stopping};
use self::agent_text::{AgentText, SideSource};
use self::ask::AskPanel;
pub(crate) use self::ask::{ApprovalCards, AskTyping, LineStep, shell_word};
use self::calls::OpenCalls;
use self::canvas::{Canvas, StatusDisplay};
pub(crate) use self::canvas::{OutputPiece, PieceStream, Screen, Surface};
pub(crate) use self::error_text::error_text;
use self::files::ChangedFiles;
use self::line::{Paint, PaintedLine};
pub(crate) use self::options::{AgentHints, DetailLevel, Interrupt, Remedies, RenderOptions, RunSummary};
use self::refusals::Refusals;
use self::remarks::{Remark, RemarkLevel};
pub(crate) use self::rendered::RenderedAnswer;
use self::suspended::{SuspendedError, is_beside_the_end};
pub(crate) use self::task_table::{TableScreen, TaskRow, TaskState, task_table};
pub(crate) use self::words::{Glyphs, when, wrapped, wrapped_lines};

/// The interval of `tick`.
pub(crate) const TICK: Millis = Millis(100);

/// The number of usage limits that are remembered, so that each is reported once.
const LIMITS: usize = 16;

/// The time without text before the spinner appears.
const SILENCE: Millis = Millis(800);

/// The maximum width of a line about a call in a pipe.
const PIPE_WIDTH: usize = 200;

/// Renders a run.
#[derive(Debug)]
pub(crate) struct Renderer {
    options: RenderOptions,
    canvas: Canvas,
    speech: AgentText,
    calls: OpenCalls,
    refusals: Refusals,
    files: ChangedFiles,
    tally: Tally,
    busy: ActivityState,
    /// Errors that wait for the end of the turn, which may explain them better.
    suspended: Vec<SuspendedError>,
    /// The usage limits that were reported: window and text.
    limits: Vec<(String, String)>,
    retries: u64,
    /// Whether the next attempt after the failure was announced already.
    told_of_fallback: bool,
    /// The provider of the current attempt.
    who: Option<String>,
    /// The printed warnings, so that the failure does not repeat them.
    warned: Vec<String>,
    /// The requests that the person decides; `None` if the person is not asked.
    panel: Option<AskPanel>,
}

/// The number of warnings that are remembered.
const WARNED: usize = 16;

impl Renderer {
    pub(crate) fn new(options: RenderOptions) -> Self {
        let canvas = Canvas::new(options.screen, options.glyphs);
        Self {
            speech: AgentText::new(&canvas),
            canvas,
            calls: OpenCalls::default(),
            refusals: Refusals::new(options.permission, options.remedies.clone()),
            files: ChangedFiles::default(),
            tally: Tally::default(),
            busy: ActivityState::default(),
            suspended: Vec::new(),
            limits: Vec::new(),
            retries: 0,
            told_of_fallback: false,
            who: options.provider.as_deref().map(words::one_line),
            warned: Vec::new(),
            panel: None,
            options,
        }
    }

    /// Sets the new width of the terminal.
    pub(crate) fn resize(&mut self, width: u16) {
        self.canvas.resize(width);
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &Event, now: Timestamp) -> Vec<OutputPiece> {
        self.busy.started.get_or_insert(now);
        if self.options.detail == DetailLevel::Everything {
            self.name(event);
        }
        let ours = event.source == Source::Bowline && matches!(event.kind, Kind::Retrying(_));
        if !is_beside_the_end(&event.kind) && !ours {
            self.resume();
        }
        let printed = self.canvas.printed();
        self.handle(event, now);
        self.cover_request(printed, now);
        self.tally.event(event);
        self.busy.heard |= !is_background(&event.kind);
        self.canvas.take()
    }

    /// Updates the status line.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Vec<OutputPiece> {
        self.busy.started.get_or_insert(now);
        let silent = self.busy.spoke.is_none_or(|spoke| now.since(spoke) >= SILENCE);
        self.repeat_request(now);
        let status = self.status(now);
        // Other lines end the text of the answer; below a request it may continue, and a line after each piece would tear it.
        let ends_text = matches!(status, Some(StatusDisplay::Line(_))) && self.waits_for_keys().is_none();
        if silent || ends_text {
            self.canvas.status(status);
        }
        self.canvas.take()
    }

    /// Shows that the user interrupted.
    pub(crate) fn interrupted(&mut self, interrupt: Interrupt, now: Timestamp) -> Vec<OutputPiece> {
        self.busy.stopping = Some(interrupt);
        self.refusals.stop();
        let erases = self.options.screen.stderr.tty && self.options.screen.stderr.erases;
        if erases {
            self.canvas.status(self.status(now));
        } else {
            self.canvas.line(&PaintedLine::of(Paint::Plain, stopping(interrupt)));
        }
        self.canvas.take()
    }

    /// Prints a warning that no event carries.
    pub(crate) fn warn(&mut self, text: &str) -> Vec<OutputPiece> {
        self.show(&Remark::warning(ansi::harmless(text)));
        self.canvas.take()
    }

    /// Prints a line that no event carries, at every level of detail.
    pub(crate) fn tell(&mut self, text: &str) -> Vec<OutputPiece> {
        self.say(RemarkLevel::Always, &PaintedLine::of(Paint::Plain, ansi::harmless(text).into_owned()));
        self.canvas.take()
    }

    /// Prints a line that no event carries and that is not a problem.
    pub(crate) fn mention(&mut self, text: &str) -> Vec<OutputPiece> {
        self.say(RemarkLevel::Usual, &PaintedLine::of(Paint::Dim, ansi::harmless(text).into_owned()));
        self.canvas.take()
    }

    fn handle(&mut self, event: &Event, now: Timestamp) {
        let glyphs = self.options.glyphs;
        if !matches!(event.kind, Kind::ThinkingDelta(_) | Kind::TextDelta(_)) {
            self.speech.flush_aside(glyphs, &mut self.canvas);
        }
        if ends_text(&event.kind) {
            self.canvas.end_block();
        }
        self.go_on(&event.kind);
        if is_work(&event.kind) {
            self.busy.retry = None;
            self.busy.thinking = matches!(event.kind, Kind::ThinkingDelta(_));
        }
        if self.text(&event.kind, now) {
            return;
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "`remark` decides about every other kind")]
        match &event.kind {
            Kind::SessionStarted(started) => self.session_started(started),
            Kind::TurnStarted(_) => self.turn_started(),
            Kind::TurnEnded(ended) => self.turn_ended(ended),
            Kind::ToolStarted(tool) => {
                self.calls.started(tool, event.at, self.options.cwd.as_deref());
                self.show_status_line(now);
            }
            Kind::ToolUpdated(update) => self.calls.updated(update, self.options.cwd.as_deref()),
            Kind::ToolFinished(end) => self.tool_finished(end, event.at),
            Kind::FilesTouched(touched) => self.files.touched(touched),
            Kind::ApprovalAsked(asked) => {
                self.approval_asked(asked);
                self.show_status_line(now);
            }
            Kind::ApprovalDecided(decided) => self.approval_decided(decided),
            Kind::QuestionAsked(asked) if self.question_asked(asked) => {}
            Kind::QuestionAnswered(answer) if self.question_answered(answer) => {}
            Kind::Retrying(retrying) => {
                self.retries += 1;
                if event.source == Source::Bowline {
                    self.ask_again(retrying, now);
                } else {
                    self.remark(event, now);
                }
                self.busy.retry = Some((retrying.clone(), now));
                self.canvas.status(self.status(now));
            }
            Kind::Status(status) => {
                self.remark(event, now);
                let words = status.status.as_deref().and_then(remarks::busy_with);
                self.busy.doing = words.map(|words| (words, now));
                self.canvas.status(self.status(now));
            }
            Kind::Unrecognized(what) => {
                self.remark(event, now);
                let head = words::one_line(&what.head.text);
                self.say(RemarkLevel::Everything, &PaintedLine::of(Paint::Dim, format!("  {head}")));
            }
            Kind::ModelChanged(changed) if self.is_first_model(changed) => {}
            Kind::ContextCompacted(_) => {
                self.busy.doing = None;
                self.remark(event, now);
            }
            Kind::RouteChosen(route) => {
                self.who = Some(words::one_line(&route.provider));
                self.remark(event, now);
            }
            Kind::FallbackTaken(fallback) => {
                self.begin_again(&fallback.failure.message);
                self.remark(event, now);
            }
            _ => self.remark(event, now),
        }
    }

    /// Returns whether a model is the first one: then it is no change, and the footer has it.
    fn is_first_model(&self, changed: &ModelChanged) -> bool {
        changed.reason.is_none() && self.tally.model.as_ref().is_none_or(|model| *model == changed.model)
    }

    /// Shows text of the agent. Returns whether the event was one.
    fn text(&mut self, kind: &Kind, now: Timestamp) -> bool {
        let glyphs = self.options.glyphs;
        #[expect(clippy::wildcard_enum_match_arm, reason = "`handle` decides about every other kind")]
        match kind {
            Kind::TextDelta(delta) if delta.parent.is_some() => {
                if self.options.detail >= DetailLevel::Verbose {
                    self.speech.aside(SideSource::SubAgent, &delta.text, glyphs, &mut self.canvas);
                }
            }
            Kind::TextDelta(delta) => {
                self.speech.flush_aside(glyphs, &mut self.canvas);
                self.busy.doing = None;
                self.busy.spoke = self.options.screen.stdout.tty.then_some(now);
                self.speech.text(delta, &mut self.canvas);
            }
            Kind::ThinkingDelta(delta) => {
                if self.options.detail >= DetailLevel::Verbose {
                    self.speech.thinking(delta, glyphs, &mut self.canvas);
                }
            }
            Kind::TextRetracted(retracted) => self.speech.retracted(retracted, &mut self.canvas),
            Kind::MessageFinished(finished) => {
                let commentary = self.speech.finished(finished, &mut self.canvas);
                if let Some(text) = commentary.filter(|_| self.options.detail >= DetailLevel::Verbose) {
                    self.speech.aside(SideSource::Commentary, &text, glyphs, &mut self.canvas);
                    self.speech.flush_aside(glyphs, &mut self.canvas);
                }
            }
            _ => return false,
        }
        true
    }

    fn session_started(&mut self, started: &SessionStarted) {
        if self.who.is_none() {
            self.who = started.provider.as_deref().map(words::one_line);
        }
        if self.options.cwd.is_none() {
            self.options.cwd.clone_from(&started.cwd);
        }
        if let Some(has) = &started.capabilities {
            self.capabilities(has);
        }
    }

    fn turn_started(&mut self) {
        self.speech.turn_started(&mut self.canvas);
        self.busy.ended = false;
        let told = std::mem::take(&mut self.told_of_fallback);
        // A person who cancelled a turn knows it.
        let failed = matches!(self.tally.outcome, Some(Outcome::Failed | Outcome::Truncated));
        if let Some(failure) = self.tally.trouble().filter(|_| failed && !told) {
            let text = format!("the agent continues after a failure: {}", words::one_line(&failure.message));
            self.show(&Remark::warning(text));
        }
    }

    fn turn_ended(&mut self, ended: &TurnEnded) {
        self.busy.ended = true;
        self.busy.retry = None;
        self.busy.doing = None;
        self.canvas.status(None);
        self.canvas.end_block();
        self.abandon_calls();
        self.refusals.turn_ended();
        if ended.outcome == Outcome::Completed {
            self.speech.turn_completed(&mut self.canvas);
        } else {
            self.speech.turn_cut_short(&mut self.canvas);
        }
        if !ended.running_tasks.is_empty() {
            let tasks = words::many(ended.running_tasks.len() as u64, "background task");
            self.show(&Remark::usual(format!("{tasks} did not finish")));
        }
    }

    fn tool_finished(&mut self, end: &ToolFinished, at: Timestamp) {
        let call = self.calls.finished(&end.id);
        if end.status == ToolStatus::Denied {
            self.refusals.denied(&end.id, call.as_ref());
        }
        if let Some(call) = call {
            let line = call.ended(end, at, self.options.glyphs);
            self.call_line(line);
            self.show_work(&call, end);
        }
    }

    fn abandon_calls(&mut self) {
        for call in self.calls.abandon() {
            let line = call.abandoned(self.options.glyphs);
            self.call_line(line);
        }
    }

    fn call_line(&mut self, line: PaintedLine) {
        let stderr = self.canvas.screen().stderr;
        let columns = if stderr.tty { usize::from(stderr.width) } else { PIPE_WIDTH };
        self.say(RemarkLevel::Usual, &line.cut(columns, self.options.glyphs));
    }

    /// Prints the line about an event, if there is one.
    fn remark(&mut self, event: &Event, now: Timestamp) {
        let Some(remark) = remarks::remark(&event.kind, now, &self.options.zone) else { return };
        if let Kind::LimitReported(limit) = &event.kind {
            // Agents report their limits with every request.
            let room = self.limits.len() < LIMITS;
            let told = self.limits.iter_mut().find(|(window, _)| *window == limit.window);
            match told {
                Some((_, words)) if *words == remark.text => return,
                Some((_, words)) => words.clone_from(&remark.text),
                None if !room => {}
                None => self.limits.push((limit.window.clone(), remark.text.clone())),
            }
        }
        if let Kind::Notice(notice) = &event.kind
            && notice.level == Level::Error
        {
            self.suspended.push(SuspendedError { remark, words: Some(words::one_line(&notice.text)) });
        } else if let Kind::LimitReported(limit) = &event.kind
            && limit.state == LimitState::Exhausted
        {
            self.suspended.push(SuspendedError { remark, words: None });
        } else {
            self.show(&remark);
        }
    }

    /// Prints the errors that did not end the turn.
    fn resume(&mut self) {
        for suspended in std::mem::take(&mut self.suspended) {
            self.show(&suspended.remark);
        }
    }

    fn show(&mut self, remark: &Remark) {
        if remark.weight == RemarkLevel::Always && self.warned.len() < WARNED {
            self.warned.push(remark.text.clone());
        }
        self.say(remark.weight, &remark.line());
    }

    /// Prints a line that begins with a label such as `error: `.
    fn labelled(&mut self, text: &str) {
        let (label, rest) = text.split_at(text.find(": ").map_or(0, |end| end + 2));
        let paint = match label {
            "error: " => Paint::Red,
            "refused: " | "denied by you: " | "denied at the deadline: " => Paint::Yellow,
            _ => Paint::Dim,
        };
        self.say(RemarkLevel::Always, &PaintedLine::of(paint, label).and(Paint::Plain, rest));
    }

    fn say(&mut self, weight: RemarkLevel, line: &PaintedLine) {
        let wanted = match weight {
            RemarkLevel::Always => true,
            RemarkLevel::Usual if self.options.detail == DetailLevel::Quiet => false,
            RemarkLevel::Usual => {
                self.options.screen.stderr.tty || self.options.detail >= DetailLevel::Verbose
            }
            RemarkLevel::Verbose => self.options.detail >= DetailLevel::Verbose,
            RemarkLevel::Everything => self.options.detail >= DetailLevel::Everything,
        };
        if wanted {
            self.canvas.line(line);
        }
    }

    /// Prints the number and type of an event. Skips pieces of text, because a line for each would break up the text.
    fn name(&mut self, event: &Event) {
        if !matches!(event.kind, Kind::TextDelta(_) | Kind::ThinkingDelta(_) | Kind::ToolUpdated(_)) {
            let text = format!("[{} {}]", event.seq, words::one_line(event.kind.type_name()));
            self.say(RemarkLevel::Everything, &PaintedLine::of(Paint::Dim, text));
        }
    }

    /// Shows the status on its own line at once.
    fn show_status_line(&mut self, now: Timestamp) {
        let status = self.status(now).map(|status| match status {
            StatusDisplay::Spinner { line, .. } | StatusDisplay::Line(line) => StatusDisplay::Line(line),
        });
        self.canvas.status(status);
    }

    fn status(&self, now: Timestamp) -> Option<StatusDisplay> {
        if let Some(line) = self.ask_line(now).filter(|_| self.busy.stopping.is_none()) {
            return Some(StatusDisplay::Line(line));
        }
        if self.options.detail == DetailLevel::Quiet && self.busy.stopping.is_none() {
            return None;
        }
        self.busy.status(self.who.as_deref(), now, &self.calls, &self.refusals, self.options.glyphs)
    }
}
