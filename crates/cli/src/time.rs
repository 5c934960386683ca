//! The current time: from the command line, else from the clock.

use bowline_protocol::Timestamp;
use bowline_providers::moment::Moment;
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;
use jiff::{Zoned, civil};

use crate::error::{CommandError, Fault};

/// Returns the time of `--now`, or the current time.
///
/// A time with an offset or zone also sets the zone for times without one; `Z` means UTC.
pub(crate) fn moment(now: Option<&str>) -> Result<Moment, CommandError> {
    match now {
        None => Ok(of(&Zoned::now())),
        Some(text) => parse(text).ok_or_else(|| {
            CommandError::new(Fault::Usage, format!("`{text}` is not a time"))
                .hint("write it as 2026-11-15T08:00:00Z, 2026-11-15T10:00:00+02:00, or seconds since 1970")
        }),
    }
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    of(&Zoned::now()).at
}

fn parse(text: &str) -> Option<Moment> {
    if let Ok(number) = text.parse::<i64>() {
        // As seconds, larger numbers are after the year 5138, so they are milliseconds.
        let seconds = number.unsigned_abs() < 100_000_000_000;
        let at = if seconds { Timestamp::from_seconds(number) } else { Timestamp::from_millis(number) };
        return Some(Moment::utc(at));
    }
    if let Ok(zoned) = text.parse::<Zoned>() {
        return Some(of(&zoned));
    }
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset();
    let civil = civil::DateTime::from_parts(pieces.date(), pieces.time().unwrap_or(civil::Time::midnight()));
    let zone = offset.map_or_else(TimeZone::system, TimeZone::fixed);
    civil.to_zoned(zone).ok().as_ref().map(of)
}

fn of(zoned: &Zoned) -> Moment {
    Moment { at: Timestamp::from_millis(zoned.timestamp().as_millisecond()), zone: zoned.time_zone().clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_way_to_write_a_time() {
        for text in [
            "2026-11-15T08:00:00Z",
            "2026-11-15T10:00:00+02:00",
            "2026-11-15T09:00:00[Europe/Berlin]",
            "1794729600",
        ] {
            assert_eq!(parse(text).expect(text).at.to_string(), "2026-11-15T08:00:00Z", "{text}");
        }
        assert_eq!(parse("1794729600123").expect("milliseconds").at.to_string(), "2026-11-15T08:00:00.123Z");
        assert!(parse("yesterday").is_none());
        assert!(parse("").is_none());
    }
}
