//! The errors of each API: status, message and JSON shape.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Answer, Api, Frame, WireError, data, event, responses};
use crate::scenario::{Fault, FaultKind};

/// The default retry time.
const USUAL_WAIT: Duration = Duration::from_secs(1);

/// The API family that defines the shape of an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorFamily {
    Anthropic,
    Openai,
    Google,
    Ollama,
}

impl ErrorFamily {
    fn of(api: Api) -> Self {
        match api {
            Api::AnthropicMessages => Self::Anthropic,
            Api::OpenaiResponses | Api::OpenaiChat => Self::Openai,
            Api::GoogleGenerate => Self::Google,
            Api::OllamaChat | Api::OllamaGenerate => Self::Ollama,
        }
    }
}

/// Writes a fault that has a status.
pub(super) fn problem(api: Api, fault: &Fault, model: &str) -> WireError {
    let family = ErrorFamily::of(api);
    if fault.kind == FaultKind::BadGateway {
        let words = fault.message.as_deref().unwrap_or("502 Bad Gateway");
        return WireError {
            status: fault.status.unwrap_or(502),
            headers: Vec::new(),
            body: format!("<html><head><title>{words}</title></head><body><h1>{words}</h1></body></html>"),
            content_type: "text/html",
        };
    }
    let ErrorContent { status, name, code, message } = words(family, fault, model);
    let status = fault.status.unwrap_or(status);
    let message = fault.message.clone().unwrap_or(message);
    let body = match family {
        ErrorFamily::Anthropic => json!({
            "type": "error",
            "error": { "type": name, "message": message },
            "request_id": "req_simulated",
        }),
        ErrorFamily::Openai => {
            json!({ "error": { "message": message, "type": name, "param": null, "code": code } })
        }
        ErrorFamily::Google => google(fault, status, name, &message),
        ErrorFamily::Ollama => json!({ "error": message }),
    };
    WireError {
        status,
        headers: headers(family, fault),
        body: body.to_string(),
        content_type: "application/json",
    }
}

/// The content of an error.
struct ErrorContent {
    status: u16,
    /// The type, or the status in words.
    name: &'static str,
    /// The code, if the API has one beside the type.
    code: Option<&'static str>,
    message: String,
}

fn words(family: ErrorFamily, fault: &Fault, model: &str) -> ErrorContent {
    let error = ReportedError::of(fault.kind);
    match family {
        ErrorFamily::Anthropic => anthropic(error, model),
        ErrorFamily::Openai => openai(error, fault, model),
        ErrorFamily::Google => google_words(error, fault, model),
        ErrorFamily::Ollama => ErrorContent { name: "", code: None, ..openai(error, fault, model) },
    }
}

/// An error that the APIs word differently.
#[derive(Clone, Copy)]
enum ReportedError {
    Internal,
    Unavailable,
    Overloaded,
    RateLimit,
    Quota,
    Billing,
    BadRequest,
    ContextOverflow,
    TooLarge,
    NotFound,
    Unauthorized,
    Forbidden,
}

impl ReportedError {
    fn of(kind: FaultKind) -> Self {
        match kind {
            FaultKind::BadRequest => Self::BadRequest,
            FaultKind::Unauthorized => Self::Unauthorized,
            FaultKind::Forbidden => Self::Forbidden,
            FaultKind::NotFound => Self::NotFound,
            FaultKind::TooLarge => Self::TooLarge,
            FaultKind::RateLimit => Self::RateLimit,
            FaultKind::Quota => Self::Quota,
            FaultKind::Billing => Self::Billing,
            FaultKind::Unavailable => Self::Unavailable,
            FaultKind::Overloaded => Self::Overloaded,
            FaultKind::ContextOverflow => Self::ContextOverflow,
            // Faults of the connection and of the stream have no error of their own. If one is reported, it is a 500.
            FaultKind::ServerError
            | FaultKind::BadGateway
            | FaultKind::Close
            | FaultKind::Refused
            | FaultKind::Hang
            | FaultKind::HangAfterHeaders
            | FaultKind::HangMidway
            | FaultKind::Cut
            | FaultKind::StreamError
            | FaultKind::Garbage => Self::Internal,
        }
    }
}

fn anthropic(error: ReportedError, model: &str) -> ErrorContent {
    let of =
        |status, name, message: &str| ErrorContent { status, name, code: None, message: message.to_owned() };
    match error {
        ReportedError::BadRequest => {
            of(400, "invalid_request_error", "messages.0.content: a value is missing")
        }
        ReportedError::Unauthorized => of(401, "authentication_error", "invalid x-api-key"),
        ReportedError::Forbidden => of(
            403,
            "permission_error",
            "Your API key does not have permission to use the specified resource.",
        ),
        ReportedError::NotFound => of(404, "not_found_error", &format!("model: {model}")),
        ReportedError::TooLarge => of(413, "request_too_large", "Request exceeds the maximum size"),
        ReportedError::RateLimit => of(
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit of 50 requests per minute.",
        ),
        ReportedError::Quota => of(
            429,
            "rate_limit_error",
            "This request would exceed your account's usage limit. Please try again later.",
        ),
        // An empty balance is a 400 in this API, with the type of every bad request: only the text differs.
        ReportedError::Billing => of(
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
        ),
        ReportedError::Unavailable => of(503, "api_error", "The service is temporarily unavailable."),
        // 529 is not a registered status code. Anthropic defines it.
        ReportedError::Overloaded => of(529, "overloaded_error", "Overloaded"),
        ReportedError::ContextOverflow => {
            of(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")
        }
        ReportedError::Internal => of(500, "api_error", "Internal server error"),
    }
}

fn openai(error: ReportedError, fault: &Fault, model: &str) -> ErrorContent {
    let of = |status, name, code: &'static str, message: &str| ErrorContent {
        status,
        name,
        code: Some(code).filter(|code| !code.is_empty()),
        message: message.to_owned(),
    };
    let request = "invalid_request_error";
    match error {
        ReportedError::BadRequest => {
            of(400, request, "invalid_value", "Invalid request: a value is missing.")
        }
        ReportedError::Unauthorized => of(
            401,
            request,
            "invalid_api_key",
            "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
        ),
        ReportedError::Forbidden => {
            of(403, "permission_error", "access_denied", "You do not have access to this resource.")
        }
        ReportedError::NotFound => of(
            404,
            request,
            "model_not_found",
            &format!("The model `{model}` does not exist or you do not have access to it."),
        ),
        ReportedError::TooLarge => of(413, request, "request_too_large", "The request is too large."),
        ReportedError::RateLimit => of(
            429,
            "requests",
            "rate_limit_exceeded",
            &format!(
                "Rate limit reached for {model} on requests per min. Please try again in {}s.",
                wait(fault).as_secs_f64()
            ),
        ),
        ReportedError::Quota => of(
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        ReportedError::Billing => {
            of(400, request, "billing_hard_limit_reached", "Billing hard limit has been reached.")
        }
        ReportedError::Unavailable => of(503, "server_error", "", "The service is temporarily unavailable."),
        ReportedError::Overloaded => of(
            503,
            "server_error",
            "server_is_overloaded",
            "The engine is currently overloaded, please try again later.",
        ),
        ReportedError::ContextOverflow => of(
            400,
            request,
            "context_length_exceeded",
            "This model's maximum context length is 200000 tokens. However, your messages resulted in 250000 tokens. Please reduce the length of the messages.",
        ),
        ReportedError::Internal => {
            of(500, "server_error", "", "The server had an error while processing your request.")
        }
    }
}

fn google_words(error: ReportedError, fault: &Fault, model: &str) -> ErrorContent {
    let of =
        |status, name, message: &str| ErrorContent { status, name, code: None, message: message.to_owned() };
    match error {
        ReportedError::BadRequest => of(400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
        ReportedError::Unauthorized => {
            of(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        }
        ReportedError::Forbidden => of(403, "PERMISSION_DENIED", "The caller does not have permission"),
        ReportedError::NotFound => of(
            404,
            "NOT_FOUND",
            &format!(
                "models/{model} is not found for API version v1beta, or is not supported for generateContent."
            ),
        ),
        ReportedError::TooLarge => of(413, "INVALID_ARGUMENT", "Request payload size exceeds the limit."),
        ReportedError::RateLimit => of(
            429,
            "RESOURCE_EXHAUSTED",
            &format!("Resource has been exhausted. Please retry in {}s.", wait(fault).as_secs_f64()),
        ),
        ReportedError::Quota => of(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        ReportedError::Billing => of(
            403,
            "PERMISSION_DENIED",
            "This API method requires billing to be enabled. Please enable billing on your project.",
        ),
        ReportedError::Unavailable => of(503, "UNAVAILABLE", "The service is currently unavailable."),
        ReportedError::Overloaded => {
            of(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
        }
        ReportedError::ContextOverflow => of(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        ReportedError::Internal => of(500, "INTERNAL", "An internal error has occurred."),
    }
}

/// Google adds a list of details about limits.
fn google(fault: &Fault, status: u16, name: &str, message: &str) -> Value {
    let kind = |name: &str| format!("type.googleapis.com/google.rpc.{name}");
    let quota = |id: &str| {
        json!({ "@type": kind("QuotaFailure"), "violations": [{
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
            "quotaId": id,
        }] })
    };
    let mut error = json!({ "code": status, "message": message, "status": name });
    if fault.kind == FaultKind::RateLimit {
        let delay = format!("{}s", wait(fault).as_secs_f64());
        error["details"] = json!([
            quota("GenerateRequestsPerMinutePerProjectPerModel"),
            { "@type": kind("RetryInfo"), "retryDelay": delay },
        ]);
    } else if fault.kind == FaultKind::Quota {
        // The captured program gives up at once if the quota is per day, and keeps retrying if there is a `RetryInfo`.
        error["details"] = json!([quota("GenerateRequestsPerDayPerProjectPerModel")]);
    } else if fault.kind == FaultKind::Unauthorized {
        error["details"] = json!([
            { "@type": kind("ErrorInfo"), "reason": "ACCESS_TOKEN_EXPIRED", "domain": "googleapis.com" },
        ]);
    }
    json!({ "error": error })
}

fn headers(family: ErrorFamily, fault: &Fault) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if fault.kind == FaultKind::RateLimit || fault.retry_after.is_some() {
        // The header has whole seconds only.
        let seconds = wait(fault).as_millis().div_ceil(1000).max(1);
        headers.push(("retry-after", seconds.to_string()));
    }
    if family == ErrorFamily::Anthropic {
        headers.push(("request-id", "req_simulated".to_owned()));
        if fault.kind == FaultKind::Quota {
            headers.push(("anthropic-ratelimit-unified-status", "rejected".to_owned()));
            headers.push(("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()));
        }
    } else if family == ErrorFamily::Openai {
        headers.push(("x-request-id", "req_simulated".to_owned()));
    }
    headers
}

fn wait(fault: &Fault) -> Duration {
    fault.retry_after.unwrap_or(USUAL_WAIT)
}

/// Returns the code and the message with which a stream of the Responses API fails.
pub(super) fn in_stream(fault: &Fault) -> (&'static str, String) {
    let (code, message) = if fault.kind == FaultKind::ContextOverflow {
        let message =
            "Your input exceeds the context window of this model. Please adjust your input and try again.";
        ("context_length_exceeded", message)
    } else {
        ("server_error", "An error occurred while processing your request.")
    };
    (code, fault.message.clone().unwrap_or_else(|| message.to_owned()))
}

/// Writes the failure of an answer in the middle of its stream.
pub(super) fn broken_off(api: Api, fault: &Fault, answer: &Answer) -> Frame {
    let message = |usual: &str| fault.message.clone().unwrap_or_else(|| usual.to_owned());
    match api {
        Api::AnthropicMessages => {
            let error = json!({ "type": "overloaded_error", "message": message("Overloaded") });
            event("error", &json!({ "type": "error", "error": error }), false)
        }
        Api::OpenaiResponses => responses::failed(fault, answer),
        Api::OpenaiChat => {
            let message = message("The upstream is overloaded");
            data(&json!({ "error": { "message": message, "type": "server_error", "code": 502 } }), false)
        }
        Api::GoogleGenerate => {
            let message = message("The model is overloaded. Please try again later.");
            let error = json!({ "code": 503, "message": message, "status": "UNAVAILABLE" });
            Frame { text: format!("data: {}\r\n\r\n", json!({ "error": error })), delta: false }
        }
        Api::OllamaChat | Api::OllamaGenerate => {
            let error = message("an error was encountered while running the model");
            Frame { text: format!("{}\n", json!({ "error": error })), delta: false }
        }
    }
}
