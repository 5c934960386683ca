//! Writes events to standard output in one of the formats for programs.

use bowline_protocol::Event;
use bowline_providers::views::{Entry, Setup, View};
use serde::Serialize;

use crate::error::CommandError;
use crate::ui::{FULL, Stdout};

/// The view that is the record of the run. The library makes it.
const OF_RECORD: &str = "summary";

/// Returns whether a format is the record, so that events can be skipped.
pub(crate) fn is_record(entry: &Entry) -> bool {
    entry.name == OF_RECORD
}

/// Writes events in one format.
#[derive(Debug)]
pub(crate) struct ViewWriter {
    /// `None` if the record is written.
    view: Option<Box<dyn View>>,
    text: String,
}

impl ViewWriter {
    pub(crate) fn new(entry: &Entry, setup: &Setup) -> Self {
        Self { view: Some((entry.make)(setup)), text: String::new() }
    }

    /// Makes a viewer for a run, which has a record at the end.
    pub(crate) fn of_run(entry: &Entry, setup: &Setup) -> Self {
        let view = (!is_record(entry)).then(|| (entry.make)(setup));
        Self { view, text: String::new() }
    }

    /// Takes an event. `flush` prints, so that a batch of events costs one write.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Some(view) = &mut self.view {
            view.event(event, &mut self.text);
        }
    }

    /// Returns whether the buffer should be flushed before the next event.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= FULL
    }

    /// Prints the events so far.
    pub(crate) fn flush(&mut self, stdout: &mut Stdout) -> Result<(), CommandError> {
        if self.text.is_empty() {
            return Ok(());
        }
        stdout.print(&self.text)?;
        self.text.clear();
        stdout.flush()
    }

    /// Prints the end.
    pub(crate) fn finish(&mut self, stdout: &mut Stdout) -> Result<(), CommandError> {
        self.flush(stdout)?;
        match &mut self.view {
            Some(view) => stdout.print_end(view.as_mut()),
            None => Ok(()),
        }
    }

    /// Prints the end of a run.
    pub(crate) fn finish_run(
        &mut self,
        record: &impl Serialize,
        stdout: &mut Stdout,
    ) -> Result<(), CommandError> {
        self.finish(stdout)?;
        match self.view {
            Some(_) => Ok(()),
            None => stdout.print_object(record),
        }
    }
}
