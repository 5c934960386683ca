//! What we had to say about a request, for formats that have a place for it.

use bowline_protocol::{Event, Kind, Source};

/// The most notices that are kept: a caller wants to know what was dropped, not to read a log.
const MOST: usize = 20;

/// Our own notices of a run.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    texts: Vec<String>,
}

impl Notices {
    /// Takes in one event. What the agent notices is its own affair.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Kind::Notice(notice) = &event.kind
            && event.source == Source::Bowline
            && self.texts.len() < MOST
        {
            self.texts.push(notice.text.clone());
        }
    }

    /// Returns what was said.
    pub(crate) fn told(&self) -> &[String] {
        &self.texts
    }
}
