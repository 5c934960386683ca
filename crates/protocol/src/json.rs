//! Foreign JSON, such as tool arguments, kept as the text that its author wrote.

use std::cell::Cell;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON value exactly as its author wrote it.
///
/// A parsed tree would lose what JSON allows and Rust numbers do not hold (integers above 64 bits, the order of
/// keys, keys that occur twice), and would cost more. Equality is therefore equality of text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Wraps text that is already known to be one JSON value.
    pub fn from_raw(raw: Box<RawValue>) -> Self {
        Self(raw)
    }

    /// Checks that the text is one JSON value and keeps it.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(Self)
    }

    /// Writes any serialisable value as JSON.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the text as a value of the caller's type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Json {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "Any JSON value, as the agent wrote it." })
    }
}

/// The beginning of a text that may be longer than an event should carry.
///
/// An event carries at most [`Excerpt::LIMIT`] bytes of a tool's output, unless the caller chose another limit. The event's
/// `raw` span says where the whole of it lies in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Excerpt {
    /// The text, or its first part.
    pub text: String,
    /// How many bytes the whole text has.
    pub bytes: u64,
}

thread_local! {
    /// How many bytes [`Excerpt::of`] keeps on this thread.
    static SCOPE: Cell<usize> = const { Cell::new(Excerpt::LIMIT) };
}

impl Excerpt {
    /// The default limit of a long text in an event, in bytes.
    pub const LIMIT: usize = 32 * 1024;

    /// Keeps at most [`Self::LIMIT`] bytes of a text, cut between characters. [`Self::scoped`] changes the limit.
    pub fn of(text: &str) -> Self {
        Self::with_limit(text, SCOPE.get())
    }

    /// Runs a function in which [`Self::of`] keeps up to `limit` bytes.
    ///
    /// About fifty places in the dialects cut text, deep inside deserializers. A thread-local limit reaches them all, because a
    /// decoder processes each chunk of output on one thread.
    ///
    /// ```
    /// use bowline_protocol::Excerpt;
    ///
    /// let long = "a".repeat(100_000);
    /// assert!(Excerpt::of(&long).is_cut());
    /// assert!(!Excerpt::scoped(usize::MAX, || Excerpt::of(&long)).is_cut());
    /// ```
    pub fn scoped<T>(limit: usize, run: impl FnOnce() -> T) -> T {
        /// Restores the limit, also after a panic.
        struct RestoreLimit(usize);
        impl Drop for RestoreLimit {
            fn drop(&mut self) {
                SCOPE.set(self.0);
            }
        }
        let _restore = RestoreLimit(SCOPE.replace(limit));
        run()
    }

    /// Keeps at most `limit` bytes of a text, cut between characters.
    pub fn with_limit(text: &str, limit: usize) -> Self {
        let end = text.floor_char_boundary(limit);
        Self { text: text[..end].to_owned(), bytes: text.len() as u64 }
    }

    /// Returns whether the text was cut.
    pub fn is_cut(&self) -> bool {
        (self.text.len() as u64) < self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_what_a_tree_would_lose() {
        let text = r#"{"b":1,"a":123456789012345678901234567890,"b":2}"#;
        let json = Json::parse(text).expect("valid");
        assert_eq!(serde_json::to_string(&json).expect("writes"), text);
    }

    #[test]
    fn an_excerpt_is_cut_between_characters() {
        let cut = Excerpt::with_limit("aé", 2);
        assert_eq!(cut, Excerpt { text: "a".into(), bytes: 3 });
        assert!(cut.is_cut());
        assert!(!Excerpt::of("aé").is_cut());
    }

    #[test]
    fn a_limit_of_a_scope_ends_with_it_also_after_a_panic() {
        let long = "a".repeat(Excerpt::LIMIT + 1);
        let kept = Excerpt::scoped(1, || (Excerpt::of("abc"), Excerpt::scoped(2, || Excerpt::of("abc"))));
        assert_eq!((kept.0.text.as_str(), kept.1.text.as_str()), ("a", "ab"));
        let panicked = std::panic::catch_unwind(|| Excerpt::scoped(1, || panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(Excerpt::of(&long).text.len(), Excerpt::LIMIT);
    }
}
