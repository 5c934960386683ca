//! Every kind with every field, written and read back; and unknown kinds.

use bowline_protocol::{Event, Kind, Subject};
use serde_json::{Value, json};

/// One line for each kind, every optional field filled in.
const EVERY_KIND: &str = include_str!("../fixtures/events.jsonl");

#[test]
fn every_kind_is_in_the_fixture_and_comes_back_as_it_went_in() {
    let mut types = Vec::new();
    for line in EVERY_KIND.lines() {
        let event: Event = serde_json::from_str(line).expect(line);
        assert!(!matches!(event.kind, Kind::Unknown(_)), "{line}");
        assert_eq!(
            serde_json::to_string(&event).expect("writes"),
            line,
            "byte for byte, order of fields included"
        );
        types.push(event.kind.type_name().to_owned());
    }
    assert_eq!(types, Kind::TYPES, "the fixture has each kind once, in the order of the list");
}

/// Other crates skip kinds by their subject, so a moved kind changes what they do.
#[test]
fn the_kinds_that_pass_text_by_are_about_tools_and_usage() {
    let of = |subject: Subject| -> Vec<String> {
        let events = EVERY_KIND.lines().map(|line| serde_json::from_str::<Event>(line).expect(line));
        events.filter(|it| it.kind.subject() == subject).map(|it| it.kind.type_name().to_owned()).collect()
    };
    assert_eq!(of(Subject::Turn), ["turn_started", "turn_ended"]);
    assert_eq!(of(Subject::Tool), ["tool_started", "tool_updated", "tool_finished"]);
    assert_eq!(of(Subject::Usage), ["limit_reported", "usage_reported", "usage_tick", "context_gauge"]);
    assert_eq!(
        of(Subject::Message),
        ["user_message", "text_delta", "text_retracted", "message_finished", "thinking_delta"]
    );
    let newer: Kind = serde_json::from_str(r#"{"type":"moon_phase"}"#).expect("kept");
    assert_eq!(newer.subject(), Subject::Stream);
}

#[test]
fn the_type_need_not_stand_first() {
    for line in EVERY_KIND.lines() {
        // A tree sorts its keys, so `type` is not first; large integers would not survive it.
        let mut value: Value = serde_json::from_str(line).expect("JSON");
        value["kind"]["input"] = json!({"command": "ls"});
        value["kind"]["type"] = value["kind"]["type"].take();
        let sorted: Event = serde_json::from_str(&value.to_string()).expect(line);
        let kind = serde_json::to_string(&sorted.kind).expect("writes");
        assert!(kind.starts_with("{\"type\":"), "{kind}");
        assert!(!matches!(sorted.kind, Kind::Unknown(_)), "{line}");
    }
}

#[test]
fn a_reader_keeps_kinds_that_it_does_not_know() {
    for kind in [
        json!({"type": "moon_phase", "phase": "full", "nested": {"a": [1, 2, {"b": null}]}}),
        json!({"aaa": 1, "type": "moon_phase"}),
        json!({"type": "moon_phase"}),
    ] {
        let line = json!({"v": 2, "seq": 1, "at": "2026-11-15T08:00:00Z", "session": "s", "source": "agent", "kind": kind});
        let event: Event = serde_json::from_str(&line.to_string()).expect("kept");
        assert_eq!(event.kind.type_name(), "moon_phase");
        assert_eq!(serde_json::to_value(&event).expect("writes"), line);
    }
}

#[test]
fn an_unknown_kind_is_kept_to_the_letter() {
    let kind = r#"{"type":"moon_phase","z":123456789012345678901234567890,"a":1.50,"n":{"b":1,"a":2}}"#;
    let read: Kind = serde_json::from_str(kind).expect("kept");
    assert_eq!(serde_json::to_string(&read).expect("writes"), kind);
}

#[test]
fn fields_that_a_reader_does_not_know_do_no_harm() {
    let line = r#"{"v":1,"seq":1,"at":"2026-11-15T08:00:00Z","session":"s","source":"agent","new":1,"kind":{"type":"status","status":"x","new":2}}"#;
    let event: Event = serde_json::from_str(line).expect("read");
    assert_eq!(event.kind.type_name(), "status");
}

#[test]
fn other_json_is_an_error_and_no_panic() {
    for line in ["{}", "[]", "null", r#"{"v":1,"seq":1,"at":"x","session":"s","source":"agent","kind":{}}"#] {
        assert!(serde_json::from_str::<Event>(line).is_err(), "{line}");
    }
    assert!(
        serde_json::from_str::<Kind>(r#"{"type":"text_delta"}"#).is_err(),
        "a known kind needs its fields"
    );
    assert!(serde_json::from_str::<Kind>(r#"{"type":5}"#).is_err());
}

#[test]
fn the_page_on_events_has_a_row_for_every_kind() {
    let page = include_str!("../../../../docs/events.md");
    let rows: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|row| row.0)).collect();
    let kinds: Vec<&str> =
        rows.into_iter().filter(|row| !["completed", "failed", "cancelled"].contains(row)).collect();
    assert_eq!(kinds, Kind::TYPES);
}

#[test]
fn the_example_on_the_page_decodes() {
    let page = include_str!("../../../../docs/events.md");
    let example =
        page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    for line in example.lines() {
        let event: Event = serde_json::from_str(line).expect(line);
        assert_eq!(serde_json::to_string(&event).expect("writes"), line);
    }
}
