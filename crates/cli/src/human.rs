//! What `bowline run` shows a person: events in, bytes for standard output and standard error out.
//!
//! Pure: no stream is written here and no clock is read, so a run on any terminal can be a test.
//!
//! **The two streams.** Standard output gets the answer and nothing else; everything else goes to standard error. When
//! both are a terminal they share a cursor, and lines never begin in the middle of text.
//!
//! **Standard output.** On a terminal, text is shown as it comes, and is made harmless. In a pipe or file, a message is
//! written when it is known to be part of the answer, not commentary, and as the agent wrote it; beyond 2 MiB, as it
//! comes. Thus `bowline run … > answer.txt` holds the answer alone, also where text was withdrawn. A cancelled run writes
//! what there is. Sub-agents are never the answer.
//!
//! **Standard error, on a terminal.** One line for each tool call when it ends; what runs, a retry, a compaction or a
//! spinner as a status that is erased before anything else is printed; remarks; then the footer.
//! **Standard error, in a pipe.** Quiet: warnings, errors, refusals and why there is no complete answer. No tool lines,
//! no status, no footer. With `-v` everything comes as plain lines.
//!
//! **Detail.** `-q` leaves out progress, tool calls and the footer. `-v` adds thinking, sub-agents, retries, plans, processes,
//! the output of tools, and what was not understood; `-vv` also the input of tools, the beginning of what was not understood,
//! and a line for each event that is not a piece of a stream of text.
//!
//! Colour never carries a meaning alone. All words of an agent are untrusted, also the names of tools and files.
//!
//! The loop that drives it, through `output::Sink`, which does the writing:
//!
//! ```ignore
//! let mut renderer = Renderer::new(Options { screen, glyphs, detail, zone, permission, remedies, cwd, provider });
//! loop {
//!     let pieces = select! {
//!         event = events.next() => match event { Some(event) => renderer.event(&event, now()), None => break },
//!         _ = sleep(TICK) => renderer.tick(now()),
//!         _ = ctrl_c() => renderer.interrupted(Interrupt::First, now()),
//!     };
//!     write(pieces)?; // in this order, and flushed
//! }
//! write(renderer.finish(&Summary { now: now(), took, session, journal }))?;
//! ```

mod account;
mod busy;
mod calls;
mod canvas;
mod files;
mod footer;
mod markdown;
mod refusals;
mod remarks;
mod speech;
mod suspended;
#[cfg(test)]
mod tests;
mod words;
mod work;

use bowline_protocol::kinds::{Level, LimitState, Outcome, ToolFinished, ToolStatus, TurnEnded};
use bowline_protocol::{Event, Kind, Millis, PermissionMode, SessionId, Source, Timestamp};
use bowline_providers::ansi;
use bowline_providers::manifest::run::AllowNames;
use bowline_providers::views::Tally;
use jiff::tz::TimeZone;

pub(crate) use self::busy::status_of;
use self::busy::{Busy, is_background, is_work, stopping};
use self::calls::Calls;
use self::canvas::{Canvas, Line, Paint, Status};
pub(crate) use self::canvas::{Piece, Screen, Surface, To};
use self::files::Files;
use self::refusals::Refusals;
use self::remarks::{Remark, Weight};
use self::speech::{Speech, Voice};
use self::suspended::{Suspended, is_beside_the_end};
pub(crate) use self::words::{Glyphs, when, wrapped};

/// How often `tick` wants to be called while nothing else happens.
pub(crate) const TICK: Millis = Millis(100);

/// How many different limits are remembered, so that each is told once.
const LIMITS: usize = 16;

/// How long no text must have come before the spinner says so.
const SILENCE: Millis = Millis(800);

/// The most columns of a line about a call where there is no terminal to give the width.
const PIPE_WIDTH: usize = 200;

/// What the renderer has to know before anything happens.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) screen: Screen,
    pub(crate) glyphs: Glyphs,
    pub(crate) detail: Detail,
    /// The zone in which times are told.
    pub(crate) zone: TimeZone,
    /// What the agent may do, so that a refusal names a flag that changes something.
    pub(crate) permission: PermissionMode,
    pub(crate) remedies: Remedies,
    pub(crate) agent: AgentHints,
    /// Where the agent works; paths below it are told from there.
    pub(crate) cwd: Option<String>,
    /// The provider that is asked, if it is known before the run.
    pub(crate) provider: Option<String>,
}

/// What a refusal may say that would allow it.
#[derive(Clone, Debug)]
pub(crate) struct Remedies {
    /// Whether the agent can be allowed a tool by its name.
    pub(crate) by_name: bool,
    /// Whether the mode for edits lets commands run in a sandbox.
    pub(crate) in_sandbox: bool,
    /// Whether the agent can be let into a further directory.
    pub(crate) by_dir: bool,
    /// How the agent's own option names the tools, where that is known.
    pub(crate) names: AllowNames,
    /// The tools that the request allows already.
    pub(crate) allowed: Vec<String>,
}

/// What a hint about a failure has to know of the agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentHints {
    /// The provider.
    pub(crate) name: Option<String>,
    /// The command that logs in.
    pub(crate) login: Option<String>,
}

impl Remedies {
    /// For an agent that is not known yet.
    pub(crate) const USUAL: Self = Self {
        by_name: true,
        in_sandbox: false,
        by_dir: true,
        names: AllowNames { execute: None, fetch: None },
        allowed: Vec::new(),
    };
}

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// `-q`: the answer, warnings, errors and refusals.
    Quiet,
    Usual,
    /// `-v`.
    Verbose,
    /// `-vv`.
    Everything,
}

/// A wish of the user to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Cancel politely.
    First,
    /// Kill.
    Second,
}

/// What is known at the end besides the events.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) now: Timestamp,
    pub(crate) took: Millis,
    /// Our own name for the session.
    pub(crate) session: Option<SessionId>,
    /// Where the journal is; nothing for a run that leaves none.
    pub(crate) journal: Option<String>,
}

/// Shows a run.
#[derive(Debug)]
pub(crate) struct Renderer {
    options: Options,
    canvas: Canvas,
    speech: Speech,
    calls: Calls,
    refusals: Refusals,
    files: Files,
    tally: Tally,
    busy: Busy,
    /// Errors that the end of the turn may explain better.
    suspended: Vec<Suspended>,
    /// The limits that were told of: window, and the words.
    limits: Vec<(String, String)>,
    retries: u64,
    /// Whether it was said already that another attempt follows the failure.
    told_of_fallback: bool,
    /// The provider that is asked.
    who: Option<String>,
    /// The warnings that were shown, so that the failure does not repeat them.
    warned: Vec<String>,
}

/// How many warnings are remembered.
const WARNED: usize = 16;

impl Renderer {
    pub(crate) fn new(options: Options) -> Self {
        let canvas = Canvas::new(options.screen, options.glyphs);
        Self {
            speech: Speech::new(&canvas),
            canvas,
            calls: Calls::default(),
            refusals: Refusals::new(options.permission, options.remedies.clone()),
            files: Files::default(),
            tally: Tally::default(),
            busy: Busy::default(),
            suspended: Vec::new(),
            limits: Vec::new(),
            retries: 0,
            told_of_fallback: false,
            who: options.provider.as_deref().map(words::one_line),
            warned: Vec::new(),
            options,
        }
    }

    /// Takes the new width of the terminal.
    pub(crate) fn resize(&mut self, width: u16) {
        self.canvas.resize(width);
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &Event, now: Timestamp) -> Vec<Piece> {
        self.busy.started.get_or_insert(now);
        if self.options.detail == Detail::Everything {
            self.name(event);
        }
        let ours = event.source == Source::Bowline && matches!(event.kind, Kind::Retrying(_));
        if !is_beside_the_end(&event.kind) && !ours {
            self.resume();
        }
        self.handle(event, now);
        self.tally.event(event);
        self.busy.heard |= !is_background(&event.kind);
        self.canvas.take()
    }

    /// Shows that time passes.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Vec<Piece> {
        self.busy.started.get_or_insert(now);
        let silent = self.busy.spoke.is_none_or(|spoke| now.since(spoke) >= SILENCE);
        let status = self.status(now);
        if silent || matches!(status, Some(Status::Line(_))) {
            self.canvas.status(status);
        }
        self.canvas.take()
    }

    /// Shows that the user wants to stop.
    pub(crate) fn interrupted(&mut self, interrupt: Interrupt, now: Timestamp) -> Vec<Piece> {
        self.busy.stopping = Some(interrupt);
        let erases = self.options.screen.stderr.tty && self.options.screen.stderr.erases;
        if erases {
            self.canvas.status(self.status(now));
        } else {
            self.canvas.line(&Line::of(Paint::Plain, stopping(interrupt)));
        }
        self.canvas.take()
    }

    /// Tells of something that no event tells of.
    pub(crate) fn warn(&mut self, text: &str) -> Vec<Piece> {
        self.show(&Remark::warning(ansi::harmless(text)));
        self.canvas.take()
    }

    /// Tells something that no event tells of, whoever reads.
    pub(crate) fn tell(&mut self, text: &str) -> Vec<Piece> {
        self.say(Weight::Always, &Line::of(Paint::Plain, ansi::harmless(text).into_owned()));
        self.canvas.take()
    }

    /// Mentions something that no event tells of and that is no trouble.
    pub(crate) fn mention(&mut self, text: &str) -> Vec<Piece> {
        self.say(Weight::Usual, &Line::of(Paint::Dim, ansi::harmless(text).into_owned()));
        self.canvas.take()
    }

    fn handle(&mut self, event: &Event, now: Timestamp) {
        let glyphs = self.options.glyphs;
        if !matches!(event.kind, Kind::ThinkingDelta(_) | Kind::TextDelta(_)) {
            self.speech.flush_aside(glyphs, &mut self.canvas);
        }
        self.go_on(&event.kind);
        if is_work(&event.kind) {
            self.busy.retry = None;
            self.busy.thinking = matches!(event.kind, Kind::ThinkingDelta(_));
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "`remark` decides about every other kind")]
        match &event.kind {
            Kind::SessionStarted(started) => {
                if self.who.is_none() {
                    self.who = started.provider.as_deref().map(words::one_line);
                }
                if self.options.cwd.is_none() {
                    self.options.cwd.clone_from(&started.cwd);
                }
            }
            Kind::TurnStarted(_) => self.turn_started(),
            Kind::TurnEnded(ended) => self.turn_ended(ended),
            Kind::TextDelta(delta) if delta.parent.is_some() => {
                if self.options.detail >= Detail::Verbose {
                    self.speech.aside(Voice::SubAgent, &delta.text, glyphs, &mut self.canvas);
                }
            }
            Kind::TextDelta(delta) => {
                self.speech.flush_aside(glyphs, &mut self.canvas);
                self.busy.doing = None;
                self.busy.spoke = self.options.screen.stdout.tty.then_some(now);
                self.speech.text(delta, &mut self.canvas);
            }
            Kind::ThinkingDelta(delta) => {
                if self.options.detail >= Detail::Verbose {
                    self.speech.thinking(delta, glyphs, &mut self.canvas);
                }
            }
            Kind::TextRetracted(retracted) => self.speech.retracted(retracted, &mut self.canvas),
            Kind::MessageFinished(finished) => {
                let commentary = self.speech.finished(finished, &mut self.canvas);
                if let Some(text) = commentary.filter(|_| self.options.detail >= Detail::Verbose) {
                    self.speech.aside(Voice::Commentary, &text, glyphs, &mut self.canvas);
                    self.speech.flush_aside(glyphs, &mut self.canvas);
                }
            }
            Kind::ToolStarted(tool) => {
                self.calls.started(tool, event.at, self.options.cwd.as_deref());
                self.show_status_line(now);
            }
            Kind::ToolUpdated(update) => self.calls.updated(update, self.options.cwd.as_deref()),
            Kind::ToolFinished(end) => self.tool_finished(end, event.at),
            Kind::FilesTouched(touched) => self.files.touched(touched),
            Kind::ApprovalAsked(asked) => {
                self.refusals.asked(asked);
                self.show_status_line(now);
            }
            Kind::ApprovalDecided(decided) => self.refusals.decided(decided, &self.calls),
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
                self.say(Weight::Everything, &Line::of(Paint::Dim, format!("  {head}")));
            }
            // The first model that is named is no change, and the footer names it.
            Kind::ModelChanged(changed)
                if changed.reason.is_none()
                    && self.tally.model.as_ref().is_none_or(|model| *model == changed.model) => {}
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

    fn turn_started(&mut self) {
        self.speech.turn_started(&mut self.canvas);
        self.busy.ended = false;
        let told = std::mem::take(&mut self.told_of_fallback);
        if let Some(failure) = self.tally.trouble().filter(|_| self.tally.outcome.is_some() && !told) {
            let text = format!("the agent goes on after a failure: {}", words::one_line(&failure.message));
            self.show(&Remark::warning(text));
        }
    }

    fn turn_ended(&mut self, ended: &TurnEnded) {
        self.busy.ended = true;
        self.busy.retry = None;
        self.busy.doing = None;
        self.canvas.status(None);
        self.abandon_calls();
        self.refusals.turn_ended();
        if ended.outcome == Outcome::Completed {
            self.speech.turn_completed(&mut self.canvas);
        } else {
            self.speech.turn_cut_short(&mut self.canvas);
        }
        if !ended.running_tasks.is_empty() {
            let tasks = words::many(ended.running_tasks.len() as u64, "background task");
            self.show(&Remark::usual(format!("{tasks} had not ended")));
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

    fn call_line(&mut self, line: Line) {
        let stderr = self.canvas.screen().stderr;
        let columns = if stderr.tty { usize::from(stderr.width) } else { PIPE_WIDTH };
        self.say(Weight::Usual, &line.cut(columns, self.options.glyphs));
    }

    /// Shows the line about an event, if there is one.
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
            self.suspended.push(Suspended { remark, words: Some(words::one_line(&notice.text)) });
        } else if let Kind::LimitReported(limit) = &event.kind
            && limit.state == LimitState::Exhausted
        {
            self.suspended.push(Suspended { remark, words: None });
        } else {
            self.show(&remark);
        }
    }

    /// Shows the errors that the turn survived.
    fn resume(&mut self) {
        for suspended in std::mem::take(&mut self.suspended) {
            self.show(&suspended.remark);
        }
    }

    fn show(&mut self, remark: &Remark) {
        if remark.weight == Weight::Always && self.warned.len() < WARNED {
            self.warned.push(remark.text.clone());
        }
        self.say(remark.weight, &remark.line());
    }

    /// Prints a line whose first word says what it is.
    fn labelled(&mut self, text: &str) {
        let (label, rest) = text.split_at(text.find(": ").map_or(0, |end| end + 2));
        let paint = match label {
            "error: " => Paint::Red,
            "refused: " => Paint::Yellow,
            _ => Paint::Dim,
        };
        self.say(Weight::Always, &Line::of(paint, label).and(Paint::Plain, rest));
    }

    fn say(&mut self, weight: Weight, line: &Line) {
        let wanted = match weight {
            Weight::Always => true,
            Weight::Usual if self.options.detail == Detail::Quiet => false,
            Weight::Usual => self.options.screen.stderr.tty || self.options.detail >= Detail::Verbose,
            Weight::Verbose => self.options.detail >= Detail::Verbose,
            Weight::Everything => self.options.detail >= Detail::Everything,
        };
        if wanted {
            self.canvas.line(line);
        }
    }

    /// Names an event. Pieces of a stream are left out: a line for each would tear the text apart.
    fn name(&mut self, event: &Event) {
        if !matches!(event.kind, Kind::TextDelta(_) | Kind::ThinkingDelta(_) | Kind::ToolUpdated(_)) {
            let text = format!("[{} {}]", event.seq, words::one_line(event.kind.type_name()));
            self.say(Weight::Everything, &Line::of(Paint::Dim, text));
        }
    }

    /// Shows at once what runs now, on a line of its own.
    fn show_status_line(&mut self, now: Timestamp) {
        let status = self.status(now).map(|status| match status {
            Status::Spinner { line, .. } | Status::Line(line) => Status::Line(line),
        });
        self.canvas.status(status);
    }

    fn status(&self, now: Timestamp) -> Option<Status> {
        if self.options.detail == Detail::Quiet && self.busy.stopping.is_none() {
            return None;
        }
        self.busy.status(self.who.as_deref(), now, &self.calls, &self.refusals, self.options.glyphs)
    }
}
