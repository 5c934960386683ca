//! Keys of an agent's `config` that the form does not have.
//!
//! The specification lets a provider have settings of its own, so that such a key is passed on and does not make the whole file
//! unusable. Two sorts are refused all the same, because a run without them would do more than the file allows: a name for a
//! permission or a budget, and a misspelling of such a name or of a known limit: one letter is wrong, or the letters are in
//! another order. A name that is less like it (`max_count`, `max_cost`) or only contains such a word (`rate_limit`, `max_retries`)
//! is passed on: it is more often a setting of the program than a restriction.

use std::collections::BTreeMap;

use super::{Fields, YamlReader, option};
use bowline::closest_name;
use bowline::settings::ConfigError;
use bowline::settings::UnknownKey;

/// The known keys that limit a run.
const LIMITS: [&str; 4] = ["timeout", "max_tokens", "cost_per_1k_tokens", "capabilities"];

/// Names for permissions and budgets, as Bowline and agents spell them, in small letters without `-` and `_`.
const RESTRICTIONS: [&str; 37] = [
    "allow",
    "allowedtools",
    "allowtools",
    "approval",
    "approvalmode",
    "approvalpolicy",
    "approvals",
    "budget",
    "budgets",
    "budgetusd",
    "cost",
    "costlimit",
    "deniedtools",
    "deny",
    "denytools",
    "disallowedtools",
    "excludetools",
    "includetools",
    "isolate",
    "isolation",
    "maxbudget",
    "maxbudgetusd",
    "maxcost",
    "maxcostperday",
    "maxcostperrequest",
    "maxcostusd",
    "maxturns",
    "notools",
    "permission",
    "permissionmode",
    "permissions",
    "policy",
    "readonly",
    "sandbox",
    "sandboxmode",
    "tools",
    "toolsallowed",
];

/// The shortest name of which a misspelling is refused: one letter makes another word of a shorter one (`cost`, `host`).
const SHORTEST_MISSPELLED: usize = 6;

/// Takes what is left of a `config`.
pub(super) fn keys(
    reader: &YamlReader<'_>,
    config: &mut Fields<'_>,
    entry: &str,
) -> Result<BTreeMap<String, UnknownKey>, ConfigError> {
    let known = config.known().to_vec();
    let mut unknown = BTreeMap::new();
    for (key, value) in config.rest() {
        let name = reader.word(key, "a name")?;
        let nearest = closest_name(&name, known.iter().copied());
        if let Some(hint) = refusal(&name, nearest) {
            let what =
                format!("`{name}` is not known in `config` of the provider `{entry}`, and seems to limit it");
            return Err(reader.of(key, what).expected(hint));
        }
        unknown.insert(name, UnknownKey { line: key.line(), value: option(reader, value)?, nearest });
    }
    Ok(unknown)
}

/// Returns what to write instead of a key that must not be ignored.
fn refusal(name: &str, nearest: Option<&'static str>) -> Option<String> {
    if let Some(nearest) = nearest.filter(|nearest| LIMITS.contains(nearest) && is_slip(name, nearest)) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    let plain = name.to_lowercase().replace(['-', '_'], "");
    let mut long = RESTRICTIONS.into_iter().filter(|known| known.len() >= SHORTEST_MISSPELLED);
    let restricts = RESTRICTIONS.contains(&plain.as_str()) || long.any(|known| is_slip(&plain, known));
    restricts.then(|| "`permission`, `run.permission` or `budgets`; an entry has no such key".to_owned())
}

/// Returns whether a name is a misspelling of another: one letter is wrong, missing, too much or changed places with its
/// neighbour, or all letters are there in another order.
fn is_slip(name: &str, known: &str) -> bool {
    let sorted = |name: &str| {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        letters
    };
    strsim::damerau_levenshtein(name, known) <= 1 || sorted(name) == sorted(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::CONFIG_KEYS;

    #[test]
    fn restrictions_and_slips_in_limits_are_not_ignored() {
        let slips = [
            "permision",
            "aproval_mode",
            "sanbox",
            "allowd_tools",
            "dissallowed_tools",
            "max_csot",
            "bugdet",
            "max_scot",
        ];
        let exact = [
            "permission_mode",
            "approvalMode",
            "allowed_tools",
            "max_cost",
            "read-only",
            "Tools",
            "max_turns",
        ];
        for name in RESTRICTIONS.into_iter().chain(exact).chain(slips) {
            assert!(refusal(name, None).is_some(), "{name}");
        }
        for (name, meant) in [("timout", "timeout"), ("max_tokns", "max_tokens")] {
            let nearest = closest_name(name, CONFIG_KEYS);
            assert_eq!(refusal(name, nearest), Some(format!("did you mean `{meant}`?")));
        }
    }

    #[test]
    fn settings_of_a_program_are_passed_on() {
        let names = "modle base_url organization region host endpoint api_key headers retries max_retries rate_limit rate_limits \
            max_concurrency max_count max_costume max_steps max_context max_output_tokens cost_center costs_shown limit shallow tool_choice tools_version \
            allow_origin reasoning_effort context_window system_prompt stream keep_alive num_ctx seed proxy";
        for name in names.split_whitespace() {
            assert_eq!(refusal(name, closest_name(name, CONFIG_KEYS)), None, "{name}");
        }
    }
}
