//! Bowline's own notices about a request, for formats that have a place for them.

use bowline_protocol::{Event, Kind, Source};

/// The maximum number of notices: a caller needs to know what was dropped, not to read a log.
const MOST: usize = 20;

/// Our own notices of a run.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    texts: Vec<String>,
}

impl Notices {
    /// Handles one event. Notices of the agent are ignored.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Kind::Notice(notice) = &event.kind
            && event.source == Source::Bowline
            && self.texts.len() < MOST
        {
            self.texts.push(notice.text.clone());
        }
    }

    /// Returns the notices.
    pub(crate) fn told(&self) -> &[String] {
        &self.texts
    }
}
