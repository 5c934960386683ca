//! Instants and durations, and their JSON forms. Nothing here reads a clock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant, to the millisecond, written in UTC as RFC 3339: `2026-11-15T08:00:00.123Z`.
///
/// The fraction is left out when it is zero, so that reset times, which are whole seconds, read as people write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The first instant of 1970, in UTC.
    pub const EPOCH: Self = Self(0);

    /// From the first instant of the year 1 to the last second but one of the year 9998: the range that RFC 3339 can write with
    /// any offset.
    const RANGE: (i64, i64) = (-62_135_596_800_000, 253_370_764_798_999);

    /// Makes an instant from milliseconds since 1970; values outside the years 1 to 9998 are clamped.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(Self::RANGE.0, Self::RANGE.1))
    }

    /// Makes an instant from seconds since 1970.
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_millis(seconds.saturating_mul(1000))
    }

    /// Returns milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the instant `span` later.
    #[must_use]
    pub fn after(self, span: Millis) -> Self {
        Self::from_millis(self.0.saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }

    /// Returns how much later this instant is than `earlier`; zero when it is not later.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Cannot fail: every constructor clamps to the range of jiff.
        let instant = jiff::Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        if self.0 % 1000 == 0 { write!(f, "{instant}") } else { write!(f, "{instant:.3}") }
    }
}

/// The error of reading a [`Timestamp`]: the text is not RFC 3339 with an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTimestamp(String);

impl fmt::Display for BadTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a time such as 2026-11-15T08:00:00Z", self.0)
    }
}

impl std::error::Error for BadTimestamp {}

impl FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|instant| Self::from_millis(instant.as_millisecond()))
            .map_err(|_| BadTimestamp(text.to_owned()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "An instant in UTC, RFC 3339, to the millisecond."
        })
    }
}

/// A span of time in whole milliseconds, written as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Makes a span from seconds, rounded up to a whole millisecond; negative and absurd values are clamped.
    pub fn from_seconds(seconds: f64) -> Self {
        // A float to integer cast saturates, and NaN becomes zero.
        Self((seconds.max(0.0) * 1000.0).ceil() as u64)
    }

    /// Returns the sum of two spans.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Formats a duration for people, with its two largest units: `0.3 s`, `2 min 5 s`, `1 h 5 min`, `3 days 2 h`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.saturating_add(50) / 100;
        let seconds = self.0.saturating_add(500) / 1000;
        let (minutes, hours) = (seconds / 60, seconds / 3600);
        let (count, name, rest, unit) = match seconds {
            // Rounded first: 59.96 s is a minute and not `60.0 s`.
            _ if tenths < 600 && tenths.is_multiple_of(10) => return write!(f, "{} s", tenths / 10),
            _ if tenths < 600 => return write!(f, "{}.{} s", tenths / 10, tenths % 10),
            0..3600 => (minutes, "min", seconds % 60, "s"),
            3600..172_800 => (hours, "h", minutes % 60, "min"),
            _ => (hours / 24, "days", hours % 24, "h"),
        };
        if rest == 0 { write!(f, "{count} {name}") } else { write!(f, "{count} {name} {rest} {unit}") }
    }
}

/// The error of parsing a [`Millis`]: the text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSpan(String);

impl fmt::Display for BadSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a span of time such as 90s, 10m or 1h30m", self.0)
    }
}

impl std::error::Error for BadSpan {}

/// Parses a duration with its unit: `120s`, `10m`, `1h 30m`. Rejects a negative one.
impl FromStr for Millis {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadSpan(text.to_owned());
        let span: jiff::SignedDuration = text.trim().parse().map_err(|_| bad())?;
        if span.is_negative() {
            return Err(bad());
        }
        Ok(Self(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_reads_back_as_it_was_written() {
        for text in ["2026-11-15T08:00:00.123Z", "2026-11-15T08:00:00Z", "1969-12-31T23:59:59.999Z"] {
            assert_eq!(text.parse::<Timestamp>().expect("valid").to_string(), text);
        }
        assert_eq!(
            "2026-11-15T10:00:00+02:00".parse::<Timestamp>().expect("valid").to_string(),
            "2026-11-15T08:00:00Z"
        );
    }

    #[test]
    fn no_number_makes_an_instant_that_cannot_be_written() {
        for millis in [i64::MIN, -1, 0, 1, i64::MAX] {
            let text = Timestamp::from_millis(millis).to_string();
            assert_eq!(text.parse::<Timestamp>().expect("valid"), Timestamp::from_millis(millis));
        }
        assert_eq!(Timestamp::from_seconds(i64::MAX), Timestamp::from_millis(i64::MAX));
    }

    #[test]
    fn a_local_time_without_offset_is_refused() {
        assert!("2026-11-15T08:00:00".parse::<Timestamp>().is_err());
    }

    #[test]
    fn seconds_become_milliseconds_without_overflow() {
        assert_eq!(Millis::from_seconds(1.5), Millis(1500));
        assert_eq!(Millis::from_seconds(-3.0), Millis(0));
        assert_eq!(Millis::from_seconds(f64::NAN), Millis(0));
        assert_eq!(Millis::from_seconds(f64::INFINITY), Millis(u64::MAX));
    }

    #[test]
    fn durations_are_formatted_for_people() {
        for (millis, text) in [
            (0, "0 s"),
            (49, "0 s"),
            (300, "0.3 s"),
            (2_000, "2 s"),
            (12_345, "12.3 s"),
            (59_960, "1 min"),
            (90_000, "1 min 30 s"),
            (14_390_000, "3 h 59 min"),
            (86_400_000, "24 h"),
            (300_000_000, "3 days 11 h"),
            (u64::MAX, "213503982334 days 14 h"),
        ] {
            assert_eq!(Millis(millis).to_string(), text, "{millis}");
        }
    }

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), (" 10m ", 600), ("1h30m", 5400), ("2 min", 120), ("0s", 0)] {
            assert_eq!(text.parse(), Ok(Millis(seconds * 1000)), "{text}");
        }
        for text in ["", "90", "-5s", "soon", "5 parsecs"] {
            let error = text.parse::<Millis>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}` is not a span of time")), "{error}");
        }
    }
}
