//! The present, as an argument.

use bowline_protocol::Timestamp;
use jiff::tz::TimeZone;

/// When something is looked at, and in which time zone the agent writes times that name none.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The instant.
    pub at: Timestamp,
    /// The zone of times without a zone.
    pub zone: TimeZone,
}

impl Moment {
    /// Makes a moment whose local time is UTC.
    pub fn utc(at: Timestamp) -> Self {
        Self { at, zone: TimeZone::UTC }
    }
}
