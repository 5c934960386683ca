//! Prints the start of a session once.
//!
//! A run announces its session before the agent does, and an agent that is started a second time for the same request
//! announces it again. A reader of a foreign format needs it once, from the agent if possible. A session
//! that the agent itself starts again, as it does for each turn, is printed again.

use bowline_protocol::{Event, Source};

/// Whether the start was printed.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    told: bool,
    /// Our own announcement waits for the agent's.
    due: bool,
    /// The request was sent a second time.
    again: bool,
}

impl Opening {
    /// Returns whether to print this announcement now. Ours waits, unless it has all that the agent's would have.
    pub(crate) fn is_told_by(&mut self, event: &Event, knows: bool) -> bool {
        if event.source == Source::Bowline && !knows {
            self.due |= !self.told;
            return false;
        }
        let tell = !(self.told && self.again);
        (self.told, self.due) = (true, false);
        tell
    }

    /// Returns whether the start was printed.
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// The request is sent a second time: its session has started already.
    pub(crate) fn again(&mut self) {
        self.again = true;
    }

    /// Puts a bare start before the output since then, if no better one was printed.
    pub(crate) fn put(&mut self, out: &mut String, since: usize, tell: impl FnOnce(&mut String)) {
        if self.due && out.len() > since {
            let rest = out.split_off(since);
            tell(out);
            out.push_str(&rest);
            (self.told, self.due) = (true, false);
        }
    }
}
