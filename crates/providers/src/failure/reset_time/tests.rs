//! Reset times as agents write them, seen from fixed moments.

use super::*;

fn moment(at: &str, zone: &str) -> Moment {
    Moment {
        at: at.parse().expect("an instant"),
        zone: TimeZoneDatabase::bundled().get(zone).expect("a zone"),
    }
}

#[track_caller]
fn check(text: &str, now: &Moment, expect: &str) {
    let found = reset_time(text, now).map_or("none".to_owned(), |instant| instant.to_string());
    assert_eq!(found, expect, "{text}");
}

/// A Sunday morning.
fn sunday() -> Moment {
    moment("2026-11-15T08:00:00Z", "UTC")
}

#[test]
fn times_of_day_mean_the_next_such_time() {
    let now = sunday();
    check("You've hit your 5-hour limit · resets 9:45am (UTC)", &now, "2026-11-15T09:45:00Z");
    check("You've hit your limit · resets 2:10pm (Europe/Moscow)", &now, "2026-11-15T11:10:00Z");
    check("You've hit your limit · resets 10:10am (Europe/Moscow)", &now, "2026-11-16T07:10:00Z");
    check("resets at 3pm (America/New_York)", &now, "2026-11-15T20:00:00Z");
    check("resets 9pm", &now, "2026-11-15T21:00:00Z");
    check("resets 8am", &now, "2026-11-16T08:00:00Z");
    check("resets 8:00:01 am", &now, "2026-11-15T08:00:01Z");
    check("resets 12am", &now, "2026-11-16T00:00:00Z");
    check("resets 12pm", &now, "2026-11-15T12:00:00Z");
    check("resets at 15:30", &now, "2026-11-15T15:30:00Z");
    check("Your limit will reset at 3pm (Europe/Berlin).", &now, "2026-11-15T14:00:00Z");
    check("5-hour limit reached ∙ resets 3pm", &now, "2026-11-15T15:00:00Z");
    check("try again at 3:33 PM", &now, "2026-11-15T15:33:00Z");
    check("try again at 3:33\u{202f}PM.", &now, "2026-11-15T15:33:00Z");
    check("resets 3 p.m. UTC", &now, "2026-11-15T15:00:00Z");
}

#[test]
fn the_zone_is_the_named_one_or_that_of_the_moment() {
    let now = moment("2026-11-15T08:00:00Z", "Asia/Tokyo");
    check("resets 9pm", &now, "2026-11-15T12:00:00Z");
    check("resets 9pm (Mars/Olympus_Mons)", &now, "none");
    check("resets 9pm (PST)", &now, "2026-11-16T05:00:00Z");
    check("resets 9pm or later", &now, "2026-11-15T12:00:00Z");
    check("resets 9pm (UTC)", &now, "2026-11-15T21:00:00Z");
    check("resets 9pm (UTC+3)", &now, "2026-11-15T18:00:00Z");
    check("resets 9pm (GMT-05:30)", &now, "2026-11-16T02:30:00Z");
    check("resets 9pm (UTC+99)", &now, "none");
    check("resets 2026-11-16 10:00", &now, "2026-11-16T01:00:00Z");
    check("resets 2026-11-16T10:00:00 (Europe/Berlin)", &now, "2026-11-16T09:00:00Z");
}

#[test]
fn dates_without_a_year_mean_the_next_such_date() {
    let now = sunday();
    check("resets Oct 9, 5pm", &now, "2027-10-09T17:00:00Z");
    check("resets Nov 15, 5pm", &now, "2026-11-15T17:00:00Z");
    check("resets Nov 15, 7am", &now, "2027-11-15T07:00:00Z");
    check("resets December 1 at 9:30am (Europe/Berlin)", &now, "2026-12-01T08:30:00Z");
    check("resets Feb 29, 5pm", &now, "2028-02-29T17:00:00Z");
    check("resets Nov 20", &now, "2026-11-20T00:00:00Z");
    check("resets on 20 November", &now, "2026-11-20T00:00:00Z");
    check("resets Monday 9am", &now, "2026-11-16T09:00:00Z");
    check("resets Sunday 9am", &now, "2026-11-15T09:00:00Z");
    check("resets Sun 8am", &now, "2026-11-22T08:00:00Z");
    check("resets tomorrow at 9am", &now, "2026-11-16T09:00:00Z");
    check("resets today at 9am", &now, "2026-11-15T09:00:00Z");
}

#[test]
fn whole_dates_and_numbers_are_taken_as_they_are() {
    let now = sunday();
    check("or try again at May 18th, 2033 3:33 AM.", &now, "2033-05-18T03:33:00Z");
    let berlin = moment("2026-11-15T08:00:00Z", "Europe/Berlin");
    check("or try again at May 18th, 2033 3:33 AM.", &berlin, "2033-05-18T01:33:00Z");
    check("try again at 2026-11-15T10:00:00Z", &now, "2026-11-15T10:00:00Z");
    check("try again at 2026-11-15T10:00:00.250+02:00", &now, "2026-11-15T08:00:00.250Z");
    check("Claude AI usage limit reached|1766502000", &now, "2025-12-23T15:00:00Z");
    check("Claude AI usage limit reached|1766502000123", &now, "2025-12-23T15:00:00.123Z");
    check(r#"{"resetsAt":1794735906}"#, &now, "2026-11-15T09:45:06Z");
    check(r#"{\"resets_at\": 1794735906000}"#, &now, "2026-11-15T09:45:06Z");
    check("reset_at=1794735906", &now, "2026-11-15T09:45:06Z");
    check(r#""rateLimitResetsAt":"2026-11-15T09:45:06Z""#, &now, "2026-11-15T09:45:06Z");
    check("x-ratelimit-reset: 1766502000", &now, "2025-12-23T15:00:00Z");
    check("anthropic-ratelimit-unified-reset: 1794735906", &now, "2026-11-15T09:45:06Z");
    check("anthropic-ratelimit-requests-reset: 2026-11-15T09:45:06Z", &now, "2026-11-15T09:45:06Z");
    check("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", &berlin, "2026-10-21T07:28:00Z");
}

#[test]
fn spans_count_from_now() {
    let now = sunday();
    check("resets in 3h 20m", &now, "2026-11-15T11:20:00Z");
    check("Your quota will reset after 18h22m51s.", &now, "2026-11-16T02:22:51Z");
    check(r#""resets_in_seconds": 90"#, &now, "2026-11-15T08:01:30Z");
    check("resets in 99999999999999999999 days", &now, "2027-11-16T08:00:00Z");
}

#[test]
fn clocks_that_jump_are_survived() {
    // 02:30 does not exist on this day; the clocks go from 02:00 to 03:00.
    let spring = moment("2027-03-14T05:00:00Z", "America/New_York");
    check("resets 2:30am", &spring, "2027-03-14T07:30:00Z");
    // 01:30 happens twice; the first one counts, and once it is over, the next day's.
    let autumn = moment("2026-11-01T04:00:00Z", "America/New_York");
    check("resets 1:30am", &autumn, "2026-11-01T05:30:00Z");
    check("resets 1:30am", &moment("2026-11-01T05:45:00Z", "America/New_York"), "2026-11-02T06:30:00Z");
    // Samoa skipped the whole of 2011-12-30.
    let samoa = moment("2011-12-29T20:00:00Z", "Pacific/Apia");
    check("resets Dec 30, 5pm", &samoa, "2011-12-31T03:00:00Z");
}

#[test]
fn nonsense_is_no_time() {
    let now = sunday();
    for text in [
        "",
        "resets",
        "resets 99:99pm",
        "resets 13pm",
        "resets 25:00",
        "resets 0am",
        "resets 5",
        "resets monthly",
        "resets may be delayed",
        "resets Feb 30, 5pm",
        "resets Oct 9, 99:99pm",
        "resets at 2026-99-99T10:00:00Z",
        "resetsAt: 12345",
        "resetsAt: 123456789",
        "resetsAt: 99999999999999999999999",
        "connection reset 10:32",
        "ECONNRESET at 10:32",
        "retry-after: 30",
        "retry after 30 seconds",
        "wait until it is done",
        "resets in a while",
    ] {
        check(text, &now, "none");
    }
}

#[test]
fn the_edges_of_time_are_survived() {
    for millis in [i64::MIN, -1, 0, i64::MAX] {
        for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Apia"] {
            let now = Moment {
                at: Timestamp::from_millis(millis),
                zone: TimeZoneDatabase::bundled().get(zone).expect("a zone"),
            };
            for text in
                ["resets 9pm", "resets Monday", "resets Feb 29", "resets tomorrow", "resets in 9 weeks"]
            {
                let _ = reset_time(text, &now);
            }
        }
    }
}
