//! The providers that Bowline knows, by folder.

use std::sync::LazyLock;

use crate::manifest::{Manifest, ManifestError};

/// A provider's folder.
struct Folder {
    name: &'static str,
    /// Its manifest, as it is written.
    #[cfg(test)]
    text: &'static str,
    /// The vocabulary of its recordings, where there are any.
    vocabulary: &'static str,
    /// Its manifest, parsed on first use: a run needs one, and parsing all of them costs more than the rest of its
    /// start.
    manifest: LazyLock<Manifest>,
}

macro_rules! folders {
    ($($name:literal => $vocabulary:expr;)+) => {
        /// Every folder, in the order in which providers are shown. A test compares this list with the folders.
        static FOLDERS: [Folder; [$($name),+].len()] = [$(Folder {
            name: $name,
            #[cfg(test)]
            text: include_str!(concat!($name, "/manifest.toml")),
            vocabulary: $vocabulary,
            manifest: LazyLock::new(|| read($name, include_str!(concat!(env!("OUT_DIR"), "/", $name, ".json")))),
        }),+];
    };
}

folders! {
    "claude" => include_str!("claude/vocabulary.txt");
    "codex" => include_str!("codex/vocabulary.txt");
    "gemini" => include_str!("gemini/vocabulary.txt");
    "qwen" => include_str!("qwen/vocabulary.txt");
    "glm" => "";
    "grok" => "";
    "pi" => include_str!("pi/vocabulary.txt");
    "opencode" => include_str!("opencode/vocabulary.txt");
    "copilot" => include_str!("copilot/vocabulary.txt");
    "grok-cli" => include_str!("grok-cli/vocabulary.txt");
    // Two programs behind adapters of a shared protocol: see `acp`.
    "claude-acp" => include_str!("acp/vocabulary.txt");
    "codex-acp" => include_str!("acp/vocabulary.txt");
    // After the programs whose dialects it uses: their vocabularies are the recorded ones.
    "practice" => "";
}

/// Parses a manifest in the form that `build.rs` writes. [`check`] has checked all of them before a release.
fn read(name: &str, json: &str) -> Manifest {
    let mut manifest: Manifest = serde_json::from_str(json).unwrap_or_else(|error| panic!("{name}: {error}"));
    manifest.complete();
    manifest
}

/// Returns the manifests that ship with Bowline, in the order in which they are shown.
pub fn built_in() -> impl ExactSizeIterator<Item = &'static Manifest> + Clone {
    FOLDERS.iter().map(|folder| &*folder.manifest)
}

/// Finds a provider by its name or one of its aliases, whatever the case and whether `-` or `_`.
pub fn by_name(name: &str) -> Option<&'static Manifest> {
    let plain = plain(name);
    // The folder has the provider's name, so that the others need not be parsed.
    if let Some(folder) = FOLDERS.iter().find(|folder| self::plain(folder.name) == plain) {
        return Some(&folder.manifest);
    }
    built_in().find(|manifest| same_name(manifest, name))
}

/// Returns whether a name means this provider.
pub fn same_name(manifest: &Manifest, name: &str) -> bool {
    let wanted = plain(name);
    std::iter::once(&manifest.name).chain(&manifest.aliases).any(|known| plain(known) == wanted)
}

/// Returns the vocabulary of the program that speaks a dialect, if there are recordings of one.
pub fn vocabulary(dialect: &str) -> Option<&'static str> {
    let speaks = |manifest: &Manifest| manifest.formats.values().any(|format| format.dialect == dialect);
    let place = built_in().position(speaks)?;
    Some(FOLDERS[place].vocabulary).filter(|vocabulary| !vocabulary.is_empty())
}

/// Returns a name as names are compared: whatever the case, and whether `-` or `_`.
pub fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Checks every built-in manifest. The tests call it, so that a bad one fails there and not at run time.
pub fn check() -> Result<(), (&'static str, ManifestError)> {
    FOLDERS.iter().try_for_each(|Folder { name, manifest, .. }| {
        if manifest.name != *name {
            return Err((*name, ManifestError::WrongName(manifest.name.clone())));
        }
        manifest.check().map_err(|error| (*name, error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_manifest_are_the_same() {
        for Folder { name, text, manifest, .. } in &FOLDERS {
            let written = Manifest::parse(text).expect("the tests read it");
            assert_eq!(format!("{written:?}"), format!("{:?}", &**manifest), "{name}");
        }
    }
}
