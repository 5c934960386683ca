//! Content that is a text or a list of parts, as several APIs have it.

use serde_json::Value;

/// Returns the parts of a content. A bare string is one part.
pub(super) fn parts(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts.clone(),
        Value::String(text) => vec![serde_json::json!({ "type": "text", "text": text })],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Returns the texts of a content, each on lines of its own.
pub(super) fn text(content: &Value) -> String {
    let parts = parts(content);
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n")
}

/// Adds a text to the texts that make up the system prompt.
pub(super) fn add(system: &mut String, text: &str) {
    if !system.is_empty() && !text.is_empty() {
        system.push('\n');
    }
    system.push_str(text);
}

/// Splits a text into pieces of this many characters.
pub(super) fn pieces(text: &str, size: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}
