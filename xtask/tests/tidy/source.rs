//! The form of Rust files: that they introduce themselves, are short enough to read, and leave nothing behind.

use crate::{File, Violation};

/// Above this, a file is a conversation in review.
const LONGEST: usize = 500;

/// The map has to stay readable in one sitting.
const LONGEST_MAP: usize = 150;

/// Two panes side by side show lines of the map in full.
const WIDEST_MAP: usize = 120;

/// Finds modules without an introduction.
pub(crate) fn module_docs(files: &[File]) -> Vec<Violation> {
    let silent =
        files.iter().filter(|file| file.is_rust() && !file.is_fixture() && !introduces_itself(&file.text));
    silent
        .map(|file| {
            file.violation(1, "begin with `//!` and a sentence: what the module is for, what is not in it")
        })
        .collect()
}

fn introduces_itself(text: &str) -> bool {
    let doc: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let doc = doc.join(" ");
    // A sentence has at least three words and an end.
    let mut words = 0;
    doc.split_whitespace().any(|word| {
        words += 1;
        words >= 3 && word.trim_end_matches(['"', '`', ')', '*']).ends_with(['.', '?', '!'])
    })
}

/// Finds files that are too long, and lines of the map that are too wide.
pub(crate) fn length(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files {
        let lines = file.text.lines().count();
        let longest = match &*file.path {
            "ARCHITECTURE.md" => {
                let wide = file.lines().filter(|(_, line)| line.chars().count() > WIDEST_MAP);
                let violation = |(number, _)| {
                    file.violation(number, format!("a line above {WIDEST_MAP} letters: wrap it"))
                };
                found.extend(wide.map(violation));
                LONGEST_MAP
            }
            path if path.ends_with(".rs") => LONGEST,
            _ => continue,
        };
        if lines > longest {
            found.push(file.violation(longest, format!("{lines} lines, more than {longest}: split it")));
        }
    }
    found
}

// Put together from parts, so that this file does not break its own rule.
const LATER: &str = concat!("TO", "DO");
const IGNORED: &str = concat!("#[", "ignore");
const ALLOWED: [&str; 2] = [concat!("#[", "allow("), concat!("#![", "allow(")];

/// Finds tests that do not run, lints that are switched off, and work that is left without a condition.
pub(crate) fn leftovers(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() || file.path.ends_with(".toml")) {
        for (number, line) in file.lines() {
            if line.contains(IGNORED) {
                found.push(file.violation(number, "an ignored test: assert what happens today and say so"));
            }
            if ALLOWED.iter().any(|attribute| line.contains(attribute)) {
                found.push(
                    file.violation(number, "use `expect(…, reason = \"…\")`, which ends when its cause does"),
                );
            }
            if crate::tree::has_word(line, LATER) && !line.contains(&format!("{LATER}(")) {
                found.push(file.violation(
                    number,
                    "name the condition that ends it, in parentheses right behind the word",
                ));
            }
        }
    }
    found
}

#[test]
fn a_silent_module_is_caught() {
    let check = |text: &str| module_docs(&[File::new("crates/x/src/a.rs", text)]).len();
    assert_eq!(check(""), 1);
    assert_eq!(check("use std::fmt;\n"), 1);
    assert_eq!(check("//! Things\n"), 1);
    assert_eq!(check("\n//! What comes second is not an introduction.\n"), 1);
    assert_eq!(check("//! What is here\n//! and why.\n"), 0);
}

#[test]
fn a_long_file_is_caught() {
    let lines = |path: &str, count: usize| length(&[File::new(path, &"\n".repeat(count))]).len();
    assert_eq!((lines("a.rs", LONGEST), lines("a.rs", LONGEST + 1)), (0, 1));
    assert_eq!((lines("ARCHITECTURE.md", LONGEST_MAP), lines("ARCHITECTURE.md", LONGEST_MAP + 1)), (0, 1));
    assert_eq!(lines("Cargo.lock", 5000), 0);
    let widths = |width: usize| length(&[File::new("ARCHITECTURE.md", &"─".repeat(width))]).len();
    assert_eq!((widths(WIDEST_MAP), widths(WIDEST_MAP + 1)), (0, 1));
}

#[test]
fn leftovers_are_caught() {
    let check = |line: String| leftovers(&[File::new("a.rs", &line)]).len();
    assert_eq!(check(format!("{IGNORED} = \"slow\"]")), 1);
    assert_eq!(check(format!("{}dead_code)]", ALLOWED[0])), 1);
    assert_eq!(check(format!("{}dead_code)]", ALLOWED[1])), 1);
    assert_eq!(check(format!("// {LATER}: later")), 1);
    assert_eq!(check(format!("// {LATER}(engine exists): later")), 0);
    assert_eq!(check("#[expect(dead_code, reason = \"used by the next commit\")]".to_owned()), 0);
}
