//! Stints: the parts of a journal that were written by one runner each. A stint begins with the `session_started` event of
//! Bowline and ends with `session_ended`.

use bowline_protocol::kinds::{ControlMode, EndReason};
use bowline_protocol::{Event, Kind, LastTurn, NativeSessionId, QueuedPrompt, RawFile, Source};

use super::{RAW_FILES, Repaired, slot_of};

/// Why a stint and its turn ended with their runner.
pub(super) const LOST: &str = "the process that ran the session was lost";

/// Returns whether an event begins a stint. The agent's own `session_started` events are inside of one.
pub(crate) fn is_stint_start(event: &Event) -> bool {
    event.source == Source::Bowline && matches!(event.kind, Kind::SessionStarted(_))
}

/// Where a journal ended when it was opened again, and so where the next stint begins.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JournalEnd {
    /// The number of the next event.
    pub next_seq: u64,
    /// The number of the next turn.
    pub next_turn: u32,
    /// The agent's own id of the session, if it reported one.
    pub native_session: Option<NativeSessionId>,
    /// How the last stint ended; none if there was no stint yet.
    pub reason: Option<EndReason>,
    /// The last turn, which the repair ended if its runner was killed.
    pub last_turn: Option<LastTurn>,
    /// Prompts that the session accepted and the agent never had. They are offered, and never sent by themselves.
    pub offered: Vec<QueuedPrompt>,
    /// The side that led the session last.
    pub control: ControlMode,
    /// What was repaired first.
    pub repaired: Repaired,
    pub(super) raw_lens: [u64; RAW_FILES.len()],
}

impl JournalEnd {
    /// Returns the length of a raw file, which is the offset of its next byte.
    pub fn raw_len(&self, file: RawFile) -> u64 {
        self.raw_lens[slot_of(file)]
    }
}
