//! Failures of a turn, in categories that a router can act on.
//!
//! A failing agent is not an error of Bowline: a [`Failure`] is a value in events and results like any other.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Millis, RawSpan, Remedy, Timestamp, remedy};

/// A failed turn: what kind of failure, what may be done about it, and the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// One of ten; decides whether to retry and whether to fall back.
    pub category: Category,
    /// The finer reason.
    pub code: Code,
    /// A description of the failure, in the agent's own words if it printed any.
    pub message: String,
    /// Whether the same request may be sent again to the same provider.
    pub retry: bool,
    /// Whether the request may go to another provider.
    pub fallback: bool,
    /// How long to wait before a retry, where it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<Millis>,
    /// When a limit ends, where it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// A step that the user can take next, if Bowline knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The same as the hint, for programs. Readers skip remedies that they do not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "remedy::known")]
    pub remedies: Vec<Remedy>,
    /// How the process ended, if it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// The end of what the process wrote to stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// Where in the raw output the verdict stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawSpan>,
}

impl Failure {
    /// Creates a failure with the guidance of its category; all other fields are empty.
    pub fn new(category: Category, code: Code, message: impl Into<String>) -> Self {
        let hint = code.next_step().map(str::to_owned);
        Self {
            category,
            code,
            message: message.into(),
            retry: category.may_retry(),
            fallback: category.may_fall_back(),
            retry_after_ms: None,
            resets_at: None,
            hint,
            remedies: Vec::new(),
            exit: None,
            stderr_tail: None,
            raw: None,
        }
    }

    /// Adds what the caller can do, as the hint and for programs.
    #[must_use]
    pub fn with_remedies(mut self, remedies: Vec<Remedy>) -> Self {
        self.hint = Remedy::joined(&remedies, ToString::to_string).or(self.hint);
        self.remedies = remedies;
        self
    }
}

/// The ten categories of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// A usage quota is exhausted.
    Quota,
    /// Too many requests in too short a time.
    RateLimit,
    /// The credentials are missing or refused.
    Authentication,
    /// The request itself is invalid.
    Validation,
    /// The network failed.
    Network,
    /// The server failed.
    Server,
    /// Nothing came in time.
    Timeout,
    /// A program, model or session does not exist.
    NotFound,
    /// The setup is wrong.
    Configuration,
    /// None of the above could be recognised.
    Unknown,
}

impl Category {
    /// Every category, in the order in which text is matched against them.
    pub const ALL: [Self; 10] = [
        Self::Quota,
        Self::RateLimit,
        Self::Authentication,
        Self::Validation,
        Self::Network,
        Self::Server,
        Self::Timeout,
        Self::NotFound,
        Self::Configuration,
        Self::Unknown,
    ];

    /// Returns whether the same request may be sent again to the same provider.
    pub fn may_retry(self) -> bool {
        matches!(self, Self::RateLimit | Self::Network | Self::Server | Self::Timeout)
    }

    /// Returns whether the request may go to another provider.
    pub fn may_fall_back(self) -> bool {
        matches!(
            self,
            Self::Quota | Self::Network | Self::Server | Self::Timeout | Self::NotFound | Self::Unknown
        )
    }

    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::RateLimit => "rate_limit",
            Self::Authentication => "authentication",
            Self::Validation => "validation",
            Self::Network => "network",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
            Self::Configuration => "configuration",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal),+ $(,)?) => {
        /// The finer reason of a failure. Readers keep codes that they do not know.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)+
            /// A code of a newer version of this protocol.
            Other(Box<str>),
        }

        impl Code {
            /// Every code that this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name used in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for Code {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

codes! {
    /// A quota is used up, and its reset time is unknown.
    QuotaExhausted = "quota_exhausted",
    /// A plan's usage window is used up; it resets by itself.
    UsageLimit = "usage_limit",
    /// No credit, no payment method, or a hard spending limit.
    Billing = "billing",
    /// Too many requests.
    RateLimited = "rate_limited",
    /// The service reports that it is overloaded.
    Overloaded = "overloaded",
    /// The account is not logged in.
    NotLoggedIn = "not_logged_in",
    /// The key or token is refused.
    InvalidCredentials = "invalid_credentials",
    /// The account may not do this.
    Forbidden = "forbidden",
    /// The request is malformed.
    InvalidRequest = "invalid_request",
    /// The provider cannot honour an option of the request.
    Unsupported = "unsupported",
    /// The conversation does not fit into the model's context.
    ContextOverflow = "context_overflow",
    /// A single request is larger than the service or the program accepts.
    RequestTooLarge = "request_too_large",
    /// The answer was cut at the model's output limit.
    MaxOutput = "max_output",
    /// The agent stopped at its limit of turns.
    MaxTurns = "max_turns",
    /// The model refused to answer.
    Refused = "refused",
    /// The connection could not be made.
    ConnectionFailed = "connection_failed",
    /// The connection broke while it was in use.
    ConnectionLost = "connection_lost",
    /// The server failed.
    ServerError = "server_error",
    /// No response came in time.
    TimedOut = "timed_out",
    /// The agent kept retrying until our deadline; the category is that of its last notice.
    GaveUpWaiting = "gave_up_waiting",
    /// The program is not installed.
    NotInstalled = "not_installed",
    /// The program exists but cannot be started: it is not executable, for another machine, or being written.
    CannotStart = "cannot_start",
    /// The program is installed in a version that the adapter does not understand.
    WrongVersion = "wrong_version",
    /// The model does not exist.
    ModelNotFound = "model_not_found",
    /// The session to resume does not exist.
    SessionNotFound = "session_not_found",
    /// Something else does not exist.
    NotFound = "not_found",
    /// The program's own configuration is missing or wrong.
    BadConfig = "bad_config",
    /// The program does not trust the folder that it was started in.
    UntrustedFolder = "untrusted_folder",
    /// The program rejected our arguments: it has changed.
    FlagRejected = "flag_rejected",
    /// The program exited with 0, but none of its output was recognised: its format has changed.
    FormatChanged = "format_changed",
    /// A policy forbade it.
    Policy = "policy",
    /// A budget is used up.
    Budget = "budget",
    /// The caller cancelled it.
    Cancelled = "cancelled",
    /// Another process ended the program with a signal.
    Killed = "killed",
    /// The program crashed.
    Crashed = "crashed",
    /// The output ended before the turn did.
    Truncated = "truncated",
    /// The program exited with 0 and printed nothing.
    Empty = "empty",
    /// The disk is full: nothing more can be recorded.
    DiskFull = "disk_full",
    /// The session has written as much as it may.
    DiskQuota = "disk_quota",
    /// The turn is over, but Bowline could not confirm that all its processes are gone.
    CleanupUnconfirmed = "cleanup_unconfirmed",
    /// The reason is unknown.
    Unknown = "unknown",
}

impl Code {
    /// Returns a hint for the codes of a program that has changed.
    fn next_step(&self) -> Option<&'static str> {
        if *self == Self::FlagRejected {
            Some(
                "check the arguments that you passed (`agent_args`); if there are none, `bowline certify` shows what changed in the program",
            )
        } else if *self == Self::FormatChanged {
            Some(
                "the program prints lines that its dialect does not know; `bowline certify` shows what changed, and for an agent of your own docs/dialects.md lists the forms",
            )
        } else {
            None
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(std::borrow::Cow::<str>::deserialize(deserializer)?.as_ref()))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Code {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let known: Vec<&str> = Self::ALL.iter().map(Self::as_str).collect();
        schemars::json_schema!({
            "type": "string",
            "description": "The finer reason of a failure. Readers keep codes that they do not know.",
            "examples": known,
        })
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// Returns whether the process exited with code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guidance_is_the_table_of_the_adapter_protocol() {
        // category, retry, fallback.
        let table = [
            ("quota", false, true),
            ("rate_limit", true, false),
            ("authentication", false, false),
            ("validation", false, false),
            ("network", true, true),
            ("server", true, true),
            ("timeout", true, true),
            ("not_found", false, true),
            ("configuration", false, false),
            ("unknown", false, true),
        ];
        let ours: Vec<_> =
            Category::ALL.iter().map(|c| (c.as_str(), c.may_retry(), c.may_fall_back())).collect();
        assert_eq!(ours, table);
    }

    #[test]
    fn codes_survive_a_reader_that_does_not_know_them() {
        for code in Code::ALL {
            assert_eq!(Code::from(code.as_str()), *code);
        }
        let newer: Code = serde_json::from_str("\"moon_phase\"").expect("any string is a code");
        assert_eq!(serde_json::to_string(&newer).expect("writes"), "\"moon_phase\"");
    }

    #[test]
    fn a_changed_program_points_to_certify() {
        for code in [Code::FlagRejected, Code::FormatChanged] {
            let failure = Failure::new(Category::Unknown, code, "");
            assert!(failure.hint.expect("a next step").contains("bowline certify"));
        }
        assert_eq!(Failure::new(Category::Unknown, Code::Crashed, "").hint, None);
    }
}
