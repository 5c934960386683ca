//! A value for a JSON Schema: the smallest that satisfies the usual keywords for answers.

use serde_json::{Map, Value, json};

/// The depth limit of references. A schema may refer to itself.
const DEEPEST: usize = 8;

/// Returns a value of a schema. Keywords besides `$ref` within the schema, `const`, `enum`, `type`, `properties`, `required`,
/// `items`, the lower bounds and `anyOf`, `oneOf`, `allOf` are ignored.
pub(crate) fn sample(schema: &Value) -> Value {
    Sampler { root: schema }.value(schema, 0)
}

/// Generates values; references are looked up in the whole schema.
struct Sampler<'a> {
    root: &'a Value,
}

impl Sampler<'_> {
    fn value(&self, schema: &Value, depth: usize) -> Value {
        if let Some(place) = schema.get("$ref").and_then(Value::as_str) {
            let target = place.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let target = target.filter(|_| depth < DEEPEST);
            return target.map_or_else(|| json!({}), |target| self.value(target, depth + 1));
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
            return first.clone();
        }
        for several in ["anyOf", "oneOf", "allOf"] {
            if let Some(first) = schema[several].as_array().and_then(|schemas| schemas.first()) {
                return self.value(first, depth);
            }
        }
        let kind = &schema["type"];
        let kind = kind.as_array().map_or(Some(kind), |kinds| kinds.first()).and_then(Value::as_str);
        let least = |key: &str| usize::try_from(schema[key].as_u64().unwrap_or(0)).unwrap_or(0);
        match kind {
            Some("object") => self.object(schema, depth),
            Some("array") if least("minItems") == 0 => json!([]),
            Some("array") => Value::from(vec![self.value(&schema["items"], depth); least("minItems")]),
            Some("string") => Value::from("practice".repeat(least("minLength").div_ceil(8).max(1))),
            Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
            Some("boolean") => json!(true),
            Some("null") => Value::Null,
            _ if schema["properties"].is_object() => self.object(schema, depth),
            _ => json!({}),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object().into_iter().flatten();
        // Inside a reference, optional fields are left out: they may refer to the same schema again.
        let wanted = properties.filter(|(name, _)| depth == 0 || required.contains(&name.as_str()));
        let mut object: Map<String, Value> =
            wanted.map(|(name, schema)| (name.clone(), self.value(schema, depth))).collect();
        for name in required {
            object.entry(name).or_insert_with(|| json!({}));
        }
        Value::from(object)
    }
}

#[test]
fn references_are_followed_and_end() {
    let schema = json!({"type": "object", "required": ["verdict", "tree"],
        "properties": {"verdict": {"$ref": "#/$defs/Verdict"}, "tree": {"$ref": "#/$defs/Tree"}, "lost": {"$ref": "#/no"}},
        "$defs": {"Verdict": {"type": "string", "enum": ["good", "bad"]},
            "Tree": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"},
                "left": {"$ref": "#/$defs/Tree"}, "right": {"$ref": "#/$defs/Tree"}}}}});
    assert_eq!(sample(&schema), json!({"verdict": "good", "tree": {"name": "practice"}, "lost": {}}));
    // Give up on a schema that requires itself.
    let endless = json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
    assert!(sample(&endless).to_string().len() < 1000);
}

#[test]
fn a_value_has_what_its_schema_wants() {
    let schema = json!({"type": "object", "required": ["name", "any"], "properties": {"name": {"type": "string"},
        "age": {"type": "integer", "minimum": 3}, "tags": {"type": "array", "minItems": 2, "items": {"enum": ["a", "b"]}},
        "ok": {"type": ["boolean", "null"]}, "kind": {"const": "x"}, "or": {"anyOf": [{"type": "null"}]}}});
    let expected = json!({"name": "practice", "any": {}, "age": 3, "tags": ["a", "a"], "ok": true, "kind": "x", "or": null});
    assert_eq!(sample(&schema), expected);
}
