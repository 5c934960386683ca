//! Retries, which Gemini CLI reports only on standard error.
//!
//! `Attempt 1 failed: … Retrying after 5522ms...` may stretch over several lines, because the message does.
//! `Attempt 1 failed with status 500. Retrying with backoff... _ApiError: {…}` is one line; a stack trace follows it.

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Category, Excerpt, Kind, Millis, Timestamp};

use super::super::failures;
use crate::dialect::Output;
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;

/// Reads notices of retries.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    /// A notice that has begun: the attempt that failed, and the text so far.
    begun: Option<(u32, String)>,
}

/// The longest notice that is put together.
const LONGEST: usize = 8 * 1024;

impl Retries {
    /// Handles a line of standard error without colour.
    pub(crate) fn stderr(&mut self, line: &str, out: &mut Output<'_>) {
        let (attempt, text) = match (attempt(line), self.begun.take()) {
            (Some(attempt), _) => (attempt, line.to_owned()),
            (None, Some((attempt, before))) => (attempt, format!("{before}\n{line}")),
            (None, None) => return,
        };
        // "Attempt" alone is not a retry: the last attempt has the same beginning.
        if text.contains("Retrying") {
            Self::notice(attempt, &text, out);
        } else if !text.contains("Max attempts reached") && text.len() < LONGEST {
            self.begun = Some((attempt, text));
        }
    }

    fn notice(attempt: u32, text: &str, out: &mut Output<'_>) {
        let report = failures::report(&reason(text));
        let report = Report { status: status(text).or(report.status), ..report };
        let now = Moment::utc(Timestamp::EPOCH);
        let evidence = Evidence { report: Some(&report), ..Evidence::default() };
        let mut category = failure::classify(&evidence, &now).category;
        if category == Category::Quota {
            // A quota that is used up is not retried; what is retried is one of a minute.
            category = Category::RateLimit;
        }
        let message = Excerpt::with_limit(&report.message, 2048).text;
        out.emit(Kind::Retrying(Retrying {
            attempt: Some(attempt.saturating_add(1)),
            max_attempts: None,
            delay_ms: delay(text),
            category,
            message,
        }));
    }
}

/// Reads the number of the attempt that failed.
fn attempt(line: &str) -> Option<u32> {
    let (number, _) = line.strip_prefix("Attempt ")?.split_once(" failed")?;
    number.parse().ok()
}

/// Returns what went wrong: what stands between the attempt and the retry, or after both.
fn reason(text: &str) -> String {
    let said = text.split_once(" failed").map_or(text, |(_, said)| said);
    let (before, after) = said.split_once("Retrying").unwrap_or((said, ""));
    let before = before.trim_start_matches([':', '.']).trim();
    // "with status 500." is no reason where one follows: "Retrying with backoff... Error: …".
    let after = after.split_once("... ").map_or("", |(_, error)| error.trim());
    let before = before.trim_end_matches('.').trim_end();
    match (before, after) {
        (before, "") => before.to_owned(),
        (_, after) => after.to_owned(),
    }
}

fn status(text: &str) -> Option<u16> {
    let said = text.split_once(" failed with ")?.1;
    let said = said.strip_prefix("status ").unwrap_or(said);
    said.get(..3)?.parse().ok().filter(|status| (400..600).contains(status))
}

fn delay(text: &str) -> Option<Millis> {
    let said = text.split_once("Retrying after ").or_else(|| text.split_once("explicit delay of "))?.1;
    said.split_once("ms")?.0.parse().ok().map(Millis)
}
