//! Why a run of Qwen Code failed: its messages, its exit codes, and what it left on standard error. There are also its notices of
//! retries with a reason, which standard output leaves out.

use bowline_protocol::{Category, Code, Millis};
use serde_json::{Map, Value};

use super::messages::ERROR;
use crate::failure::{self, Report};

/// Makes a report of an error message: `[API Error: 401 Incorrect API key provided …]`.
pub(super) fn report(message: &str) -> Report {
    let message = message.trim();
    let status = message
        .split_once(ERROR)
        .and_then(|(_, said)| said.get(..4))
        .and_then(|said| said.strip_suffix([' ', ']', ':']))
        .and_then(|status| status.parse().ok())
        .filter(|status| (400..600).contains(status));
    Report { status, ..Report::of(message) }
}

/// Adds the meaning of a result's subtype.
pub(super) fn by_subtype(subtype: &str, report: &mut Report) {
    let (category, code) = match subtype {
        "error_max_turns" => (Category::Validation, Code::MaxTurns),
        "error_max_budget" | "error_max_budget_usd" => (Category::Configuration, Code::Budget),
        "error_max_structured_output_retries" => (Category::Validation, Code::InvalidRequest),
        _ => return,
    };
    (report.category, report.code) = (Some(category), Some(code));
}

/// Adds the meaning of an exit code.
pub(super) fn by_exit(code: i32, report: &mut Report) {
    let (category, code) = match code {
        41 => (Category::Authentication, Code::NotLoggedIn),
        44 | 52 => (Category::Configuration, Code::BadConfig),
        53 => (Category::Validation, Code::MaxTurns),
        // No category fits a tool that broke the run; the nearest code is one of our own.
        54 => (Category::Unknown, Code::Other("tool_execution".into())),
        // Too many calls of tools, or too much time.
        55 => (Category::Configuration, Code::Budget),
        _ => return,
    };
    report.category.get_or_insert(category);
    report.code.get_or_insert(code);
}

/// Returns whether a message means that the run was interrupted.
pub(super) fn is_cancelled(message: &str) -> bool {
    message.trim() == "Operation cancelled."
}

/// Returns the text on standard error about a failure.
pub(super) fn left_on_stderr(stderr: &str) -> String {
    error_object(stderr).unwrap_or_else(|| words_of(stderr))
}

/// Finds the error object that the JSON format leaves at the end of standard error.
fn error_object(stderr: &str) -> Option<String> {
    let stderr = stderr.trim_end();
    if !stderr.ends_with('}') {
        return None;
    }
    let begins = |at: &usize| *at == 0 || stderr[..*at].ends_with('\n');
    let starts = stderr.rmatch_indices('{').map(|(at, _)| at).filter(begins).take(4);
    let object =
        starts.filter_map(|at| serde_json::from_str::<Map<String, Value>>(&stderr[at..]).ok()).last()?;
    object.get("error")?.get("message")?.as_str().map(str::to_owned)
}

/// Returns standard error without the lines of every run, and without a list of its options.
fn words_of(stderr: &str) -> String {
    const NOISE: &[&str] = &[
        "Ripgrep not available",
        "Warning: running headless",
        "Retrying ",
        "(node:",
        "(Use `node",
        "    at ",
    ];
    // A bad flag prints the whole help after its message.
    let said = stderr.split_once("\nUsage: ").map_or(stderr, |(said, _)| said);
    let is_said = |line: &&str| !line.trim().is_empty() && !NOISE.iter().any(|noise| line.starts_with(noise));
    said.lines().filter(is_said).map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Makes the report of a run that our deadline ended in silence.
pub(super) fn timed_out(said: &str) -> Report {
    let message = if said.is_empty() { "timed out".to_owned() } else { format!("timed out: {said}") };
    Report { category: Some(Category::Timeout), code: Some(Code::TimedOut), ..Report::of(message) }
}

/// A notice of a retry on standard error: `Retrying in 60s (attempt 1/10): [API Error: 429 …]`.
#[derive(Debug)]
pub(super) struct RetryNotice<'a> {
    pub(super) attempt: u32,
    pub(super) most: u32,
    pub(super) delay: Option<Millis>,
    pub(super) reason: &'a str,
}

impl<'a> RetryNotice<'a> {
    /// Reads a line; any other line is no notice.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let (delay, rest) = line.strip_prefix("Retrying in ")?.split_once(" (attempt ")?;
        let (attempts, reason) = rest.split_once("): ")?;
        let (attempt, most) = attempts.split_once('/')?;
        let delay = failure::retry_after(&format!("retry in {delay}"));
        Some(Self { attempt: attempt.parse().ok()?, most: most.parse().ok()?, delay, reason })
    }
}
