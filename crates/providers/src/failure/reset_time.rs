//! When a limit ends, read from text: "resets 9:45am (UTC)", "try again at May 18th, 2033 3:33 AM", `resetsAt`.
//!
//! Waits without a point in time ("retry after 30 seconds") are read by `retry_after`. The clock is an argument.

use std::sync::LazyLock;

use bowline_protocol::Timestamp;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{ToSpan, Zoned};
use regex::{Captures, Regex};

use super::retry_after::{clamped, span};
use crate::moment::Moment;

/// No limit of a coding agent ended before 2001-01-01; such numbers are counters or nonsense.
const EARLIEST_MS: i64 = 978_307_200_000;

/// Returns the instant at which a limit ends, according to a text: the first one that it names.
pub fn reset_time(text: &str, now: &Moment) -> Option<Timestamp> {
    static LEAD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?x)
            (?:
                (?: \b (?i:resets?) | _ (?i:resets?) | [a-z] Resets? )
                (?: [\ _-]? (?i: (?<relative> in | after ) (?: [_-]? (?:seconds|secs) )?
                               | at | on | time (?:stamp)? | date ) \b )?
                | (?i) \b (?:again|available) \s+ (?:at|on|after) \b
                | (?i) \b retry [\ _-]? after \b
                | (?i) \b limit \s+ reached \b
                | (?i) \b until \b
            )
            (?<field> ["'\\]* \s* [:=|] )? [\s"'\\]*
            "#,
        )
        .expect("a valid regex")
    });
    LEAD.captures_iter(text).find_map(|lead| {
        let lead_in = lead.get(0)?;
        let rest = &text[lead_in.end()..];
        if before(text, lead_in.start()).eq_ignore_ascii_case("connection") {
            return None;
        }
        let found = if lead.name("relative").is_some() { after_span(rest, &lead, now) } else { None };
        found.or_else(|| epoch(rest)).or_else(|| iso(rest, now)).or_else(|| calendar(rest, now))
    })
}

/// Returns the word before a position: "connection reset 10:32" is no reset of a limit.
fn before(text: &str, position: usize) -> &str {
    text[..position].split_whitespace().next_back().unwrap_or("")
}

/// Reads "resets in 3h 20m" and `"resets_in_seconds": 1234`.
fn after_span(rest: &str, lead: &Captures<'_>, now: &Moment) -> Option<Timestamp> {
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^[0-9]{1,8}(?:\.[0-9]+)?").expect("a valid regex"));
    let bare = || {
        let seconds: f64 = NUMBER.find(rest)?.as_str().parse().ok()?;
        lead.name("field").map(|_| seconds * 1000.0)
    };
    Some(now.at.after(clamped(span(rest).or_else(bare)?)))
}

/// Reads an instant in seconds or milliseconds since 1970.
fn epoch(rest: &str) -> Option<Timestamp> {
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^[0-9]{9,15}(?-u:\b)").expect("a valid regex"));
    let number: i64 = NUMBER.find(rest)?.as_str().parse().ok()?;
    // As seconds, 10^11 is the year 5138; as milliseconds, 1973. So smaller numbers are seconds.
    let millis = if number < 100_000_000_000 { number.checked_mul(1000)? } else { number };
    plausible(jiff::Timestamp::from_millisecond(millis).ok()?)
}

/// Reads `2026-11-15T10:00:00Z`, with `+02:00`, with "(Europe/Berlin)", or in the zone of the moment.
fn iso(rest: &str, now: &Moment) -> Option<Timestamp> {
    static ISO: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^(?<local>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?)",
            r"(?<offset>[Zz]|[+-][0-9]{2}:?[0-9]{2})?",
        ))
        .expect("a valid regex")
    });
    let found = ISO.captures(rest)?;
    if found.name("offset").is_some() {
        return plausible(found[0].parse::<jiff::Timestamp>().ok()?);
    }
    let local: jiff::civil::DateTime = found["local"].parse().ok()?;
    let zone = zone_after(&rest[found[0].len()..], now)?;
    plausible(local.to_zoned(zone).ok()?.timestamp())
}

/// Reads "3pm", "Monday 9am", "tomorrow at 15:30", "Oct 9, 5pm", "May 18th, 2033 3:33 AM" and HTTP's dates.
fn calendar(rest: &str, now: &Moment) -> Option<Timestamp> {
    static WHEN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)
            ^ (?: (?<weekday> mon(?:day)? | tue(?:s(?:day)?)? | wed(?:nesday)? | thu(?:r(?:s(?:day)?)?)? | fri(?:day)?
                              | sat(?:urday)? | sun(?:day)? | today | tomorrow ) \b [\s,]* )?
            (?: (?<month> jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec ) [a-z]* \.? \s+
                (?<day> [0-9]{1,2} ) (?:st|nd|rd|th)? \b (?: ,? \s+ (?<year> [0-9]{4} ) \b )? [\s,]*
              | (?<day_first> [0-9]{1,2} ) (?:st|nd|rd|th)? \s+
                (?<month_second> jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec ) [a-z]* \.?
                (?: ,? \s+ (?<year_third> [0-9]{4} ) \b )? [\s,]* )?
            (?: (?:at \s+)? (?<hour> [0-9]{1,2} )
                (?: : (?<minute> [0-9]{2} ) (?: : (?<second> [0-9]{2} ) )? (?: \s* (?<half> [ap] ) \.? m \b \.? )?
                  | \s* (?<half_alone> [ap] ) \.? m \b \.? ) )?
            ",
        )
        .expect("a valid regex")
    });
    let found = WHEN.captures(rest)?;
    let group = |name: &str| found.name(name).map(|part| part.as_str());
    let number = |name: &str| group(name)?.parse::<i16>().ok();

    let after = &rest[found[0].len()..];
    let time = match number("hour") {
        Some(hour) => {
            let half = group("half").or(group("half_alone"));
            clock(hour, number("minute").unwrap_or(0), number("second").unwrap_or(0), half)?
        }
        // A date alone means its first moment, unless a time follows that makes no sense.
        None if after.starts_with(|next: char| next.is_ascii_digit()) => return None,
        None => Time::midnight(),
    };
    let today = now_in(&zone_after(after, now)?, now)?;

    if let Some(month) = group("month").or(group("month_second")) {
        let month = month_number(month)?;
        let day = i8::try_from(number("day").or(number("day_first"))?).ok()?;
        return match number("year").or(number("year_third")) {
            Some(year) => plausible(at(Date::new(year, month, day).ok()?, time, &today)?),
            // Nine years always hold a leap day.
            None => next(
                (0..9).filter_map(|n| Date::new(today.year().checked_add(n)?, month, day).ok()),
                time,
                &today,
            ),
        };
    }
    let days = |range: std::ops::RangeInclusive<i64>| {
        let first = today.date();
        range.filter_map(move |n| first.checked_add(n.days()).ok())
    };
    match group("weekday").map(str::to_ascii_lowercase).as_deref() {
        Some("today") => plausible(at(today.date(), time, &today)?),
        Some("tomorrow") => plausible(at(today.date().tomorrow().ok()?, time, &today)?),
        Some(name) => {
            let weekday = weekday(name)?;
            next(days(0..=7).filter(|date| date.weekday() == weekday), time, &today)
        }
        None if group("hour").is_some() => next(days(0..=2), time, &today),
        None => None,
    }
}

fn clock(hour: i16, minute: i16, second: i16, half: Option<&str>) -> Option<Time> {
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        // 12 am is 0 and 12 pm is 12.
        Some(half) => hour % 12 + if half.eq_ignore_ascii_case("p") { 12 } else { 0 },
    };
    Time::new(hour.try_into().ok()?, minute.try_into().ok()?, second.try_into().ok()?, 0).ok()
}

/// Returns the first of these dates on which the time is strictly in the future.
fn next(mut dates: impl Iterator<Item = Date>, time: Time, now: &Zoned) -> Option<Timestamp> {
    dates
        .find_map(|date| at(date, time, now).filter(|instant| *instant > now.timestamp()))
        .and_then(plausible)
}

/// Returns the instant of a local time; one that the clocks skip is taken as much later as they were moved.
fn at(date: Date, time: Time, now: &Zoned) -> Option<jiff::Timestamp> {
    Some(date.to_datetime(time).to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

fn now_in(zone: &TimeZone, now: &Moment) -> Option<Zoned> {
    Some(jiff::Timestamp::from_millisecond(now.at.as_millis()).ok()?.to_zoned(zone.clone()))
}

/// Reads the zone behind a time, "(Europe/Moscow)", "UTC", "(UTC+3)", "PST"; none means the moment's zone. A name in
/// parentheses that is unknown gives no time at all: a guess could be wrong by half a day.
fn zone_after(rest: &str, now: &Moment) -> Option<TimeZone> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^\s*\(?(?:(?i:UTC|GMT)?(?<sign>[+-])(?<hours>[0-9]{1,2})(?::?(?<minutes>[0-9]{2}))?(?-u:\b)",
            r"|(?<name>[A-Za-z]+(?:[/_+-][A-Za-z0-9]+)*))",
        ))
        .expect("a valid regex")
    });
    // Always use the bundled names: `TimeZone::get` reads the host's files as soon as any crate enables that in jiff.
    static NAMES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    let Some(found) = NAME.captures(rest) else { return Some(now.zone.clone()) };
    if let Some(name) = found.name("name") {
        let known = NAMES.get(name.as_str()).ok().or_else(|| abbreviated(name.as_str()));
        let in_parentheses = found[0].contains('(');
        return known.or_else(|| (!in_parentheses).then(|| now.zone.clone()));
    }
    let hours: i32 = found["hours"].parse().ok()?;
    let minutes: i32 = found.name("minutes").map_or(Some(0), |text| text.as_str().parse().ok())?;
    let seconds = hours * 3600 + minutes * 60;
    let signed = if &found["sign"] == "-" { -seconds } else { seconds };
    Some(TimeZone::fixed(Offset::from_seconds(signed).ok()?))
}

/// Returns the zone of an abbreviation that the database has no entry for and that is not ambiguous in practice.
fn abbreviated(name: &str) -> Option<TimeZone> {
    let hours = match name {
        "PST" => -8,
        "PDT" | "MST" => -7,
        "MDT" | "CST" => -6,
        "CDT" | "EST" => -5,
        "EDT" => -4,
        "BST" | "WEST" => 1,
        "CEST" => 2,
        "EEST" | "MSK" => 3,
        "JST" | "KST" => 9,
        "AEST" => 10,
        "AEDT" => 11,
        _ => return None,
    };
    Some(TimeZone::fixed(Offset::constant(hours)))
}

fn plausible(instant: jiff::Timestamp) -> Option<Timestamp> {
    let millis = instant.as_millisecond();
    (millis >= EARLIEST_MS).then(|| Timestamp::from_millis(millis))
}

fn month_number(name: &str) -> Option<i8> {
    let names = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let index = names.iter().position(|known| name.eq_ignore_ascii_case(known))?;
    i8::try_from(index + 1).ok()
}

fn weekday(name: &str) -> Option<Weekday> {
    let names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let index = names.iter().position(|known| name.starts_with(known))?;
    Weekday::from_monday_one_offset(i8::try_from(index + 1).ok()?).ok()
}

#[cfg(test)]
mod tests;
