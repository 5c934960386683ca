//! A file with its lines, and what is wrong in one of them.

use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_protocol::Remedy;

use crate::trust;

/// The most that a file of settings may hold.
const LONGEST: u64 = 1024 * 1024;

/// Something that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// The line and column, counted from 1, where they are known.
    pub at: Option<(usize, usize)>,
    /// The line as it stands there.
    pub line: Option<Box<str>>,
    /// What is wrong.
    pub what: String,
    /// What was expected, or what to try.
    pub hint: Option<String>,
    /// What caused it, where that is another error.
    pub cause: Option<ConfigCause>,
}

/// The cause of a [`ConfigError`]. Two are equal if their words are.
#[derive(Clone, Debug)]
pub struct ConfigCause(Arc<Box<dyn std::error::Error + Send + Sync>>);

impl ConfigCause {
    /// Keeps an error.
    pub(crate) fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        // A thin pointer: every result that may be a `ConfigError` is as large as that.
        Self(Arc::new(Box::new(error)))
    }
}

/// What a parser reports about a text, without the place and the line: the [`ConfigError`] that it causes has both.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct SyntaxProblem {
    message: String,
}

impl SyntaxProblem {
    pub(super) fn new(message: &str) -> Self {
        Self { message: message.trim_end().to_owned() }
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

/// A file that is being read.
#[derive(Debug)]
pub(super) struct ConfigSource {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl ConfigSource {
    /// Reads a file as a whole. What never ends is refused.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::open(path, |_| None).map(|source| source.expect("no owner is refused"))
    }

    /// Reads a project's file as a whole; nothing, but the owner, if it belongs to another user.
    pub(super) fn read_of_project(path: &Path) -> Result<Result<Self, u32>, ConfigError> {
        Self::open(path, trust::foreign_owner)
    }

    /// Opens once, looks at what was opened, and reads that: another file cannot be put in between.
    fn open(
        path: &Path,
        refused: impl Fn(&std::fs::Metadata) -> Option<u32>,
    ) -> Result<Result<Self, u32>, ConfigError> {
        let wrong = |what: &str| ConfigError::of_file(path, what);
        let failed = |error: std::io::Error| wrong("could not be read").caused_by(error);
        // A FIFO is opened without waiting for a writer, and is no regular file.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(wrong("is not a regular file"));
        }
        if let Some(owner) = refused(&meta) {
            return Ok(Err(owner));
        }
        let mut text = String::new();
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LONGEST {
            return Err(wrong("is larger than 1 MiB"));
        }
        Ok(Ok(Self { path: path.to_owned(), text }))
    }

    /// Says that something is wrong at a place.
    pub(super) fn wrong(&self, line: usize, column: usize, what: impl Into<String>) -> ConfigError {
        let text = self.text.lines().nth(line.saturating_sub(1)).map(|line| line.replace('\t', " ").into());
        let at = Some((line.max(1), column.max(1)));
        ConfigError { at, line: text, ..ConfigError::of_file(&self.path, what) }
    }

    /// Says that something is wrong at a byte.
    pub(super) fn wrong_at(&self, byte: usize, what: impl Into<String>) -> ConfigError {
        let (line, column) = self.place(byte);
        self.wrong(line, column, what)
    }

    /// Returns line and column of a byte, counted from 1.
    pub(super) fn place(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

impl ConfigError {
    /// Says that something is wrong with a file as a whole.
    pub(crate) fn of_file(path: &Path, what: impl Into<String>) -> Self {
        let (path, what) = (path.to_owned(), what.into());
        Self { path, at: None, line: None, what, hint: None, cause: None }
    }

    /// Adds the cause.
    pub(crate) fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.cause = Some(ConfigCause::new(cause));
        self
    }

    /// Adds what the caller can do.
    pub(super) fn remedied(mut self, remedy: &Remedy) -> Self {
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
    pub(super) fn expected(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Puts names into a sentence.
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
