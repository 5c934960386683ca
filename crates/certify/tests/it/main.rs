//! The list of cases: the documentation has a row for each, and every manifest claims it or gives a reason.

use std::collections::BTreeSet;

use bowline_certify::cases;
use bowline_providers::catalogue;

/// The table in `docs/certify.md` equals this list.
#[test]
fn every_case_is_documented() {
    let rows: Vec<String> = cases()
        .map(|case| format!("| `{}` | {} | {} |", case.name, case.about, if case.smoke { "yes" } else { "" }))
        .collect();
    let page = include_str!("../../../../docs/certify.md");
    let there: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(there, rows, "the table should be:\n{}", rows.join("\n"));
}

/// `cargo xtask certify --write` generates `docs/compatibility.md` from reports; a changed case must change its row too.
#[test]
fn the_generated_page_has_the_words_of_every_case() {
    let page = include_str!("../../../../docs/compatibility.md");
    for case in cases() {
        let row = format!("| `{}`: {} |", case.name, case.about);
        assert!(page.contains(&row), "docs/compatibility.md has no row that begins with\n{row}");
    }
}

/// An entry for an unknown case has no effect, so it is a mistake.
#[test]
fn manifests_name_existing_cases() {
    let names: BTreeSet<&str> = cases().map(|case| case.name).collect();
    for manifest in catalogue::built_in() {
        let certify = &manifest.certify;
        let named = certify.not_claimed.keys().chain(certify.pending.keys()).chain(certify.categories.keys());
        for name in named {
            assert!(names.contains(name.as_str()), "{}: there is no case `{name}`", manifest.name);
        }
    }
}

/// A case that is not claimed without a reason would be red.
#[test]
fn an_unclaimed_case_has_a_reason() {
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
