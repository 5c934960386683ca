//! The providers that Bowline knows, by folder.

use std::sync::LazyLock;

use crate::ask::Reader;
use crate::dialects::DialectEntry;
use crate::manifest::{Manifest, ManifestError};

/// All facts about a provider's folder: the constant `PROVIDER` in its `mod.rs`.
#[derive(Clone, Copy)]
pub(crate) struct ProviderEntry {
    /// Its manifest. The folder of a protocol that several programs share has none.
    pub(crate) manifest: Option<ManifestText>,
    /// The fields and values of its recordings: `vocabulary.txt`. Empty if there are no recordings.
    pub(crate) vocabulary: &'static str,
    /// Its dialects.
    pub(crate) dialects: &'static [DialectEntry],
    /// The readers of what its program reports about the account.
    pub(crate) account_readers: &'static [Reader],
    /// Variables by which its program knows that it runs inside another agent, and those that would carry one agent's
    /// session, permissions or sandbox into the next.
    pub(crate) nesting: &'static [&'static str],
}

impl ProviderEntry {
    /// An entry without anything.
    pub(crate) const EMPTY: Self =
        Self { manifest: None, vocabulary: "", dialects: &[], account_readers: &[], nesting: &[] };
}

/// The text of a manifest, in both forms.
#[derive(Clone, Copy)]
pub(crate) struct ManifestText {
    /// The provider's name, which is that of its folder.
    pub(crate) name: &'static str,
    /// The file in the folder.
    #[cfg(test)]
    pub(crate) toml: &'static str,
    /// The form that `build.rs` writes.
    pub(crate) json: &'static str,
}

/// Makes the entry of the folder with this name from its manifest, without the rest.
macro_rules! provider_entry {
    ($name:literal) => {
        $crate::catalogue::ProviderEntry {
            manifest: Some($crate::catalogue::ManifestText {
                name: $name,
                #[cfg(test)]
                toml: include_str!("manifest.toml"),
                json: include_str!(concat!(env!("OUT_DIR"), "/", $name, ".json")),
            }),
            ..$crate::catalogue::ProviderEntry::EMPTY
        }
    };
}

/// A folder of the list.
struct Folder {
    entry: ProviderEntry,
    /// Its manifest, parsed on first use: a run needs one, and parsing all of them costs more than the rest of its
    /// start.
    manifest: LazyLock<Manifest>,
}

/// Declares the module of each folder and collects the entries.
macro_rules! folders {
    ($($visibility:vis $module:ident = $path:literal;)+) => {
        $(
            #[path = $path]
            $visibility mod $module;
        )+

        /// The entry of each folder.
        const ENTRIES: &[ProviderEntry] = &[$($module::PROVIDER),+];

        /// Every folder, in the order in which providers are shown. A test compares this list with the folders.
        static FOLDERS: [Folder; ENTRIES.len()] = [$(Folder {
            entry: $module::PROVIDER,
            manifest: LazyLock::new(|| $module::PROVIDER.read()),
        }),+];

        /// The dialects of all folders, in the order of the folders.
        pub(crate) const DIALECTS: &[DialectEntry] = {
            const LISTS: &[&[DialectEntry]] = &[$($module::PROVIDER.dialects),+];
            &concat::<_, { count(LISTS) }>(LISTS)
        };

        /// The variables for nested agents of all folders.
        pub(crate) const NESTING: &[&str] = {
            const LISTS: &[&[&str]] = &[$($module::PROVIDER.nesting),+];
            &concat::<_, { count(LISTS) }>(LISTS)
        };
    };
}

// `cargo fmt` does not see modules that a macro declares: format them with `rustfmt crates/providers/src/*/mod.rs`.
folders! {
    claude = "claude/mod.rs";
    codex = "codex/mod.rs";
    gemini = "gemini/mod.rs";
    qwen = "qwen/mod.rs";
    glm = "glm/mod.rs";
    grok = "grok/mod.rs";
    pi = "pi/mod.rs";
    opencode = "opencode/mod.rs";
    copilot = "copilot/mod.rs";
    grok_cli = "grok-cli/mod.rs";
    // The protocol of the next two, and of any other agent that speaks it.
    pub acp = "acp/mod.rs";
    claude_acp = "claude-acp/mod.rs";
    codex_acp = "codex-acp/mod.rs";
    practice = "practice/mod.rs";
}

/// Counts the elements of all lists.
pub(crate) const fn count<T>(lists: &[&[T]]) -> usize {
    let (mut all, mut list) = (0, 0);
    while list < lists.len() {
        all += lists[list].len();
        list += 1;
    }
    all
}

/// Joins lists while the crate is built. `N` is their [`count`], and one of them has an element.
pub(crate) const fn concat<T: Copy, const N: usize>(lists: &[&[T]]) -> [T; N] {
    let mut list = 0;
    while lists[list].is_empty() {
        list += 1;
    }
    let mut all = [lists[list][0]; N];
    let mut filled = 0;
    while list < lists.len() {
        let mut place = 0;
        while place < lists[list].len() {
            all[filled] = lists[list][place];
            filled += 1;
            place += 1;
        }
        list += 1;
    }
    all
}

impl ProviderEntry {
    /// Parses the manifest in the form that `build.rs` writes. [`check`] has checked all of them before a release.
    fn read(&self) -> Manifest {
        let ManifestText { name, json, .. } = self.manifest.expect("only folders with a manifest are read");
        let mut manifest: Manifest =
            serde_json::from_str(json).unwrap_or_else(|error| panic!("{name}: {error}"));
        manifest.complete();
        manifest
    }
}

/// Returns the folders that have a manifest, by their names.
fn providers() -> impl Iterator<Item = (ManifestText, &'static Folder)> + Clone {
    FOLDERS.iter().filter_map(|folder| Some((folder.entry.manifest?, folder)))
}

/// Returns the manifests that ship with Bowline, in the order in which they are shown.
pub fn built_in() -> impl Iterator<Item = &'static Manifest> + Clone {
    providers().map(|(_, folder)| &*folder.manifest)
}

/// Returns the readers of all folders.
pub(crate) fn account_readers() -> impl Iterator<Item = &'static Reader> {
    FOLDERS.iter().flat_map(|folder| folder.entry.account_readers)
}

/// Finds a provider by its name or one of its aliases, whatever the case and whether `-` or `_`.
pub fn by_name(name: &str) -> Option<&'static Manifest> {
    let plain = plain(name);
    // The folder has the provider's name, so that the others need not be parsed.
    if let Some((_, folder)) = providers().find(|(text, _)| self::plain(text.name) == plain) {
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
    let folder = FOLDERS.iter().find(|folder| folder.entry.dialects.iter().any(|it| it.name == dialect))?;
    Some(folder.entry.vocabulary).filter(|vocabulary| !vocabulary.is_empty())
}

/// Returns a name as names are compared: whatever the case, and whether `-` or `_`.
pub fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Checks every built-in manifest. The tests call it, so that a bad one fails there and not at run time.
pub fn check() -> Result<(), (&'static str, ManifestError)> {
    providers().try_for_each(|(ManifestText { name, .. }, Folder { manifest, .. })| {
        if manifest.name != name {
            return Err((name, ManifestError::WrongName(manifest.name.clone())));
        }
        manifest.check().map_err(|error| (name, error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_manifest_are_the_same() {
        for (ManifestText { name, toml, .. }, Folder { manifest, .. }) in providers() {
            let written = Manifest::parse(toml).expect("the tests read it");
            assert_eq!(format!("{written:?}"), format!("{:?}", &**manifest), "{name}");
        }
    }

    #[test]
    fn lists_are_joined_in_their_order() {
        const LISTS: &[&[u8]] = &[&[], &[1, 2], &[], &[3]];
        assert_eq!(concat::<_, { count(LISTS) }>(LISTS), [1, 2, 3]);
    }
}
