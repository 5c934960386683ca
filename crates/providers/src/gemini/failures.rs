//! Why a run of Gemini CLI failed: its messages, its exit codes, and what it left on standard error.

pub(super) mod retries;

use bowline_protocol::{Category, Code, Millis, Timestamp};
use serde_json::{Map, Value};

use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;

/// Makes a report of an error message. Answers of the API stand in it as JSON, often inside `[API Error: …]`.
pub(super) fn report(message: &str) -> Report {
    let mut report = Report::of(message.trim());
    if let Some(body) = embedded(message) {
        answer(&body, &mut report);
    }
    by_words(&mut report);
    report
}

/// Adds the meaning of the error's class. `unknown` and `Error` have none.
pub(super) fn by_class(class: &str, report: &mut Report) {
    let (category, code) = match class {
        "TerminalQuotaError" => (Category::Quota, None),
        "RetryableQuotaError" => (Category::RateLimit, None),
        "ModelNotFoundError" => (Category::NotFound, Some(Code::ModelNotFound)),
        "ValidationRequiredError" => (Category::Authentication, Some(Code::Forbidden)),
        "FatalAuthenticationError" => (Category::Authentication, Some(Code::NotLoggedIn)),
        "FatalTurnLimitedError" => (Category::Validation, Some(Code::MaxTurns)),
        "FatalSandboxError" | "FatalConfigError" => (Category::Configuration, None),
        "FatalUntrustedWorkspaceError" => (Category::Configuration, Some(Code::UntrustedFolder)),
        "FatalToolExecutionError" | "no_space_left" => (Category::Unknown, Some(tool_execution())),
        _ => return,
    };
    report.category.get_or_insert(category);
    report.code = report.code.take().or(code);
}

/// The meaning of an exit code.
#[derive(Debug, PartialEq)]
pub(super) enum GeminiFailure {
    /// An HTTP status: the program exits with it, and the system keeps its last eight bits.
    Status(u16),
    /// A reason of its own.
    Reason(Category, Code),
    /// Bad input, of which the text has the details.
    Input,
    Cancelled,
    /// Nothing.
    Silent,
}

/// Returns what an exit code means.
pub(super) fn meaning(code: i32) -> GeminiFailure {
    match code {
        41 => GeminiFailure::Reason(Category::Authentication, Code::NotLoggedIn),
        42 => GeminiFailure::Input,
        44 | 52 => GeminiFailure::Reason(Category::Configuration, Code::BadConfig),
        53 => GeminiFailure::Reason(Category::Validation, Code::MaxTurns),
        54 => GeminiFailure::Reason(Category::Unknown, tool_execution()),
        55 => GeminiFailure::Reason(Category::Configuration, Code::UntrustedFolder),
        130 => GeminiFailure::Cancelled,
        // 400 to 511, modulo 256.
        144..=255 => u16::try_from(code + 256).map_or(GeminiFailure::Silent, GeminiFailure::Status),
        400..=599 => u16::try_from(code).map_or(GeminiFailure::Silent, GeminiFailure::Status),
        _ => GeminiFailure::Silent,
    }
}

/// Fills in the meaning of an exit code where the text has none.
pub(super) fn by_exit(code: i32, report: &mut Report) {
    match meaning(code) {
        GeminiFailure::Status(status) => report.status = report.status.or(Some(status)),
        GeminiFailure::Reason(category, code) => {
            // Only where the text and the class have left it open: they are more exact than an exit code.
            report.category.get_or_insert(category);
            report.code.get_or_insert(code);
        }
        GeminiFailure::Input => {
            let words = Evidence { report: Some(report), ..Evidence::default() };
            let now = Moment::utc(Timestamp::EPOCH);
            if failure::classify(&words, &now).category == Category::Unknown {
                report.code.get_or_insert(Code::InvalidRequest);
            }
        }
        GeminiFailure::Cancelled | GeminiFailure::Silent => {}
    }
}

/// The error object that the JSON format leaves at the end of standard error.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) session: Option<String>,
    pub(super) report: Report,
    pub(super) class: String,
}

/// Finds the error object at the end of standard error, after stack traces and warnings.
pub(super) fn left_on_stderr(stderr: &str) -> Option<Left> {
    let stderr = stderr.trim_end();
    if !stderr.ends_with('}') {
        return None;
    }
    // Only a brace at the start of a line: stack traces and quoted responses hold braces too.
    let begins = |at: &usize| {
        let line = stderr[..*at].rsplit('\n').next().unwrap_or_default();
        line.is_empty() || line.starts_with("[ERROR]")
    };
    // From the end, and not more than eight attempts: standard error may be long.
    let starts = stderr.rmatch_indices('{').map(|(at, _)| at).filter(begins).take(8);
    let object =
        starts.filter_map(|at| serde_json::from_str::<Map<String, Value>>(&stderr[at..]).ok()).last()?;
    let error = object.get("error")?;
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut report = report(text("message"));
    by_class(text("type"), &mut report);
    // A status, an exit code, or a word.
    if let Some(code) = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()) {
        by_exit(code, &mut report);
    }
    let session = object.get("session_id").and_then(Value::as_str).map(str::to_owned);
    Some(Left { session, report, class: text("type").to_owned() })
}

/// Returns standard error without the lines of every run, without stack traces and retries.
pub(super) fn words_of(stderr: &str) -> String {
    const NOISE: &[&str] = &[
        "Warning: ",
        "Ripgrep is not available",
        "[STARTUP]",
        "YOLO mode is enabled",
        "Loaded cached credentials",
        "Attempt ",
        "Suggested retry after",
        "Error executing tool ",
        "(node:",
        "(Use `node",
        "    at ",
    ];
    let is_said = |line: &&str| !line.trim().is_empty() && !NOISE.iter().any(|noise| line.starts_with(noise));
    let said: Vec<&str> = stderr.lines().filter(is_said).map(str::trim_end).collect();
    let said = said.join("\n");
    // "Error when talking to Gemini API Full report available at: FILE CLASS: what went wrong".
    let cause = said.split_once("Full report available at: ").and_then(|(_, rest)| rest.split_once(' '));
    cause.map_or(said.as_str(), |(_, cause)| cause).to_owned()
}

/// Returns the class of the last error that standard error names: `… TerminalQuotaError: You have exhausted …`. Those
/// of retries, and `Error` itself, say nothing about the end.
pub(super) fn class_on_stderr(stderr: &str) -> &str {
    let is_class = |word: &&str| word.ends_with("Error") && word.len() > "Error".len();
    let said =
        stderr.lines().rev().filter(|line| !line.starts_with("Attempt ") && !line.starts_with("    at "));
    let mut names = said.flat_map(|line| line.split_whitespace().filter_map(|word| word.strip_suffix(':')));
    names.find(is_class).unwrap_or_default()
}

/// Returns the HTTP status of the error that standard error ends with. The class alone does not tell: a server that is
/// away is a `RetryableQuotaError` too.
pub(super) fn status_on_stderr(stderr: &str) -> Option<u16> {
    let inside = stderr.trim_end().strip_suffix('}')?;
    let last = inside.lines().rev().map(str::trim).find_map(|line| line.strip_prefix("status: "))?;
    last.trim_end_matches(',').parse().ok().filter(|status| (400..600).contains(status))
}

/// Returns whether an error of the program means that it was interrupted.
pub(super) fn is_cancelled(class: &str, message: &str) -> bool {
    class == "FatalCancellationError" || message.trim() == "Operation cancelled."
}

/// No category fits a tool that broke the run; the nearest code is one of our own.
fn tool_execution() -> Code {
    Code::Other("tool_execution".into())
}

/// Finds the JSON object of an API's answer in a message.
fn embedded(message: &str) -> Option<Map<String, Value>> {
    let start = message.find('{')?;
    let mut values = serde_json::Deserializer::from_str(&message[start..]).into_iter::<Map<String, Value>>();
    // A stream reader, because text follows the object: the closing bracket of `[API Error: …]`.
    let object = values.next()?.ok()?;
    match object.get("error") {
        Some(Value::Object(error)) => Some(error.clone()),
        Some(_) | None => None,
    }
}

/// Takes in an answer of the API: `{"code":401,"message":…,"status":…,"details":[…]}`.
fn answer(error: &Map<String, Value>, report: &mut Report) {
    report.status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    if let Some(message) = error.get("message").and_then(Value::as_str).filter(|text| !text.trim().is_empty())
    {
        // The message may be an answer in turn.
        match embedded(message) {
            Some(inner) => answer(&inner, report),
            None => message.clone_into(&mut report.message),
        }
    }
    for detail in error.get("details").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| detail.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("@type").rsplit('.').next() {
            Some("ErrorInfo") => by_reason(text("reason"), report),
            Some("RetryInfo") => report.retry_after = seconds(text("retryDelay")),
            Some("QuotaFailure") => by_quota(detail, report),
            _ => {}
        }
    }
}

fn by_reason(reason: &str, report: &mut Report) {
    let (category, code) = match reason {
        "API_KEY_INVALID" | "API_KEY_EXPIRED" => (Category::Authentication, Code::InvalidCredentials),
        "SERVICE_DISABLED" | "VALIDATION_REQUIRED" => (Category::Authentication, Code::Forbidden),
        "RATE_LIMIT_EXCEEDED" => (Category::RateLimit, Code::RateLimited),
        "QUOTA_EXHAUSTED" => (Category::Quota, Code::QuotaExhausted),
        _ => return,
    };
    (report.category, report.code) = (Some(category), Some(code));
}

/// A quota of a day is used up; a quota of a minute is a rate limit.
fn by_quota(detail: &Value, report: &mut Report) {
    let violations = detail.get("violations").and_then(Value::as_array).into_iter().flatten();
    let ids: Vec<&str> = violations.filter_map(|violation| violation.get("quotaId")?.as_str()).collect();
    // 0.61.0 gives up at once on a daily quota: "You have exhausted your daily quota on this model."
    if ids.iter().any(|id| id.contains("PerDay") || id.contains("Daily")) {
        (report.category, report.code) = (Some(Category::Quota), Some(Code::UsageLimit));
    } else if ids.iter().any(|id| id.contains("PerMinute")) {
        (report.category, report.code) = (Some(Category::RateLimit), Some(Code::RateLimited));
    }
}

/// Adds the meaning of phrases that only this program and its API use.
fn by_words(report: &mut Report) {
    if report.category.is_some() {
        return;
    }
    let says = |phrase: &str| report.message.contains(phrase);
    if says("blocked due to safety") || says("response was blocked") || says("prompt was blocked") {
        (report.category, report.code) = (Some(Category::Validation), Some(Code::Refused));
    } else if says("model returned an empty") || says("Invalid stream") {
        // "This may be a transient API issue; please try again."
        (report.category, report.code) = (Some(Category::Server), Some(Code::ServerError));
    } else if says("Maximum session turns") || says("max session turns") {
        (report.category, report.code) = (Some(Category::Validation), Some(Code::MaxTurns));
    } else if says("exceeded your current quota") && failure::is_short_limit(report) {
        (report.category, report.code) = (Some(Category::RateLimit), Some(Code::RateLimited));
    }
}

/// Reads `2s` or `34.07s`.
fn seconds(text: &str) -> Option<Millis> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    // Rounded up: a retry that comes a millisecond early is refused again.
    (0.0..1e9).contains(&seconds).then(|| Millis((seconds * 1000.0).ceil() as u64))
}

/// Makes the report of a run that our deadline ended in silence.
pub(super) fn timed_out(said: &str) -> Report {
    let message = if said.is_empty() { "timed out".to_owned() } else { format!("timed out: {said}") };
    Report { category: Some(Category::Timeout), code: Some(Code::TimedOut), ..Report::of(message) }
}
