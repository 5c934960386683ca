//! The providers that Bowline knows, by folder.

use std::sync::LazyLock;

use crate::manifest::{Manifest, ManifestError};

/// The manifest of every folder: its name and text. A test compares this list with the folders.
const FOLDERS: &[(&str, &str)] = &[
    ("claude", include_str!("claude/manifest.toml")),
    ("codex", include_str!("codex/manifest.toml")),
    ("gemini", include_str!("gemini/manifest.toml")),
    ("qwen", include_str!("qwen/manifest.toml")),
    ("glm", include_str!("glm/manifest.toml")),
    ("grok", include_str!("grok/manifest.toml")),
];

static BUILT_IN: LazyLock<Vec<Manifest>> = LazyLock::new(|| {
    let read =
        |(name, text): &(&str, &str)| Manifest::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
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

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Reads every built-in manifest; what the tests call, so that a bad one fails there and not at run time.
pub fn check() -> Result<(), (&'static str, ManifestError)> {
    FOLDERS.iter().try_for_each(|(name, text)| match Manifest::parse(text) {
        Ok(manifest) if manifest.name == *name => Ok(()),
        Ok(manifest) => Err((*name, ManifestError::WrongName(manifest.name))),
        Err(error) => Err((*name, error)),
    })
}
