//! A file with its lines, and what is wrong in one of them.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bowline::settings::ConfigError;

use crate::trust;

/// The most that a file of settings may hold.
const LONGEST: u64 = 1024 * 1024;

/// A parser's report on a text, without the place and the line: the [`ConfigError`] that it causes has both.
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

/// A file that is being read.
#[derive(Debug)]
pub(super) struct ConfigSource {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl ConfigSource {
    /// Reads a file as a whole. A file that is not a regular one is refused: reading it may never end.
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
        // The size in `meta` is no limit: the file may grow, and some file systems report 0.
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LONGEST {
            return Err(wrong("is larger than 1 MiB"));
        }
        Ok(Ok(Self { path: path.to_owned(), text }))
    }

    /// Makes the error of a place.
    pub(super) fn wrong(&self, line: usize, column: usize, what: impl Into<String>) -> ConfigError {
        let text = self.text.lines().nth(line.saturating_sub(1)).map(|line| line.replace('\t', " ").into());
        let at = Some((line.max(1), column.max(1)));
        ConfigError { at, line: text, ..ConfigError::of_file(&self.path, what) }
    }

    /// Makes the error of a byte.
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

/// Puts names into a sentence.
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
