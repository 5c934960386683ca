//! The JSON Schema of the protocol. `cargo xtask schema` writes it to `docs/schema/bowline.schema.json`.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// Returns the schema of one kind's fields.
pub(crate) type KindSchema = fn(&mut SchemaGenerator) -> Schema;

/// Returns the schema file: the schema of an event, with the other types of the protocol in its `$defs`.
pub fn document() -> String {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<crate::Request>();
    generator.subschema_for::<crate::Capabilities>();
    let mut schema = generator.into_root_schema_for::<crate::Event>();
    schema.insert("title".into(), "One line of events.jsonl".into());
    schema.insert("description".into(), "Something that happened in a session.".into());
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}

/// Returns the schema of [`crate::Kind`]: the fields of each kind with its `type`, or an object of an unlisted type.
pub(crate) fn kind(generator: &mut SchemaGenerator, parts: &[(&str, &str, KindSchema)]) -> Schema {
    let types: Vec<&str> = parts.iter().map(|(tag, ..)| *tag).collect();
    let mut variants: Vec<Value> = parts
        .iter()
        .map(|(tag, doc, part)| {
            let mut schema = part(generator);
            schema.insert("description".into(), doc.trim().into());
            if !schema.get("properties").is_some_and(Value::is_object) {
                schema.insert("properties".into(), Value::Object(serde_json::Map::new()));
            }
            if let Some(Value::Object(properties)) = schema.get_mut("properties") {
                properties.insert("type".into(), serde_json::json!({ "const": tag }));
            }
            let mut required = vec![Value::from("type")];
            if let Some(Value::Array(fields)) = schema.get("required") {
                required.extend(fields.iter().cloned());
            }
            schema.insert("required".into(), required.into());
            schema.to_value()
        })
        .collect();
    variants.push(serde_json::json!({
        "description": "A kind of a newer version. Readers keep it.",
        "type": "object",
        "properties": { "type": { "type": "string", "not": { "enum": types } } },
        "required": ["type"],
    }));
    json_schema!({ "description": "What happened.", "oneOf": variants })
}
