//! Our own events, one JSON line each: what `events.jsonl` holds.

use bowline_protocol::Event;

use super::{Setup, View, line};

/// Makes the view.
pub(crate) fn make(_: &Setup) -> Box<dyn View> {
    Box::new(Events)
}

#[derive(Debug)]
struct Events;

impl View for Events {
    fn event(&mut self, event: &Event, out: &mut String) {
        line(out, event);
    }

    fn finish(&mut self, _: &mut String) {}
}
