//! MCP elicitation: a form that an MCP server wants filled in. Codex and ACP agents pass it on in the same shape.
//!
//! A form is one question. The answers go to its fields in the alphabetical order of their names, because a JSON object has no
//! order. claude-agent-acp 0.99.1 adds a field for another answer to each field with choices: such a form has one field that counts.

use bowline_protocol::Excerpt;
use serde_json::{Map, Value};

/// The maximum number of fields and choices that are read.
const LIMIT: usize = 64;

/// Returns the text of the question. If the form has several fields, their names follow in the order of the answers.
pub(crate) fn text(message: &str, schema: &Value) -> String {
    let names: Vec<&str> = fields(schema).map(|(name, _)| name.as_str()).collect();
    if names.len() > 1 && main_field(schema).is_none() {
        format!("{message}\n({})", names.join(", "))
    } else {
        message.to_owned()
    }
}

/// Returns the choices, and whether several may be taken. Only a form with one field that counts has choices that can be shown as
/// such.
pub(crate) fn choices(schema: &Value) -> (Vec<String>, bool) {
    let Some((_, field)) = main_field(schema) else { return (Vec::new(), false) };
    (choices_of(field), field.get("items").is_some())
}

/// Returns the choices of a field: plain, or with a title each.
fn choices_of(field: &Value) -> Vec<String> {
    let list = |paths: &[&str]| paths.iter().find_map(|path| field.pointer(path)?.as_array()).cloned();
    let plain_ones = list(&["/enum", "/items/enum"]).unwrap_or_default();
    let titled = list(&["/oneOf", "/anyOf", "/items/oneOf", "/items/anyOf"]).unwrap_or_default();
    let titled = titled.iter().filter_map(|choice| choice.get("const"));
    plain_ones.iter().chain(titled).take(LIMIT).map(plain).collect()
}

/// Returns the content of the form with these answers. Fields behind the last answer are left out.
pub(crate) fn content(schema: &Value, answers: &[String]) -> Value {
    if let Some((name, field)) = main_field(schema).filter(|(_, field)| field.get("items").is_some()) {
        let values = answers.iter().map(|answer| value(field.get("items").unwrap_or(&Value::Null), answer));
        return Value::Object([(name.clone(), values.collect())].into_iter().collect());
    }
    let filled =
        fields(schema).zip(answers).map(|((name, field), answer)| (name.clone(), value(field, answer)));
    Value::Object(filled.collect::<Map<_, _>>())
}

/// Returns why a form does not take these answers. The server would reject them, and the question would be over.
pub(crate) fn refusal(schema: &Value, answers: &[String]) -> Option<&'static str> {
    let count = fields(schema).count();
    // A form without fields is accepted or declined.
    if count == 0 {
        return None;
    }
    if let Some(items) = main_field(schema).and_then(|(_, field)| field.get("items")) {
        return answers.iter().find_map(|answer| wrong(items, answer));
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|all| all.iter().any(|it| it == name.as_str()));
    if answers.len() > count {
        return Some(if count == 1 {
            "the question takes one answer"
        } else {
            "there are more answers than fields"
        });
    }
    if fields(schema).skip(answers.len()).any(|(name, _)| is_required(name)) {
        return Some("the form needs an answer for each of its fields");
    }
    fields(schema).zip(answers).find_map(|((_, field), answer)| wrong(field, answer))
}

/// Returns why a field does not take an answer.
fn wrong(field: &Value, answer: &str) -> Option<&'static str> {
    let choices = choices_of(field);
    // A list of this length may have been cut.
    if !choices.is_empty() && choices.len() < LIMIT && !choices.iter().any(|choice| choice == answer) {
        return Some("the answer is none of the choices");
    }
    let value = value(field, answer);
    match field.get("type").and_then(Value::as_str) {
        Some("boolean") if !value.is_boolean() => Some("the answer is `true` or `false`"),
        Some("integer") if !value.is_i64() && !value.is_u64() => Some("the answer is a whole number"),
        Some("number") if !value.is_number() => Some("the answer is a number"),
        Some(_) | None => None,
    }
}

/// Reads the answers in the response to a form: none if it was declined.
pub(crate) fn answers(response: &Value) -> Vec<String> {
    let accepted = response.get("action").and_then(Value::as_str) == Some("accept");
    let content = response.get("content").and_then(Value::as_object).filter(|_| accepted);
    let values = content.into_iter().flat_map(Map::values);
    let flat = values.flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
    flat.take(LIMIT).map(plain).collect()
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten().take(LIMIT)
}

/// Returns the field that the question is about: the only one, or the first one if only it has choices and no other is required.
fn main_field(schema: &Value) -> Option<(&String, &Value)> {
    let mut fields = fields(schema);
    let first = fields.next()?;
    let mut others = fields.peekable();
    if others.peek().is_none() {
        return Some(first);
    }
    let required = |name: &str| {
        let list = schema.get("required").and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|it| it.as_str() == Some(name)))
    };
    let counts = others.any(|(name, field)| required(name) || !choices_of(field).is_empty());
    (!counts && !choices_of(first.1).is_empty()).then_some(first)
}

/// Writes an answer in the type of its field. If it does not have that type, it stays text, and the server rejects it.
fn value(field: &Value, answer: &str) -> Value {
    let read = match field.get("type").and_then(Value::as_str) {
        Some("boolean" | "integer" | "number") => serde_json::from_str::<Value>(answer).ok(),
        Some(_) | None => None,
    };
    read.filter(|value| value.is_boolean() || value.is_number()).unwrap_or_else(|| answer.into())
}

fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Excerpt::with_limit(&text, 4096).text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_fill_the_fields_in_their_order_and_type() {
        let schema = json!({ "type": "object", "properties": {
            "size": { "type": "integer" }, "colour": { "type": "string" }, "dry": { "type": "boolean" },
        } });
        assert_eq!(text("Which?", &schema), "Which?\n(colour, dry, size)");
        assert_eq!(choices(&schema), (vec![], false));
        let given = ["7", "true", "7"].map(str::to_owned);
        assert_eq!(content(&schema, &given), json!({ "colour": "7", "dry": true, "size": 7 }));
        assert_eq!(content(&schema, &given[..1]), json!({ "colour": "7" }));
        let wrong = ["red", "perhaps"].map(str::to_owned);
        assert_eq!(content(&schema, &wrong), json!({ "colour": "red", "dry": "perhaps" }));
    }

    #[test]
    fn answers_that_the_server_would_reject_are_refused() {
        let schema = json!({ "properties": {
            "colour": { "type": "string", "enum": ["red", "blue"] }, "dry": { "type": "boolean" }, "size": { "type": "integer" },
        }, "required": ["colour", "dry"] });
        let one = json!({ "properties": { "name": { "type": "string" } }, "required": ["name"] });
        let many = json!({ "properties": { "sizes": { "type": "array", "items": { "type": "integer", "enum": [1, 2] } } } });
        for (schema, answers, why) in [
            (&schema, &["red", "true", "7"][..], None),
            (&schema, &["red", "true"], None),
            (&schema, &["green", "true"], Some("the answer is none of the choices")),
            (&schema, &["red", "perhaps"], Some("the answer is `true` or `false`")),
            (&schema, &["red", "true", "7.5"], Some("the answer is a whole number")),
            (&schema, &["red"], Some("the form needs an answer for each of its fields")),
            (&schema, &["red", "true", "7", "8"], Some("there are more answers than fields")),
            (&one, &["dark", "blue"], Some("the question takes one answer")),
            (&one, &["dark blue"], None),
            (&many, &["1", "2"], None),
            (&many, &["1", "3"], Some("the answer is none of the choices")),
            (&Value::Null, &["yes"], None),
        ] {
            let answers: Vec<String> = answers.iter().map(|&it| it.to_owned()).collect();
            assert_eq!(refusal(schema, &answers), why, "{answers:?} for {schema}");
        }
    }

    #[test]
    fn a_form_with_one_field_has_choices() {
        let one = json!({ "properties": { "colour": { "type": "string", "enum": ["red", "blue"] } } });
        assert_eq!(choices(&one), (vec!["red".to_owned(), "blue".to_owned()], false));
        assert_eq!(text("Which?", &one), "Which?");
        let many = json!({ "properties": { "sizes": { "type": "array", "items": { "type": "integer", "enum": [1, 2] } } } });
        assert_eq!(choices(&many), (vec!["1".to_owned(), "2".to_owned()], true));
        let filled = content(&many, &["1".to_owned(), "2".to_owned()]);
        assert_eq!(filled, json!({ "sizes": [1, 2] }));
        assert_eq!(answers(&json!({ "action": "accept", "content": filled })), ["1", "2"]);
        assert!(answers(&json!({ "action": "decline", "content": null })).is_empty());
        assert_eq!(content(&Value::Null, &[]), json!({}));
    }

    #[test]
    fn a_field_for_another_answer_is_no_second_question() {
        // As claude-agent-acp 0.99.1 asks.
        let choices_of = |list: &str| json!({ list: [{ "const": "Red", "title": "Red", "description": "warm" }, { "const": "Blue", "title": "Blue" }] });
        let mut one = choices_of("oneOf");
        one["type"] = json!("string");
        let other = json!({ "type": "string", "title": "Other" });
        let form = json!({ "properties": { "question_0": one, "question_0_custom": other } });
        let both = vec!["Red".to_owned(), "Blue".to_owned()];
        assert_eq!((text("Which?", &form), choices(&form)), ("Which?".to_owned(), (both.clone(), false)));
        assert_eq!(content(&form, &["Blue".to_owned()]), json!({ "question_0": "Blue" }));
        let many = json!({ "type": "array", "items": choices_of("anyOf") });
        let form = json!({ "properties": { "question_0": many, "question_0_custom": other } });
        assert_eq!(choices(&form), (both.clone(), true));
        assert_eq!(content(&form, &both), json!({ "question_0": ["Red", "Blue"] }));
        // Two questions, and a second field that is needed.
        let two = json!({ "properties": { "question_0": one, "question_1": one } });
        assert_eq!(choices(&two), (vec![], false));
        let needed = json!({ "properties": { "a": one, "b": other }, "required": ["b"] });
        assert_eq!((choices(&needed), text("?", &needed)), ((vec![], false), "?\n(a, b)".to_owned()));
    }
}
