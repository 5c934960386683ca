//! The edge at which the clock is read.

use std::time::{Instant, SystemTime};

use bowline_protocol::Timestamp;

/// Returns the clock for deadlines.
#[expect(clippy::disallowed_methods, reason = "this is the edge")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns the system's time of day.
#[expect(clippy::disallowed_methods, reason = "this is the edge")]
pub(crate) fn system() -> SystemTime {
    SystemTime::now()
}

/// Returns the time of day.
pub(crate) fn wall() -> Timestamp {
    timestamp(system())
}

/// Writes a time for people: to the minute, in the zone of this machine.
pub(crate) fn in_words(at: Timestamp) -> String {
    let instant = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    instant.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M %Z").to_string()
}

/// Turns the system's time into ours.
pub(crate) fn timestamp(at: SystemTime) -> Timestamp {
    let millis = match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
    };
    Timestamp::from_millis(millis)
}
