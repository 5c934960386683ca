//! What several agents do, in one line of the terminal, until something is printed.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_protocol::Timestamp;

use crate::human::{Detail, Options, Renderer, status_of};
use crate::terminal;

/// The line about all agents.
#[derive(Debug)]
pub(super) struct Progress {
    options: Options,
    renderers: Vec<Arc<Mutex<Renderer>>>,
    /// Whether the line is drawn at all: a person looks at the terminal.
    wanted: bool,
    shown: bool,
    /// Whether a reader may be printing to our terminal.
    answered: bool,
}

impl Progress {
    pub(super) fn new(options: Options, for_a_person: bool) -> Self {
        let stderr = options.screen.stderr;
        let wanted = for_a_person && stderr.tty && options.detail > Detail::Quiet;
        Self { options, renderers: Vec::new(), wanted, shown: false, answered: false }
    }

    pub(super) fn add(&mut self, renderer: &Arc<Mutex<Renderer>>) {
        self.renderers.push(renderer.clone());
    }

    /// Returns whether there is a line to draw.
    pub(super) fn draws(&self) -> bool {
        self.wanted && self.options.screen.stderr.erases && !(self.options.screen.piped && self.answered)
    }

    /// Draws the line anew.
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

    /// Takes the line away, because something is printed.
    fn erase(&mut self) {
        if std::mem::take(&mut self.shown) {
            write("\r\x1b[K");
        }
    }

    /// Takes the line away for something that is about to be printed.
    pub(super) fn making_room<T>(&mut self, piece: T) -> T {
        self.erase();
        piece
    }

    /// Prints the last line about one of them, after its answer.
    pub(super) fn footer(&mut self, line: &str) {
        self.answered = true;
        if self.wanted {
            if self.options.screen.piped {
                terminal::wait_for_reader(std::io::stdout());
            }
            write(&format!("{line}\n\n"));
        }
    }
}

fn write(text: &str) {
    // Nothing can be done about a standard error that does not take it.
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
