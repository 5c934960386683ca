//! The suite as a list: what the documentation says of it, and whether every manifest can answer it.

use std::collections::BTreeSet;

use bowline_certify::cases;
use bowline_providers::catalogue;

/// The table in `docs/certify.md` is this list.
#[test]
fn every_case_is_documented() {
    let rows: Vec<String> = cases()
        .map(|case| format!("| `{}` | {} | {} |", case.name, case.about, if case.smoke { "yes" } else { "" }))
        .collect();
    let page = include_str!("../../../../docs/certify.md");
    let there: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(there, rows, "the table should be:\n{}", rows.join("\n"));
}

/// A manifest that names a case which is not there says something about nothing.
#[test]
fn manifests_name_cases_that_there_are() {
    let names: BTreeSet<&str> = cases().map(|case| case.name).collect();
    for manifest in catalogue::built_in() {
        let certify = &manifest.certify;
        let named = certify.not_claimed.keys().chain(certify.pending.keys()).chain(certify.categories.keys());
        for name in named {
            assert!(names.contains(name.as_str()), "{}: there is no case `{name}`", manifest.name);
        }
    }
}

/// What is not claimed has a reason; without one the suite would be red for a provider that nobody has tried yet.
#[test]
fn what_is_not_claimed_has_a_reason() {
    for manifest in catalogue::built_in().filter(|it| it.simulate.is_some()) {
        for case in cases() {
            assert!(case.is_answered_by(manifest), "{}: `{}` needs a reason", manifest.name, case.name);
        }
    }
}

#[test]
fn names_are_different() {
    let names: Vec<&str> = cases().map(|case| case.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}
