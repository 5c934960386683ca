//! The status line about several agents, and the footer of each.

use std::cell::RefCell;
use std::rc::Rc;

use bowline_protocol::Timestamp;

use crate::human::{DetailLevel, RenderOptions, RenderedAnswer, status_of};
use crate::ui::{Ui, terminal};

/// The status line.
#[derive(Debug)]
pub(super) struct ParallelProgress {
    options: RenderOptions,
    /// Shared with the sinks of all runs, so that every line of theirs replaces the status line.
    ui: Rc<RefCell<Ui>>,
    /// Whether the line is drawn at all: only for people, on a terminal.
    wanted: bool,
    /// Whether the reader of standard output may be printing to our terminal.
    answered: bool,
}

impl ParallelProgress {
    pub(super) fn new(options: RenderOptions, for_a_person: bool) -> Self {
        let stderr = options.screen.stderr;
        let wanted = for_a_person && stderr.tty && options.detail > DetailLevel::Quiet;
        Self { options, ui: Rc::new(RefCell::new(Ui::new())), wanted, answered: false }
    }

    /// Returns the stream that the line is drawn on.
    pub(super) fn ui(&self) -> Rc<RefCell<Ui>> {
        self.ui.clone()
    }

    /// Returns whether the line is drawn.
    pub(super) fn draws(&self) -> bool {
        // After the first answer, the reader of the pipe may print to this terminal at any time.
        self.wanted && self.options.screen.stderr.erases && !(self.options.screen.piped && self.answered)
    }

    /// Draws the line again.
    pub(super) fn draw(&mut self, doing: &[String], now: Timestamp) {
        let mut ui = self.ui.borrow_mut();
        if doing.is_empty() {
            ui.erase();
        } else {
            ui.draw(&status_of(doing, usize::from(terminal::width()), self.options.glyphs, now));
        }
    }

    /// Draws lines in the place of the status line.
    pub(super) fn draw_lines(&mut self, lines: Vec<String>) {
        self.ui.borrow_mut().draw_lines(lines);
    }

    /// Returns the options of the renderer.
    pub(super) fn options(&self) -> &RenderOptions {
        &self.options
    }

    /// Returns the renderer of an answer, if standard output is a terminal.
    pub(super) fn page(&self) -> Option<RenderedAnswer> {
        RenderedAnswer::on(self.options.screen, self.options.glyphs)
    }

    /// Prints the footer of a run, after its answer.
    pub(super) fn footer(&mut self, line: &str) {
        self.answered = true;
        if self.wanted {
            if self.options.screen.piped {
                terminal::wait_for_reader();
            }
            self.ui.borrow_mut().write(format!("{line}\n\n").as_bytes());
        }
    }
}
