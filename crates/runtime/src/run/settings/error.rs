//! A problem in a settings file, with its place.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_protocol::Remedy;

/// Something that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// The line and column, counted from 1, where they are known.
    pub at: Option<(usize, usize)>,
    /// The line as it stands there.
    pub line: Option<Box<str>>,
    /// The problem.
    pub what: String,
    /// The expected value, or a step to try.
    pub hint: Option<String>,
    /// The cause, if that is another error.
    pub cause: Option<ConfigCause>,
}

/// The cause of a [`ConfigError`]. Two are equal if their words are.
#[derive(Clone, Debug)]
pub struct ConfigCause(Arc<Box<dyn std::error::Error + Send + Sync>>);

impl ConfigCause {
    /// Keeps an error.
    pub fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        // A thin pointer: every result that may be a `ConfigError` is as large as that.
        Self(Arc::new(Box::new(error)))
    }
}

impl PartialEq for ConfigCause {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for ConfigCause {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.at {
            Some((line, column)) => write!(f, "{path}:{line}:{column}: {}", self.what)?,
            None => write!(f, "{path}: {}", self.what)?,
        }
        if let (Some(line), Some((number, column))) = (&self.line, self.at) {
            let width = number.to_string().len();
            write!(f, "\n{number} | {line}\n{:width$} | {:>column$}", "", "^")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause.0 as &(dyn std::error::Error + 'static))
    }
}

impl ConfigError {
    /// Makes the error of a file as a whole.
    pub fn of_file(path: &Path, what: impl Into<String>) -> Self {
        let (path, what) = (path.to_owned(), what.into());
        Self { path, at: None, line: None, what, hint: None, cause: None }
    }

    /// Adds the cause.
    pub fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.cause = Some(ConfigCause::new(cause));
        self
    }

    /// Adds what the caller can do.
    #[must_use]
    pub fn remedied(mut self, remedy: &Remedy) -> Self {
        self.hint = Some(remedy.to_string());
        self
    }

    /// Returns the remedy that the hint stands for, where it is not about the text of the file. It has no field of its own:
    /// errors are returned by value, and this one is at the size limit.
    pub fn remedy(&self) -> Option<Remedy> {
        let list = Remedy::ListSettings;
        self.hint.as_ref().is_some_and(|hint| *hint == list.to_string()).then_some(list)
    }

    /// Adds what was expected.
    pub fn expected(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
