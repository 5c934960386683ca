//! Errors of model APIs, as programs forward them: a status in front, a JSON body behind.

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Code, Excerpt, Kind, Millis};
use serde::Deserialize;
use serde_json::Value;

use super::loose_json::{Field, Object};
use crate::dialect::Output;
use crate::failure::{self, Evidence, Report};

/// Makes a report of a text that may begin with an HTTP status: `401: {…}`, `401 Incorrect API key`.
pub(crate) fn report(text: &str) -> Report {
    let digits = text.get(..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let ends = |text: &str| !text.starts_with(|next: char| next.is_ascii_alphanumeric());
    let status = digits
        .filter(|_| ends(&text[3..]))
        .and_then(|digits| digits.parse().ok())
        .filter(|status| (400..=599).contains(status));
    let body = text.find('{').map_or("", |at| &text[at..]);
    Report { code: code(body), status, ..Report::of(text) }
}

/// The body of an error, with or without the `error` around it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorBody<'a> {
    #[serde(borrow)]
    error: Object<InnerError<'a>>,
    #[serde(borrow)]
    code: Field<'a>,
    #[serde(borrow, rename = "type")]
    type_name: Field<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InnerError<'a> {
    #[serde(borrow)]
    code: Field<'a>,
    #[serde(borrow, rename = "type")]
    type_name: Field<'a>,
}

/// Returns the finer reason that the body of an error names beyond doubt. Its message and status decide the rest.
pub(crate) fn code(body: &str) -> Option<Code> {
    let body: ErrorBody<'_> = serde_json::from_str(body).ok()?;
    let Object(inner) = body.error;
    [&inner.code, &inner.type_name, &body.code, &body.type_name].into_iter().find_map(|name| {
        match name.str() {
            "insufficient_quota" => Some(Code::QuotaExhausted),
            "billing_hard_limit_reached" => Some(Code::Billing),
            "context_length_exceeded" => Some(Code::ContextOverflow),
            "model_not_found" => Some(Code::ModelNotFound),
            _ => None,
        }
    })
}

/// Returns the message of an error's body: a JSON string, or the message of a JSON object; else the text itself.
pub(crate) fn words(body: &str) -> String {
    match serde_json::from_str::<Value>(body) {
        Ok(Value::String(words)) => words,
        Ok(value) => {
            let inner = value.get("error").unwrap_or(&value);
            inner.get("message").and_then(Value::as_str).unwrap_or(body).to_owned()
        }
        Err(_) => body.to_owned(),
    }
}

/// A retry that a program reports.
#[derive(Debug, Default)]
pub(crate) struct Retry<'a> {
    pub(crate) attempt: Option<u32>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) delay: Option<Millis>,
    /// The reason of the retry.
    pub(crate) report: Option<&'a Report>,
    /// The message of the program.
    pub(crate) message: &'a str,
}

impl Retry<'_> {
    /// Emits its event.
    pub(crate) fn emit(self, out: &mut Output<'_>) {
        let evidence = Evidence { report: self.report, text: self.message, ..Evidence::default() };
        let category = failure::classify(&evidence, out.now).category;
        let message = Excerpt::with_limit(self.message, 4096).text;
        out.emit(Kind::Retrying(Retrying {
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            delay_ms: self.delay,
            category,
            message,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_in_front_is_a_status() {
        let table = [
            ("401: {}", Some(401)),
            ("401 Incorrect", Some(401)),
            ("529", Some(529)),
            ("4010 things", None),
            ("200 OK", None),
            ("Connection error.", None),
            ("é1", None),
            ("", None),
        ];
        for (text, status) in table {
            assert_eq!(report(text).status, status, "{text}");
        }
    }

    #[test]
    fn bodies_have_words() {
        assert_eq!(words("\"refused\""), "refused");
        assert_eq!(words(r#"{"message":"no","code":1}"#), "no");
        assert_eq!(words(r#"{"error":{"message":"no"}}"#), "no");
        assert_eq!(words("oops"), "oops");
        assert_eq!(words("{}"), "{}");
    }

    #[test]
    fn bodies_name_what_words_may_not() {
        assert_eq!(code(r#"{"error":{"code":"insufficient_quota"}}"#), Some(Code::QuotaExhausted));
        assert_eq!(code(r#"{"message":"m","type":"insufficient_quota"}"#), Some(Code::QuotaExhausted));
        assert_eq!(code(r#"{"error":{"code":null,"type":"server_error"}}"#), None);
        assert_eq!(code(r#"{"error":"no"}"#), None);
        assert_eq!(code("no"), None);
    }
}
