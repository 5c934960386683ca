//! A file with its lines, and what is wrong in one of them.

use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

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
    pub line: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What was expected, or what to try.
    pub hint: Option<String>,
}

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

impl std::error::Error for ConfigError {}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Source {
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
        let wrong =
            |what: String| ConfigError { path: path.to_owned(), at: None, line: None, what, hint: None };
        let failed = |error: std::io::Error| wrong(format!("could not be read: {error}"));
        // A FIFO is opened without waiting for a writer, and is no regular file.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(wrong("is not a regular file".to_owned()));
        }
        if let Some(owner) = refused(&meta) {
            return Ok(Err(owner));
        }
        let mut text = String::new();
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LONGEST {
            return Err(wrong("is larger than 1 MiB".to_owned()));
        }
        Ok(Ok(Self { path: path.to_owned(), text }))
    }

    /// Says that something is wrong at a place.
    pub(super) fn wrong(&self, line: usize, column: usize, what: impl Into<String>) -> ConfigError {
        let text = self.text.lines().nth(line.saturating_sub(1)).map(|line| line.replace('\t', " "));
        let at = Some((line.max(1), column.max(1)));
        ConfigError { path: self.path.clone(), at, line: text, what: what.into(), hint: None }
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
