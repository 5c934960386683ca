//! Providers are named where they are described, and nowhere else: behaviour differs by capability.

use crate::{File, Violation};

/// Our own program.
const OURS: &str = "bowline";

/// Finds providers' names in files that should not know them.
pub(crate) fn outside_their_folders(files: &[File]) -> Vec<Violation> {
    let names = names(files);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !may_name(&file.path)) {
        for (number, line) in file.lines().filter(|(_, line)| !shows_use(&file.path, line)) {
            for name in names.iter().filter(|name| mentions(line, name)) {
                let advice = "describe what differs as a capability or in the provider's manifest";
                found.push(file.violation(number, format!("names the provider `{name}`: {advice}")));
            }
        }
    }
    found
}

fn may_name(path: &str) -> bool {
    path.starts_with("crates/providers/")
        // The practice agent prints the formats of these programs.
        || path.starts_with("crates/practice/")
        || path.starts_with("conformance/")
        || path.starts_with("docs/")
        || path.contains("/fixtures/")
        || path.starts_with("fixtures/")
        || path.starts_with("fuzz/seeds/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.contains("/examples/")
        // They measure lines as a real program prints them.
        || path.starts_with("xtask/benches/")
        || path == "xtask/src/bench.rs"
        || path == "compat.toml"
        || (path.ends_with(".md") && !path.contains('/'))
}

/// Returns whether a line is documentation of the library, which shows embedders how to choose a provider.
fn shows_use(path: &str, line: &str) -> bool {
    let line = line.trim_start();
    path.starts_with("crates/runtime/src/") && (line.starts_with("///") || line.starts_with("//!"))
}

/// Reads the names, aliases and programs of all providers from their manifests. A provider that is inside our own program
/// has a crate here, which any file may name; of such a provider only the quoted form counts.
fn names(files: &[File]) -> Vec<String> {
    let mut names = Vec::new();
    for file in files.iter().filter(|file| crate::catalogue::folder(&file.path).is_some()) {
        let table: toml::Table = file.text.parse().expect("a manifest is TOML");
        if table.get("program").and_then(toml::Value::as_str) == Some(OURS) {
            let name = table.get("name").and_then(toml::Value::as_str).unwrap_or_default();
            names.push(format!("\"{}\"", name.to_lowercase()));
            continue;
        }
        let strings = ["name", "program"].into_iter().filter_map(|key| table.get(key));
        let aliases = table.get("aliases").and_then(toml::Value::as_array).into_iter().flatten();
        names.extend(strings.chain(aliases).filter_map(toml::Value::as_str).map(str::to_lowercase));
    }
    names.sort();
    names.dedup();
    names
}

/// Returns whether a line has the name as a word. Words end at anything but letters and digits, and at a change of case,
/// so that parts of identifiers count. A name of two letters is too often part of something else; of such names only
/// the quoted form counts.
fn mentions(line: &str, name: &str) -> bool {
    if name.starts_with('"') {
        return line.contains(name);
    }
    if name.len() <= 2 {
        return line.contains(&format!("\"{name}\""));
    }
    let lower = line.to_ascii_lowercase();
    lower.match_indices(name).any(|(at, _)| {
        let inside = |outer: Option<char>, left: Option<char>, right: Option<char>| {
            let new_word = left.is_some_and(char::is_lowercase) && right.is_some_and(char::is_uppercase);
            outer.is_some_and(char::is_alphanumeric) && !new_word
        };
        let (before, rest) = line.split_at(at);
        let (found, after) = rest.split_at(name.len());
        let (before, after) = (before.chars().next_back(), after.chars().next());
        let (first, last) = (found.chars().next(), found.chars().next_back());
        !inside(before, before, first) && !inside(after, last, after)
    })
}

#[test]
fn a_name_in_the_wrong_place_is_caught() {
    let manifest = File::new(
        "crates/providers/src/knot/manifest.toml",
        "name = \"knot\"\naliases = [\"knot-cli\", \"kn\"]\nprogram = \"ax-knot\"\n",
    );
    let check =
        |path: &str, line: &str| outside_their_folders(&[manifest.clone(), File::new(path, line)]).len();
    let source = "crates/cli/src/main.rs";
    for bad in
        ["if name == \"knot\"", "fn is_knot()", "struct KnotReader;", "// Knot does this", "(\"kn\", 1)"]
    {
        assert_eq!(check(source, bad), 1, "{bad}");
    }
    for good in ["a knotty problem", "slipknot", "kn", "unknown"] {
        assert_eq!(check(source, good), 0, "{good}");
    }
    for exempt in [
        "docs/x.md",
        "README.md",
        "conformance/pins.toml",
        "crates/cli/tests/it/run.rs",
        "crates/cli/src/run/tests.rs",
        "compat.toml",
    ] {
        assert_eq!(check(exempt, "knot"), 0, "{exempt}");
    }
    assert_eq!(check("crates/runtime/src/lib.rs", "//! task(p).provider(\"knot\")"), 0, "documentation");
    assert_eq!(check("crates/runtime/src/lib.rs", "task(p).provider(\"knot\")"), 1, "code");
    assert_eq!(check(source, "/// knot"), 1, "documentation elsewhere");
    assert_eq!(check(source, "ax-knot"), 2, "the program, and the name inside it");
}

#[test]
fn a_provider_inside_our_program_is_named_as_such_only_in_its_folders() {
    let manifest =
        File::new("crates/providers/src/loop/manifest.toml", "name = \"loop\"\nprogram = \"bowline\"\n");
    let check =
        |path: &str, line: &str| outside_their_folders(&[manifest.clone(), File::new(path, line)]).len();
    assert_eq!(check("crates/cli/src/main.rs", "if name == \"loop\""), 1);
    assert_eq!(check("crates/cli/src/main.rs", "loop { bowline_loop::main() }"), 0);
    assert_eq!(check("crates/practice/src/lib.rs", "\"loop\""), 0);
}
