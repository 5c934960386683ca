//! How long to wait, read from text: "retry after 30 seconds", "try again in 1m30s", `retry-after-ms: 1500`.
//!
//! Points in time ("try again at 3pm") are read by `reset_time`.

use std::sync::LazyLock;

use bowline_protocol::Millis;
use regex::{Captures, Regex};

/// The longest wait: a year. Larger numbers are nonsense and are cut to this.
const LONGEST_MS: f64 = 366.0 * 86_400_000.0;

/// From here on, a number of seconds is not a span but an instant: 2001-01-01.
const EPOCH_LIKE: f64 = 978_307_200.0;

/// Returns the wait that a text requests: the first one that it names.
pub fn retry_after(text: &str) -> Option<Millis> {
    static LEAD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?ix)
            \b (?<name> retry (?:ing)? [\ _-]? (?:after|delay) ) (?<millis> [_-]? ms )? \b
               (?<field> ["'\\]* \s* [:=] \s* ["'\\]* )? \s*
            | \b (?:again|retry|retrying) \s+ (?:in|after) \s+
            | \b wait (?:ing)? \s+ (?:for\s+)? (?:at\s+least\s+|another\s+)?
            | \b (?: x- )? ratelimit-reset (?: -[a-z]+ )? (?<reset> ["'\\]* \s* [:=] \s* ["'\\]* )
            "#,
        )
        .expect("a valid regex")
    });
    static APPROXIMATELY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)^(?:(?:about|around|approximately|roughly)\s+|~\s*)").expect("a valid regex")
    });
    LEAD.captures_iter(text).find_map(|lead| {
        let rest = &text[lead.get(0)?.end()..];
        let rest = APPROXIMATELY.find(rest).map_or(rest, |word| &rest[word.end()..]);
        // With a unit first: `retry-after: 30s` is 30 seconds by its unit, not by the field.
        let millis = span(rest).or_else(|| bare(rest, &lead))?;
        Some(clamped(millis))
    })
}

/// Makes a span of a number of milliseconds, whatever the number.
pub(super) fn clamped(millis: f64) -> Millis {
    // Up to a whole millisecond, but not for the dust that decimals leave in a float.
    Millis((millis.clamp(0.0, LONGEST_MS) - 1e-6).ceil() as u64)
}

/// Reads a span at the start of a text, `1.5s`, `1h 5m`, `2 minutes and 30 seconds`, `an hour`, as milliseconds.
pub(super) fn span(text: &str) -> Option<f64> {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?i)^(?:[^\S\n]|,|and\b)*(?<number>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|an?\b|one\b)[^\S\n]*(?<unit>[a-z]+)",
        )
        .expect("a valid regex")
    });
    // Not beyond the line: the next one may begin with a number of its own.
    let mut total = None;
    let mut rest = text;
    while let Some(part) = PART.captures(rest) {
        // "in 5 minutes, 3 attempts left" ends before the word that is no unit.
        let Some(unit) = unit_millis(&part["unit"]) else { break };
        // "a", "an" and "one" are no numbers to `parse`.
        let number: f64 = part["number"].replace(',', "").parse().unwrap_or(1.0);
        total = Some(total.unwrap_or(0.0) + number * unit);
        rest = &rest[part[0].len()..];
    }
    total
}

/// Reads the number of `retry-after: 30`, which is in seconds unless the field's name says otherwise.
fn bare(rest: &str, lead: &Captures<'_>) -> Option<f64> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^([0-9]+(?:\.[0-9]+)?)([^\S\n]*[A-Za-z]|[-:/,][0-9])?").expect("a valid regex")
    });
    lead.name("name").or(lead.name("reset"))?;
    let found = NUMBER.captures(rest)?;
    let number: f64 = found[1].parse().ok()?;
    if lead.name("millis").is_some() {
        return Some(number);
    }
    // "retry after 3 attempts", "retry after 10:30" and "retry-after: 1766502000" are not spans.
    let is_prose = lead.name("field").or(lead.name("reset")).is_none() && found.get(2).is_some();
    let is_clock = found.get(2).is_some_and(|after| after.as_str().starts_with(['-', ':', '/', ',']));
    (!is_prose && !is_clock && !(EPOCH_LIKE..1e15).contains(&number)).then_some(number * 1000.0)
}

fn unit_millis(unit: &str) -> Option<f64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
        "d" | "day" | "days" => 86_400_000.0,
        "w" | "week" | "weeks" => 604_800_000.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<u64>) {
        assert_eq!(retry_after(text), expect.map(Millis), "{text}");
    }

    #[test]
    fn the_table_of_the_adapter_protocol() {
        check("retry after 30 seconds", Some(30_000));
        check("retry after 100ms", Some(100));
        check("wait 5 seconds", Some(5_000));
        check("rate limit", None);
    }

    #[test]
    fn spans_in_prose() {
        check("rate_limit_exceeded - Too many requests. Please retry after 30 seconds.", Some(30_000));
        check("rate limit exceeded: Rate limit reached for gpt-5. Please try again in 0.5s.", Some(500));
        check("Please try again in 1.5s", Some(1_500));
        check("try again in 2 minutes 30 seconds", Some(150_000));
        check("try again in 2 minutes and 30 seconds.", Some(150_000));
        check("try again in 1m30s", Some(90_000));
        check("Try again in 1h 5m", Some(3_900_000));
        check("try again in 1 hour, 5 mins", Some(3_900_000));
        check("try again in 2 days", Some(172_800_000));
        check("try again in an hour", Some(3_600_000));
        check("try again in 6m0s", Some(360_000));
        check("Please try again after 45 seconds", Some(45_000));
        check("Please wait 1 minute", Some(60_000));
        check("retry after ~30 seconds", Some(30_000));
        check("retry after approximately 30 seconds", Some(30_000));
        check("retry after 2,500 ms", Some(2_500));
        check("retry after 1,2", None);
        check("please wait for about 10 secs before", Some(10_000));
        check("Retrying in 60s (attempt 1/10): [API Error: 429 …]", Some(60_000));
        check("Suggested retry after 2s.. Retrying after 5522ms...", Some(2_000));
        check("Please retry in 34.074824224s.", Some(34_075));
        check("retried (total retry wait time: 11.21 seconds) Last error: try again in 2s.", Some(2_000));
    }

    #[test]
    fn headers_and_fields() {
        check("retry-after: 30", Some(30_000));
        check("ratelimit-reset: 30", Some(30_000));
        check("x-ratelimit-reset-requests: 1m30s", Some(90_000));
        check("x-ratelimit-reset: 1766502000", None);
        check("Retry-After: 2\r\ncontent-type: text/plain", Some(2_000));
        check("Retry-After: 2 content-type: text/plain", Some(2_000));
        check(r#"{"retry_after": 30}"#, Some(30_000));
        check(r#"{\"retry_after\":1.5}"#, Some(1_500));
        check("retry after 30", Some(30_000));
        check("retry after 30.", Some(30_000));
        check("retry after 30\nError: gone", Some(30_000));
        check("retry-after: 30s\n5 minutes ago", Some(30_000));
        check(r#"retryDelay: "34.07s""#, Some(34_070));
        check(r#""retryDelay":"2s""#, Some(2_000));
        check("retry_after_ms: 1500", Some(1_500));
        check("retry-after-ms: 1500", Some(1_500));
        check("retryDelayMs: 2000", Some(2_000));
        check(r#""retry_delay_ms":536"#, Some(536));
    }

    #[test]
    fn what_is_no_span() {
        check("", None);
        check("try again in a moment", None);
        check("try again in a few minutes", None);
        check("retry after 3 attempts", None);
        check("retry after 10:30", None);
        check("retry after 2026-11-15T10:00:00Z", None);
        check("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", None);
        check("retry-after: 1766502000", None);
        check("retry-after: soon", None);
        check("try again at 3:33 PM", None);
        check("wait for the user", None);
        check("wait 5", None);
        check("retryDelayMs: undefined", None);
    }

    #[test]
    fn absurd_numbers_are_cut_to_a_year() {
        let year = Some(366 * 86_400_000);
        check("retry after 99999999999999999999999999 seconds", year);
        check("try again in 999999999 days 999999999 days", year);
        check(&format!("retry-after-ms: {}", "9".repeat(400)), year);
        check("retry after 0 seconds", Some(0));
    }
}
