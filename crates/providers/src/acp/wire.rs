//! The messages of the protocol, as far as we read them. A field of another type than expected counts as absent, so
//! that it does not cost the line.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A message of JSON-RPC: a request, a notification or an answer. `jsonrpc` may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AcpMessage<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
    /// `null` is a result too.
    #[serde(borrow, deserialize_with = "present")]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

/// A piece of text on its way to the user: by far the most frequent line, so it is read in one pass.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ChunkLine<'a> {
    #[serde(borrow)]
    pub(crate) method: AcpString<'a>,
    pub(crate) id: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(crate) params: ChunkParams<'a>,
}

/// The parameters of [`ChunkLine`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ChunkParams<'a> {
    #[serde(borrow)]
    pub(crate) session_id: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) update: AcpChunk<'a>,
}

/// A piece of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AcpChunk<'a> {
    #[serde(borrow)]
    pub(crate) session_update: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) content: AcpBlock<'a>,
    #[serde(borrow)]
    pub(crate) message_id: AcpString<'a>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

impl<'a> AcpChunk<'a> {
    /// Reads a piece whose content is no block: a string, or a list of blocks.
    pub(crate) fn of_tree(name: &UpdateName<'a>, update: &Value) -> Option<Self> {
        let content = update.get("content")?;
        let text = content.as_str().map_or_else(|| text_of(content), str::to_owned);
        let content =
            AcpBlock { kind: AcpString::of("text"), text: AcpString::of(text), ..AcpBlock::default() };
        let message_id = update.get("messageId").and_then(Value::as_str);
        let message_id = message_id.map_or_else(AcpString::default, |id| AcpString::of(id.to_owned()));
        Some(Self { session_update: name.session_update.clone(), content, message_id, meta: None })
    }
}

/// A content block.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AcpBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) text: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) uri: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) mime_type: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) resource: Option<&'a RawValue>,
}

/// The parameters of `session/update`, before it is known what the update is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct UpdateParams<'a> {
    #[serde(borrow)]
    pub(crate) session_id: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) update: Option<&'a RawValue>,
}

/// The name of an update.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct UpdateName<'a> {
    #[serde(borrow)]
    pub(crate) session_update: AcpString<'a>,
}

/// A tool call, or what is new about one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AcpToolCall<'a> {
    #[serde(borrow)]
    pub(crate) tool_call_id: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) name: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) title: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) kind: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) status: AcpString<'a>,
    #[serde(borrow)]
    pub(crate) raw_input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) raw_output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) locations: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

/// The parameters of `session/request_permission`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AcpPermission<'a> {
    #[serde(borrow)]
    pub(crate) tool_call: Option<&'a RawValue>,
    pub(crate) options: Value,
}

/// The names of the commands that an agent offers. Such a line may be very long, so nothing else of it is kept.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Commands<'a> {
    #[serde(borrow)]
    pub(crate) available_commands: Vec<AcpCommand<'a>>,
}

/// One command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AcpCommand<'a> {
    #[serde(borrow)]
    pub(crate) name: AcpString<'a>,
}

/// A string, or nothing if the value is anything else.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcpString<'a>(Option<Cow<'a, str>>);

impl<'a> AcpString<'a> {
    fn of(text: impl Into<Cow<'a, str>>) -> Self {
        Self(Some(text.into()))
    }

    /// Returns the string.
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns the string; absent is empty.
    pub(crate) fn or_empty(&self) -> &str {
        self.get().unwrap_or_default()
    }

    /// Returns the string unless it is empty.
    pub(crate) fn filled(&self) -> Option<&str> {
        self.get().filter(|text| !text.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for AcpString<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a part of a message as a tree; what is absent or broken is `null`.
pub(crate) fn tree(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Reads a part of a message. Where the quick way fails, over a key that occurs twice, say, it goes through a tree.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str, spare: &'a mut String) -> Option<T> {
    if let Ok(part) = serde_json::from_str(text) {
        return Some(part);
    }
    *spare = serde_json::from_str::<Value>(text).ok()?.to_string();
    serde_json::from_str(spare).ok()
}

/// Joins the text of content blocks: what is no text is named in brackets.
pub(crate) fn text_of(blocks: &Value) -> String {
    let mut text = String::new();
    for block in blocks.as_array().into_iter().flatten() {
        if !text.is_empty() {
            text.push('\n');
        }
        let string = |key: &str| block.get(key).and_then(Value::as_str);
        match string("type") {
            Some("text") | None => text.push_str(string("text").unwrap_or_default()),
            Some("resource_link") => text.push_str(&format!("[{}]", string("uri").unwrap_or("resource"))),
            Some("resource") => {
                let uri = block.get("resource").and_then(|inner| inner.get("uri")?.as_str());
                text.push_str(&format!("[{}]", uri.unwrap_or("resource")));
            }
            Some(other) => text.push_str(&format!("[{other}]")),
        }
    }
    text
}
