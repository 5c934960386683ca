//! The words that our code looks for, as a dictionary for the fuzzer.
//!
//! A fuzzer guesses `turn.completed` letter by letter, or not at all. The strings in the source are the words that
//! matter, so they are taken from there, and a new dialect brings its own.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::sh;

/// The code behind the targets.
const SOURCE: &str = "crates/providers/src";

/// Returns the words of the source.
pub(super) fn of_source() -> Result<Vec<String>> {
    let mut words = Vec::new();
    collect(&sh::root().join(SOURCE), &mut words)?;
    words.sort();
    words.dedup();
    Ok(words)
}

/// Returns a dictionary in libFuzzer's form: what is checked in, and the words of the source.
pub(super) fn dictionary(words: &[String]) -> Result<String> {
    let mut out = fs::read_to_string(sh::root().join("fuzz/words.dict"))?;
    for word in words {
        // Bare, and as JSON has it.
        out.push_str(&format!("\"{word}\"\n\"\\\"{word}\\\"\"\n"));
    }
    Ok(out)
}

fn collect(folder: &Path, words: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, words)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(path)?;
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            words.extend(code.lines().flat_map(literals).map(str::to_owned));
        }
    }
    Ok(())
}

/// Finds the plain strings of a line: short, of printable ASCII, and without anything that would need an escape.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    let plain = |word: &&str| {
        (2..=32).contains(&word.len())
            && word.chars().all(|c| (' '..='~').contains(&c) && !"\\{}".contains(c))
    };
    code.split('"').skip(1).step_by(2).filter(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_from_code() {
        let found = |line| literals(line).collect::<Vec<_>>();
        assert_eq!(found(r#"    "turn.started" | "text" => self.start("x"),"#), ["turn.started", "text"]);
        assert_eq!(found(r#"// the word "comment""#), [""; 0]);
        assert_eq!(found(r#"format!("{a} b")"#), [""; 0]);
    }

    #[test]
    fn the_dictionary_has_the_words_of_the_dialects() {
        let words = of_source().expect("the source can be read");
        let dictionary = dictionary(&words).expect("the checked-in part can be read");
        assert!(dictionary.contains("\n\"turn.completed\"\n\"\\\"turn.completed\\\"\"\n"));
    }
}
