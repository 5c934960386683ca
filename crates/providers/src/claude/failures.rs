//! Why a turn failed, from the fields of the program's report.
//!
//! An API failure ends with `subtype: "success"`; `is_error` marks it. The reason is spread over `error` (a closed set of
//! words), `api_error_status`, `api_error` and `terminal_reason`. Versions before 2.1.325 lack some of them.

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Category, Code, Millis, Timestamp};

use super::wire::ClaudeObject;
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;

/// The program's data about an error.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiError {
    /// The text, in place of an answer.
    pub(super) text: String,
    /// The word of the closed set.
    error: Option<String>,
    /// A finer word.
    api_error: Option<String>,
    status: Option<u16>,
    /// When a limit ends.
    pub(super) resets_at: Option<Timestamp>,
}

impl ApiError {
    /// Reads the fields of an `assistant` or `result` line.
    pub(super) fn of(line: &ClaudeObject<'_>, text: String) -> Self {
        let limit = line.object("api_error_params").and_then(|params| params.object("rate_limit_info"));
        Self {
            text,
            error: line.text("error").map(String::from),
            api_error: line.text("api_error").map(String::from),
            status: line.count("api_error_status").and_then(|status| u16::try_from(status).ok()),
            resets_at: limit.as_ref().and_then(|limit| moment(limit, "resetsAt")),
        }
    }

    /// Fills in data of another line about the same error.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            text: if self.text.trim().is_empty() { other.text } else { self.text },
            error: self.error.or(other.error),
            api_error: self.api_error.or(other.api_error),
            status: self.status.or(other.status),
            resets_at: self.resets_at.or(other.resets_at),
        }
    }

    /// Makes the report, given how the turn ended.
    pub(super) fn report(self, subtype: &str, terminal_reason: &str, stop_reason: &str) -> Report {
        let (category, code) = self.meaning(subtype, terminal_reason, stop_reason);
        // The reset time may belong to a limit of an earlier turn. On another failure it would make the run wait for nothing.
        let limited =
            matches!(category, Some(Category::Quota | Category::RateLimit)) || self.status == Some(429);
        Report {
            category,
            code,
            // The text decides where the status would mislead: a spent balance is a 400.
            status: self.status.filter(|_| category.is_none()),
            retry_after: None,
            resets_at: self.resets_at.filter(|_| limited),
            message: self.text,
        }
    }

    fn meaning(
        &self,
        subtype: &str,
        terminal_reason: &str,
        stop_reason: &str,
    ) -> (Option<Category>, Option<Code>) {
        // Ends that the program imposed. They come first: the last message's error fields may still be set beside them.
        match (subtype, terminal_reason) {
            ("error_max_turns", _) | (_, "max_turns") => return (None, Some(Code::MaxTurns)),
            ("error_max_budget_usd", _) | (_, "budget_exhausted") => return (None, Some(Code::Budget)),
            (_, "prompt_too_long") => return (None, Some(Code::ContextOverflow)),
            _ => {}
        }
        // 2.1.325 reports a refusal as `error: "invalid_request"`; only the stop reason shows it.
        if stop_reason == "refusal" {
            return (None, Some(Code::Refused));
        }
        match self.api_error.as_deref() {
            Some("usage_limit_reached") => return (None, Some(Code::UsageLimit)),
            // The text shows whether the connection was never made or broke.
            Some("connection_failed") => return (Some(Category::Network), None),
            Some(_) | None => {}
        }
        match self.error.as_deref() {
            Some(error) => word(error, self.status, &self.text),
            // The single object of `json` has no field for it, and a spent balance is a 400.
            None if self.status == Some(400) && by_words(&self.text) == Category::Quota => {
                (Some(Category::Quota), None)
            }
            None => (None, None),
        }
    }
}

/// Returns the meaning of a word of the closed set.
fn word(error: &str, status: Option<u16>, text: &str) -> (Option<Category>, Option<Code>) {
    match error {
        "authentication_failed" => {
            let code = match status {
                Some(403) => Some(Code::Forbidden),
                Some(_) | None => None,
            };
            (Some(Category::Authentication), code)
        }
        "oauth_org_not_allowed" | "account_on_hold" | "verification_required" => {
            (None, Some(Code::Forbidden))
        }
        "cloud_credential_error" => (None, Some(Code::InvalidCredentials)),
        "billing_error" => (None, Some(Code::Billing)),
        // Seen only in `api_retry`. The final error of a 529 is `server_error` (2.1.325), and its status decides.
        "overloaded" => (Some(Category::Server), Some(Code::Overloaded)),
        "model_not_found" => (None, Some(Code::ModelNotFound)),
        "max_output_tokens" => (None, Some(Code::MaxOutput)),
        "server_error" if status.is_none() => (Some(without_status(text)), None),
        "invalid_request" if status.is_none() => (Some(Category::Validation), None),
        "rate_limit" if status.is_none() => {
            let told = by_words(text);
            (Some(if told == Category::Quota { told } else { Category::RateLimit }), None)
        }
        // The status is more exact.
        _ => (None, None),
    }
}

/// A `server_error` without a status never reached a server, or waited for it in vain.
fn without_status(text: &str) -> Category {
    let told = by_words(text);
    if told == Category::Unknown { Category::Server } else { told }
}

fn by_words(text: &str) -> Category {
    let evidence = Evidence { text, ..Evidence::default() };
    failure::classify(&evidence, &Moment::utc(Timestamp::EPOCH)).category
}

/// Makes the report of an error that was printed as plain text.
pub(super) fn printed(text: &str) -> Report {
    let code = if text.starts_with("Error: Reached max turns") {
        Some(Code::MaxTurns)
    } else if text.starts_with("Error: Exceeded USD budget") || text.contains("maximum budget") {
        Some(Code::Budget)
    } else {
        None
    };
    Report { code, status: printed_status(text), ..Report::of(text) }
}

/// Reads the status that stands in a printed error: `API Error: 500 …`, `Request rejected (429)`, `Repeated 529 …`.
fn printed_status(text: &str) -> Option<u16> {
    // In text mode the error replaces the answer on stdout, stderr is empty and the exit code is 1 (2.1.325).
    let rest = text.trim_start().strip_prefix("API Error: ")?;
    let rest =
        rest.strip_prefix("Repeated ").or_else(|| rest.strip_prefix("Request rejected (")).unwrap_or(rest);
    let digits = rest.get(..3)?;
    let ends = rest[3..].starts_with([' ', ')', ':', '\n']) || rest.len() == 3;
    if ends { digits.parse().ok().filter(|status| (400..600).contains(status)) } else { None }
}

/// Reads `api_retry`.
pub(super) fn retrying(line: &ClaudeObject<'_>) -> Retrying {
    let error = line.text_or_empty("error");
    let status = line.count("error_status").and_then(|status| u16::try_from(status).ok());
    let category = match status {
        Some(status) => {
            let report =
                ApiError { error: Some(error.clone().into()), status: Some(status), ..ApiError::default() }
                    .report("", "", "");
            let evidence = Evidence { report: Some(&report), ..Evidence::default() };
            failure::classify(&evidence, &Moment::utc(Timestamp::EPOCH)).category
        }
        // No status: the request did not get through.
        None if matches!(error.as_ref(), "unknown" | "server_error" | "") => Category::Network,
        None => word(&error, None, &error).0.unwrap_or(Category::Unknown),
    };
    let message = match status {
        Some(status) => format!("{error} (status {status})"),
        None => error.into_owned(),
    };
    let number = |key: &str| line.count(key).and_then(|count| u32::try_from(count).ok());
    Retrying {
        attempt: number("attempt"),
        max_attempts: number("max_retries"),
        // A whole number in 2.1.325, a fraction in 2.1.197: `count` takes both.
        delay_ms: line.count("retry_delay_ms").map(Millis),
        category,
        message,
    }
}

/// Reads a time in seconds since 1970.
pub(super) fn moment(object: &ClaudeObject<'_>, key: &str) -> Option<Timestamp> {
    let seconds = object.count(key)?;
    i64::try_from(seconds).ok().map(Timestamp::from_seconds)
}
