//! Finds the place of an error in a manifest file.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::ManifestError;

/// A place in a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The line itself.
    pub text: String,
}

impl Place {
    /// Returns the place of a byte in a text.
    pub fn of(text: &str, at: usize) -> Self {
        let at = text.floor_char_boundary(at);
        let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[..at].matches('\n').count() + 1;
        let column = text[begin..at].chars().count() + 1;
        let text = text[begin..].lines().next().unwrap_or_default().to_owned();
        Self { line, column, text }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl ManifestError {
    /// Returns what is wrong, in one line, without the file's name.
    pub fn reason(&self) -> String {
        match self {
            Self::Syntax(error) => error.message().to_owned(),
            Self::UnknownDialect { .. }
            | Self::NoSuchFormat(_)
            | Self::NoSuchModel(_)
            | Self::WrongName(_)
            | Self::Key { .. } => self.to_string(),
        }
    }

    /// Returns its place in the text: the key, or else the innermost table around it.
    pub fn place(&self, text: &str) -> Place {
        let key = match self {
            Self::Syntax(error) => return Place::of(text, error.span().map_or(0, |span| span.start)),
            Self::UnknownDialect { format, .. } => format!("formats.{format}.dialect"),
            Self::NoSuchFormat(_) => "default_format".to_owned(),
            Self::NoSuchModel(_) => "default_model".to_owned(),
            Self::WrongName(_) => "name".to_owned(),
            Self::Key { key, .. } => key.clone(),
        };
        Place::of(text, span(text, &key).map_or(0, |span| span.start))
    }
}

/// Finds a key by its path.
fn span(text: &str, key: &str) -> Option<Range<usize>> {
    let parsed = DeTable::parse(text).ok()?;
    let mut table = parsed.get_ref();
    let mut found = None;
    for part in key.split('.') {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == part) else { break };
        found = Some(name.span());
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_where_it_stands() {
        let text = "name = 'x'\n[run]\nargs = []\n[run.flags]\n  model = { args = [] }\n";
        let place = |key: &str| span(text, key).map(|span| Place::of(text, span.start).to_string());
        assert_eq!(place("name").as_deref(), Some("line 1, column 1"));
        assert_eq!(place("run.args").as_deref(), Some("line 3, column 1"));
        assert_eq!(place("run.flags.model").as_deref(), Some("line 5, column 3"));
        assert_eq!(place("run.flags.model.values").as_deref(), Some("line 5, column 3"), "the nearest");
        assert_eq!(place("nothing"), None);
    }

    #[test]
    fn a_place_counts_characters() {
        assert_eq!(Place::of("a\nüx", 4), Place { line: 2, column: 2, text: "üx".to_owned() });
        assert_eq!(Place::of("", 9), Place { line: 1, column: 1, text: String::new() });
    }
}
