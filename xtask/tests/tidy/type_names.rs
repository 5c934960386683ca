//! Names of types: each is unique in its crate, because search results, rustdoc and errors show the last word of a path only.

use std::collections::BTreeMap;

use xtask::survey::{has_one_word, type_name};

use crate::{File, Violation};

/// Finds types that share their name with another type of their crate. Tests do not count.
pub(crate) fn shared(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    // By crate and name: the place of the first type.
    let mut first: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let Some((package, _)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let tests =
            file.lines().find(|(_, line)| *line == "mod tests {").map_or(usize::MAX, |(number, _)| number);
        for (number, line) in file.lines().take_while(|(number, _)| *number < tests) {
            let Some(name) = type_name(line).or_else(|| alias(line)) else { continue };
            match first.get(&(package, name)) {
                Some(place) => {
                    let what = format!("`{name}` is also a type at {place}: give one of them a second word");
                    found.push(file.violation(number, what));
                }
                None => {
                    first.insert((package, name), format!("{}:{number}", file.path));
                }
            }
        }
    }
    found
}

/// Public names of one word that every reader of this project knows.
const WELL_KNOWN: &[&str] = &[
    "Api",
    "Event",
    "Failure",
    "Kind",
    "Manifest",
    "Message",
    "Record",
    "Report",
    "Request",
    "Scenario",
    "Session",
    "Simulator",
    "Task",
    "Turn",
    "Usage",
];

/// Public names of one word from before the rule: a line for each crate, its name first. Names leave this list, and none joins it.
const FROZEN: &str = include_str!("one_word_names.txt");

/// Where [`FROZEN`] is.
const FROZEN_FILE: &str = "xtask/tests/tidy/one_word_names.txt";

/// Finds public types with a name of one word, and names of the list that no type has any more. Tests do not count.
pub(crate) fn vague(files: &[File]) -> Vec<Violation> {
    vague_beside(files, FROZEN)
}

fn vague_beside(files: &[File], frozen: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    // The frozen names that no type has yet, by crate and name: their line in the list.
    let mut unused: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (line, number) in frozen.lines().zip(1..) {
        let (package, names) = line.split_once(' ').unwrap_or((line, ""));
        unused.extend(names.split_whitespace().map(|name| ((package, name), number)));
    }
    let listed: Vec<(&str, &str)> = unused.keys().copied().collect();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let package = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        let Some((package, _)) = package else { continue };
        for (number, line) in file.lines().filter(|(_, line)| line.trim_start().starts_with("pub ")) {
            let Some(name) = type_name(line).or_else(|| alias(line)) else { continue };
            if !has_one_word(name) || WELL_KNOWN.contains(&name) {
                continue;
            }
            unused.remove(&(package, name));
            if !listed.contains(&(package, name)) {
                found.push(file.violation(number, format!("`{name}` is ambiguous: give it a second word")));
            }
        }
    }
    let list = File::new(FROZEN_FILE, "");
    let gone = |((package, name), number)| {
        list.violation(
            number,
            format!("crates/{package} has no public `{name}` any more: remove it from the list"),
        )
    };
    found.extend(unused.into_iter().map(gone));
    found
}

/// Returns the name of the alias that a line declares. Indented ones belong to a trait or a function.
fn alias(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    let name = line.strip_prefix("type ")?;
    name.split(|letter: char| !letter.is_alphanumeric()).next()
}

#[test]
fn a_public_name_of_one_word_is_caught() {
    let check = |path: &str, text: &str| vague_beside(&[File::new(path, text)], "").len();
    let path = "crates/simulator/src/a.rs";
    assert_eq!(check(path, "pub struct Options;\n    pub enum Line {}\npub type Text = u8;\n"), 3);
    assert_eq!(check(path, "pub struct SimulatorOptions;\npub(crate) struct Line;\nstruct Tail;\n"), 0);
    assert_eq!(check(path, "pub enum Api {}\n"), 0, "a well-known name");
    assert_eq!(check("crates/simulator/src/a/tests.rs", "pub struct Line;\n"), 0, "a test");
}

#[test]
fn the_list_of_one_word_names_only_shrinks() {
    let check = |text: &str, frozen: &str| {
        let files = [File::new("crates/runtime/src/a.rs", text)];
        vague_beside(&files, frozen).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let names = FROZEN.lines().map(|line| line.split_whitespace().count() - 1).sum::<usize>();
    assert!(names <= 212, "{names} names: none joins the list");
    assert!(check("pub struct Line;\n", "engine\nruntime Line\n").is_empty());
    assert_eq!(check("pub struct Line;\n", "engine Line\n").len(), 2, "the list of another crate");
    assert_eq!(
        check("pub struct LineCutter;\n", "process\nruntime Line\n"),
        [format!("{FROZEN_FILE}:2: crates/runtime has no public `Line` any more: remove it from the list")]
    );
}

#[test]
fn a_shared_name_is_caught() {
    let check = |files: &[(&str, &str)]| {
        let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        shared(&files).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (a, b) = ("crates/engine/src/a.rs", "crates/engine/src/b/c.rs");
    assert_eq!(
        check(&[(a, "struct Line;\n"), (b, "\npub(crate) enum Line {}\n")]),
        [format!("{b}:2: `Line` is also a type at {a}:1: give one of them a second word")]
    );
    assert_eq!(check(&[(a, "struct Line;\npub type Line = u8;\n")]).len(), 1);
    assert!(check(&[(a, "struct Line;\n    type Err = Line;\n"), (b, "    type Err = u8;\n")]).is_empty());
    assert!(check(&[(a, "struct Line;\n"), ("crates/process/src/a.rs", "struct Line;\n")]).is_empty());
    assert!(check(&[(a, "struct Line;\nmod tests {\n    struct Line;\n}\n")]).is_empty());
    assert!(check(&[(a, "struct Line;\n"), ("crates/engine/src/a/tests.rs", "struct Line;\n")]).is_empty());
}
