//! The form of a scenario file, and the messages about mistakes in it.

use std::path::Path;

use super::*;

fn wrong(text: &str) -> String {
    match Scenario::parse("x", "x.toml", text).expect_err(text) {
        ScenarioError::Wrong(mistake) => mistake.to_string(),
        other @ (ScenarioError::Unreadable { .. } | ScenarioError::Name { .. }) => panic!("{other}"),
    }
}

#[test]
fn the_built_in_ones_are_good_and_all_of_the_folder() {
    let names: Vec<String> = Scenario::built_in().into_iter().map(|scenario| scenario.name).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| {
            entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned()
        })
        .collect();
    files.sort();
    assert_eq!(names, files, "the list in built_in.rs");
    assert!(names.iter().any(|name| name == "default"));
}

#[test]
fn every_kind_of_fault_ships() {
    let scenarios = Scenario::built_in();
    let shipped: Vec<String> = scenarios
        .iter()
        .flat_map(|scenario| &scenario.steps)
        .filter_map(|step| match &step.act {
            StepAction::Fault(fault) => {
                Some(serde_json::to_value(fault.kind).expect("a word").as_str()?.to_owned())
            }
            StepAction::Reply(_) => None,
        })
        .collect();
    // For an unknown kind, the parser lists the known ones.
    let known = wrong("about = \"x\"\n[[step]]\nfault = \"?\"\n");
    let known: Vec<&str> =
        known.lines().next().expect("a line").split('`').skip(1).step_by(2).skip(1).collect();
    assert_eq!(known.len(), 21, "{known:?}");
    for kind in known {
        assert!(shipped.iter().any(|it| it == kind), "no scenario plays `{kind}`");
    }
}

#[test]
fn every_block_of_the_documentation_is_a_good_scenario() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let blocks: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 3, "{}", blocks.len());
    for block in blocks {
        if let Err(error) = Scenario::parse("x", "docs/simulator.md", block) {
            panic!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
        }
    }
}

#[test]
fn every_key_has_a_row_in_the_documentation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let text = std::fs::read_to_string(path).expect("the page");
    for unknown in [
        "zzz = 1\n",
        "about = \"x\"\n[[step]]\nzzz = 1\n",
        "about = \"x\"\n[[step]]\n[[step.call]]\nzzz = 1\n",
    ] {
        let message = wrong(unknown);
        let keys: Vec<&str> =
            message.lines().next().expect("a line").split('`').skip(1).step_by(2).skip(1).collect();
        assert!(keys.len() >= 2, "{message}");
        for key in keys {
            assert!(text.contains(&format!("| `{key}` |")), "`{key}` has no row in docs/simulator.md");
        }
    }
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let shown = [
        "about = \"x\"\n\n[[step]]\ntxt = \"hi\"\n",
        "about = \"x\"\n[[step]]\ntext = 5\n",
        "about = \"x\"\n[[step]]\ntext = \"é\" every = \"1s\"\n",
        "[[step]]\ntext = \"hi\"\n",
        "about = \"x\"\n[[step]]\ntext = \"hi\"\nevery = \"often\"\n",
        "about = \"x\"\n[[step]]\ntext = \"hi\"\nevery = \"-1s\"\n",
        "about = \"x\"\n[[step]]\nfault = \"oops\"\n",
        "about = \"x\"\n[[step]]\nfault = \"cut\"\ntext = \"hi\"\n",
        "about = \"x\"\n[[step]]\nfault = \"quota\"\nstatus = 200\n",
        "about = \"x\"\n[[step]]\nfault = \"quota\"\ntimes = 2\n",
        "about = \"x\"\n[[step]]\n[[step.call]]\nforms = [{ tool = \"A\", inputs = {} }]\n",
        "about = \"x\"\n[[step]]\ntext = \"hi\n",
        "about = \"x\"\n[[step]]\ntext = \"hi\"\nrepeat = 4000000000\n",
        "about = \"x\"\n[[step]]\ntext = \"hi\"\nrepeat = 0\n",
        "about = \"x\"\n[values]\nfile = \"a\"\n[[step]]\ntext = \"{{nosuch}} {file} {nosuch}\"\n",
        "about = \"x\"\n[values]\nfile = \"{other}\"\nother = \"a\"\n[[step]]\ntext = \"{file}\"\n",
        "about = \"x\"\n[[step]]\ntext = \"hi\"\n[[step.call]]\nforms = [{ tool = \"A\", input = { a = [{ b = \"{c}\" }] } }]\n",
    ]
    .map(wrong)
    .join("\n\n");
    insta::assert_snapshot!("mistakes", shown);
}

#[test]
fn what_cannot_be_meant_is_said() {
    for (step, expect) in [
        ("fault = \"cut\"\nusage = { input = 1 }", "`usage` is for answers, and this step is a fault"),
        ("fault = \"hang\"\nretry_after = \"1s\"", "`status` and `retry_after` are for faults that answer"),
        ("text = \"a\"\ndeltas = [\"b\"]", "a step has `text` or `deltas`, not both"),
        ("deltas = [\"b\"]\nrepeat = 2", "`repeat` is for `text`"),
        ("text = \"a\"\ntimes = 2", "`times` is for a `fault`, and this step is an answer"),
        ("text = \"a\"\nmessage = \"b\"", "`message` is for a `fault`, and this step is an answer"),
        ("fault = \"cut\"\ntimes = 0\n[[step]]", "`times` is at least 1; leave the step out instead"),
        (
            "text = \"{n}\"",
            "unknown name `{n}`: known are `{first-user}`, `{last-user}`, `{system}`, `{schema}`, `{cwd}`; \
             for the braces themselves write `{{n}}`",
        ),
        ("[[step.call]]\nforms = []", "a call has at least one of `forms`"),
        (
            "[[step.call]]\nforms = [{ tool = \"A\" }]",
            "the form for `A` needs one of `input`, `text` and `filled = true`",
        ),
    ] {
        let message = wrong(&format!("about = \"x\"\n[[step]]\n{step}\n"));
        assert!(message.lines().next().is_some_and(|line| line.ends_with(expect)), "{message}");
    }
    assert!(wrong("about = \"x\"\nstep = []\n").contains("at least one `[[step]]`"));
}

#[test]
fn a_name_is_one_that_a_prompt_can_carry() {
    for name in ["", "Big", "a b", "-a", "a_b", "ä"] {
        let error = Scenario::parse(name, "x.toml", "about = \"x\"\n[[step]]\n").expect_err(name);
        assert!(matches!(error, ScenarioError::Name { .. }), "{name}: {error}");
    }
    Scenario::parse("a-1", "x.toml", "about = \"x\"\n[[step]]\n").expect("a good name");
}
