//! The list of providers in the code is the list of their folders.

use crate::{File, Violation};

/// Returns the folder's name if the path is that of a provider's manifest.
pub(crate) fn folder(path: &str) -> Option<&str> {
    path.strip_prefix("crates/providers/src/")?.strip_suffix("/manifest.toml")
}

/// Finds folders that are not listed, listed names without a folder, and manifests with another name than their folder.
pub(crate) fn folders(files: &[File], listed: &[&str]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for file in files {
        let Some(folder) = folder(&file.path) else { continue };
        seen.push(folder);
        if !listed.contains(&folder) {
            found.push(file.violation(1, "is not in the list: add it in crates/providers/src/catalogue.rs"));
        }
        let name = file
            .text
            .parse::<toml::Table>()
            .ok()
            .and_then(|table| Some(table.get("name")?.as_str()?.to_owned()));
        if name.as_deref() != Some(folder) {
            found.push(file.violation(1, format!("the manifest is for {name:?}: its name is the folder's")));
        }
    }
    let list = File { path: "crates/providers/src/catalogue.rs".to_owned(), text: String::new() };
    for name in listed.iter().filter(|name| !seen.contains(name)) {
        found.push(list.violation(1, format!("lists `{name}`, which has no folder with a manifest")));
    }
    found
}

#[test]
fn a_difference_is_caught() {
    let file = |folder: &str, name: &str| {
        File::new(&format!("crates/providers/src/{folder}/manifest.toml"), &format!("name = \"{name}\"\n"))
    };
    assert_eq!(folders(&[file("a", "a"), file("b", "b")], &["a", "b"]), []);
    assert_eq!(folders(&[file("a", "a"), file("b", "b")], &["a"]).len(), 1, "not listed");
    assert_eq!(folders(&[file("a", "a")], &["a", "b"]).len(), 1, "no folder");
    assert_eq!(folders(&[file("a", "c")], &["a"]).len(), 1, "another name");
}
