//! Writes the events of `bowline run`: for people, or in one of the formats for programs.
//!
//! This module writes the pieces of the human renderer. In every format, standard error gets warnings, denials and failures;
//! with a format for programs, it is as quiet as in a pipe.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use bowline_protocol::kinds::TextDelta;
use bowline_protocol::{Capabilities, Event, Kind, MessageId, OrderRefused, SessionOrder, Timestamp};
use bowline_providers::{ansi, views};
use serde::Serialize;

use super::notices::TerminalNotices;
use super::view::ViewWriter;
use crate::error::CommandError;
use crate::human::{
    AskTyping, DetailLevel, Interrupt, LineStep, OutputPiece, PieceStream, RenderOptions, Renderer,
    RunSummary, Screen,
};
use crate::ui::{FULL, Stdout, Ui, terminal};

/// The format for people.
const HUMAN: &str = "human";

/// Views with another name here: scripts expect `json`, not `summary`.
const RENAMED: [(&str, &str); 2] = [("json", "summary"), ("jsonl", "events")];

/// A format of `--output`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutputFormat {
    /// For people.
    Human,
    /// For programs.
    View(&'static views::ViewEntry),
}

impl OutputFormat {
    /// Returns the names of all formats, in the order in which help lists them.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let renamed = |view: &str| RENAMED.iter().find(|(_, name)| *name == view).map(|(ours, _)| *ours);
        let views = views::ALL.iter().map(move |entry| renamed(entry.name).unwrap_or(entry.name));
        std::iter::once(HUMAN).chain(views)
    }

    /// Finds a format by its name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if name == HUMAN {
            return Some(Self::Human);
        }
        let view = RENAMED.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, view)| *view);
        let is_hidden = RENAMED.iter().any(|(_, view)| *view == name);
        views::by_name(view).filter(|_| !is_hidden).map(Self::View)
    }
}

/// Writes the events of a run to standard output and standard error.
pub(crate) struct Sink {
    renderer: Renderer,
    /// For programs: writes standard output instead of the renderer.
    viewer: Option<ViewWriter>,
    /// For programs: whether standard error shows problems only, so that text need not be rendered.
    terse: bool,
    /// The message that the last event belongs to.
    speaking: Option<MessageId>,
    stdout: Stdout,
    /// Shared by the sinks of several runs.
    pub(super) ui: Rc<RefCell<Ui>>,
    /// For one of several runs: the harmless name that stands before each line. Its answer is printed at the end, by the caller.
    prefix: Option<String>,
    /// Whether the reader of standard output may print to the terminal of standard error.
    piped: bool,
    /// Whether standard output was written to since the last wait for that reader.
    unread: bool,
    pub(super) notices: Option<TerminalNotices>,
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("viewer", &self.viewer).finish_non_exhaustive()
    }
}

/// Whether a request that waits is shown behind a batch of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskNow {
    No,
    Yes,
}

impl Sink {
    /// Makes a sink for our own streams.
    pub(crate) fn new(format: OutputFormat, options: RenderOptions, provider: Option<String>) -> Self {
        Self::over(format, options, provider, Stdout::new(), Ui::new())
    }

    /// Makes a sink for one of several runs. Each line on standard error begins with its name, and each object on standard
    /// output has it. In the format for people, the caller prints the answer.
    pub(crate) fn of_several(
        format: OutputFormat,
        options: RenderOptions,
        name: &str,
        ui: Rc<RefCell<Ui>>,
    ) -> Self {
        let mut sink = Self::new(format, options, Some(name.to_owned()));
        sink.viewer = sink.viewer.map(|viewer| viewer.naming(name));
        sink.prefix = Some(ansi::harmless(name).into_owned());
        sink.ui = ui;
        sink
    }

    /// Makes a sink for one of many tasks: only the part for standard error, each line behind the id. The caller prints the answer.
    pub(crate) fn of_task(options: RenderOptions, id: &str, ui: Rc<RefCell<Ui>>) -> Self {
        let mut sink = Self::new(OutputFormat::Human, options, None);
        sink.prefix = Some(ansi::harmless(id).into_owned());
        sink.ui = ui;
        sink
    }

    fn over(
        format: OutputFormat,
        mut options: RenderOptions,
        provider: Option<String>,
        stdout: Stdout,
        ui: Ui,
    ) -> Self {
        let viewer = match format {
            OutputFormat::Human => None,
            OutputFormat::View(entry) => {
                // No drawing and no colour beside output for programs, even if standard error is a terminal.
                options.screen = Screen::PIPES;
                Some(ViewWriter::of_run(entry, &views::Setup { provider, ours: true }))
            }
        };
        let (piped, terse) = (options.screen.piped, viewer.is_some() && options.detail == DetailLevel::Usual);
        let renderer = Renderer::new(options);
        let ui = Rc::new(RefCell::new(ui));
        Self {
            renderer,
            viewer,
            terse,
            speaking: None,
            stdout,
            ui,
            prefix: None,
            piped,
            unread: false,
            notices: None,
        }
    }

    /// Writes a batch of events.
    pub(crate) fn events(&mut self, events: &[Event], now: Timestamp) -> Result<(), CommandError> {
        self.write_events(events, now, AskNow::Yes)
    }

    fn write_events(&mut self, events: &[Event], now: Timestamp, ask: AskNow) -> Result<(), CommandError> {
        let (mut pieces, mut waiting) = (Vec::new(), 0);
        // Standard error gets its part also if standard output is closed.
        let mut closed = Ok(());
        for event in events {
            if !self.goes_on_speaking(event) {
                let shown = self.renderer.event(event, now);
                waiting += shown.iter().map(|piece| piece.bytes.len()).sum::<usize>();
                pieces.extend(shown);
            }
            if let Some(viewer) = &mut self.viewer {
                viewer.event(event);
                if viewer.is_full() && closed.is_ok() {
                    closed = viewer.flush(&mut self.stdout);
                }
            }
            // A batch may contain a long answer. Write it in parts, so that it does not stay in memory twice.
            if waiting >= FULL {
                self.write(&std::mem::take(&mut pieces))?;
                waiting = 0;
            }
        }
        if let Some(viewer) = self.viewer.as_mut().filter(|_| closed.is_ok()) {
            closed = viewer.flush(&mut self.stdout);
        }
        if ask == AskNow::Yes {
            pieces.extend(self.renderer.ask_next(now));
        }
        let written = self.write(&pieces);
        self.show_notices(events);
        closed.and(written)
    }

    /// Returns whether the renderer can skip an event: a program reads standard output, and the event only adds text to a
    /// message that the renderer knows. The first text of a message always goes to the renderer.
    fn goes_on_speaking(&mut self, event: &Event) -> bool {
        if !self.terse {
            return false;
        }
        let Kind::TextDelta(TextDelta { message, text, parent: None, .. }) = &event.kind else {
            self.speaking = None;
            return false;
        };
        if self.speaking.as_ref() == Some(message) {
            return true;
        }
        // Blank text is not an answer yet, so the next text goes to the renderer too.
        self.speaking = (!text.trim().is_empty()).then(|| message.clone());
        false
    }

    /// Lets the person decide what the agent asks for.
    pub(crate) fn ask(&mut self, typing: AskTyping) {
        self.renderer.ask(typing);
    }

    /// Takes note of what the agent can do.
    pub(crate) fn capabilities(&mut self, has: &Capabilities) {
        self.renderer.capabilities(has);
    }

    /// Writes events of the past. A request in them is shown only if no later one of them settles it: by the next [`Self::events`].
    pub(crate) fn past(&mut self, events: &[Event], now: Timestamp) -> Result<(), CommandError> {
        self.write_events(events, now, AskNow::No)
    }

    /// Handles a line that the person typed.
    pub(crate) fn typed_line(
        &mut self,
        line: &str,
        entered: Timestamp,
        now: Timestamp,
    ) -> Result<LineStep, CommandError> {
        let (pieces, step) = self.renderer.typed_line(line, entered, now);
        self.write(&pieces).map(|()| step)
    }

    /// Returns the order that dismisses the question on the screen.
    pub(crate) fn dismissal(&mut self) -> Option<SessionOrder> {
        self.renderer.dismissal()
    }

    /// Returns the number of the request that waits for the keyboard.
    pub(crate) fn waits_for_keys(&self) -> Option<u64> {
        self.renderer.waits_for_keys()
    }

    /// Handles bytes of the keyboard. Returns the order that they give.
    pub(crate) fn typed(
        &mut self,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<Option<SessionOrder>, CommandError> {
        let (pieces, order) = self.renderer.typed(bytes, now);
        self.write(&pieces).map(|()| order)
    }

    /// Shows that an order of the person was refused, and the next request.
    pub(crate) fn order_refused(
        &mut self,
        order: &SessionOrder,
        why: &OrderRefused,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        let mut pieces = self.renderer.order_refused(order, why, now);
        pieces.extend(self.renderer.ask_next(now));
        self.write(&pieces)
    }

    /// Returns the order that denies the request on the screen, because the keyboard is gone.
    pub(crate) fn deny_shown(&mut self) -> Option<SessionOrder> {
        self.renderer.deny_shown()
    }

    /// Rings the bell.
    pub(crate) fn ring(&self) {
        self.ui.borrow_mut().bell();
    }

    /// Updates the status line.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Result<(), CommandError> {
        let pieces = self.renderer.tick(now);
        self.write(&pieces)
    }

    /// Shows that the user interrupted.
    pub(crate) fn interrupted(&mut self, interrupt: Interrupt, now: Timestamp) -> Result<(), CommandError> {
        let pieces = self.renderer.interrupted(interrupt, now);
        self.write(&pieces)
    }

    /// Sets the new width of the terminal.
    pub(crate) fn resize(&mut self, width: u16) {
        self.renderer.resize(width);
    }

    /// Returns the current activity as text; `None` once the agent has ended.
    pub(crate) fn activity(&self, now: Timestamp) -> Option<String> {
        self.renderer.activity(now)
    }

    /// Returns the current activity without the provider; `None` once the agent has ended.
    pub(crate) fn doing(&self, now: Timestamp) -> Option<String> {
        self.renderer.doing(now)
    }

    /// Returns the provider of the current attempt, if it is known.
    pub(crate) fn provider(&self) -> Option<&str> {
        self.renderer.provider()
    }

    /// Returns the cost so far, if the agent reports it.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.renderer.cost()
    }

    /// Returns the footer of the run, fitted to the terminal.
    pub(crate) fn footer(&self, summary: &RunSummary) -> String {
        self.renderer.footer(summary, usize::from(terminal::width()))
    }

    /// Holds the answer back, because the request may be sent again.
    pub(crate) fn hold_answer(&mut self) {
        self.renderer.hold_answer();
    }

    /// Writes the end of the run.
    pub(crate) fn finish(
        &mut self,
        summary: &RunSummary,
        record: &impl Serialize,
    ) -> Result<(), CommandError> {
        self.show_last_notice();
        if let Some(viewer) = &mut self.viewer {
            viewer.finish_run(record, &mut self.stdout)?;
        }
        let pieces = self.renderer.finish(summary);
        self.write(&pieces)
    }

    /// Prints a warning that no event carries.
    pub(crate) fn warn(&mut self, text: &str) -> Result<(), CommandError> {
        let pieces = self.renderer.warn(text);
        self.write(&pieces)
    }

    /// Prints a line about a failure.
    pub(crate) fn tell(&mut self, text: &str) -> Result<(), CommandError> {
        let pieces = self.renderer.tell(text);
        self.write(&pieces)
    }

    /// Prints a line about something that is not a problem.
    pub(crate) fn mention(&mut self, text: &str) -> Result<(), CommandError> {
        let pieces = self.renderer.mention(text);
        self.write(&pieces)
    }

    /// Writes pieces in their order: on a terminal, both streams share a cursor.
    fn write(&mut self, pieces: &[OutputPiece]) -> Result<(), CommandError> {
        if let Some(prefix) = &self.prefix {
            let lines = prefixed(prefix, pieces);
            // An empty text would erase the status line for nothing.
            if !lines.is_empty() {
                self.ui.borrow_mut().lines(&lines);
            }
            return Ok(());
        }
        for piece in pieces {
            match piece.to {
                // The view prints the answer in its own format.
                PieceStream::Stdout if self.viewer.is_some() => {}
                PieceStream::Stdout => {
                    self.stdout.print_ready(&piece.bytes)?;
                    // Flush before anything goes to standard error: on a terminal, the order of the writes is the order on the
                    // screen.
                    self.stdout.flush()?;
                    self.unread = self.piped;
                }
                PieceStream::Stderr => {
                    if std::mem::take(&mut self.unread) {
                        terminal::wait_for_reader();
                    }
                    self.ui.borrow_mut().write(&piece.bytes);
                }
            }
        }
        Ok(())
    }
}

/// Returns the lines for standard error, each behind a prefix.
fn prefixed(prefix: &str, pieces: &[OutputPiece]) -> String {
    let pieces = pieces.iter().filter(|piece| piece.to == PieceStream::Stderr);
    let text: String = pieces.map(|piece| String::from_utf8_lossy(&piece.bytes)).collect();
    text.lines().map(|line| format!("{prefix}: {line}\n")).collect()
}

#[cfg(test)]
mod tests;
