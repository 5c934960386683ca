//! Responses of `app-server` to the client's requests, and its typed reasons of failure.

use bowline_protocol::kinds::{OptionState, OptionsAdvertised, SessionStarted};
use bowline_protocol::{Category, Code, Kind, NativeSessionId};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::failures;
use super::super::wire::app_server::{AppServerError, Thread, TurnError};
use super::super::wire::part;
use crate::dialects::loose_json::{List, LooseFlag, LooseText, Maybe};
use crate::failure::Report;
use crate::rpc::UNKNOWN_METHOD;

/// The answer to `thread/start`, `thread/resume` and `thread/fork`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Started<'a> {
    #[serde(borrow)]
    pub(crate) thread: Maybe<Thread<'a>>,
    #[serde(borrow)]
    model: LooseText<'a>,
    #[serde(borrow)]
    cwd: LooseText<'a>,
    /// A word, or an object.
    #[serde(borrow)]
    approval_policy: Option<&'a RawValue>,
}

impl<'a> Started<'a> {
    pub(crate) fn of(result: Option<&'a RawValue>) -> Self {
        part::<Maybe<Self>>(result).0.unwrap_or_default()
    }

    /// Makes the beginning of the session.
    pub(crate) fn session(&self) -> Option<Kind> {
        let thread = self.thread.0.as_ref()?;
        let mut session = session(thread);
        session.model = self.model.owned().or(session.model);
        session.cwd = self.cwd.owned().or(session.cwd);
        session.permission_mode = part::<LooseText<'_>>(self.approval_policy).owned();
        Some(Kind::SessionStarted(session))
    }
}

/// Reads a thread.
pub(crate) fn session(thread: &Thread<'_>) -> SessionStarted {
    SessionStarted {
        native_session: thread.id.get().map(NativeSessionId::from),
        version: thread.cli_version.owned(),
        model: thread.model.owned(),
        cwd: thread.cwd.owned(),
        ..SessionStarted::default()
    }
}

/// Reads the answer to `model/list`.
pub(crate) fn models(result: Option<&RawValue>) -> Kind {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Models<'a> {
        #[serde(borrow)]
        data: List<Maybe<CodexModel<'a>>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct CodexModel<'a> {
        #[serde(borrow)]
        id: LooseText<'a>,
        hidden: LooseFlag,
        is_default: LooseFlag,
        #[serde(borrow)]
        default_reasoning_effort: LooseText<'a>,
        #[serde(borrow)]
        supported_reasoning_efforts: List<Maybe<EffortOption<'a>>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct EffortOption<'a> {
        #[serde(borrow)]
        reasoning_effort: LooseText<'a>,
    }
    let models = part::<Maybe<Models<'_>>>(result).0.unwrap_or_default();
    let shown = || {
        models.data.0.iter().filter_map(|model| model.0.as_ref()).filter(|model| model.hidden.0 != Some(true))
    };
    let default = shown().find(|model| model.is_default.0 == Some(true));
    let mut options = vec![OptionState {
        id: "model".to_owned(),
        choices: shown().filter_map(|model| model.id.owned()).collect(),
        current: default.and_then(|model| model.id.owned()),
    }];
    if let Some(model) = default {
        let efforts = model.supported_reasoning_efforts.0.iter();
        options.push(OptionState {
            id: "effort".to_owned(),
            choices: efforts.filter_map(|effort| effort.0.as_ref()?.reasoning_effort.owned()).collect(),
            current: model.default_reasoning_effort.owned(),
        });
    }
    Kind::OptionsAdvertised(OptionsAdvertised { options })
}

/// Makes a report of a request that was refused.
pub(crate) fn refused(error: &AppServerError<'_>) -> Report {
    let data: Value = part(error.data);
    // 0.166.0 refuses a prompt above 1,048,576 characters with -32602 and this code.
    let too_large = data.get("input_error_code").and_then(Value::as_str) == Some("input_too_large");
    if too_large {
        return Report { code: Some(Code::RequestTooLarge), ..failures::report(error.message.or_empty()) };
    }
    let message = error.message.or_empty();
    // Its own word for a method that it does not know is that of a request that it cannot read.
    if error.code.0 == Some(UNKNOWN_METHOD) || message.contains("unknown variant") {
        let (category, code) = (Some(Category::Unknown), Some(Code::FormatChanged));
        return Report { category, code, ..Report::of(message) };
    }
    failures::report(message)
}

/// Makes a report of why a turn failed.
pub(crate) fn failed(error: &TurnError<'_>) -> Report {
    let mut report =
        failures::report(error.message.get().unwrap_or("Codex reported a failed turn without a reason"));
    let (category, code, status) = typed(error.codex_error_info);
    // The typed reason wins over the text; the text fills the gaps, since 0.166.0 reports many failures as "other".
    report.category = category.map(|typed| finer(typed, &report.message)).or(report.category);
    report.code = code.or(report.code);
    report.status = status.or(report.status);
    report
}

/// Returns the category of the failure that is retried.
pub(crate) fn retried(error: &TurnError<'_>) -> Category {
    let cause = error.additional_details.get().unwrap_or(error.message.or_empty());
    let retrying = failures::retrying(error.message.or_empty()).map(|retrying| retrying.category);
    let (category, _, status) = typed(error.codex_error_info);
    let by_status = || status.map(|status| failures::category(&format!("unexpected status {status} ")));
    let by_words = || Some(failures::category(cause)).filter(|category| *category != Category::Unknown);
    let typed = category.map(|typed| finer(typed, cause));
    typed.or_else(by_status).or_else(by_words).or(retrying).unwrap_or(Category::Unknown)
}

/// A stream that broke off is a matter of the network, unless the words know better: it may have been waited for in vain, or
/// the server was at its end.
fn finer(typed: Category, words: &str) -> Category {
    match (typed, failures::category(words)) {
        (Category::Network, Category::Unknown) => Category::Network,
        (Category::Network, known) => known,
        (typed, _) => typed,
    }
}

/// Reads `codexErrorInfo`. A word that is less exact than the message leaves the rest to it.
fn typed(info: Option<&RawValue>) -> (Option<Category>, Option<Code>, Option<u16>) {
    let info: Value = part(info);
    let (word, inner) = match &info {
        Value::String(word) => (word.as_str(), None),
        Value::Object(fields) => match fields.iter().next() {
            Some((word, inner)) => (word.as_str(), Some(inner)),
            None => return (None, None, None),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return (None, None, None),
    };
    // camelCase or snake_case, by the version of the protocol.
    let plain: String = word.chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase();
    let category = |category| (Some(category), None, None);
    let code = |code| (None, Some(code), None);
    match plain.as_str() {
        "contextwindowexceeded" => code(Code::ContextOverflow),
        "sessionbudgetexceeded" => code(Code::Budget),
        "modelnotfound" => code(Code::ModelNotFound),
        "cyberpolicy" => code(Code::Refused),
        "serveroverloaded" => (Some(Category::Server), Some(Code::Overloaded), None),
        // No code: the message decides between a spent balance and a plan limit with a reset time.
        "usagelimitexceeded" => category(Category::Quota),
        "ratelimitexceeded" => category(Category::RateLimit),
        "internalservererror" => category(Category::Server),
        "unauthorized" => category(Category::Authentication),
        "badrequest" => category(Category::Validation),
        "httpconnectionfailed"
        | "responsestreamconnectionfailed"
        | "responsestreamdisconnected"
        | "responsetoomanyfailedattempts" => {
            let status =
                inner.and_then(|inner| inner.get("httpStatusCode").or_else(|| inner.get("http_status_code")));
            match status.and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok()) {
                // A 401 arrives here too (`httpConnectionFailed` with its status), so the status decides, not the word.
                Some(status) => (None, None, Some(status)),
                None => category(Category::Network),
            }
        }
        // "other", "sandboxError" and new ones: the message is more exact.
        _ => (None, None, None),
    }
}
