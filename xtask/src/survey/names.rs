//! Names of types: how many have one word, and how many types share theirs with another.

use std::collections::BTreeMap;

use super::{Figure, Source, percent, some};

/// Counts names of types.
pub(super) fn figures(sources: &[Source]) -> Vec<Figure> {
    let names: Vec<(&str, &str)> = sources
        .iter()
        .flat_map(|source| source.text.lines().filter_map(type_name).map(|name| (&*source.package, name)))
        .collect();
    let one_word = names.iter().filter(|(_, name)| has_one_word(name)).count();
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    let mut in_crate: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (package, name) in &names {
        *all.entry(name).or_default() += 1;
        *in_crate.entry((package, name)).or_default() += 1;
    }
    let shared: usize = all.values().filter(|count| **count > 1).sum();
    let shared_in_crate: usize = in_crate.values().filter(|count| **count > 1).sum();
    let mut worst: Vec<(&str, usize)> = all.into_iter().filter(|(_, count)| *count > 1).collect();
    worst.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let worst = worst.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    vec![
        Figure {
            what: "type names with one word, of a hundred".to_owned(),
            value: percent(one_word, names.len()),
            limit: ONE_WORD,
            worst: format!("{one_word} of {}", names.len()),
        },
        Figure {
            what: "types that share their name with another, of a hundred".to_owned(),
            value: percent(shared, names.len()),
            limit: SHARED,
            worst: some(worst, 8),
        },
        Figure {
            what: "types that share their name with another of their crate, of a hundred".to_owned(),
            value: percent(shared_in_crate, names.len()),
            limit: SHARED_IN_CRATE,
            worst: String::new(),
        },
    ]
}

/// The figures of the tree when they were last lowered.
const ONE_WORD: f64 = 30.8;
const SHARED: f64 = 11.6;
const SHARED_IN_CRATE: f64 = 0.0;

/// Returns the name of the type that a line declares.
pub fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let rest = ["struct ", "enum ", "trait ", "union "].iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// Returns whether a name has one word: `Line`, not `LineCutter`.
pub fn has_one_word(name: &str) -> bool {
    !name.chars().skip(1).any(|letter| letter.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_told_from_other_lines() {
        let check = |line: &str, name: Option<&str>| assert_eq!(type_name(line), name, "{line}");
        check("pub struct Line<'a> {", Some("Line"));
        check("    pub(crate) enum Step {", Some("Step"));
        check("struct Tail(String);", Some("Tail"));
        check("pub trait View: Send {", Some("View"));
        check("// struct of a line", None);
        check("let structure = 1;", None);
        check("impl Line {", None);
    }

    #[test]
    fn shared_names_and_single_words_are_counted() {
        let source = |package: &str, text: &str| Source::new(package, "a.rs", text);
        let sources = [
            source("engine", "struct Line;\nstruct LineCutter;\n"),
            source("cli", "struct Line;\nenum Step {}\nstruct Step;\n"),
        ];
        let values: Vec<f64> = figures(&sources).iter().map(|figure| figure.value).collect();
        assert_eq!(values, [80.0, 80.0, 40.0]);
    }
}
