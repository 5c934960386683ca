//! A view on its way to standard output: events are written as they come.

use bowline_protocol::Event;
use bowline_providers::views::{Entry, Setup, View};

use super::Stdout;
use crate::error::CommandError;

/// Writes events in one format.
#[derive(Debug)]
pub(crate) struct Viewer {
    view: Box<dyn View>,
    text: String,
}

impl Viewer {
    pub(crate) fn new(entry: &Entry, setup: &Setup) -> Self {
        Self { view: (entry.make)(setup), text: String::new() }
    }

    /// Takes an event. Nothing is printed before `flush`, so that events that come together cost one write.
    pub(crate) fn event(&mut self, event: &Event) {
        self.view.event(event, &mut self.text);
    }

    /// Says whether so much waits that it is printed before more is added.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= super::FULL
    }

    /// Prints what the events so far mean, and makes sure that it is seen.
    pub(crate) fn flush(&mut self, stdout: &mut Stdout) -> Result<(), CommandError> {
        if self.text.is_empty() {
            return Ok(());
        }
        stdout.print(&self.text)?;
        self.text.clear();
        stdout.flush()
    }

    /// Prints what is due at the end.
    pub(crate) fn finish(&mut self, stdout: &mut Stdout) -> Result<(), CommandError> {
        self.flush(stdout)?;
        stdout.print_end(self.view.as_mut())
    }
}
