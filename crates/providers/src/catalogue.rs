//! The providers that Bowline knows, by folder.

use std::sync::LazyLock;

use crate::manifest::{Manifest, ManifestError};

/// Every folder: its name, its manifest, and the vocabulary of the program where there are recordings of it. A test compares
/// this list with the folders.
const FOLDERS: &[(&str, &str, &str)] = &[
    ("claude", include_str!("claude/manifest.toml"), include_str!("claude/vocabulary.txt")),
    ("codex", include_str!("codex/manifest.toml"), include_str!("codex/vocabulary.txt")),
    ("gemini", include_str!("gemini/manifest.toml"), include_str!("gemini/vocabulary.txt")),
    ("qwen", include_str!("qwen/manifest.toml"), include_str!("qwen/vocabulary.txt")),
    ("glm", include_str!("glm/manifest.toml"), ""),
    ("grok", include_str!("grok/manifest.toml"), ""),
    ("pi", include_str!("pi/manifest.toml"), include_str!("pi/vocabulary.txt")),
    ("opencode", include_str!("opencode/manifest.toml"), include_str!("opencode/vocabulary.txt")),
    ("copilot", include_str!("copilot/manifest.toml"), include_str!("copilot/vocabulary.txt")),
    ("grok-cli", include_str!("grok-cli/manifest.toml"), include_str!("grok-cli/vocabulary.txt")),
];

static BUILT_IN: LazyLock<Vec<Manifest>> = LazyLock::new(|| {
    let read = |(name, text, _): &(&str, &str, &str)| {
        Manifest::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    FOLDERS.iter().map(read).collect()
});

/// Returns the manifests that ship with Bowline, in the order in which they are shown.
pub fn built_in() -> &'static [Manifest] {
    &BUILT_IN
}

/// Finds a provider by its name or one of its aliases, whatever the case and whether `-` or `_`.
pub fn by_name(name: &str) -> Option<&'static Manifest> {
    let plain = plain(name);
    built_in().iter().find(|manifest| {
        std::iter::once(&manifest.name).chain(&manifest.aliases).any(|known| self::plain(known) == plain)
    })
}

/// Returns the vocabulary of the program that speaks a dialect, if there are recordings of one.
pub fn vocabulary(dialect: &str) -> Option<&'static str> {
    let speaks = |manifest: &Manifest| manifest.formats.values().any(|format| format.dialect == dialect);
    let place = built_in().iter().position(speaks)?;
    Some(FOLDERS[place].2).filter(|vocabulary| !vocabulary.is_empty())
}

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Reads every built-in manifest; what the tests call, so that a bad one fails there and not at run time.
pub fn check() -> Result<(), (&'static str, ManifestError)> {
    FOLDERS.iter().try_for_each(|(name, text, _)| match Manifest::parse(text) {
        Ok(manifest) if manifest.name == *name => Ok(()),
        Ok(manifest) => Err((*name, ManifestError::WrongName(manifest.name))),
        Err(error) => Err((*name, error)),
    })
}
