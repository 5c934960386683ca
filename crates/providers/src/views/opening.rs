//! How often a stream is said to begin.
//!
//! A run announces its session before the agent does, and an agent that is started a second time for the same request
//! announces it again. A reader of a foreign format wants to hear it once, from the agent if it says anything. A session
//! that the agent itself begins anew, as it does for each turn, is news of its own.

use bowline_protocol::{Event, Source};

/// Whether the beginning was told.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    told: bool,
    /// Our own announcement waits for the agent's.
    due: bool,
    /// The request was sent a second time.
    again: bool,
}

impl Opening {
    /// Says whether this announcement is to be told now. Ours waits, unless it knows what the agent would say.
    pub(crate) fn is_told_by(&mut self, event: &Event, knows: bool) -> bool {
        if event.source == Source::Bowline && !knows {
            self.due |= !self.told;
            return false;
        }
        let tell = !(self.told && self.again);
        (self.told, self.due) = (true, false);
        tell
    }

    /// Says whether the beginning was told.
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// The request is sent a second time: what it begins has begun.
    pub(crate) fn again(&mut self) {
        self.again = true;
    }

    /// Puts a bare beginning before what was written since then, if nobody told a better one.
    pub(crate) fn put(&mut self, out: &mut String, since: usize, tell: impl FnOnce(&mut String)) {
        if self.due && out.len() > since {
            let rest = out.split_off(since);
            tell(out);
            out.push_str(&rest);
            (self.told, self.due) = (true, false);
        }
    }
}
