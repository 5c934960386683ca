//! The forms of MCP servers: what an elicitation asks for, and how answers fill it in.

use serde_json::{Map, Value, json};

use super::super::wire::{ClaudeObject, text};

/// A field of a form.
#[derive(Debug)]
pub(in super::super) struct FormField {
    name: String,
    /// The type of its values in the form's JSON Schema.
    sort: String,
    /// The values that it may have. Empty if it may have any.
    choices: Vec<String>,
}

/// Reads the fields of a form, in the order in which the server wants them shown.
pub(in super::super) fn fields(request: &ClaudeObject<'_>) -> Vec<FormField> {
    let schema = request.object("requested_schema").unwrap_or_default();
    let properties = schema.object("properties").unwrap_or_default();
    let ordered = request.array("property_order").into_iter().filter_map(text).map(String::from);
    let mut names: Vec<String> = ordered.collect();
    let others: Vec<String> = properties.fields().map(|(name, _)| name.to_owned()).collect();
    names.extend(others.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    let field = |name: String| {
        let property = properties.object(&name).unwrap_or_default();
        // The choices of a list are those of its items.
        let items = property.object("items").unwrap_or_default();
        let choices = property.array("enum").into_iter().chain(items.array("enum"));
        let choices = choices.map(shown).collect();
        FormField { name, sort: property.text_or_empty("type").into_owned(), choices }
    };
    names.into_iter().map(field).collect()
}

/// Returns the text of a form, with the names of its fields if there are several: the answers have this order.
pub(super) fn question(message: &str, fields: &[FormField]) -> String {
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    if names.len() > 1 { format!("{message}\n({})", names.join(", ")) } else { message.to_owned() }
}

/// Returns the choices of a form with one field, and whether several may be taken.
pub(super) fn choices(fields: &[FormField]) -> (Vec<String>, bool) {
    let [only] = fields else { return (Vec::new(), false) };
    (only.choices.clone(), only.sort == "array")
}

/// Returns the values of a form that was filled in.
pub(super) fn values(content: &ClaudeObject<'_>) -> Vec<String> {
    content.fields().map(|(_, value)| shown(value)).collect()
}

fn shown(value: &serde_json::value::RawValue) -> String {
    text(value).map_or_else(|| value.get().to_owned(), std::borrow::Cow::into_owned)
}

/// Fills in a form: one answer for each field, or one JSON object with all of them.
pub(in super::super) fn filled(
    fields: &[FormField],
    answers: &[String],
) -> Result<Map<String, Value>, &'static str> {
    if let [only] = answers
        && let Ok(whole) = serde_json::from_str::<Map<String, Value>>(only)
    {
        return Ok(whole);
    }
    if let [field] = fields
        && field.sort == "array"
    {
        return Ok([(field.name.clone(), json!(answers))].into_iter().collect());
    }
    if fields.len() != answers.len() {
        return Err("give one answer for each field of the form, in their order, or one JSON object");
    }
    let fill = |(field, answer): (&FormField, &String)| Some((field.name.clone(), field.value(answer)?));
    let filled: Option<Map<String, Value>> = fields.iter().zip(answers).map(fill).collect();
    filled.ok_or("an answer does not have the type that its field of the form wants")
}

impl FormField {
    /// Returns an answer as a value of the field's type; nothing if it cannot be one.
    fn value(&self, answer: &str) -> Option<Value> {
        let value = || serde_json::from_str::<Value>(answer.trim()).ok();
        match self.sort.as_str() {
            "integer" => value().filter(|value| value.is_i64() || value.is_u64()),
            "number" => value().filter(Value::is_number),
            "boolean" => match answer.trim() {
                "yes" => Some(json!(true)),
                "no" => Some(json!(false)),
                _ => value().filter(Value::is_boolean),
            },
            "array" => value().filter(Value::is_array).or_else(|| Some(json!([answer]))),
            "object" => value().filter(Value::is_object),
            _ => Some(json!(answer)),
        }
    }
}
