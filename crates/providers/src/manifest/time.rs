//! Spans of time in a manifest.

use std::fmt;

use bowline_protocol::Millis;
use serde::{Deserializer, de};

/// Reads a span of time: a number of milliseconds, or a text such as `120s`, `2m` or `1h 30m`.
pub(super) fn span_of_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Millis, D::Error> {
    deserializer.deserialize_any(Span { none: None })?.ok_or_else(|| de::Error::custom("expected a duration"))
}

/// Reads a span of time that may be absent.
pub(crate) fn optional_span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Millis>, D::Error> {
    span_of_time(deserializer).map(Some)
}

/// Reads a span of time, or `"none"`.
pub(super) fn optional_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Millis>, D::Error> {
    deserializer.deserialize_any(Span { none: Some("none") })
}

/// The visitor; `none` is the word for no limit, where that is allowed.
struct Span {
    none: Option<&'static str>,
}

impl de::Visitor<'_> for Span {
    type Value = Option<Millis>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("milliseconds, or a text such as `120s`")?;
        if self.none.is_some() { f.write_str(", or `none`") } else { Ok(()) }
    }

    fn visit_i64<E: de::Error>(self, millis: i64) -> Result<Self::Value, E> {
        u64::try_from(millis)
            .map(|it| Some(Millis(it)))
            .map_err(|_| E::custom("a duration must not be negative"))
    }

    fn visit_u64<E: de::Error>(self, millis: u64) -> Result<Self::Value, E> {
        Ok(Some(Millis(millis)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if self.none == Some(text) {
            return Ok(None);
        }
        text.parse().map(Some).map_err(E::custom)
    }
}
