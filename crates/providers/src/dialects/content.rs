//! Where the answer stands in a JSON object that names its fields in one of the usual ways.

use serde_json::{Map, Value};

/// Finds the answer by the priority list of the adapter protocol.
pub(crate) fn find(object: &Map<String, Value>) -> Option<String> {
    let string = |key: &str| object.get(key).and_then(Value::as_str);
    let direct = ["content", "text", "response", "message", "output", "result"].into_iter().find_map(string);
    direct
        .map(str::to_owned)
        .or_else(|| object.get("content").and_then(blocks))
        .or_else(|| choice(object.get("choices")?.get(0)?))
        .or_else(|| nested(object.get("message")?))
        // Beyond the list, in the order in which other adapters look.
        .or_else(|| ["response", "output", "result"].iter().find_map(|key| nested(object.get(*key)?)))
        .or_else(|| conversation(object.get("messages")?))
}

/// Returns whether an object is a line of a structured log, whose message is not an answer.
pub(crate) fn is_log_line(object: &Map<String, Value>) -> bool {
    object.contains_key("level") && (object.contains_key("message") || object.contains_key("msg"))
}

/// Joins the text blocks of an array; strings count as blocks.
pub(crate) fn blocks(content: &Value) -> Option<String> {
    let blocks = content.as_array()?;
    let mut found = None;
    for block in blocks {
        let text = match block {
            Value::String(text) => Some(text.as_str()),
            Value::Object(fields) => match fields.get("type").and_then(Value::as_str) {
                None | Some("text" | "output_text") => fields.get("text").and_then(Value::as_str),
                Some(_) => None,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        };
        if let Some(text) = text {
            found.get_or_insert_with(String::new).push_str(text);
        }
    }
    found
}

/// Returns a text that is a string or an array of blocks.
pub(crate) fn text_of(content: &Value) -> Option<String> {
    content.as_str().map(str::to_owned).or_else(|| blocks(content))
}

fn choice(choice: &Value) -> Option<String> {
    choice
        .get("message")
        .and_then(|message| text_of(message.get("content")?))
        .or_else(|| text_of(choice.get("text")?))
}

fn nested(object: &Value) -> Option<String> {
    let content = object.get("content").and_then(text_of);
    content.or_else(|| object.get("text").and_then(Value::as_str).map(str::to_owned))
}

/// Joins the assistant's text in a list of messages.
fn conversation(messages: &Value) -> Option<String> {
    let said: Vec<String> = messages
        .as_array()?
        .iter()
        .filter(|message| message.get("role").and_then(Value::as_str) == Some("assistant"))
        .filter_map(|message| text_of(message.get("content")?))
        .collect();
    (!said.is_empty()).then(|| said.join("\n"))
}

/// Returns the text of an `error` field. Absent, null, false and empty all mean that there is none.
pub(crate) fn error(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null | Value::Bool(false) => return None,
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let inner = [fields.get("message"), fields.get("data").and_then(|data| data.get("message"))];
            match inner.into_iter().flatten().find_map(Value::as_str) {
                Some(text) => text.to_owned(),
                None if fields.is_empty() => return None,
                None => value.to_string(),
            }
        }
        Value::Bool(true) | Value::Number(_) | Value::Array(_) => value.to_string(),
    };
    (!text.trim().is_empty()).then_some(text)
}
