//! Our finer rules: which code a text earns inside its category, and the category of texts that the adapter protocol's
//! patterns do not know.
//!
//! They never change a category that `patterns` has given. Most phrases are from our captures of real programs; the
//! rest are common wordings of argument parsers and model servers.

use std::sync::LazyLock;

use bowline_protocol::{Category, Code};
use regex::Regex;

use super::patterns::compile;

/// One finer reason, and the phrases that give it away.
struct PhraseRule {
    category: Category,
    code: Code,
    phrases: &'static [&'static str],
}

const fn rule(category: Category, code: Code, phrases: &'static [&'static str]) -> PhraseRule {
    PhraseRule { category, code, phrases }
}

/// The rules in the order in which they are tried. Specific ones come first, whatever their category.
const RULES: &[PhraseRule] = &[
    rule(
        Category::Configuration,
        Code::FlagRejected,
        &[
            "unexpected argument",
            "unknown option",
            "unknown argument",
            "unrecognized option",
            "unrecognized argument",
            "unknown flag",
            "invalid option",
            "flag provided but not defined",
            "no such option",
            "is invalid. allowed choices",
            "invalid value '* for '-",
            "required arguments were not provided",
            "requires --",
            // Codex takes an unknown subcommand for a prompt, and a prompt needs a terminal.
            "stdin is not a terminal",
        ],
    ),
    rule(
        Category::Quota,
        Code::UsageLimit,
        &[
            "usage limit",
            "hit your limit",
            "hit your * limit",
            "reached your limit",
            "hour limit",
            "daily limit",
            "weekly limit",
            "monthly limit",
            "session limit",
            "limit reached * reset",
            "daily quota",
        ],
    ),
    // Before billing: "Quota exceeded. Check your plan and billing details." is not about money.
    rule(Category::Quota, Code::QuotaExhausted, &["quota exceeded", "exceeded your current quota"]),
    rule(
        Category::Quota,
        Code::Billing,
        &["credit balance", "billing", "payment", "credit limit", "CreditsError", "out of credits"],
    ),
    // Not "quotation".
    rule(
        Category::Quota,
        Code::QuotaExhausted,
        &["quota>", "quotas>", "quota failure", "resource exhausted"],
    ),
    rule(Category::RateLimit, Code::Overloaded, &["overloaded"]),
    rule(
        Category::Authentication,
        Code::NotLoggedIn,
        &[
            "not logged in",
            "please run login",
            "please log in",
            "no api key",
            "api key required",
            "api key is missing",
            "missing api key",
            "missing environment variable",
            "no auth type is selected",
            "no authentication information",
            "please set an auth method",
            "invalid auth method",
            "authentication required",
            "not authenticated",
            "error checking login status",
        ],
    ),
    // Before the refused keys: "Failed to authenticate. API Error: 403 …".
    rule(
        Category::Authentication,
        Code::Forbidden,
        &[
            "403",
            "forbidden",
            "permission denied",
            "permission error",
            "have permission",
            "org not allowed",
            "account on hold",
        ],
    ),
    rule(
        Category::Authentication,
        Code::InvalidCredentials,
        &[
            "invalid api key",
            "invalid x-api-key",
            "incorrect api key",
            "api key not valid",
            "api key invalid",
            "invalid authentication",
            "failed to authenticate",
            "token expired",
            "token has expired",
        ],
    ),
    rule(
        Category::Validation,
        Code::ContextOverflow,
        &[
            "context length",
            "context window",
            "context overflow",
            "context is too large",
            "prompt budget",
            "prompt as too long",
            "maximum context",
            "prompt is too long",
            "ran out of room",
            "input token count",
            "maximum number of tokens",
        ],
    ),
    rule(
        Category::Validation,
        Code::RequestTooLarge,
        &[
            "request too large",
            "input exceeds the maximum length",
            "input too large",
            "payload too large",
            "413",
        ],
    ),
    rule(
        Category::Validation,
        Code::MaxOutput,
        &["max output tokens", "maximum output tokens", "output token maximum"],
    ),
    rule(
        Category::Validation,
        Code::MaxTurns,
        &["maximum number of turns", "max session turns", "error max turns", "max turns reached"],
    ),
    rule(
        Category::Validation,
        Code::InvalidRequest,
        &[
            "no prompt provided",
            "no input provided",
            "input must be provided",
            "invalid argument",
            "invalid prompt",
            "must be a valid uuid",
            "session id * already",
            "has an active writer",
            "not valid json",
            "not valid utf-8",
            "parsing streaming input",
            "expected message role",
            "422",
        ],
    ),
    rule(
        Category::Configuration,
        Code::Budget,
        &["maximum budget", "max budget", "budget exceeded", "budget exhausted", "budget is used up"],
    ),
    rule(
        Category::Configuration,
        Code::UntrustedFolder,
        &["trusted directory", "untrusted folder", "untrusted workspace"],
    ),
    rule(
        Category::Configuration,
        Code::BadConfig,
        &[
            "error loading config",
            "failed to load config",
            "failed to parse config",
            "invalid mcp config",
            "mcp servers failed to initialize",
            "root sudo privileges",
        ],
    ),
    rule(Category::Configuration, Code::NotInstalled, &["not installed"]),
    rule(Category::Network, Code::TimedOut, &["deadline exceeded"]),
    rule(Category::Network, Code::ConnectionLost, &["ECONNRESET", "socket hang up", "connection reset"]),
    rule(
        Category::Network,
        Code::ConnectionFailed,
        &[
            "ECONNREFUSED",
            "ENOTFOUND",
            "ETIMEDOUT",
            "connection refused",
            "connection failed",
            "connection error",
            "fetch failed",
            "cannot connect",
            "could not connect",
            "unable to connect",
            "failed to connect",
            "lookup address",
            "EAI_AGAIN",
            "EAI_NODATA",
            "EHOSTUNREACH",
            "ENETUNREACH",
            "could not resolve host",
            "couldn't resolve host",
            "could not resolve proxy",
            "temporary failure in name resolution",
            "name or service not known",
            "error sending request",
            "network is unreachable",
        ],
    ),
    // Before a lost connection: "stream disconnected before completion: We’re currently experiencing high demand" (Codex).
    rule(Category::Server, Code::Overloaded, &["overloaded", "<at capacity", "high demand", "529"]),
    rule(
        Category::Network,
        Code::ConnectionLost,
        &[
            "socket connection was closed",
            "premature close",
            "unexpected end of file",
            "error decoding response body",
            "stream ended without",
            "stream disconnected",
            "connection to the api was lost",
            "connection lost",
            "connection closed",
            "error reading a body",
            "unexpected eof",
            "other side closed",
            // "Unterminated string in JSON" is about neither a connection nor a process.
            "<terminated>",
        ],
    ),
    rule(
        Category::Server,
        Code::ServerError,
        // Not "observer error".
        &[
            "<server error",
            "internal server error",
            "internal error",
            "server had an error",
            "error occurred while processing",
        ],
    ),
    rule(Category::Timeout, Code::TimedOut, &["timed out", "timeout"]),
    rule(Category::Timeout, Code::Killed, &["SIGTERM", "SIGKILL"]),
    rule(
        Category::NotFound,
        Code::SessionNotFound,
        &[
            "no conversation found",
            "no rollout found",
            "session not found",
            "no session",
            "no saved session",
            "no previous session",
            "invalid session identifier",
            "match any session",
        ],
    ),
    // A provider is not a model: "Model provider `x` not found".
    rule(Category::NotFound, Code::NotFound, &["model provider"]),
    rule(
        Category::NotFound,
        Code::ModelNotFound,
        &[
            "issue with the selected model",
            "model * not found",
            "model * does not exist",
            "unrecognized model",
            "no such model",
        ],
    ),
    rule(
        Category::NotFound,
        Code::NotInstalled,
        &["command not found", "spawn * ENOENT", "cannot find module"],
    ),
    rule(Category::NotFound, Code::NotFound, &["no such file or directory"]),
    rule(
        Category::Unknown,
        Code::Crashed,
        &["panicked at", "segmentation fault", "core dumped", "heap out of memory"],
    ),
    rule(
        Category::Unknown,
        Code::Cancelled,
        &["operation cancelled", "interrupted by user", "cancelled by user"],
    ),
    // Not "refusing": Codex warns about "Refusing to create helper binaries" and goes on.
    rule(
        Category::Validation,
        Code::Refused,
        &[
            "safeguards flagged",
            "refusal",
            "refused",
            "refuses to",
            "content_filter",
            "violating our usage policy",
        ],
    ),
    // A list of options on stderr that does not name the wrong one (opencode).
    rule(Category::Configuration, Code::FlagRejected, &["-h, --help"]),
];

/// Returns the finer reason that a text gives inside a category.
pub(super) fn code(category: Category, text: &str) -> Option<Code> {
    // Inside the category only: a rule of another one may match the same text.
    matching(text).find(|rule| rule.category == category).map(|rule| rule.code.clone())
}

/// Returns a category for a text that the protocol's patterns do not know.
pub(super) fn rescue(text: &str) -> Option<Category> {
    // The rules of `Unknown` only choose a code, after every other source has given no category.
    matching(text).map(|rule| rule.category).find(|category| *category != Category::Unknown)
}

/// Returns whether a text is an argument parser's error about an unknown argument.
pub(super) fn is_refused_flag(text: &str) -> bool {
    static REFUSED: LazyLock<Regex> = LazyLock::new(|| {
        let words =
            r"unexpected argument|unknown (?:option|argument|flag)s?|unrecognized (?:option|argument)s?";
        Regex::new(&format!(r"(?i)\b(?:{words}|invalid option|no such option)\b[^\n]{{0,6}}-"))
            .expect("a valid regex")
    });
    REFUSED.is_match(text)
}

/// Returns whether a text is about spent credits, which no short wait brings back.
pub(super) fn is_spent(text: &str) -> bool {
    static SPENT: LazyLock<Regex> = LazyLock::new(|| {
        compile(&[
            "insufficient_quota",
            "billing_hard_limit",
            "credit_limit",
            "credit balance",
            "per_day",
            "daily",
        ])
    });
    matches!(code(Category::Quota, text), Some(Code::UsageLimit | Code::Billing)) || SPENT.is_match(text)
}

fn matching(text: &str) -> impl Iterator<Item = &'static PhraseRule> {
    static COMPILED: LazyLock<Vec<Regex>> =
        LazyLock::new(|| RULES.iter().map(|rule| compile(rule.phrases)).collect());
    RULES.iter().zip(COMPILED.iter()).filter(move |(_, regex)| regex.is_match(text)).map(|(rule, _)| rule)
}

/// Returns the code of a category when nothing finer is known.
pub(super) fn usual(category: Category) -> Code {
    match category {
        Category::Quota => Code::QuotaExhausted,
        Category::RateLimit => Code::RateLimited,
        Category::Authentication => Code::InvalidCredentials,
        Category::Validation => Code::InvalidRequest,
        Category::Network => Code::ConnectionFailed,
        Category::Server => Code::ServerError,
        Category::Timeout => Code::TimedOut,
        Category::NotFound => Code::NotFound,
        Category::Configuration => Code::BadConfig,
        Category::Unknown => Code::Unknown,
    }
}

/// Returns the category that a code belongs to, where it belongs to one.
pub(super) fn home(code: &Code) -> Option<Category> {
    match code {
        Code::QuotaExhausted | Code::UsageLimit | Code::Billing => Some(Category::Quota),
        Code::RateLimited => Some(Category::RateLimit),
        Code::NotLoggedIn | Code::InvalidCredentials | Code::Forbidden => Some(Category::Authentication),
        Code::InvalidRequest
        | Code::Unsupported
        | Code::ContextOverflow
        | Code::RequestTooLarge
        | Code::MaxOutput
        | Code::MaxTurns
        | Code::Refused => Some(Category::Validation),
        Code::ConnectionFailed | Code::ConnectionLost => Some(Category::Network),
        Code::ServerError => Some(Category::Server),
        Code::TimedOut | Code::Killed => Some(Category::Timeout),
        Code::NotInstalled
        | Code::WrongVersion
        | Code::ModelNotFound
        | Code::SessionNotFound
        | Code::NotFound => Some(Category::NotFound),
        // A budget is the user's own limit: another provider would spend past it.
        Code::BadConfig
        | Code::CannotStart
        | Code::UntrustedFolder
        | Code::FlagRejected
        | Code::Policy
        | Code::Budget
        | Code::DiskFull
        | Code::DiskQuota => Some(Category::Configuration),
        Code::Cancelled
        | Code::Crashed
        | Code::FormatChanged
        | Code::Truncated
        | Code::Empty
        | Code::CleanupUnconfirmed => Some(Category::Unknown),
        Code::Overloaded | Code::GaveUpWaiting | Code::Unknown | Code::Other(_) => None,
    }
}
