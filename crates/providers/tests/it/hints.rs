//! What the router and the refusals of a run name of a provider: models and tools that the program itself knows.

use std::path::Path;

use bowline_providers::catalogue;

/// Where each program says which models it has, and what stands before a name there.
const LISTS: &[(&str, &str, &str)] = &[
    ("codex", "codex/0.166.0/appserver-main/stdout.raw", "\"id\":\""),
    ("gemini", "gemini/0.61.0/acp-basic/stdout.raw", "\"modelId\":\""),
    ("grok-cli", "grok/0.0.34/help/stdout.raw", ""),
];

#[test]
fn every_hint_is_a_model_of_the_programs_own_list() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let hinted = catalogue::built_in().filter(|it| !it.hints.is_empty() && it.name != "practice");
    for manifest in hinted {
        let list = LISTS.iter().find(|(name, ..)| *name == manifest.name);
        let recorded = list.map(|(_, file, before)| {
            let text = std::fs::read(fixtures.join(file)).expect("a recording");
            (String::from_utf8_lossy(&text).into_owned(), *before)
        });
        for (hint, model) in &manifest.hints {
            let known = match &recorded {
                Some((text, before)) => text.contains(&format!("{before}{model}")),
                // Those without a recorded list have their models in the manifest.
                None => manifest.models.iter().any(|it| it.id == *model),
            };
            assert!(known, "{}: {hint} is `{model}`, which its own list does not have", manifest.name);
        }
    }
    for name in ["claude", "codex", "gemini", "grok-cli"] {
        let manifest = catalogue::by_name(name).expect("a provider");
        for hint in ["fast", "cheap", "capable", "codegen", "agentic"] {
            assert!(manifest.hints.contains_key(hint), "{name} has no {hint}");
        }
    }
}

#[test]
fn those_that_cannot_ask_are_known() {
    let silent: Vec<&str> = catalogue::built_in()
        .filter(|manifest| manifest.only_reads_under_ask())
        .map(|manifest| manifest.name.as_str())
        .collect();
    assert_eq!(silent, ["pi", "opencode"]);
}
