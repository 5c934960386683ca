//! The meaning of Codex's messages: failures that carry a status or a body, and notices of retries.
//!
//! `exec` has no field for any of this. `failure` decides the cases that the messages leave open, as for every program.

use std::sync::LazyLock;

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Category, Timestamp};
use regex::Regex;
use serde_json::Value;

use crate::dialects::content;
use crate::failure::{self, Evidence, Report};
use crate::lenient;
use crate::moment::Moment;

/// Makes a report of the message of a failure.
pub(super) fn report(message: &str) -> Report {
    let message = message.trim();
    // A 400 is reported as the raw response body, JSON inside the string (0.166.0).
    if message.starts_with('{')
        && let Some(body) = lenient::value(message)
        && let Some(inner) = body.get("error").and_then(content::error)
    {
        return body_of_400(inner, &body["error"]);
    }
    Report { status: status(message), ..Report::of(message) }
}

/// Makes a report of the body that the server sent with status 400, which Codex prints as it came.
///
/// Its `code` and `type` decide; the message may quote anything.
fn body_of_400(message: String, error: &Value) -> Report {
    let judged = |key: &str| {
        let text = error.get(key)?.as_str()?;
        let judged = failure::classify(&Evidence { text, ..Evidence::default() }, &nowhen());
        (judged.category != Category::Unknown).then_some((judged.category, judged.code))
    };
    let by_code = judged("code");
    let category = by_code.as_ref().map(|(category, _)| *category).or_else(|| Some(judged("type")?.0));
    Report { message, category, code: by_code.map(|(_, code)| code), status: Some(400), ..Report::default() }
}

/// Reads the HTTP status of "unexpected status 401 Unauthorized: …" and "… last status: 429 Too Many Requests".
fn status(message: &str) -> Option<u16> {
    static STATUS: LazyLock<Regex> = LazyLock::new(|| {
        // Anchored: the text behind it quotes the server, which may name any status.
        Regex::new(r"^(?:unexpected status|exceeded retry limit, last status:) ([0-9]{3})(?-u:\b)")
            .expect("a valid regex")
    });
    STATUS.captures(message)?[1].parse().ok()
}

/// Reads a notice that a request is tried again; any other message is none.
///
/// "Reconnecting... 2/5 (cause)", "Reconnecting... waiting for network (cause)"; older versions say
/// "stream error: cause; retrying 2/5 in 200ms…".
pub(super) fn retrying(message: &str) -> Option<Retrying> {
    static NOTICE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?sx)
            ^ Reconnecting (?:\.\.\.|…) \s* (?: (?<n>[0-9]+) / (?<m>[0-9]+) | waiting[\ ]for[\ ]network )?
              \s* (?: \( (?<cause>.*) \) )? \s* $
            | ^ (?<old>.*) [;,:] \s+ retrying \s+ (?<on>[0-9]+) / (?<om>[0-9]+) \s+ (?<wait> in \s+ [^;]* ) $
            ",
        )
        .expect("a valid regex")
    });
    let found = NOTICE.captures(message.trim())?;
    let text = |name: &str| found.name(name).map(|found| found.as_str());
    let number = |name: &str| text(name).and_then(|digits| digits.parse().ok());
    let cause = text("cause").or(text("old")).unwrap_or_default();
    Some(Retrying {
        attempt: number("n").or(number("on")),
        max_attempts: number("m").or(number("om")),
        delay_ms: text("wait").and_then(|wait| failure::retry_after(&format!("retrying {wait}"))),
        category: category(cause),
        message: message.trim().to_owned(),
    })
}

/// Returns the category of failure that a message is about.
pub(super) fn category(message: &str) -> Category {
    let report = report(message);
    failure::classify(&Evidence { report: Some(&report), ..Evidence::default() }, &nowhen()).category
}

/// The present, where only the category is needed.
fn nowhen() -> Moment {
    Moment::utc(Timestamp::EPOCH)
}

#[cfg(test)]
mod tests {
    use bowline_protocol::{Code, Millis};

    use super::*;

    #[test]
    fn notices_of_retries() {
        let check =
            |message: &str, attempt: Option<u32>, of: Option<u32>, wait: Option<u64>, category: Category| {
                let found = retrying(message).unwrap_or_else(|| panic!("{message}"));
                let told = (found.attempt, found.max_attempts, found.delay_ms, found.category);
                assert_eq!(told, (attempt, of, wait.map(Millis), category), "{message}");
            };
        check(
            "Reconnecting... 2/5 (Connection failed: error sending request)",
            Some(2),
            Some(5),
            None,
            Category::Network,
        );
        check(
            "Reconnecting... waiting for network (Connection failed: error sending request)",
            None,
            None,
            None,
            Category::Network,
        );
        check(
            "Reconnecting... 1/1 (unexpected status 401 Unauthorized: x, url: y)",
            Some(1),
            Some(1),
            None,
            Category::Authentication,
        );
        check("Reconnecting... 1/1", Some(1), Some(1), None, Category::Unknown);
        check(
            "stream error: stream disconnected before completion: EOF; retrying 1/5 in 200ms…",
            Some(1),
            Some(5),
            Some(200),
            Category::Network,
        );
        for other in ["", "Connection failed: error sending request", "I was Reconnecting... 1/1", "retrying"]
        {
            assert_eq!(retrying(other), None, "{other}");
        }
    }

    #[test]
    fn bodies_and_statuses() {
        let body = report(r#"{"error": {"message": "Too long.", "code": "context_length_exceeded"}}"#);
        assert_eq!((body.message.as_str(), body.code), ("Too long.", Some(Code::ContextOverflow)));
        let odd = report(r#"{"error": {"message": "Hm."}}"#);
        assert_eq!((odd.message.as_str(), odd.category, odd.status), ("Hm.", None, Some(400)));
        assert_eq!(report("unexpected status 502 Bad Gateway: <html>").status, Some(502));
        assert_eq!(report("the unexpected status 502").status, None);
        assert_eq!(report("{not json").message, "{not json");
    }
}
