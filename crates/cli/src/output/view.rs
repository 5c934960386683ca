//! Writes events to standard output in one of the formats for programs.

use bowline_protocol::Event;
use bowline_providers::views::{Setup, View, ViewEntry};
use serde::Serialize;

use crate::error::CommandError;
use crate::ui::{FULL, Stdout, object};

/// The view that is the record of the run. The library makes it.
const OF_RECORD: &str = "summary";

/// Returns whether a format is the record, so that events can be skipped.
pub(crate) fn is_record(entry: &ViewEntry) -> bool {
    entry.name == OF_RECORD
}

/// Writes events in one format.
#[derive(Debug)]
pub(crate) struct ViewWriter {
    /// `None` if the record is written.
    view: Option<Box<dyn View>>,
    text: String,
    /// For one of several runs: the provider, whose name every object gets.
    provider: Option<String>,
}

impl ViewWriter {
    pub(crate) fn new(entry: &ViewEntry, setup: &Setup) -> Self {
        Self { view: Some((entry.make)(setup)), text: String::new(), provider: None }
    }

    /// Makes a viewer for a run, which has a record at the end.
    pub(crate) fn of_run(entry: &ViewEntry, setup: &Setup) -> Self {
        let view = (!is_record(entry)).then(|| (entry.make)(setup));
        Self { view, text: String::new(), provider: None }
    }

    /// Adds the name of the provider to every object.
    pub(crate) fn naming(mut self, provider: &str) -> Self {
        self.provider = Some(provider.to_owned());
        self
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
        match &self.provider {
            Some(name) => stdout.print(&with_field("provider", name, &self.text))?,
            None => stdout.print(&self.text)?,
        }
        self.text.clear();
        stdout.flush()
    }

    /// Prints the end.
    pub(crate) fn finish(&mut self, stdout: &mut Stdout) -> Result<(), CommandError> {
        self.flush(stdout)?;
        match &mut self.view {
            // The end gets a name too, so it cannot be streamed.
            Some(view) if self.provider.is_some() => {
                view.finish(&mut self.text);
                self.flush(stdout)
            }
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
        match (&self.view, &self.provider) {
            (Some(_), _) => Ok(()),
            (None, None) => stdout.print_object(record),
            (None, Some(_)) => {
                self.text = object(record)?;
                self.flush(stdout)
            }
        }
    }
}

/// Adds a field to every object, at its beginning.
pub(crate) fn with_field(field: &str, value: &str, text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    let value = serde_json::Value::from(value);
    for object in objects(text) {
        // An object may have the field already, and a JSON object must not have a field twice.
        let has = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(object)
            .is_ok_and(|map| map.contains_key(field));
        match object.strip_prefix('{').filter(|_| !has) {
            Some(rest) if rest.trim_start().starts_with('}') => {
                all.push_str(&format!("{{\"{field}\":{value}{rest}"));
            }
            Some(rest) => all.push_str(&format!("{{\"{field}\":{value},{rest}")),
            None => all.push_str(object),
        }
    }
    all
}

/// Splits the output of a view into objects: one in each line, or one in all lines.
fn objects(text: &str) -> Vec<&str> {
    let in_lines = text.lines().all(|line| line.starts_with('{') && line.ends_with('}'));
    if in_lines { text.split_inclusive('\n').collect() } else { vec![text] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_says_whose_it_is() {
        let named = |text: &str| with_field("provider", "a", text);
        assert_eq!(named("{\"x\":1}\n{}\n"), "{\"provider\":\"a\",\"x\":1}\n{\"provider\":\"a\"}\n");
        assert_eq!(named("{\n  \"x\": 1\n}\n"), "{\"provider\":\"a\",\n  \"x\": 1\n}\n");
        assert_eq!(named("{\"provider\":\"b\"}\n"), "{\"provider\":\"b\"}\n", "it says so itself");
    }
}
