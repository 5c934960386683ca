//! The changes of a tool to files, from the old and the new text that the agent sends.

use std::fmt::Write as _;

use bowline_protocol::kinds::{DiffAvailable, FileOperation, TouchedFile};
use bowline_protocol::{Excerpt, Kind};
use serde_json::Value;

/// The changes of a tool call.
#[derive(Debug, Default)]
pub(crate) struct AcpFileChanges {
    pub(crate) files: Vec<TouchedFile>,
    added: u64,
    removed: u64,
    text: String,
    /// How long the text would be, were it not cut.
    length: u64,
}

impl AcpFileChanges {
    /// Adds a `diff` of a tool call's content.
    pub(crate) fn add(&mut self, diff: &Value) {
        let string = |key: &str| diff.get(key).and_then(Value::as_str);
        let path = string("path").unwrap_or_default();
        let old = string("oldText");
        let new = string("newText").unwrap_or_default();
        // Gemini and Codex report the kind of change; an empty old text alone may also be an empty file.
        let operation = match diff.get("_meta").and_then(|meta| meta.get("kind")?.as_str()) {
            Some("add") => FileOperation::Create,
            Some("delete") => FileOperation::Delete,
            Some("move" | "rename") => FileOperation::Move,
            Some(_) | None if old.is_none() => FileOperation::Create,
            Some(_) | None => FileOperation::Write,
        };
        if !path.is_empty() && self.files.iter().all(|file| file.path != path) {
            self.files.push(TouchedFile { path: path.to_owned(), operation });
        }
        self.write(path, old.unwrap_or_default(), new);
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the changed lines, as a unified diff.
    pub(crate) fn diff(&self) -> Excerpt {
        Excerpt { text: self.text.clone(), bytes: self.length }
    }

    /// Makes the event.
    pub(crate) fn event(&self) -> Kind {
        let paths: Vec<&str> = self.files.iter().map(|file| file.path.as_str()).take(8).collect();
        Kind::DiffAvailable(DiffAvailable {
            summary: (!paths.is_empty()).then(|| paths.join(", ")),
            files_changed: Some(self.files.len() as u64),
            lines_added: Some(self.added),
            lines_removed: Some(self.removed),
            diff: Some(self.diff()),
        })
    }

    /// Writes the lines between the common beginning and the common end of both texts. Agents send parts of files, so
    /// there are no line numbers to tell.
    fn write(&mut self, path: &str, old: &str, new: &str) {
        let old: Vec<&str> = old.lines().collect();
        let new: Vec<&str> = new.lines().collect();
        let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
        let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
        let (old, new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
        self.removed += old.len() as u64;
        self.added += new.len() as u64;
        self.line("--- ", path);
        self.line("+++ ", path);
        old.iter().for_each(|line| self.line("-", line));
        new.iter().for_each(|line| self.line("+", line));
    }

    fn line(&mut self, mark: &str, line: &str) {
        self.length += (mark.len() + line.len() + 1) as u64;
        let room = Excerpt::LIMIT.saturating_sub(self.text.len() + mark.len() + 1);
        if room > 0 {
            let _ = writeln!(self.text, "{mark}{}", &line[..line.floor_char_boundary(room)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        let mut changes = AcpFileChanges::default();
        changes.add(&json!({"path": "/a", "oldText": "one\ntwo\nthree", "newText": "one\n2\nthree"}));
        changes.add(&json!({"path": "/b", "oldText": null, "newText": "new\n"}));
        assert_eq!(changes.text, "--- /a\n+++ /a\n-two\n+2\n--- /b\n+++ /b\n+new\n");
        assert_eq!((changes.added, changes.removed, changes.length), (2, 1, changes.text.len() as u64));
        let operations: Vec<FileOperation> = changes.files.iter().map(|file| file.operation).collect();
        assert_eq!(operations, [FileOperation::Write, FileOperation::Create]);
    }

    #[test]
    fn a_long_diff_is_cut_and_its_length_is_told() {
        let mut changes = AcpFileChanges::default();
        changes.add(&json!({"path": "/a", "oldText": "", "newText": "é\n".repeat(100_000)}));
        assert!(changes.text.len() <= Excerpt::LIMIT);
        assert_eq!(changes.length, 12 + 4 * 100_000 + 2);
    }
}
