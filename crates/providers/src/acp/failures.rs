//! Why a request failed: the JSON-RPC error, and what agents add to it.
//!
//! The words of the program come first where an agent's own code is only a rough guess; the tables here fill in what
//! words leave open.

use bowline_protocol::{Category, Code, Timestamp};
use serde_json::Value;

use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;

/// A JSON-RPC error.
#[derive(Debug)]
pub(crate) struct AcpProblem {
    code: i64,
    /// The agent's message, without the protocol's own phrases.
    detail: Option<String>,
    /// The protocol's phrase, or the agent's.
    message: String,
    /// The HTTP status that is quoted in the message or given as the code.
    status: Option<u16>,
    data: Value,
}

/// The codes that the protocol defines.
const AUTH_REQUIRED: i64 = -32000;
const NOT_FOUND: i64 = -32002;
const METHOD_NOT_FOUND: i64 = -32601;
const CANCELLED: i64 = -32800;

impl AcpProblem {
    /// Reads an error. Anything may be missing.
    pub(crate) fn read(error: &Value) -> Self {
        let code = error.get("code").and_then(number).unwrap_or(0);
        let data = error.get("data").cloned().unwrap_or_default();
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let quoted = quoted(&message);
        // Gemini 0.61.0 uses the HTTP status itself as the code of the JSON-RPC error.
        let status = http(Some(code)).or(quoted.as_ref().and_then(|(status, _)| *status));
        let own = quoted.map(|(_, text)| text).or_else(|| own_words(&message));
        let in_data = ["/message", "/details", "/detail", "/error/message", "/error", "/reason"];
        let told = data.as_str().or_else(|| in_data.iter().find_map(|path| data.pointer(path)?.as_str()));
        let detail = own.or_else(|| told.map(str::to_owned)).filter(|text| !text.trim().is_empty());
        Self { code, detail, message, status, data }
    }

    /// Makes a problem of which only a text is known.
    pub(crate) fn of(text: &str) -> Self {
        let (detail, message) = (Some(text.trim().to_owned()), text.trim().to_owned());
        Self { code: 0, detail, message, status: None, data: Value::Null }
    }

    /// Adds the agent's report about an error outside of the response to a request.
    #[must_use]
    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }

    /// Adds an HTTP status, if it is known.
    #[must_use]
    pub(crate) fn with_status(mut self, status: Option<u16>) -> Self {
        self.status = self.status.or(status);
        self
    }

    /// Returns the category that the failure would have.
    pub(crate) fn category(&self) -> Category {
        let evidence = Evidence { report: Some(&self.report(None)), ..Evidence::default() };
        failure::classify(&evidence, &Moment::utc(Timestamp::EPOCH)).category
    }

    /// Returns whether the request was interrupted on request.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.code == CANCELLED
            || self.data.get("errorName").and_then(Value::as_str) == Some("MessageAbortedError")
    }

    /// Returns whether the agent does not know the method.
    pub(crate) fn is_unknown_method(&self) -> bool {
        self.code == METHOD_NOT_FOUND
    }

    /// Returns whether the text just before is about this error and not an answer.
    pub(crate) fn is_about(&self, said: &str) -> bool {
        let said = said.trim();
        if said.is_empty() {
            return false;
        }
        // Claude Code gives the reason in the text, and only "authentication required" in the error.
        if self.code == AUTH_REQUIRED && self.detail.is_none() {
            return true;
        }
        // A few letters may be a part of anything.
        let holds = |whole: &str, part: &str| whole == part || part.len() >= 12 && whole.contains(part);
        holds(self.text().trim(), said) || holds(said, self.text().trim())
    }

    /// Returns the error message.
    pub(crate) fn text(&self) -> &str {
        self.detail.as_deref().unwrap_or(&self.message)
    }

    /// Makes a report. `said` is the agent's own text about the error.
    pub(crate) fn report(&self, said: Option<&str>) -> Report {
        let said = said.map(str::trim).filter(|said| !said.is_empty());
        let message = match (&self.detail, said) {
            (Some(detail), _) => detail.clone(),
            (None, Some(said)) if self.message.is_empty() => said.to_owned(),
            (None, Some(said)) => format!("{}: {said}", self.message),
            (None, None) => self.message.clone(),
        };
        let told = self.detail.is_some() || said.is_some();
        // Of a body that is quoted whole, the wait is in a field of its own.
        let retry_after = Some(&self.message).filter(|body| body.starts_with('{'));
        let retry_after = retry_after.and_then(|body| failure::retry_after(body));
        let mut report = Report { status: self.status, retry_after, ..Report::of(message) };
        // The agent's own fields first: -32603 "Internal error" stands for almost anything.
        self.by_data(&mut report);
        self.by_code(told, &mut report);
        report
    }

    /// Reads the fields that agents add.
    fn by_data(&self, report: &mut Report) {
        let word = |key: &str| self.data.get(key).and_then(Value::as_str);
        if let Some(kind) = word("errorKind") {
            claude(kind, report);
        }
        let info = ["codexErrorInfo", "codex_error_info"].iter().find_map(|key| self.data.get(key));
        if let Some(info) = info {
            codex(info, report);
        }
        if let Some(name) = word("errorName") {
            opencode(name, report);
        }
        let status =
            ["status", "statusCode", "httpStatusCode"].iter().find_map(|key| number(self.data.get(key)?));
        report.status = report.status.or(http(status));
    }

    fn by_code(&self, told: bool, report: &mut Report) {
        if report.category.is_some() || report.code.is_some() || report.status.is_some() {
            return;
        }
        match self.code {
            AUTH_REQUIRED => {
                report.category = Some(Category::Authentication);
                // "Authentication is required before this operation", unless words know better.
                let refused = ["invalid", "incorrect", "expired", "refused", "unauthorized"];
                let words = report.message.to_ascii_lowercase();
                report.code = if by_words(&words).1 == Code::Forbidden {
                    Some(Code::Forbidden)
                } else if told && refused.iter().any(|word| words.contains(word)) {
                    Some(Code::InvalidCredentials)
                } else {
                    Some(Code::NotLoggedIn)
                };
            }
            NOT_FOUND => {
                report.category = Some(Category::NotFound);
                if self.data.get("sessionId").is_some() {
                    report.code = Some(Code::SessionNotFound);
                }
            }
            METHOD_NOT_FOUND | -32600 | -32602 | -32700
                if by_words(&report.message).0 == Category::Unknown =>
            {
                report.category = Some(Category::Validation);
            }
            _ => {}
        }
    }
}

/// Reads Claude Code's kinds of errors.
fn claude(kind: &str, report: &mut Report) {
    let words = by_words(&report.message).0;
    match kind {
        "authentication_failed" | "cloud_credential_error" => {
            report.category = Some(Category::Authentication)
        }
        "oauth_org_not_allowed" | "account_on_hold" | "verification_required" => {
            report.code = Some(Code::Forbidden)
        }
        "billing_error" => report.code = Some(Code::Billing),
        // A spent plan has this kind too; its words tell the two apart.
        "rate_limit" => report.status = Some(429),
        "overloaded" => {
            report.category = Some(Category::Server);
            report.code = Some(Code::Overloaded);
        }
        "invalid_request" => report.category = Some(Category::Validation),
        "model_not_found" => report.code = Some(Code::ModelNotFound),
        "max_output_tokens" => report.code = Some(Code::MaxOutput),
        // Connections that fail, and timeouts, have this kind too.
        "server_error" if !matches!(words, Category::Network | Category::Timeout) => {
            report.category = Some(Category::Server);
        }
        _ => {}
    }
}

/// Reads Codex's `codexErrorInfo`: a word, or an object with one key. The older adapter writes it with underscores.
fn codex(info: &Value, report: &mut Report) {
    let (name, inner) = match info {
        Value::String(name) => (name.as_str(), None),
        Value::Object(fields) => match fields.iter().next() {
            Some((name, inner)) => (name.as_str(), Some(inner)),
            None => return,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return,
    };
    let status = ["httpStatusCode", "http_status_code"].iter().find_map(|key| number(inner?.get(key)?));
    report.status = report.status.or(http(status));
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "contextwindowexceeded" => report.code = Some(Code::ContextOverflow),
        "usagelimitexceeded" => report.category = Some(Category::Quota),
        "ratelimitexceeded" => report.category = Some(Category::RateLimit),
        "serveroverloaded" => {
            report.category = Some(Category::Server);
            report.code = Some(Code::Overloaded);
        }
        "internalservererror" => report.category = Some(Category::Server),
        "unauthorized" => report.category = Some(Category::Authentication),
        "badrequest" => report.category = Some(Category::Validation),
        "modelnotfound" => report.code = Some(Code::ModelNotFound),
        "httpconnectionfailed" | "responsestreamconnectionfailed" if report.status.is_none() => {
            report.code = Some(Code::ConnectionFailed);
        }
        "responsestreamdisconnected" if report.status.is_none() => report.code = Some(Code::ConnectionLost),
        _ => {}
    }
}

/// Returns the HTTP status in Codex's `codexErrorInfo`.
pub(crate) fn codex_status(info: &Value) -> Option<u16> {
    let mut report = Report::default();
    codex(info, &mut report);
    report.status
}

/// Reads opencode's names of errors.
fn opencode(name: &str, report: &mut Report) {
    match name {
        "ProviderAuthError" => report.category = Some(Category::Authentication),
        "ContextOverflowError" => report.code = Some(Code::ContextOverflow),
        "MessageOutputLengthError" => report.code = Some(Code::MaxOutput),
        "ProviderModelNotFoundError" => report.code = Some(Code::ModelNotFound),
        _ => {}
    }
}

/// Returns the subject of a text.
pub(crate) fn by_words(text: &str) -> (Category, Code) {
    let evidence = Evidence { text, ..Evidence::default() };
    let failure = failure::classify(&evidence, &Moment::utc(Timestamp::EPOCH));
    (failure.category, failure.code)
}

/// Returns the agent's own words in a message: not the protocol's phrase, nor that phrase as a prefix.
fn own_words(message: &str) -> Option<String> {
    const PHRASES: [&str; 8] = [
        "Internal error",
        "Authentication required",
        "Resource not found",
        "Invalid params",
        "Invalid request",
        "Request cancelled",
        "Parse error",
        "Unknown error",
    ];
    for phrase in PHRASES {
        if let Some(rest) = message.strip_prefix(phrase) {
            let rest = rest.trim_start_matches([':', '.', ' ']);
            return (!rest.is_empty()).then(|| rest.to_owned());
        }
    }
    (!message.is_empty()).then(|| message.to_owned())
}

/// Reads a message that is the body of an HTTP answer, as Gemini's are: its status and text.
fn quoted(message: &str) -> Option<(Option<u16>, String)> {
    if !message.starts_with('{') {
        return None;
    }
    let body: Value = serde_json::from_str(message).ok()?;
    let error = body.get("error").unwrap_or(&body);
    let text = error.get("message")?.as_str()?;
    Some((http(error.get("code").and_then(number)), text.to_owned()))
}

fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn http(number: Option<i64>) -> Option<u16> {
    number.filter(|number| (400..600).contains(number)).and_then(|number| u16::try_from(number).ok())
}
