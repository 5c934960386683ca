//! The folders of the runtime: each uses only those behind it, and no long cycle is inside one.

use std::collections::{BTreeMap, BTreeSet};

use xtask::survey::largest_cycle;

use crate::{File, Violation};

/// The folders of `crates/runtime/src` in the order of their arrows: each may use those behind it. The files beside them are on
/// top: they may use every folder, and no folder uses them. ARCHITECTURE.md has the reasons.
const FOLDERS: &[&str] = &["routing", "run", "agents", "sessions", "system"];

/// The crate's sources.
const SOURCES: &str = "crates/runtime/src/";

/// The most modules of a folder that may use each other in a circle.
const LONGEST_CYCLE: usize = 4;

/// Finds arrows between folders that point back, and cycles inside a folder that are too long.
pub(crate) fn folders(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    // By folder: which of its modules uses which others.
    let mut inside: BTreeMap<&str, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let Some(path) = file.path.strip_prefix(SOURCES) else { continue };
        let Some((folder, rest)) = path.split_once('/') else { continue };
        let Some(layer) = FOLDERS.iter().position(|known| *known == folder) else { continue };
        let module = rest.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let arrows = inside.entry(FOLDERS[layer]).or_default().entry(module.clone()).or_default();
        for (line, first, second) in used(file) {
            match FOLDERS.iter().position(|known| **known == first) {
                Some(target) if target == layer => {
                    arrows.extend(Some(second).filter(|second| *second != module));
                }
                Some(target) if target > layer => {}
                Some(_) => {
                    let order = FOLDERS.join(", ");
                    found.push(
                        file.violation(
                            line,
                            format!("`{folder}` may not use `{first}`: the order is {order}"),
                        ),
                    );
                }
                None => found.push(file.violation(
                    line,
                    format!("`crate::{first}` is outside of the folders: use the path of its folder"),
                )),
            }
        }
    }
    for (folder, arrows) in &inside {
        let arrows: BTreeMap<&str, BTreeSet<&str>> = arrows
            .iter()
            .map(|(from, to)| (from.as_str(), to.iter().map(String::as_str).collect()))
            .collect();
        let cycle = largest_cycle(&arrows);
        if cycle.len() > LONGEST_CYCLE {
            let what = format!(
                "{} modules use each other in a circle, at most {LONGEST_CYCLE}: {}",
                cycle.len(),
                cycle.join(", ")
            );
            found.push(File::new(&format!("{SOURCES}{folder}.rs"), "").violation(1, what));
        }
    }
    found
}

/// Returns the first two names of every path of a file that begins with `crate::` or `super::`, with the line, also of those in
/// braces. Tests at the end of a file and comments do not count.
fn used(file: &File) -> Vec<(usize, String, String)> {
    let end = file.text.find("#[cfg(test)]\nmod tests {").unwrap_or(file.text.len());
    let blank = |line: &str| if line.trim_start().starts_with("//") { "" } else { line }.to_owned();
    let code = file.text[..end].lines().map(blank).collect::<Vec<_>>().join("\n");
    let mut all = Vec::new();
    let mut add = |at: usize, base: &[&str], rest: &str| {
        let line = code[..at].matches('\n').count() + 1;
        for path in paths(rest) {
            let mut names = base.iter().copied().chain(path.split("::")).map(str::to_owned);
            all.push((line, names.next().unwrap_or_default(), names.next().unwrap_or_default()));
        }
    };
    for (at, word) in code.match_indices("crate::") {
        add(at, &[], &code[at + word.len()..]);
    }
    let own = file.path.strip_prefix(SOURCES).unwrap_or_default().trim_end_matches(".rs");
    let own: Vec<&str> = own.split('/').collect();
    for (at, word) in code.match_indices("super::").filter(|(at, _)| !code[..*at].ends_with("super::")) {
        let rest = code[at..].trim_start_matches(word);
        let up = (code.len() - at - rest.len()) / word.len();
        let base = &own[..own.len().saturating_sub(up)];
        // `super::journal` in `sessions/name_cache.rs` is `crate::sessions::journal`. What a module takes from itself is no arrow.
        add(at, base, rest);
    }
    all
}

/// Returns the paths of a tree of imports: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn paths(text: &str) -> Vec<String> {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let end = text.find(|letter| !part(letter)).unwrap_or(text.len());
    let (before, rest) = text.split_at(end);
    let Some(list) = rest.strip_prefix('{').filter(|_| before.is_empty() || before.ends_with("::")) else {
        return vec![before.to_owned()];
    };
    let (mut all, mut depth, mut first) = (Vec::new(), 0_u32, 0);
    for (place, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let item = list[first..place].trim();
                if !item.is_empty() {
                    all.extend(paths(item).into_iter().map(|path| format!("{before}{path}")));
                }
                first = place + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    all
}

#[test]
fn an_arrow_that_points_back_is_caught() {
    let check = |path: &str, text: &str| {
        let found = folders(&[File::new(&format!("{SOURCES}{path}"), text)]);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let order = "the order is routing, run, agents, sessions, system";
    assert_eq!(
        check("sessions/journal.rs", "//! A.\nuse crate::run::task::Task;\n"),
        [format!("{SOURCES}sessions/journal.rs:2: `sessions` may not use `run`: {order}")]
    );
    assert_eq!(check("agents/a/b.rs", "use crate::{routing::{route, x}, system::clock};\n").len(), 2);
    assert_eq!(check("agents/a.rs", "fn f() { crate::Error }\n").len(), 1, "a name of the root");
    assert_eq!(check("sessions/a.rs", "use super::super::run::task;\n").len(), 1, "by the way of the root");
    assert!(check("sessions/a/b.rs", "use super::super::journal::{Home, x};\nuse super::C;\n").is_empty());
    assert!(check("run/a.rs", "use crate::agents::{roster, detect};\n// crate::routing::x\n").is_empty());
    assert!(check("run/a/tests.rs", "use crate::routing::route;\n").is_empty(), "a test");
    assert!(check("doctor.rs", "use crate::run::task::Task;\n").is_empty(), "on top of the folders");
}

#[test]
fn a_long_cycle_inside_a_folder_is_caught() {
    let ring = |many: usize| {
        let file = |at: usize| {
            let text = format!("use crate::run::m{}::X;\n", (at + 1) % many);
            File::new(&format!("{SOURCES}run/m{at}.rs"), &text)
        };
        folders(&(0..many).map(file).collect::<Vec<_>>())
    };
    assert!(ring(LONGEST_CYCLE).is_empty());
    let by_super = |text: &str| {
        let source = File::new(&format!("{SOURCES}sessions/name_cache.rs"), text);
        used(&source)
            .into_iter()
            .map(|(line, first, second)| format!("{line} {first} {second}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        by_super("use super::journal::Home;\nfn f() { super::{a::B, c} }\n"),
        ["1 sessions journal", "2 sessions a", "2 sessions c"]
    );
    let found = ring(LONGEST_CYCLE + 1);
    assert!(found[0].to_string().contains("5 modules use each other in a circle"), "{found:?}");
}
