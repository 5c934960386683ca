//! Why a provider cannot run a request. Nothing has been started at that point.

use std::fmt;

use bowline_protocol::{Category, Code, Failure, FieldValue, Remedy, RequestField};

/// A field of a request that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The provider.
    pub provider: String,
    /// The field.
    pub field: RequestField,
    /// The value that was refused, where it matters.
    pub value: Option<Box<str>>,
    /// Why not. A text for people; it names other fields in backticks: `permission = read`.
    pub reason: Box<str>,
    /// A hint of the manifest's author, in the same form as the reason.
    pub hint: Option<Box<str>>,
    /// A step that the caller can take.
    pub remedies: Box<[Remedy]>,
    /// Whether the request is at fault or the setup.
    pub category: Category,
    /// The finer reason.
    pub code: Code,
}

impl Refusal {
    /// Makes the refusal of a field that the provider cannot honour.
    pub fn unsupported(provider: &str, field: impl Into<FieldValue>, reason: impl Into<Box<str>>) -> Self {
        let FieldValue { field, value } = field.into();
        Self {
            provider: provider.to_owned(),
            field,
            value: value.map(String::into_boxed_str),
            reason: reason.into(),
            hint: None,
            remedies: Box::default(),
            category: Category::Validation,
            code: Code::Unsupported,
        }
    }

    /// Makes the refusal of a value that no provider can honour.
    pub fn invalid(provider: &str, field: impl Into<FieldValue>, reason: impl Into<Box<str>>) -> Self {
        Self { code: Code::InvalidRequest, ..Self::unsupported(provider, field, reason) }
    }

    /// Makes the refusal of something too large.
    pub(crate) fn too_large(
        provider: &str,
        field: impl Into<FieldValue>,
        reason: impl Into<Box<str>>,
    ) -> Self {
        Self { code: Code::RequestTooLarge, ..Self::unsupported(provider, field, reason) }
    }

    /// Makes the refusal of an error in a manifest or a configuration file.
    pub fn misconfigured(provider: &str, field: impl Into<FieldValue>, reason: impl Into<Box<str>>) -> Self {
        let category = Category::Configuration;
        Self { category, code: Code::BadConfig, ..Self::unsupported(provider, field, reason) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub(crate) fn maybe_hint(mut self, hint: Option<&String>) -> Self {
        self.hint = hint.map(|hint| hint.as_str().into());
        self
    }

    /// Adds what the caller can do.
    #[must_use]
    pub fn remedies<const N: usize>(mut self, remedies: [Remedy; N]) -> Self {
        self.remedies = remedies.into();
        self
    }

    /// Returns the field together with its refused value.
    pub fn setting(&self) -> FieldValue {
        FieldValue { field: self.field, value: self.value.as_deref().map(str::to_owned) }
    }

    /// Returns the hint for people, in the names of request fields: the author's, or the remedies in words.
    pub fn advice(&self) -> Option<String> {
        let remedies = || Remedy::joined(&self.remedies, ToString::to_string);
        self.hint.as_deref().map(str::to_owned).or_else(remedies)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be run with `{}`: {}", self.provider, self.setting(), self.reason)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let (message, hint) = (refusal.to_string(), refusal.advice());
        let mut failure = Self::new(refusal.category, refusal.code, message);
        failure.hint = hint.or(failure.hint);
        failure.remedies = refusal.remedies.into_vec();
        failure
    }
}
