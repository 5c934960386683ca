//! The files of the workspace, and violations of rules.

use std::fmt;
use std::path::Path;

/// A text file: its path from the root of the workspace, with `/`, and what is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    /// Makes a file, for a rule's own test.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns the lines with their numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().zip(1..).map(|(line, number)| (number, line))
    }

    /// Returns whether the file is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the file has only tests.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.contains("tests/")
    }

    /// Returns whether the file is input for tests, kept as it was recorded or written by a machine.
    pub fn is_fixture(&self) -> bool {
        self.path.contains("/fixtures/")
            || self.path.starts_with("fixtures/")
            || self.path.starts_with("fuzz/seeds/")
            || self.path.ends_with(".snap")
    }

    /// Makes the violation of a line.
    pub fn violation(&self, line: usize, what: impl Into<String>) -> Violation {
        Violation { path: self.path.clone(), line, what: what.into() }
    }
}

/// A place where a rule is broken, and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Folders that are not checked in.
const NOT_OURS: &[&str] = &["target", ".git", "fuzz/target", "fuzz/corpus", "fuzz/artifacts"];

/// Reads every text file of the workspace, in the order of their paths.
pub fn files() -> Vec<File> {
    let mut files = Vec::new();
    walk(crate::sh::root(), "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn walk(root: &Path, folder: &str, files: &mut Vec<File>) {
    let entries = std::fs::read_dir(root.join(folder)).expect("the folder can be read");
    for entry in entries {
        let entry = entry.expect("the entry can be read");
        let name = entry.file_name().into_string().expect("a file name is UTF-8");
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = entry.file_type().expect("the entry has a type");
        if kind.is_dir() && !NOT_OURS.contains(&&*path) {
            walk(root, &path, files);
        } else if kind.is_file()
            // What is not UTF-8 is no text.
            && let Ok(text) = String::from_utf8(std::fs::read(entry.path()).expect("the file can be read"))
        {
            files.push(File { path, text });
        }
    }
}

/// Finds words: places where `word` stands and no letter, digit or underscore beside it.
pub fn has_word(text: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(part_of_word) && !text[at + word.len()..].starts_with(part_of_word)
    })
}

/// Returns a line without its comment. A `//` inside a string counts as one, which at worst hides half a line.
pub fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_borders() {
        assert!(has_word("std::fs::read", "std::fs"));
        assert!(!has_word("std::fsx", "std::fs"));
        assert!(!has_word("my_tokio", "tokio"));
        assert_eq!(code("let a = 1; // tokio"), "let a = 1; ");
    }

    #[test]
    fn the_walk_finds_this_file_and_nothing_that_is_built() {
        let files = files();
        assert!(files.iter().any(|file| file.path == "xtask/src/tree.rs"));
        assert!(
            files
                .iter()
                .all(|file| !file.path.starts_with("target/") && !file.path.starts_with("fuzz/target/"))
        );
    }
}
