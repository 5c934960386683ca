//! Bowline's own events, one JSON line each, as in `events.jsonl`.

use bowline_protocol::{Event, EventWriter};

use super::{Setup, View};

/// Makes the view.
pub(crate) fn make(_: &Setup) -> Box<dyn View> {
    Box::new(EventsView::default())
}

#[derive(Debug, Default)]
struct EventsView {
    writer: EventWriter,
    /// The line of the current event; kept for its capacity.
    line: Vec<u8>,
}

impl View for EventsView {
    fn event(&mut self, event: &Event, out: &mut String) {
        self.line.clear();
        self.writer.write(event, &mut self.line).expect("events are plain data with string keys");
        out.push_str(std::str::from_utf8(&self.line).expect("JSON of strings is text"));
    }

    fn finish(&mut self, _: &mut String) {}
}
