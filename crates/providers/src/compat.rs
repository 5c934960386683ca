//! Which version of each program was certified last. `compat.toml` is written by `cargo xtask certify --write` from the
//! reports of the contract suite, and is compiled in.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompatEntry {
    version: String,
}

/// Returns the version of a provider's program that passed the whole contract suite last.
pub fn certified(provider: &str) -> Option<&'static str> {
    static ALL: LazyLock<BTreeMap<String, CompatEntry>> =
        LazyLock::new(|| toml::from_str(include_str!("compat.toml")).expect("a test reads it"));
    ALL.get(provider).map(|entry| entry.version.as_str())
}

#[cfg(test)]
mod tests {
    use super::certified;
    use crate::catalogue;
    use crate::probe::Version;

    #[test]
    fn what_is_certified_has_a_version() {
        let known: Vec<&str> = catalogue::built_in().filter_map(|it| certified(&it.name)).collect();
        assert!(!known.is_empty());
        for version in known {
            assert!(Version::parse(version).is_some(), "{version}");
        }
        assert_eq!(certified("unheard-of"), None);
    }
}
