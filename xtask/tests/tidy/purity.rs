//! The thinking crates: values in, values out.

use crate::tree::{code, has_word};
use crate::{File, Violation};

/// A crate that thinks, and the dependencies that it may have.
struct Thinker {
    folder: &'static str,
    dependencies: &'static [&'static str],
}

/// A dependency that is missing here is a decision: it must not read files, clock, environment or network either.
const THINKERS: &[Thinker] = &[
    Thinker { folder: "crates/protocol/", dependencies: &["jiff", "schemars", "serde", "serde_json"] },
    Thinker {
        folder: "crates/providers/",
        dependencies: &[
            "anstream",
            "bowline-protocol",
            "jiff",
            "memchr",
            "regex",
            "serde",
            "serde_json",
            "thiserror",
            "toml",
        ],
    },
    Thinker {
        folder: "crates/engine/",
        dependencies: &[
            "bowline-protocol",
            "bowline-providers",
            "brush-parser",
            "jiff",
            "serde",
            "serde_json",
            "thiserror",
        ],
    },
];

/// Parts of the standard library that reach outside.
const STD: &[&str] = &["env", "fs", "net", "process", "thread"];

/// Other words that reach outside, and where.
const WORDS: &[(&str, &str)] = &[
    ("io::stdin", "standard input"),
    ("io::stdout", "standard output"),
    ("io::stderr", "standard error"),
    ("println!", "standard output"),
    ("print!", "standard output"),
    ("eprintln!", "standard error"),
    ("eprint!", "standard error"),
    ("dbg!", "standard error"),
    ("Instant", "the clock"),
    ("SystemTime", "the clock"),
    ("Timestamp::now", "the clock"),
    ("Zoned::now", "the clock"),
    ("TimeZone::system", "the environment"),
    ("tokio", "the runtime"),
    ("getrandom", "randomness"),
    ("rand", "randomness"),
];

/// Finds code in the thinking crates that reaches outside.
pub(crate) fn outside(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && THINKERS.iter().any(|it| in_source(file, it))) {
        for (number, line) in file.lines() {
            for what in reaches(code(line)) {
                let advice =
                    "thinking crates take such things as arguments; the edges (runtime, cli) get them";
                found.push(file.violation(number, format!("reaches {what}: {advice}")));
            }
        }
    }
    found
}

fn in_source(file: &File, thinker: &Thinker) -> bool {
    file.path.strip_prefix(thinker.folder).is_some_and(|path| path.starts_with("src/"))
}

fn reaches(line: &str) -> Vec<String> {
    let mut found: Vec<String> =
        STD.iter().map(|part| format!("std::{part}")).filter(|path| has_word(line, path)).collect();
    // `use std::{fs, io}` names them without their parent.
    if let Some((_, list)) = line.split_once("std::{") {
        found.extend(STD.iter().filter(|part| has_word(list, part)).map(|part| format!("std::{part}")));
    }
    found.extend(
        WORDS
            .iter()
            .filter(|(word, _)| has_word(line, word))
            .map(|(word, what)| format!("{what} by `{word}`")),
    );
    found
}

/// Finds dependencies of the thinking crates that are not on their lists.
pub(crate) fn dependencies(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for thinker in THINKERS {
        let manifest = format!("{}Cargo.toml", thinker.folder);
        for file in files.iter().filter(|file| file.path == manifest) {
            let table: toml::Table = file.text.parse().expect("a Cargo.toml is TOML");
            let dependencies = table.get("dependencies").and_then(toml::Value::as_table);
            for name in dependencies.into_iter().flat_map(toml::Table::keys) {
                if !thinker.dependencies.contains(&&**name) {
                    let line = file
                        .lines()
                        .find(|(_, line)| line.starts_with(&**name))
                        .map_or(1, |(number, _)| number);
                    let advice = "a thinking crate has few; list it in xtask/tests/tidy/purity.rs if it reaches nothing outside";
                    found.push(file.violation(line, format!("new dependency `{name}`: {advice}")));
                }
            }
        }
    }
    found
}

#[test]
fn reaching_outside_is_caught() {
    let bad = "use std::fs;\nuse std::{io, env};\nlet now = jiff::Timestamp::now();\nprintln!(\"\");\nuse std::time::Instant;\n";
    let lines = |path: &str| outside(&[File::new(path, bad)]).len();
    assert_eq!(lines("crates/providers/src/new.rs"), 5);
    assert_eq!(lines("crates/runtime/src/new.rs"), 0, "the runtime may");
    assert_eq!(lines("crates/providers/tests/it/main.rs"), 0, "tests may");
    let good =
        "// An instant of std::fs.\nuse std::fmt;\nlet instant = 1; write!(f, \"a\")?; let brand = 2;\n";
    assert_eq!(outside(&[File::new("crates/protocol/src/lib.rs", good)]), []);
}

#[test]
fn a_new_dependency_is_caught() {
    let manifest =
        "[dependencies]\nserde.workspace = true\nreqwest = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n";
    let found = dependencies(&[File::new("crates/protocol/Cargo.toml", manifest)]);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].to_string().starts_with("crates/protocol/Cargo.toml:3: new dependency `reqwest`"),
        "{}",
        found[0]
    );
}
