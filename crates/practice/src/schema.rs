//! A value for a JSON Schema: the smallest that satisfies the keywords that people use for answers.

use serde_json::{Map, Value, json};

/// Returns a value of a schema. Keywords besides `const`, `enum`, `type`, `properties`, `required`, `items`, the lower bounds
/// and `anyOf`, `oneOf`, `allOf` are not looked at.
pub(crate) fn sample(schema: &Value) -> Value {
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[several].as_array().and_then(|schemas| schemas.first()) {
            return sample(first);
        }
    }
    let kind = &schema["type"];
    let kind = kind.as_array().map_or(Some(kind), |kinds| kinds.first()).and_then(Value::as_str);
    let least = |key: &str| usize::try_from(schema[key].as_u64().unwrap_or(0)).unwrap_or(0);
    match kind {
        Some("object") => object(schema),
        Some("array") => Value::from(vec![sample(&schema["items"]); least("minItems")]),
        Some("string") => Value::from("practice".repeat(least("minLength").div_ceil(8).max(1))),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        _ if schema["properties"].is_object() => object(schema),
        _ => json!({}),
    }
}

fn object(schema: &Value) -> Value {
    let properties = schema["properties"].as_object();
    let mut object: Map<String, Value> =
        properties.into_iter().flatten().map(|(name, schema)| (name.clone(), sample(schema))).collect();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        object.entry(name).or_insert_with(|| json!({}));
    }
    Value::from(object)
}

#[test]
fn a_value_has_what_its_schema_wants() {
    let schema = json!({"type": "object", "required": ["name", "any"], "properties": {"name": {"type": "string"},
        "age": {"type": "integer", "minimum": 3}, "tags": {"type": "array", "minItems": 2, "items": {"enum": ["a", "b"]}},
        "ok": {"type": ["boolean", "null"]}, "kind": {"const": "x"}, "or": {"anyOf": [{"type": "null"}]}}});
    let expected = json!({"name": "practice", "any": {}, "age": 3, "tags": ["a", "a"], "ok": true, "kind": "x", "or": null});
    assert_eq!(sample(&schema), expected);
}
