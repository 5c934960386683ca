//! Two readings agree: the dialects, and a script that shares nothing with them but the recordings.
//!
//! `fixtures/oracle/oracle.py` was written from the notes on the programs alone; `oracle.jsonl` is what it says. A field
//! counts where the script is sure of it. Where the two mean different things by a word, the difference is listed in
//! `tests/expect/oracle.toml` with its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::fixtures;

/// What the script says about a recording.
#[derive(Debug, Deserialize)]
struct Saying {
    cli: String,
    version: String,
    case: String,
    text: Value,
    outcome: Value,
    session: Value,
    usage: Value,
    tools: Value,
    sure: Vec<String>,
}

#[test]
fn the_script_and_the_dialects_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(folder.join(path)).expect(path);
    let sayings: BTreeMap<String, Saying> = read("../../fixtures/oracle/oracle.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Saying>(line).expect("a line of the script"))
        .map(|saying| (format!("{}/{}/{}", saying.cli, saying.version, saying.case), saying))
        .collect();
    // "cli/version/case/field" = "why".
    let agreed: BTreeMap<String, String> = toml::from_str(&read("tests/expect/oracle.toml")).expect("a list");
    let (mut wrong, mut compared, mut used) = (Vec::new(), 0, 0);
    for capture in fixtures::all() {
        let name = capture.name();
        let saying = sayings.get(&name).unwrap_or_else(|| panic!("the script says nothing about {name}"));
        let summary = capture.summary();
        for field in &saying.sure {
            let (said, found) = match field.as_str() {
                "text" => (&saying.text, summary["text"].clone()),
                "outcome" => (&saying.outcome, summary["outcome"].clone()),
                "session" => (&saying.session, summary["native_session"].clone()),
                "usage" => (&saying.usage, usage(&summary["usage"])),
                "tools" => (&saying.tools, summary["tools"].clone()),
                other => panic!("the script speaks of `{other}`"),
            };
            compared += 1;
            let excused = agreed.contains_key(&format!("{name}/{field}"));
            used += usize::from(excused);
            match (*said == found, excused) {
                (true, true) => wrong.push(format!("{name}/{field}: both agree; take it off the list")),
                (false, false) => wrong.push(format!("{name}/{field}\n  script  {said}\n  dialect {found}")),
                (true, false) | (false, true) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(used, agreed.len(), "the list names a recording or field that is not compared");
    assert!(compared > 1500, "only {compared} fields were compared");
}

/// The four counts of a reported usage. A report of zeros is a report of nothing.
fn usage(usage: &Value) -> Value {
    if usage["source"] != "reported" {
        return Value::Null;
    }
    let counts = ["input", "output", "cache_read", "cache_write"].map(|key| usage[key].clone());
    json!(counts)
}
