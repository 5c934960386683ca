//! A view on its way to standard output: events are written as they come.

use bowline_protocol::Event;
use bowline_providers::views::{Entry, Setup, View};
use serde::Serialize;

use super::Stdout;
use crate::error::{CommandError, Fault};

/// The view whose object is the record of the run: the library writes it.
const OF_RECORD: &str = "summary";

/// Says whether a format is the record, so that the events need not be looked at.
pub(crate) fn is_record(entry: &Entry) -> bool {
    entry.name == OF_RECORD
}

/// Writes events in one format.
#[derive(Debug)]
pub(crate) struct Viewer {
    /// Absent where the record is written.
    view: Option<Box<dyn View>>,
    text: String,
}

impl Viewer {
    pub(crate) fn new(entry: &Entry, setup: &Setup) -> Self {
        Self { view: Some((entry.make)(setup)), text: String::new() }
    }

    /// Makes one for a run, of which there is a record at the end.
    pub(crate) fn of_run(entry: &Entry, setup: &Setup) -> Self {
        let view = (!is_record(entry)).then(|| (entry.make)(setup));
        Self { view, text: String::new() }
    }

    /// Takes an event. Nothing is printed before `flush`, so that events that come together cost one write.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Some(view) = &mut self.view {
            view.event(event, &mut self.text);
        }
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
        match &mut self.view {
            Some(view) => stdout.print_end(view.as_mut()),
            None => Ok(()),
        }
    }

    /// Prints what is due at the end of a run.
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

/// Returns a record as a line.
pub(crate) fn object(record: &impl Serialize) -> Result<String, CommandError> {
    let object = serde_json::to_string(record).map_err(|error| {
        CommandError::new(Fault::Internal, "could not write the record of the run").caused_by(error)
    })?;
    Ok(object + "\n")
}
