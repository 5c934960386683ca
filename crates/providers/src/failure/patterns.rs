//! The text patterns of the adapter protocol (spec 000), as its tables have them, and the language they are written in.
//!
//! Our own, finer rules are in `phrases`; they use the same language but never overrule this table.

use std::sync::LazyLock;

use bowline_protocol::Category;
use regex::Regex;

/// The patterns of each category, in the order in which they are tried; the first hit wins.
pub(super) const TABLE: [(Category, &[&str]); 9] = [
    (
        Category::Quota,
        &[
            "insufficient_quota",
            "quota_exceeded",
            "billing_hard_limit",
            "RESOURCE_EXHAUSTED",
            "credit_limit",
            "usage_limit",
            // Not in the protocol's text, but in the program that it was written from.
            "CreditsError",
            "No payment method",
        ],
    ),
    (
        Category::RateLimit,
        &[
            "rate_limit",
            "rate.limit",
            "RATE_LIMIT_EXCEEDED",
            "too_many_requests",
            "429",
            "overloaded",
            "throttl*",
        ],
    ),
    (
        Category::Authentication,
        &[
            "invalid_api_key",
            "unauthorized",
            "UNAUTHENTICATED",
            "PERMISSION_DENIED",
            "authentication_failed",
            "not_authenticated",
            "401",
            "403",
        ],
    ),
    (
        Category::Validation,
        &["invalid_request", "malformed", "bad_request", "validation_error", "invalid_parameter", "400"],
    ),
    (
        Category::Network,
        &[
            "ECONNRESET",
            "ETIMEDOUT",
            "ENOTFOUND",
            "ECONNREFUSED",
            "network_error",
            "connection_failed",
            "DEADLINE_EXCEEDED",
            "socket_hang_up",
        ],
    ),
    (
        Category::Server,
        &["internal_server_error", "service_unavailable", "bad_gateway", "500", "502", "503", "504"],
    ),
    (Category::Timeout, &["timed_out", "timeout", "SIGTERM", "SIGKILL"]),
    (Category::NotFound, &["command_not_found", "ENOENT", "not_found", "model_not_found", "404"]),
    (
        Category::Configuration,
        &[
            "not_configured",
            "missing_config",
            "invalid_config",
            "cli_not_installed",
            // Not in the protocol's text, but in the program that it was written from.
            "0 credentials",
            "no credentials",
        ],
    ),
];

/// Patterns that have one spelling. Names of network errors are not among them: some clients print them in lower case, and
/// they are no words of anything else.
const CASE_SENSITIVE: &[&str] = &[
    "ENOENT",
    "SIGTERM",
    "SIGKILL",
    // Node's fetch reports "terminated" when a stream breaks; a shell reports "Terminated" when its child got SIGTERM.
    "<terminated>",
];

/// Returns the category that the protocol's table gives to a text.
pub(super) fn category(text: &str) -> Option<Category> {
    static COMPILED: LazyLock<Vec<(Category, Regex)>> =
        LazyLock::new(|| TABLE.iter().map(|(category, patterns)| (*category, compile(patterns))).collect());
    COMPILED.iter().find(|(_, regex)| regex.is_match(text)).map(|(category, _)| *category)
}

/// Makes one regex of the patterns; any of them may match.
pub(super) fn compile(patterns: &[&str]) -> Regex {
    let alternatives: Vec<String> = patterns.iter().map(|pattern| expression(pattern)).collect();
    Regex::new(&alternatives.join("|")).expect("patterns are literals and some wildcards")
}

/// Translates one pattern.
///
/// `_` and `.` stand for one separator or none, a space for any number of separators, `'` for both apostrophes, and
/// `*` for a few characters of the same line. `<` and `>` are where a word begins and ends: no letter stands there. A number
/// stands for itself as a whole word.
fn expression(pattern: &str) -> String {
    // ASCII classes throughout: Unicode word classes would make these the largest regexes of the program.
    const BOUNDARY: &str = r"(?-u:\b)";
    if pattern.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("{BOUNDARY}{pattern}{BOUNDARY}");
    }
    let mut body = String::new();
    if pattern.starts_with(|first: char| first.is_ascii_digit()) {
        body.push_str(BOUNDARY);
    }
    for character in pattern.chars() {
        match character {
            '_' | '.' => body.push_str("[^0-9A-Za-z]?"),
            ' ' => body.push_str("[^0-9A-Za-z]*"),
            '\'' => body.push_str("['’]"),
            // The regex crate has no look-behind, so the boundary consumes a character.
            '<' => body.push_str("(?:^|[^A-Za-z])"),
            '>' => body.push_str("(?:[^A-Za-z]|$)"),
            // Bounded and within the line: two unrelated words of a stack trace must not make a phrase.
            '*' => body.push_str(r"[^\n]{0,40}?"),
            literal => body.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4]))),
        }
    }
    if CASE_SENSITIVE.contains(&pattern) { body } else { format!("(?i:{body})") }
}
