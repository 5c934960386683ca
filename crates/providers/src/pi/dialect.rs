//! `pi`: what `--mode json` and text mode print.

use super::events::Events;
use crate::decode::End;
use crate::dialect::Output;
use crate::dialects::shaped::Speaker;

/// Reads the output of pi. In text mode stdout is the answer and nothing else: errors are on stderr, and there the exit
/// code is 1.
#[derive(Debug, Default)]
pub(crate) struct Pi {
    events: Events,
}

impl Speaker for Pi {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        self.events.line(line, out);
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        self.events.line(document, out);
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        self.events.end(end, out);
    }
}
