//! Mistakes in a scenario file: the position, the text there, and what was expected.

use std::fmt;

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("could not read the scenario `{file}`")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The name cannot be used in a marker.
    #[error("`{file}` cannot name a scenario: `{name}` is not made of small letters, digits and `-`")]
    Name {
        /// The file.
        file: String,
        /// The name.
        name: String,
    },
    /// Something in it is wrong.
    #[error("the scenario `{}` is not valid", .0.file)]
    Wrong(#[source] Box<ScenarioMistake>),
}

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioMistake {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters, from 1.
    pub column: usize,
    /// The text of the line.
    pub excerpt: String,
    /// The length of the mistake, in characters.
    pub width: usize,
    /// The mistake, and what was expected.
    pub message: String,
}

impl ScenarioMistake {
    /// Describes a mistake at a position in a text.
    pub(crate) fn at(
        file: &str,
        text: &str,
        span: std::ops::Range<usize>,
        message: impl Into<String>,
    ) -> Self {
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(span.start), floor(span.end));
        let before = &text[..start];
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let excerpt = text[begin..].lines().next().unwrap_or_default();
        let column = text[begin..start].chars().count() + 1;
        let room = excerpt.chars().count().saturating_sub(column - 1).max(1);
        let width = text[start..end.max(start)].lines().next().unwrap_or_default().chars().count();
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column,
            excerpt: excerpt.to_owned(),
            width: width.clamp(1, room),
            message: message.into(),
        }
    }
}

impl fmt::Display for ScenarioMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, excerpt, width, message } = self;
        writeln!(f, "{file}:{line}:{column}: {message}")?;
        let margin = line.to_string().len();
        writeln!(f, "{:margin$} |", "")?;
        writeln!(f, "{line} | {excerpt}")?;
        write!(f, "{:margin$} | {:indent$}{}", "", "", "^".repeat(*width), indent = column - 1)
    }
}
