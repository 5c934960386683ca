//! What recordings of real programs must give.
//!
//! `tests/expect/<cli>.toml` holds expectations that were written by hand from the raw recordings, before the dialects.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::fixtures::{self, Recording};

/// What a recording must give. Every field that is given must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Expect {
    /// Why this one is hard: read by people.
    why: String,
    /// The answer of the last turn.
    text: Option<String>,
    /// Where the answer is long: how it begins, how it ends, how many bytes it has.
    text_starts: Option<String>,
    text_ends: Option<String>,
    text_bytes: Option<usize>,
    all_text: Option<String>,
    outcome: Option<String>,
    native_session: Option<String>,
    model: Option<String>,
    /// `input, output, cache_read, cache_write`; `usage = []` means that none was reported.
    usage: Option<Vec<u64>>,
    cost_usd: Option<f64>,
    tools: Option<u64>,
    unrecognized: Option<u64>,
    /// `category/code`; "" means that there is none.
    failure: Option<String>,
    /// A part of the failure's message.
    message: Option<String>,
    retry_after_ms: Option<u64>,
    resets_at: Option<String>,
    turns: Option<u64>,
    /// Counts of event kinds.
    events: BTreeMap<String, u64>,
}

/// Checks the file of each program of which there are recordings, and that of the protocol that several speak.
#[test]
fn recordings_give_what_was_written_by_hand() {
    let programs: BTreeSet<String> = fixtures::all().into_iter().map(|capture| capture.cli).collect();
    assert!(programs.len() >= 8, "the index has the recordings");
    programs.iter().for_each(|cli| check(cli));
    check_acp();
}

fn expectations(cli: &str) -> BTreeMap<String, Expect> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/expect/{cli}.toml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks the expectations of one program; keys are `version/case`.
fn check(cli: &str) {
    let of_cli = fixtures::all().into_iter().filter(|capture| capture.cli == cli);
    check_captures(
        cli,
        &of_cli.map(|capture| (format!("{}/{}", capture.version, capture.case), capture)).collect(),
    );
}

/// Checks the expectations of the protocol that several programs speak; keys are `cli/version/case`.
fn check_acp() {
    let of_acp = fixtures::all().into_iter().filter(|capture| capture.dialect.as_deref() == Some("acp"));
    check_captures("acp", &of_acp.map(|capture| (capture.name(), capture)).collect());
}

/// Checks the expectations of one file against the recordings, by their keys.
fn check_captures(cli: &str, captures: &BTreeMap<String, Recording>) {
    let mut wrong = Vec::new();
    for (case, expect) in expectations(cli) {
        let capture = captures.get(&case).unwrap_or_else(|| panic!("{cli}: there is no recording {case}"));
        let summary = capture.summary();
        for (what, expected, found) in compare(&expect, &summary) {
            wrong.push(format!("{cli}/{case}: {what}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of the expectations fail:\n{}", wrong.len(), wrong.join("\n"));
}

/// Lists what differs: what, expected, found.
fn compare(expect: &Expect, summary: &Value) -> Vec<(String, Value, Value)> {
    assert!(!expect.why.is_empty(), "an expectation says why it is there");
    let mut checks: Vec<(String, Value, Value)> = Vec::new();
    let mut check = |what: &str, expected: Option<Value>, found: Value| {
        checks.extend(expected.map(|expected| (what.to_owned(), expected, found)));
    };
    let text = summary["text"].as_str().unwrap_or_default();
    check("text", expect.text.clone().map(Value::from), summary["text"].clone());
    let head = |wanted: &String| text.get(..wanted.len()).unwrap_or(text).to_owned();
    let tail =
        |wanted: &String| text.get(text.len().saturating_sub(wanted.len())..).unwrap_or(text).to_owned();
    check(
        "the beginning of text",
        expect.text_starts.clone().map(Value::from),
        expect.text_starts.as_ref().map(head).into(),
    );
    check(
        "the end of text",
        expect.text_ends.clone().map(Value::from),
        expect.text_ends.as_ref().map(tail).into(),
    );
    check("bytes of text", expect.text_bytes.map(Value::from), text.len().into());
    check("all_text", expect.all_text.clone().map(Value::from), summary["all_text"].clone());
    check("outcome", expect.outcome.clone().map(Value::from), summary["outcome"].clone());
    check(
        "native_session",
        expect.native_session.clone().map(Value::from),
        summary["native_session"].clone(),
    );
    check("model", expect.model.clone().map(Value::from), summary["model"].clone());
    let usage = &summary["usage"];
    let counts = if usage["source"] == "reported" {
        ["input", "output", "cache_read", "cache_write"].iter().map(|key| usage[*key].clone()).collect()
    } else {
        Vec::new()
    };
    check("usage", expect.usage.clone().map(Value::from), counts.into());
    let rounded = |cost: f64| json!((cost * 1e6).round() / 1e6);
    check(
        "cost_usd",
        expect.cost_usd.map(rounded),
        summary["cost_usd"].as_f64().map_or(Value::Null, rounded),
    );
    check("tools", expect.tools.map(Value::from), summary["tools"].clone());
    check("unrecognized", expect.unrecognized.map(Value::from), summary["unrecognized"].clone());
    let failure = &summary["failure"];
    let kind = failure["category"]
        .as_str()
        .zip(failure["code"].as_str())
        .map_or(String::new(), |(category, code)| format!("{category}/{code}"));
    check("failure", expect.failure.clone().map(Value::from), kind.into());
    if let Some(part) = &expect.message {
        let message = failure["message"].as_str().unwrap_or_default();
        let found = if message.contains(part.as_str()) { part.clone() } else { message.to_owned() };
        check("message", Some(part.clone().into()), found.into());
    }
    check("retry_after_ms", expect.retry_after_ms.map(Value::from), failure["retry_after_ms"].clone());
    check("resets_at", expect.resets_at.clone().map(Value::from), failure["resets_at"].clone());
    let count = |kind: &str| summary["events"].get(kind).cloned().unwrap_or(json!(0));
    check("turns", expect.turns.map(Value::from), count("turn_ended"));
    for (kind, expected) in &expect.events {
        check(kind, Some((*expected).into()), count(kind));
    }
    checks.retain(|(_, expected, found)| expected != found);
    checks
}
