//! Hints: names for kinds of models.

/// The built-in hints, each with its use. A configuration may define others.
pub const HINTS: [(&str, &str); 6] = [
    ("fast", "short and simple tasks"),
    ("capable", "hard reasoning"),
    ("codegen", "writing code"),
    ("long-context", "very long inputs"),
    ("agentic", "long work with tools"),
    ("cheap", "when money matters most"),
];

/// Aliases of the hints.
const ALIASES: [(&str, &str); 5] = [
    ("code", "codegen"),
    ("quick", "fast"),
    ("budget", "cheap"),
    ("agent", "agentic"),
    ("longcontext", "long-context"),
];

/// Returns the canonical name of a hint.
pub fn canonical(hint: &str) -> String {
    let plain = hint.trim().to_ascii_lowercase().replace('_', "-");
    let alias = ALIASES.iter().find(|(alias, _)| *alias == plain);
    alias.map_or(plain, |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alias_means_a_hint_and_the_rest_is_free() {
        for (alias, name) in ALIASES {
            assert_eq!(canonical(alias), name);
            assert!(HINTS.iter().any(|(hint, _)| *hint == name));
        }
        assert_eq!(canonical(" Long_Context "), "long-context");
        assert_eq!(canonical("poetry"), "poetry");
    }
}
