//! Generates JSON that satisfies a JSON Schema, as far as programs use it: for answers with a required form.

use serde_json::{Map, Value, json};

/// The depth limit; a schema that refers to itself ends here.
const DEPTH: usize = 12;

/// Generates a value for a schema. Optional fields are left out.
pub(crate) fn fill(schema: &Value) -> Value {
    value(schema, schema, DEPTH)
}

fn value(root: &Value, schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    if let Some(target) = schema["$ref"].as_str() {
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or(Value::Null, |found| value(root, found, depth - 1));
    }
    if let Some(constant) = schema.get("const") {
        return constant.clone();
    }
    for choices in ["enum", "examples"] {
        if let Some(first) = schema[choices].as_array().and_then(|list| list.first()) {
            return first.clone();
        }
    }
    for choices in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[choices].as_array().and_then(|list| list.first()) {
            return value(root, first, depth - 1);
        }
    }
    // A list of types has the intended one first, and `null` after it.
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    // One API writes its types in upper case.
    match kind.map(str::to_ascii_lowercase).as_deref() {
        Some("string") => string(schema),
        Some("integer" | "number") => number(schema),
        Some("boolean") => json!(true),
        Some("array") => {
            let wanted = schema["minItems"].as_u64().unwrap_or(1).min(16);
            let items = (0..wanted).map(|_| value(root, &schema["items"], depth - 1));
            Value::Array(items.filter(|item| !item.is_null()).collect())
        }
        Some("null") => Value::Null,
        _ => object(root, schema, depth),
    }
}

fn object(root: &Value, schema: &Value, depth: usize) -> Value {
    let Some(properties) = schema["properties"].as_object() else { return json!({}) };
    let required: Option<Vec<&str>> =
        schema["required"].as_array().map(|names| names.iter().filter_map(Value::as_str).collect());
    let wanted = |name: &str| required.as_ref().is_none_or(|names| names.contains(&name));
    let fields = properties.iter().filter(|(name, _)| wanted(name));
    Value::Object(fields.map(|(name, it)| (name.clone(), value(root, it, depth - 1))).collect::<Map<_, _>>())
}

fn string(schema: &Value) -> Value {
    match schema["format"].as_str() {
        Some("date-time") => json!("2026-01-01T00:00:00Z"),
        Some("date") => json!("2026-01-01"),
        Some("uri") => json!("https://example.org/"),
        Some("email") => json!("someone@example.org"),
        _ => {
            let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(0)).unwrap_or(0).min(4096);
            json!(format!("{:x<least$}", "simulated"))
        }
    }
}

fn number(schema: &Value) -> Value {
    let least = &schema["minimum"];
    if least.is_number() { least.clone() } else { json!(schema["maximum"].as_i64().unwrap_or(42).min(42)) }
}
