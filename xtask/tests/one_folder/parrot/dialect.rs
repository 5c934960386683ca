//! The reader of the parrot's lines.

use serde::Deserialize;

use crate::dialect::{Dialect, Input, Output};
use crate::lenient;

/// Reads the parrot's lines.
#[derive(Debug, Default)]
pub(super) struct Parrot {
    messages: u64,
}

#[derive(Debug, Deserialize)]
struct ParrotLine {
    say: String,
}

impl Dialect for Parrot {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        if let Input::Line(line) = input {
            lenient::each_object(line, out, |line: ParrotLine, out| {
                self.messages += 1;
                out.text(&format!("m{}", self.messages).into(), 0, &line.say, None);
            });
        }
    }
}
