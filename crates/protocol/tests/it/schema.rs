//! The checked-in JSON Schema equals the generated one, and accepts the JSON that the types write.

use std::sync::LazyLock;

use serde_json::{Value, json};

const CHECKED_IN: &str = include_str!("../../../../docs/schema/bowline.schema.json");

#[test]
fn the_schema_file_is_up_to_date() {
    assert!(
        CHECKED_IN == bowline_protocol::schema::document(),
        "the protocol changed: run `cargo xtask schema`, and look at the difference"
    );
}

/// Returns whether the schema accepts a value as an event.
fn accepts(event: &Value) -> bool {
    static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let schema: Value = serde_json::from_str(CHECKED_IN).expect("JSON");
        jsonschema::validator_for(&schema).expect("a schema")
    });
    VALIDATOR.is_valid(event)
}

#[test]
fn the_other_types_of_the_protocol_are_among_the_definitions() {
    let schema: Value = serde_json::from_str(CHECKED_IN).expect("JSON");
    for name in ["Request", "Capabilities", "Failure", "Usage"] {
        assert!(schema["$defs"][name].is_object(), "{name}");
    }
}

#[test]
fn the_schema_accepts_every_kind_and_newer_ones() {
    for line in include_str!("../fixtures/events.jsonl").lines() {
        let mut event: Value = serde_json::from_str(line).expect("JSON");
        assert!(accepts(&event), "{line}");
        event["kind"]["type"] = "moon_phase".into();
        assert!(accepts(&event), "a newer kind");
        event["kind"] = json!({});
        assert!(!accepts(&event), "a kind without a type");
    }
}

#[test]
fn the_schema_refuses_a_known_kind_without_its_fields() {
    let event = json!({"v": 1, "seq": 1, "at": "2026-11-15T08:00:00Z", "session": "s", "source": "agent",
        "kind": {"type": "text_delta", "message": "m1"}});
    assert!(!accepts(&event));
}

#[test]
fn every_field_is_documented() {
    let schema: Value = serde_json::from_str(CHECKED_IN).expect("JSON");
    let mut missing = Vec::new();
    walk("", &schema, &mut missing);
    assert!(missing.is_empty(), "fields without a description: {missing:?}");
}

/// Collects the properties that have no description, here or in the definition that they refer to.
fn walk(path: &str, value: &Value, missing: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                // A choice with a single property has a description of its own.
                let described = properties.len() == 1 && fields.contains_key("description");
                for (name, property) in properties.iter().filter(|_| !described) {
                    let constant = property.get("const").is_some() || property.get("not").is_some();
                    if property.get("description").is_none() && !constant && name != "type" {
                        missing.push(format!("{path}/{name}"));
                    }
                }
            }
            fields.iter().for_each(|(key, value)| walk(&format!("{path}/{key}"), value, missing));
        }
        Value::Array(values) => values.iter().for_each(|value| walk(path, value, missing)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
