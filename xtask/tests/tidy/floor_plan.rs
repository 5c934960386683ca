//! One floor plan for provider folders: a module about the same subject has the same name in each of them.

use crate::{File, Violation, catalogue};

/// The modules that a folder may have. A larger one has modules of its own, in a folder of its name.
const MODULES: &[&str] = &[
    "mod",
    "account",
    "approvals",
    "client",
    "dialect",
    "failures",
    "messages",
    "session",
    "stderr",
    "tools",
    "usage",
    "wire",
];

/// Finds modules of provider folders with other names.
pub(crate) fn modules(files: &[File]) -> Vec<Violation> {
    let providers = files.iter().filter_map(|file| catalogue::folder(&file.path));
    // Folders of protocols have no manifest.
    let folders: Vec<&str> = providers.chain(["acp"]).collect();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some((folder, rest)) =
            file.path.strip_prefix("crates/providers/src/").and_then(|path| path.split_once('/'))
        else {
            continue;
        };
        let module = rest.split(['/', '.']).next().unwrap_or_default();
        if folders.contains(&folder) && !MODULES.contains(&module) {
            let what = format!("a folder has no module `{module}`; its modules are {}", MODULES.join(", "));
            found.push(file.violation(1, what));
        }
    }
    found
}

#[test]
fn another_name_is_caught() {
    let file = |path: &str| File::new(&format!("crates/providers/src/{path}"), "");
    let check = |path: &str| modules(&[file("bird/manifest.toml"), file(path)]).len();
    assert_eq!(check("bird/mod.rs"), 0);
    assert_eq!(check("bird/tools/wings.rs"), 0);
    assert_eq!(check("views/wings.rs"), 0, "not a provider");
    assert_eq!(check("bird/wings.rs"), 1);
    assert_eq!(check("bird/wings/left.rs"), 1);
    assert_eq!(check("acp/wings.rs"), 1);
}
