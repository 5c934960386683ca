//! The clock and random numbers: the only module of this crate that reads them from the host.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "an agent stamps its lines, so this is an edge")]
pub(crate) fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a point in time, to measure durations.
#[expect(clippy::disallowed_methods, reason = "an agent measures how long it took, so this is an edge")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns the time as agents write it, such as `2026-11-15T07:43:05.483Z`.
pub(crate) fn timestamp() -> String {
    let millis = millis();
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, fraction) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// Turns days since 1970 into a date (Howard Hinnant's algorithm, for days that are not negative).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Returns a random number, from the standard library's hash keys.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns a random UUID.
pub(crate) fn uuid() -> String {
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (days, date) in
        [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29)), (20_772, (2026, 11, 15))]
    {
        assert_eq!(civil(days), date);
    }
}

#[test]
fn ids_are_uuids_and_differ() {
    let (one, other) = (uuid(), uuid());
    assert_ne!(one, other);
    assert_eq!(one.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
}
