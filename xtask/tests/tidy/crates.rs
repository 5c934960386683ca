//! Dependencies between crates, and which crates may start processes.

use crate::tree::code;
use crate::{File, Violation};

/// A package of ours: its folder, its name, and those of ours that it may use.
type Package = (&'static str, &'static str, &'static [&'static str]);

/// `cli -> server -> runtime -> engine -> providers -> protocol`, and `runtime -> process`. A new arrow is a decision,
/// made in ARCHITECTURE.md and here together.
const PACKAGES: &[Package] = &[
    ("crates/protocol", "bowline-protocol", &[]),
    ("crates/providers", "bowline-providers", &["bowline-protocol"]),
    ("crates/engine", "bowline-engine", &["bowline-protocol", "bowline-providers"]),
    ("crates/process", "bowline-process", &[]),
    (
        "crates/runtime",
        "bowline",
        &["bowline-engine", "bowline-process", "bowline-protocol", "bowline-providers"],
    ),
    // Reads the settings files, which the library takes as values.
    (
        "crates/config",
        "bowline-config",
        &["bowline", "bowline-engine", "bowline-protocol", "bowline-providers"],
    ),
    ("crates/server", "bowline-server", &["bowline", "bowline-config", "bowline-protocol"]),
    // The contract suite drives real runs against the simulator, away from the network.
    (
        "crates/certify",
        "bowline-certify",
        &["bowline", "bowline-process", "bowline-protocol", "bowline-providers", "bowline-simulator"],
    ),
    // The command line decodes and renders with the thinking crates, carries the practice agent, the simulator and the
    // contract suite in its binary, and the beginnings of providers.
    (
        "crates/cli",
        "bowline-cli",
        &[
            "bowline",
            "bowline-certify",
            "bowline-config",
            "bowline-practice",
            "bowline-protocol",
            "bowline-provider",
            "bowline-providers",
            "bowline-server",
            "bowline-simulator",
        ],
    ),
    ("crates/practice", "bowline-practice", &[]),
    // For authors of providers: it depends on no other crate of ours.
    ("crates/provider-kit", "bowline-provider", &[]),
    ("crates/simulator", "bowline-simulator", &[]),
    ("crates/testkit", "bowline-testkit", &["bowline-protocol", "bowline-providers"]),
    ("xtask", "xtask", &["bowline-protocol", "bowline-providers", "bowline-testkit"]),
    ("fuzz", "bowline-fuzz", &["bowline-protocol", "bowline-providers", "bowline-testkit"]),
];

/// Finds packages that are not in the table, and arrows that it does not have. What tests use is free.
pub(crate) fn arrows(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        let table: toml::Table = file.text.parse().expect("a Cargo.toml is TOML");
        let name = table.get("package").and_then(|package| package.get("name")?.as_str()).unwrap_or_default();
        let Some((_, _, allowed)) = PACKAGES.iter().find(|known| known.0 == folder && known.1 == name) else {
            found.push(file.violation(
                1,
                format!("`{name}` in {folder} is not in the table in xtask/tests/tidy/crates.rs: add it"),
            ));
            continue;
        };
        let used =
            ["dependencies", "build-dependencies"].into_iter().filter_map(|kind| table.get(kind)?.as_table());
        for name in used.flat_map(toml::Table::keys) {
            let ours = PACKAGES.iter().any(|known| known.1 == name);
            if ours && !allowed.contains(&&**name) {
                let line =
                    file.lines().find(|(_, line)| line.starts_with(&**name)).map_or(1, |(number, _)| number);
                let advice = "a new arrow between crates is a decision; the table in xtask/tests/tidy/crates.rs has them all";
                found.push(file.violation(line, format!("may not use `{name}`: {advice}")));
            }
        }
    }
    found
}

/// Finds places other than the one that start processes.
pub(crate) fn spawners(files: &[File]) -> Vec<Violation> {
    // The practice agent plays an agent, and agents leave processes behind: that is what it is there to try. The benchmarks
    // play a bare reader beside us. A child writes the programs of tests, so that no fork of a test has them open.
    const ALLOWED: &[&str] = &[
        "crates/process/",
        "crates/practice/",
        "crates/testkit/src/programs.rs",
        "xtask/src/sh.rs",
        "xtask/benches/",
    ];
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.path.contains("/tests/")) {
        if ALLOWED.iter().any(|place| file.path.starts_with(place)) {
            continue;
        }
        for (number, _) in file.lines().filter(|(_, line)| starts(code(line))) {
            found.push(
                file.violation(number, "starts a process: only crates/process does that (xtask: sh.rs)"),
            );
        }
    }
    found
}

/// Returns whether a line starts a process. The spawner's own description of a command is data.
fn starts(line: &str) -> bool {
    let described = line.contains("process::Command::new(") && !line.contains("std::process::");
    line.contains("Command::new(") && !described
}

#[test]
fn a_new_arrow_is_caught() {
    let upward = File::new(
        "crates/protocol/Cargo.toml",
        "[package]\nname = \"bowline-protocol\"\n[dependencies]\nbowline-providers.workspace = true\n",
    );
    assert!(arrows(&[upward])[0].to_string().contains(":4: may not use `bowline-providers`"));
    let unknown = File::new("crates/utils/Cargo.toml", "[package]\nname = \"bowline-utils\"\n");
    assert!(arrows(&[unknown])[0].to_string().contains("not in the table"));
    let in_tests = File::new(
        "crates/protocol/Cargo.toml",
        "[package]\nname = \"bowline-protocol\"\n[dev-dependencies]\nbowline-testkit.workspace = true\n",
    );
    assert_eq!(arrows(&[in_tests]), []);
}

#[test]
fn a_second_spawner_is_caught() {
    let text = "//! `Command::new(` is not code here.\nlet child = Command::new(\"ls\");\n";
    assert_eq!(spawners(&[File::new("crates/cli/src/main.rs", text)]).len(), 1);
    let theirs = "let child = std::process::Command::new(\"ls\");\n";
    assert_eq!(spawners(&[File::new("crates/cli/src/main.rs", theirs)]).len(), 1);
    let data = "let command = process::Command::new(\"ls\");\n";
    assert_eq!(spawners(&[File::new("crates/cli/src/main.rs", data)]), []);
    for allowed in ["crates/process/src/spawn.rs", "xtask/src/sh.rs", "crates/cli/tests/it/main.rs"] {
        assert_eq!(spawners(&[File::new(allowed, text)]), []);
    }
}
