//! The differences of two reports, in words.

use super::*;
use crate::report::{FORMAT, ReportCell};

fn report(version: &str) -> Report {
    Report {
        format: FORMAT,
        provider: "agent".to_owned(),
        title: "Agent".to_owned(),
        version: Some(version.to_owned()),
        program: "/bin/agent".to_owned(),
        adapter_version: "1".to_owned(),
        bowline: "1".to_owned(),
        at: jiff::Timestamp::UNIX_EPOCH,
        system: "linux".to_owned(),
        suite: "full".to_owned(),
        isolation: String::new(),
        took_ms: 0,
        cells: vec![cell("text", CaseStatus::Green), cell("usage", CaseStatus::Green)],
        flags: BTreeMap::from([("--help".to_owned(), BTreeSet::from(["--model".to_owned()]))]),
        kinds: BTreeMap::from([("text_delta".to_owned(), 3)]),
        vocabulary: BTreeSet::from(["result.text".to_owned()]),
        novel: BTreeSet::new(),
        drift: None,
    }
}

fn cell(case: &str, status: CaseStatus) -> ReportCell {
    let (case, about) = (case.to_owned(), String::new());
    ReportCell { case, about, status, reason: None, evidence: Vec::new(), took_ms: 1 }
}

fn words(before: &Report, now: &Report) -> Vec<String> {
    drift(before, now).iter().map(ToString::to_string).collect()
}

#[test]
fn the_same_report_has_no_drift() {
    assert_eq!(words(&report("1.0"), &report("1.0")), Vec::<String>::new());
}

#[test]
fn everything_that_changed_is_named() {
    let mut now = report("1.1");
    now.flags = BTreeMap::from([("--help".to_owned(), BTreeSet::from(["--agent".to_owned()]))]);
    now.cells = vec![cell("text", CaseStatus::Red), cell("image", CaseStatus::Green)];
    now.kinds.insert("thinking_delta".to_owned(), 1);
    now.vocabulary = BTreeSet::from(["result.cost".to_owned()]);
    assert_eq!(
        words(&report("1.0"), &now),
        [
            "version 1.0 -> 1.1",
            "option --model of `--help` is gone",
            "option --agent of `--help` is new",
            "case image: not tried -> green",
            "case text: green -> red",
            "event `thinking_delta` was not seen before",
            "field `result.cost` was not seen before",
        ]
    );
}

#[test]
fn two_programs_are_not_compared() {
    let mut other = report("1.0");
    other.provider = "another".to_owned();
    assert_eq!(words(&report("1.0"), &other), ["the reports are about agent and another"]);
}
