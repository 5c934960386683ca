//! The answer and nothing else, for people and for pipes.
//!
//! Printed at the end: until then a message may still turn out to be commentary, or be retracted.

use std::io;

use bowline_protocol::Event;

use super::answer::{AnswerFold, Keep};
use super::{Setup, View};

/// Makes the view.
pub(crate) fn make(_: &Setup) -> Box<dyn View> {
    Box::new(TextView { answer: AnswerFold::new(Keep::Answer) })
}

#[derive(Debug)]
struct TextView {
    answer: AnswerFold,
}

impl View for TextView {
    fn event(&mut self, event: &Event, _: &mut String) {
        self.answer.event(event);
    }

    fn finish(&mut self, out: &mut String) {
        out.push_str(&self.answer.text().to_string());
        out.push_str(self.line_end());
    }

    fn write_end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        write!(out, "{}{}", self.answer.text(), self.line_end())
    }
}

impl TextView {
    /// Returns what is missing behind the answer.
    fn line_end(&self) -> &'static str {
        let text = self.answer.text();
        if text.is_empty() || text.ends_a_line() { "" } else { "\n" }
    }
}
