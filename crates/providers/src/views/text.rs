//! The answer and nothing else, for people and for pipes.
//!
//! Printed at the end: until then a message may still turn out to be commentary, or be retracted.

use bowline_protocol::Event;

use super::answer::{Answer, Keep};
use super::{Setup, View};

/// Makes the view.
pub(crate) fn make(_: &Setup) -> Box<dyn View> {
    Box::new(Text { answer: Answer::new(Keep::Answer) })
}

#[derive(Debug)]
struct Text {
    answer: Answer,
}

impl View for Text {
    fn event(&mut self, event: &Event, _: &mut String) {
        self.answer.event(event);
    }

    fn finish(&mut self, out: &mut String) {
        let text = self.answer.text();
        out.push_str(&text);
        if !text.is_empty() && !text.ends_with('\n') {
            out.push('\n');
        }
    }
}
