//! The output of Gemini CLI: only the fields that are needed.
//!
//! Pieces of text are read strictly and borrow from the line. Everything else is rare, and read so that a field of an
//! unexpected kind loses only itself.

use std::borrow::Cow;

use bowline_protocol::Usage;
use serde::Deserialize;
use serde_json::Value;

/// A piece of the answer: `{"type":"message","role":"assistant","content":"Hel","delta":true}`.
#[derive(Debug, Deserialize)]
pub(super) struct GeminiPiece<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Cow<'a, str>,
    delta: bool,
}

/// Reads a line that is a piece of the answer; any other line is not one.
pub(super) fn piece(line: &str) -> Option<Cow<'_, str>> {
    // A derived reader would take an array for an object, so the brace is looked for first.
    if !line.starts_with('{') {
        return None;
    }
    let piece: GeminiPiece<'_> = serde_json::from_str(line).ok()?;
    (piece.type_name == "message" && piece.role == "assistant" && piece.delta).then_some(piece.content)
}

/// Any line. Anything may be missing or of another kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GeminiLine {
    #[serde(rename = "type")]
    pub(super) type_name: Value,
    pub(super) session_id: Value,
    pub(super) model: Value,
    pub(super) role: Value,
    pub(super) content: Value,
    pub(super) delta: Value,
    pub(super) tool_name: Value,
    pub(super) tool_id: Value,
    pub(super) parameters: Value,
    pub(super) status: Value,
    pub(super) output: Value,
    pub(super) error: Value,
    pub(super) severity: Value,
    pub(super) message: Value,
    pub(super) stats: Value,
}

/// The usage of a run, and its model if it was only one.
#[derive(Debug, PartialEq)]
pub(super) struct GeminiUsage {
    pub(super) usage: Usage,
    pub(super) model: Option<String>,
}

/// Reads the `stats` of a result line.
///
/// `input_tokens` holds the cached ones. Thoughts are in no field of their own, only in the total.
pub(super) fn stream_stats(stats: &Value) -> Option<GeminiUsage> {
    let count = |key: &str| stats.get(key).and_then(Value::as_u64);
    let (prompt, output) = (count("input_tokens")?, count("output_tokens")?);
    let cached = count("cached").unwrap_or(0).min(prompt);
    // Thoughts are billed as output, so they count there.
    let thoughts = count("total_tokens").unwrap_or(0).saturating_sub(prompt.saturating_add(output));
    let usage = Usage {
        input: prompt - cached,
        output: output.saturating_add(thoughts),
        cache_read: cached,
        cache_write: 0,
        reasoning: (thoughts > 0).then_some(thoughts),
    };
    let used = |model: &Value| model.get("total_tokens").and_then(Value::as_u64);
    Some(GeminiUsage { usage, model: only_model(stats, used) })
}

/// Reads the `stats` of the JSON object: the tokens of all models. Their roles are parts of the same tokens.
pub(super) fn document_stats(stats: &Value) -> Option<GeminiUsage> {
    let models = stats.get("models")?.as_object()?;
    let mut usage = Usage::default();
    for tokens in models.values().filter_map(|model| model.get("tokens")) {
        let count = |key: &str| tokens.get(key).and_then(Value::as_u64).unwrap_or(0);
        let cached = count("cached").min(count("prompt"));
        let thoughts = count("thoughts");
        usage = usage.plus(&Usage {
            // Tool output in the prompt is counted beside it.
            input: (count("prompt") - cached).saturating_add(count("tool")),
            output: count("candidates").saturating_add(thoughts),
            cache_read: cached,
            cache_write: 0,
            reasoning: (thoughts > 0).then_some(thoughts),
        });
    }
    let used = |model: &Value| model.get("tokens")?.get("total")?.as_u64();
    (!models.is_empty()).then(|| GeminiUsage { usage, model: only_model(stats, used) })
}

/// Returns the model that used tokens, if it was only one: the router's model is on the same list.
fn only_model(stats: &Value, used: impl Fn(&Value) -> Option<u64>) -> Option<String> {
    let models = stats.get("models")?.as_object()?;
    let mut busy = models.iter().filter(|(_, model)| used(model).is_some_and(|tokens| tokens > 0));
    match (busy.next(), busy.next()) {
        (Some((name, _)), None) => Some(name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_pieces_of_the_answer_are_pieces() {
        let line = r#"{"type":"message","timestamp":"t","role":"assistant","content":"a\nb","delta":true}"#;
        assert_eq!(piece(line).as_deref(), Some("a\nb"));
        for other in [
            r#"{"type":"message","role":"user","content":"a","delta":true}"#,
            r#"{"type":"message","role":"assistant","content":"a","delta":false}"#,
            r#"{"type":"message","role":"assistant","content":"a"}"#,
            r#"{"type":"message","role":"assistant","content":["a"],"delta":true}"#,
            r#"{"type":"message","role":"assistant","content":"a","content":"b","delta":true}"#,
            r#"["message","assistant","a",true]"#,
        ] {
            assert_eq!(piece(other), None, "{other}");
        }
    }

    #[test]
    fn several_models_are_added_and_none_is_named() {
        let tokens = |prompt: u64| {
            json!({"tokens": {"prompt": prompt, "candidates": 2, "total": prompt + 5,
            "cached": 1, "thoughts": 3, "tool": 0}})
        };
        let stats = json!({"models": {"a": tokens(10), "b": tokens(20)}});
        let usage = Usage { input: 28, output: 10, cache_read: 2, cache_write: 0, reasoning: Some(6) };
        assert_eq!(document_stats(&stats), Some(GeminiUsage { usage, model: None }));
        assert_eq!(document_stats(&json!({"models": {}})), None);
        assert_eq!(document_stats(&json!(7)), None);
        assert_eq!(stream_stats(&json!({"input_tokens": "many"})), None);
    }
}
