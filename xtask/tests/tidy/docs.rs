//! The documents: that they exist, and that their links and commands are true.

use crate::{File, Violation};

const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "AGENTS.md",
    "docs/README.md",
    "docs/style.md",
    ".github/workflows/ci.yml",
];

/// Finds documents that are missing.
pub(crate) fn existence(files: &[File]) -> Vec<Violation> {
    let missing = DOCUMENTS.iter().filter(|document| !files.iter().any(|file| file.path == **document));
    missing
        .map(|document| {
            File { path: (*document).to_owned(), text: String::new() }.violation(1, "is missing: write it")
        })
        .collect()
}

fn documents(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".md") && !file.is_fixture())
}

/// Finds relative links that lead nowhere.
pub(crate) fn links(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in documents(files) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut in_block = false;
        for (number, line) in file.lines() {
            in_block ^= line.trim_start().starts_with("```");
            let targets =
                line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
            for target in targets.filter(|_| !in_block) {
                let path = target.split(['#', ' ']).next().unwrap_or_default();
                if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                    continue;
                }
                let path = resolved(folder, path);
                let inside = format!("{path}/");
                if !files.iter().any(|file| file.path == path || file.path.starts_with(&inside)) {
                    found.push(file.violation(
                        number,
                        format!("the link to `{target}` leads nowhere: there is no {path}"),
                    ));
                }
            }
        }
    }
    found
}

/// Finds modules that the map names and that do not exist: code such as `engine/run/ladder`, which begins with a crate.
pub(crate) fn modules(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path == "ARCHITECTURE.md") {
        for (number, line) in file.lines() {
            for span in line.split('`').skip(1).step_by(2) {
                let Some((name, module)) = span.split_once('/') else { continue };
                let (folder, module) = (format!("crates/{name}/"), module.trim_end_matches('/'));
                let path = format!("{folder}src/{module}");
                let (as_file, as_folder) = (format!("{path}.rs"), format!("{path}/"));
                let is_crate = files.iter().any(|file| file.path.starts_with(&folder));
                let exists = |file: &File| file.path == as_file || file.path.starts_with(&as_folder);
                if is_crate && !module.is_empty() && !files.iter().any(exists) {
                    found.push(
                        file.violation(number, format!("there is no module `{span}`: correct the map")),
                    );
                }
            }
        }
    }
    found
}

/// Resolves `.` and `..` of a link against the folder of its document.
fn resolved(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = if link.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}

/// Finds commands in code that the program does not have. The word behind the program's name counts, if it is one.
pub(crate) fn commands(files: &[File], program: &str, known: &[String]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in documents(files) {
        let mut in_block = false;
        for (number, line) in file.lines() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
                continue;
            }
            let spans: Vec<&str> =
                if in_block { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
            for command in spans.into_iter().filter_map(|span| command(span, program)) {
                if command != "help" && !known.iter().any(|known| known == command) {
                    found.push(file.violation(
                        number,
                        format!("`{program} {command}` does not exist: correct the document"),
                    ));
                }
            }
        }
    }
    found
}

/// Returns the subcommand that a piece of code calls, where the program stands at the beginning of a command.
fn command<'a>(code: &'a str, program: &str) -> Option<&'a str> {
    let words = |command: &'a str| {
        let rest = command.trim_start().trim_start_matches("$ ").strip_prefix(program)?.strip_prefix(' ')?;
        let word = rest.split_whitespace().next()?;
        let is_name = word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        is_name.then_some(word)
    };
    code.split(['|', ';', '&', '(']).find_map(words)
}

/// Reads the names of subcommands from the source of a command line: the variants of enums that derive `Subcommand`.
pub(crate) fn subcommands(files: &[File], folder: &str) -> Vec<String> {
    let mut names = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with(folder)) {
        let mut lines = file.text.lines();
        while let Some(line) = lines.next() {
            if !(line.starts_with("#[derive(") && line.contains("Subcommand")) {
                continue;
            }
            // The formatter puts variants, and nothing else that begins with a capital, four spaces in.
            let body = lines.by_ref().take_while(|line| *line != "}");
            for variant in body.filter_map(|line| line.strip_prefix("    ")) {
                let name: String = variant.chars().take_while(char::is_ascii_alphanumeric).collect();
                if name.starts_with(|c: char| c.is_ascii_uppercase()) {
                    names.push(kebab(&name));
                }
            }
        }
    }
    names
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[test]
fn a_missing_document_is_caught() {
    assert_eq!(existence(&[]).len(), DOCUMENTS.len());
    assert_eq!(existence(&[File::new("README.md", "")]).len(), DOCUMENTS.len() - 1);
}

#[test]
fn a_dead_link_is_caught() {
    let other =
        File::new("docs/design/a.md", "[up](../../README.md#top) [web](https://example.org) [dir](/docs)\n");
    let check = |text: &str| links(&[File::new("README.md", text), other.clone()]).len();
    assert_eq!(check("[a](docs/design/a.md), [b](docs/design), [c](#here)\n"), 0);
    assert_eq!(check("[a](docs/b.md)\n"), 1);
    assert_eq!(check("```\n[a](docs/b.md)\n```\n"), 0);
}

#[test]
fn a_module_that_does_not_exist_is_caught() {
    let tree =
        ["crates/engine/src/run/ladder.rs", "crates/engine/src/retry.rs"].map(|path| File::new(path, ""));
    let check = |text: &str| modules(&[&tree[..], &[File::new("ARCHITECTURE.md", text)]].concat()).len();
    assert_eq!(
        check("`engine/run`, `engine/run/ladder`, `engine/retry`, `docs/style.md`, `fuzz/`, `run/end`\n"),
        0
    );
    assert_eq!(check("`engine/run/lader` and `engine/retries`\n"), 2);
}

#[test]
fn a_command_that_does_not_exist_is_caught() {
    let known = ["test".to_owned(), "fuzz".to_owned()];
    let check = |text: &str| commands(&[File::new("README.md", text)], "cargo xtask", &known).len();
    assert_eq!(check("Run `cargo xtask test`, or `cargo xtask --help`, or cargo xtask nonsense.\n"), 0);
    assert_eq!(check("Run `cargo xtask tset`.\n"), 1);
    assert_eq!(check("```sh\n$ cargo xtask nonsense\n```\n"), 1);
    assert_eq!(check("```sh\necho a | cargo xtask nonsense\n```\n"), 1);
}

#[test]
fn subcommands_are_read_from_the_source() {
    let text = "/// Doc.\n#[derive(Debug, Subcommand)]\nenum Command {\n    /// Decode\n    Decode(Decode),\n    #[command(name = \"x\")]\n    ListAll {\n        /// A flag\n        All: bool,\n    },\n}\n";
    assert_eq!(
        subcommands(&[File::new("crates/cli/src/args.rs", text)], "crates/cli/src/"),
        ["decode", "list-all"]
    );
}
