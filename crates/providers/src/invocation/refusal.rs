//! Why a provider cannot run a request. Nothing has been started at that point.

use std::fmt;

use bowline_protocol::{Category, Code, Failure};

/// An option that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The provider.
    pub provider: String,
    /// The option, as it is written on the command line; `PROMPT` for the prompt itself.
    pub option: String,
    /// Why not.
    pub reason: String,
    /// A hint.
    pub hint: Option<Box<str>>,
    /// Whether the request is at fault or the setup.
    pub category: Category,
    /// The finer reason.
    pub code: Code,
}

impl Refusal {
    /// Makes the refusal of an option that the provider cannot honour.
    pub(crate) fn unsupported(provider: &str, option: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            provider: provider.to_owned(),
            option: option.into(),
            reason: reason.into(),
            hint: None,
            category: Category::Validation,
            code: Code::Unsupported,
        }
    }

    /// Makes the refusal of a value that no provider can honour.
    pub(crate) fn invalid(provider: &str, option: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code: Code::InvalidRequest, ..Self::unsupported(provider, option, reason) }
    }

    /// Makes the refusal of something too large.
    pub(crate) fn too_large(provider: &str, option: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code: Code::RequestTooLarge, ..Self::unsupported(provider, option, reason) }
    }

    /// Makes the refusal of an error in a manifest or a configuration file.
    pub(crate) fn misconfigured(
        provider: &str,
        option: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let category = Category::Configuration;
        Self { category, code: Code::BadConfig, ..Self::unsupported(provider, option, reason) }
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub(crate) fn maybe_hint(mut self, hint: Option<&String>) -> Self {
        self.hint = hint.map(|hint| hint.as_str().into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be run with `{}`: {}", self.provider, self.option, self.reason)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        let mut failure = Self::new(refusal.category, refusal.code, message);
        failure.hint = refusal.hint.map(String::from).or(failure.hint);
        failure
    }
}
