//! Text files end in a line end, and no line in a space.

use crate::{File, Violation};

/// Finds white space that is invisible until it is in a diff.
pub(crate) fn clean(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.is_fixture()) {
        for (number, line) in file.lines() {
            if line.ends_with([' ', '\t', '\r']) {
                found.push(file.violation(number, "white space at the end of the line: remove it"));
            }
            if file.is_rust() && line.contains('\t') {
                found
                    .push(file.violation(number, "a tab: the formatter uses spaces, and strings have `\\t`"));
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            found.push(
                file.violation(file.text.lines().count(), "no line end at the end of the file: add it"),
            );
        }
    }
    found
}

#[test]
fn invisible_differences_are_caught() {
    let check = |path: &str, text: &str| clean(&[File::new(path, text)]).len();
    assert_eq!(check("a.md", "a \nb\t\n"), 2);
    assert_eq!(check("a.rs", "\tlet a = 1;\n"), 1);
    assert_eq!(check("a.toml", "a = 1"), 1);
    assert_eq!(check("Makefile", "\tcc a.c\n"), 0);
    assert_eq!(check("crates/x/tests/fixtures/a.txt", "a \n"), 0);
}
