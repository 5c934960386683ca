//! The output of `codex exec --json`: only the fields that are needed.
//!
//! `app-server` prints the same items in camelCase, so both spellings of a field are one field here.

pub(super) mod app_server;

use std::borrow::Cow;

use bowline_protocol::Excerpt;
use serde::Deserialize;
use serde::de::MapAccess;
use serde::de::value::MapAccessDeserializer;
use serde_json::value::RawValue;

pub(super) use crate::dialects::loose_json::part;

use crate::dialects::loose_json::{self, Boxed, Head, List, LooseText, Maybe, Number, Pick};
use crate::usage::Tokens;

/// A line. Small, because every line is one; what is rare is kept raw.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CodexLine<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) type_name: LooseText<'a>,
    #[serde(borrow, default)]
    pub(super) id: LooseText<'a>,
    #[serde(borrow, default)]
    pub(super) thread_id: LooseText<'a>,
    #[serde(borrow, default)]
    pub(super) item: Boxed<Item<'a>>,
    #[serde(borrow, default)]
    pub(super) usage: Tokens<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message: LooseText<'a>,
    /// The event of an older version.
    #[serde(borrow)]
    pub(super) msg: Option<&'a RawValue>,
    /// The prompt, which older versions repeat before they begin.
    #[serde(borrow)]
    pub(super) prompt: Option<&'a RawValue>,
    /// The settings, which older versions print first.
    #[serde(borrow)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) workdir: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) approval: Option<&'a RawValue>,
}

/// Returns the text of a line that is a whole message of the agent and nothing else.
///
/// A turn may have such lines by the thousand, and an [`Item`] has 28 fields. The words around id and text are compared, and
/// only the text is parsed. The dialect parses every other line as a [`CodexLine`], also one with an additional field.
pub(super) fn whole_message(line: &str) -> Option<Cow<'_, str>> {
    /// A text that is borrowed where nothing in it is escaped.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

    let item = line.strip_prefix(r#"{"type":"item.completed","item":{"id":""#)?;
    // Letters, digits, `_` and `-` need no escape. A line whose id has another character is parsed as a `Line`.
    let id =
        item.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')).count();
    let text = item[id..].strip_prefix(r#"","type":"agent_message","text":"#)?.strip_suffix("}}")?;
    serde_json::from_str::<Borrowed<'_>>(text).ok().map(|text| text.0)
}

/// A thing that the agent said or did. Which fields there are depends on the type.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow, default)]
    pub(super) id: LooseText<'a>,
    #[serde(borrow, rename = "type", default)]
    pub(super) type_name: LooseText<'a>,
    #[serde(borrow, default)]
    pub(super) status: LooseText<'a>,
    /// The text of a message or a thought.
    #[serde(borrow, default)]
    pub(super) text: LooseText<'a>,
    /// The same in the form that the adapter protocol documents.
    #[serde(borrow, default)]
    pub(super) agent_message: Maybe<CodexItemText<'a>>,
    #[serde(borrow, default)]
    pub(super) phase: LooseText<'a>,
    #[serde(borrow, default)]
    pub(super) message: LooseText<'a>,
    #[serde(borrow, default)]
    pub(super) command: LooseText<'a>,
    #[serde(borrow, default)]
    pub(super) cwd: LooseText<'a>,
    #[serde(alias = "aggregatedOutput", default)]
    pub(super) aggregated_output: Head,
    #[serde(alias = "exitCode", default)]
    pub(super) exit_code: Number,
    #[serde(borrow)]
    pub(super) changes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) server: LooseText<'a>,
    #[serde(borrow, default)]
    pub(super) tool: LooseText<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Maybe<McpResult<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, alias = "contentItems")]
    pub(super) content_items: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) query: LooseText<'a>,
    #[serde(borrow)]
    pub(super) action: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) path: LooseText<'a>,
    #[serde(borrow)]
    pub(super) items: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) prompt: LooseText<'a>,
    #[serde(borrow, alias = "senderThreadId", default)]
    pub(super) sender_thread_id: LooseText<'a>,
    #[serde(borrow, alias = "receiverThreadIds")]
    pub(super) receiver_thread_ids: Option<&'a RawValue>,
    #[serde(borrow, alias = "agentsStates")]
    pub(super) agents_states: Option<&'a RawValue>,
}

/// The result of an MCP tool. Only the beginning of a long text is needed, and it is read in the same pass.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct McpResult<'a> {
    content: List<Maybe<CodexContentBlock>>,
    #[serde(borrow, alias = "structuredContent")]
    structured_content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexContentBlock {
    text: Head,
}

impl McpResult<'_> {
    /// Returns the text of the blocks, one below the other, or else the structured form.
    pub(super) fn head(&self) -> Option<Excerpt> {
        let mut heads = self.content.0.iter().filter_map(|block| block.0.as_ref()?.text.0.as_ref());
        let Some(first) = heads.next() else {
            return self.structured_content.map(|structured| Excerpt::of(structured.get()));
        };
        Some(heads.fold(first.clone(), |head, next| {
            let bytes = head.bytes + 1 + next.bytes;
            let text = if head.is_cut() { head.text } else { format!("{}\n{}", head.text, next.text) };
            Excerpt { text: Excerpt::of(&text).text, bytes }
        }))
    }
}

/// A text in an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CodexItemText<'a> {
    #[serde(borrow)]
    pub(super) text: LooseText<'a>,
}

/// One changed file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Change<'a> {
    #[serde(borrow)]
    pub(super) path: LooseText<'a>,
    #[serde(borrow)]
    pub(super) kind: ChangeKind<'a>,
}

/// The change of a file: a word, or an object with the word as its type.
#[derive(Debug, Default)]
pub(super) struct ChangeKind<'a> {
    pub(super) type_name: LooseText<'a>,
    pub(super) move_path: LooseText<'a>,
}

impl<'de: 'a, 'a> Pick<'de> for ChangeKind<'a> {
    fn text(text: &str) -> Self {
        Self { type_name: LooseText::text(text), ..Self::default() }
    }

    fn borrowed(text: &'de str) -> Self {
        Self { type_name: LooseText::borrowed(text), ..Self::default() }
    }

    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct CodexItemFields<'a> {
            #[serde(borrow, rename = "type")]
            type_name: LooseText<'a>,
            #[serde(borrow, alias = "movePath")]
            move_path: LooseText<'a>,
        }
        let CodexItemFields { type_name, move_path } =
            CodexItemFields::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Self { type_name, move_path })
    }
}

loose_json::picked!(impl<'a> ChangeKind<'a>;);

/// Reads a text that was kept raw.
pub(super) fn text(raw: Option<&RawValue>) -> Option<String> {
    part::<LooseText<'_>>(raw).owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_message_is_read_as_one() {
        let check = |line: &str, text: Option<&str>| {
            assert_eq!(whole_message(line).as_deref(), text, "{line}");
            if let Some(text) = text {
                let read: CodexLine<'_> = serde_json::from_str(line).expect("a line");
                let item = read.item.0.expect("an item");
                assert_eq!((item.type_name.get(), item.text.get()), (Some("agent_message"), Some(text)));
            }
        };
        let line = |item: &str| format!(r#"{{"type":"item.completed","item":{item}}}"#);
        check(&line(r#"{"id":"item_0","type":"agent_message","text":"hi"}"#), Some("hi"));
        check(&line(r#"{"id":"a\"b","type":"agent_message","text":"hi"}"#), None);
        check(&line(r#"{"id":"a\","type":"agent_message","text":"hi"}"#), None);
        check(&line(r#"{"id":"","type":"agent_message","text":"hi"}"#), Some("hi"));
        check(&line(r#"{"id":"msg_0-a","type":"agent_message","text":""}"#), Some(""));
        check(&line(r#"{"id":"a","type":"agent_message","text":"hi","id":"b"}"#), None);
        check(&line(r#"{"id":"a","type":"agent_message","text":null}"#), None);
        check(&line("{\"id\":\"a\",\"type\":\"agent_message\",\"text\":\"raw\ttab\"}"), None);
        check(&line(r#"{"id":"a","type":"agent_message","text":"a\"}}\n\u00e4"}"#), Some("a\"}}\nä"));
        check(&line(r#"{"id":"a","type":"agent_message","text":"hi","phase":"commentary"}"#), None);
        check(&line(r#"{"id":"a","type":"agent_message","text":"hi","text":"ho"}"#), None);
        check(&line(r#"{"id":"a","type":"reasoning","text":"hi"}"#), None);
        check(&line(r#"{"id":"a","type":"agent_message","text":7}"#), None);
        check(
            r#"{"type":"item.completed","item":{"id":"a","type":"agent_message","text":"hi"},"x":1}"#,
            None,
        );
        check(r#"{"type":"item.started","item":{"id":"a","type":"agent_message","text":"hi"}}"#, None);
        check(r#"{"type":"item.completed","item":{"id":"a","type":"agent_message","text":"hi"}"#, None);
    }
}
