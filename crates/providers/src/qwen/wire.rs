//! The output of Qwen Code: only the fields that are needed.
//!
//! Pieces are read strictly and borrow from the line. Everything else is rare, and read so that a field of an
//! unexpected kind loses only itself.

use std::borrow::Cow;

use bowline_protocol::Usage;
use serde::Deserialize;
use serde_json::Value;

/// A string that borrows from the line where it can, also inside of an `Option`.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct QwenString<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Debug, Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    parent_tool_use_id: Option<QwenString<'a>>,
    #[serde(borrow)]
    event: Event<'a>,
}

#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    delta: QwenDelta<'a>,
}

#[derive(Debug, Deserialize)]
struct QwenDelta<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<QwenString<'a>>,
    #[serde(borrow)]
    thinking: Option<QwenString<'a>>,
    #[serde(borrow)]
    partial_json: Option<QwenString<'a>>,
}

/// A piece of a block.
#[derive(Debug, PartialEq)]
pub(super) struct QwenPiece<'a> {
    pub(super) parent: Option<Cow<'a, str>>,
    pub(super) sort: QwenBlockKind,
    pub(super) text: Cow<'a, str>,
}

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QwenBlockKind {
    Text,
    Thinking,
    /// The arguments of a tool call.
    Tool,
}

/// Reads a line that is a piece of a block; any other line is not one.
pub(super) fn piece(line: &str) -> Option<QwenPiece<'_>> {
    // A derived reader would take an array for an object, so the brace is looked for first.
    if !line.starts_with('{') {
        return None;
    }
    let Envelope { type_name, parent_tool_use_id, event } = serde_json::from_str(line).ok()?;
    if type_name != "stream_event" || event.type_name != "content_block_delta" {
        return None;
    }
    let delta = event.delta;
    let (sort, text) = match delta.type_name.as_ref() {
        "text_delta" => (QwenBlockKind::Text, delta.text?),
        "thinking_delta" => (QwenBlockKind::Thinking, delta.thinking?),
        "input_json_delta" => (QwenBlockKind::Tool, delta.partial_json?),
        _ => return None,
    };
    Some(QwenPiece { parent: parent_tool_use_id.map(|parent| parent.0), sort, text: text.0 })
}

/// Any line. Anything may be missing or of another kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct QwenLine {
    #[serde(rename = "type")]
    pub(super) type_name: Value,
    pub(super) subtype: Value,
    pub(super) session_id: Value,
    pub(super) parent_tool_use_id: Value,
    pub(super) cwd: Value,
    pub(super) tools: Value,
    pub(super) mcp_servers: Value,
    pub(super) model: Value,
    // Old versions wrote `permissionMode`.
    #[serde(alias = "permissionMode")]
    pub(super) permission_mode: Value,
    pub(super) qwen_code_version: Value,
    pub(super) data: Value,
    pub(super) compact_metadata: Value,
    pub(super) message: Value,
    pub(super) event: Value,
    pub(super) is_error: Value,
    pub(super) duration_ms: Value,
    pub(super) result: Value,
    pub(super) structured_result: Value,
    pub(super) error: Value,
    pub(super) usage: Value,
    pub(super) total_cost_usd: Value,
    pub(super) num_turns: Value,
    pub(super) request_id: Value,
    pub(super) request: Value,
    pub(super) response: Value,
}

/// Reads a usage object.
///
/// It has Anthropic's names with the counts of an OpenAI-like API: caches are inside of the input. Where the total is
/// more than both sides, the rest was thought.
pub(super) fn usage(value: &Value) -> Option<Usage> {
    let count = |key: &str| value.get(key).and_then(Value::as_u64);
    let (prompt, output) = (count("input_tokens")?, count("output_tokens")?);
    let cache_read = count("cache_read_input_tokens").unwrap_or(0).min(prompt);
    let cache_write = count("cache_creation_input_tokens").unwrap_or(0).min(prompt - cache_read);
    let beside = count("total_tokens").unwrap_or(0).saturating_sub(prompt.saturating_add(output));
    Some(Usage {
        input: prompt - cache_read - cache_write,
        output: output.saturating_add(beside),
        cache_read,
        cache_write,
        reasoning: (beside > 0).then_some(beside),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_are_read_and_others_are_not() {
        let line = |event: &str| {
            format!(r#"{{"type":"stream_event","uuid":"u","parent_tool_use_id":null,"event":{event}}}"#)
        };
        let text =
            line(r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\"b"}}"#);
        assert_eq!(
            piece(&text),
            Some(QwenPiece { parent: None, sort: QwenBlockKind::Text, text: "a\"b".into() })
        );
        let plain = line(
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"ab"}}"#,
        );
        let read = piece(&plain).expect("a piece");
        assert!(matches!(read.text, Cow::Borrowed("ab")), "it borrows from the line");
        for other in [
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"goal_state","goal_state":{}}"#,
        ] {
            assert_eq!(piece(&line(other)), None, "{other}");
        }
    }

    #[test]
    fn caches_are_inside_of_the_input_with_and_without_a_total() {
        let expect = Some(Usage { input: 8, output: 7, cache_read: 3, cache_write: 0, reasoning: None });
        assert_eq!(
            usage(&json!({"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 3})),
            expect
        );
        let told =
            json!({"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 3, "total_tokens": 18});
        assert_eq!(usage(&told), expect);
        assert_eq!(usage(&json!({"input_tokens": 11})), None);
        let odd =
            json!({"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 9, "total_tokens": 4});
        let thought = Usage { input: 0, output: 3, cache_read: 1, cache_write: 0, reasoning: Some(2) };
        assert_eq!(usage(&odd), Some(thought));
    }
}
