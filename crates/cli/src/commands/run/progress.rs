//! The status line about several agents, which is erased before something is printed.

use std::sync::{Arc, Mutex, PoisonError};

use bowline_protocol::Timestamp;

use crate::human::{DetailLevel, RenderOptions, RenderedAnswer, Renderer, status_of};
use crate::ui::terminal;

/// The status line.
#[derive(Debug)]
pub(super) struct ParallelProgress {
    options: RenderOptions,
    renderers: Vec<Arc<Mutex<Renderer>>>,
    /// Whether the line is drawn at all: only for people, on a terminal.
    wanted: bool,
    shown: bool,
    /// Whether the reader of standard output may be printing to our terminal.
    answered: bool,
}

impl ParallelProgress {
    pub(super) fn new(options: RenderOptions, for_a_person: bool) -> Self {
        let stderr = options.screen.stderr;
        let wanted = for_a_person && stderr.tty && options.detail > DetailLevel::Quiet;
        Self { options, renderers: Vec::new(), wanted, shown: false, answered: false }
    }

    pub(super) fn add(&mut self, renderer: &Arc<Mutex<Renderer>>) {
        self.renderers.push(renderer.clone());
    }

    /// Returns whether the line is drawn.
    pub(super) fn draws(&self) -> bool {
        self.wanted && self.options.screen.stderr.erases && !(self.options.screen.piped && self.answered)
    }

    /// Draws the line again.
    pub(super) fn draw(&mut self, now: Timestamp) {
        let doing = self
            .renderers
            .iter()
            .filter_map(|renderer| renderer.lock().unwrap_or_else(PoisonError::into_inner).activity(now));
        let doing: Vec<String> = doing.collect();
        self.erase();
        if !doing.is_empty() {
            let line = status_of(&doing, usize::from(terminal::width()), self.options.glyphs, now);
            write(&line);
            self.shown = true;
        }
    }

    /// Returns the renderer of an answer, if standard output is a terminal.
    pub(super) fn page(&self) -> Option<RenderedAnswer> {
        RenderedAnswer::on(self.options.screen, self.options.glyphs)
    }

    /// Erases the line.
    fn erase(&mut self) {
        if std::mem::take(&mut self.shown) {
            write("\r\x1b[K");
        }
    }

    /// Erases the line before something is printed.
    pub(super) fn making_room<T>(&mut self, piece: T) -> T {
        self.erase();
        piece
    }

    /// Prints the footer of a run, after its answer.
    pub(super) fn footer(&mut self, line: &str) {
        self.answered = true;
        if self.wanted {
            if self.options.screen.piped {
                terminal::wait_for_reader();
            }
            write(&format!("{line}\n\n"));
        }
    }
}

fn write(text: &str) {
    crate::ui::Ui::new().write(text.as_bytes());
}
