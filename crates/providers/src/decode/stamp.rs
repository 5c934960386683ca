//! Numbers events where no run does it: `bowline decode`, tests and benches. A run numbers its events in the engine.

use bowline_protocol::{Event, FORMAT_VERSION, SessionId, Timestamp};

use super::dialect::UnnumberedEvent;

/// Numbers events. Gapless from 1.
#[derive(Debug)]
pub struct Stamp {
    session: SessionId,
    last: u64,
}

impl Stamp {
    /// Starts a session's numbering.
    pub fn new(session: SessionId) -> Self {
        Self { session, last: 0 }
    }

    /// Gives an event its number and time.
    pub fn stamp(&mut self, draft: UnnumberedEvent, at: Timestamp) -> Event {
        self.last += 1;
        let UnnumberedEvent { turn, source, raw, kind } = draft;
        Event {
            v: FORMAT_VERSION,
            seq: self.last,
            at,
            session: self.session.clone(),
            turn,
            source,
            raw,
            kind,
        }
    }
}
