//! `cargo xtask survey`: the figures of the source tree: names, words, sizes and cycles between modules.
//!
//! Beside each figure stands the limit that it must not exceed, and a test compares them: the tree may get better, not worse. A
//! commit that makes a figure better lowers its limit. Only product code counts: the sources of the crates, without their tests.

mod cycles;
mod names;
mod sizes;
mod words;

pub use cycles::largest_cycle;
pub use names::{has_one_word, type_name};

use crate::{report, tree};

/// Words that hide the actor of a sentence. `docs/style.md` forbids them.
pub const HIDING_WORDS: &[&str] = &["nobody", "somebody", "anybody", "whoever", "whomever", "whom"];

/// One figure of the tree.
#[derive(Debug)]
pub struct Figure {
    /// What is counted.
    pub what: String,
    /// How much of it there is.
    pub value: f64,
    /// What it must not exceed.
    pub limit: f64,
    /// The worst places.
    pub worst: String,
}

/// A source file of a crate, without its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The crate's folder in `crates/`.
    pub(crate) package: String,
    /// The path below `src/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// Makes a source without the tests at the end of its text.
    pub(crate) fn new(package: &str, path: &str, text: &str) -> Self {
        let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        Self { package: package.to_owned(), path: path.to_owned(), text: text[..end].to_owned() }
    }

    /// Returns the module at the root of the crate that the file belongs to.
    pub(crate) fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }
}

/// Prints all figures.
pub fn run() {
    for Figure { what, value, limit, worst } in figures() {
        let verdict = if value <= limit { "" } else { "  TOO MUCH" };
        report::line(format_args!("{what:<68} {value:>7.1} {limit:>7.1}{verdict}"));
        if !worst.is_empty() {
            report::line(format_args!("    {worst}"));
        }
    }
}

/// Counts everything.
pub fn figures() -> Vec<Figure> {
    let sources = sources();
    let mut figures = names::figures(&sources);
    figures.extend(words::figures(&sources));
    figures.extend(sizes::figures(&sources));
    figures.extend(cycles::figures(&sources));
    figures
}

/// Selects the sources of all crates among the files of the workspace.
fn sources() -> Vec<Source> {
    let source = |file: tree::File| {
        let (package, path) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
        (file.is_rust() && !file.is_test()).then(|| Source::new(package, path, &file.text))
    };
    tree::files().into_iter().filter_map(source).collect()
}

/// Returns the share of a part in hundredths.
pub(crate) fn percent(part: usize, all: usize) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

/// Returns the first of a list that is too long to be printed.
pub(crate) fn some(mut list: Vec<String>, most: usize) -> String {
    let more = list.len().saturating_sub(most);
    list.truncate(most);
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_at_the_end_of_a_file_do_not_count() {
        let source = Source::new("engine", "run/end.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!((source.text.as_str(), source.module()), ("fn a() {}\n\n", "run"));
        assert_eq!(Source::new("engine", "run.rs", "").module(), "run");
    }

    #[test]
    fn a_long_list_is_cut() {
        let list = || ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!((some(list(), 3), some(list(), 1)), ("a, b, c".to_owned(), "a, and 2 more".to_owned()));
    }

    #[test]
    fn every_figure_is_within_its_limit() {
        for Figure { what, value, limit, worst } in figures() {
            assert!(value <= limit, "{what}: {value:.1}, at most {limit:.1}: {worst}");
        }
    }
}
