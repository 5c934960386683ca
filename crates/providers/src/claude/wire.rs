//! Their JSON, taken apart.
//!
//! Two readers here, a third in `user`, and a shortcut for the first in `direct`. [`ClaudeDelta`] is for the one line that comes by the thousand, a piece of streamed
//! text: typed, in one pass, borrowing from the line. [`ClaudeObject`] is for everything else: the fields of an object as they stand, each read
//! when an arm asks for it. A field of another type is as good as absent, of two equal keys the last one counts, and no
//! order of keys is relied on (since 2.1.325 `type` is not the first key of a `result`).

pub(super) mod direct;
pub(super) mod user;

use std::borrow::Cow;
use std::fmt;

use bowline_protocol::Json;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dialect::Output;
use crate::dialects::loose_json::LooseText;
use crate::lenient;

/// An object whose fields are read on demand.
#[derive(Debug, Default)]
pub(super) struct ClaudeObject<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> ClaudeObject<'a> {
    /// Reads an object, or not at all.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns a field as it stands. `null` is as good as absent.
    pub(super) fn raw(&self, key: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().rev().find(|(name, _)| name == key)?;
        (value.get() != "null").then_some(*value)
    }

    /// Returns a field that is a text.
    pub(super) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        text(self.raw(key)?)
    }

    /// Returns a field that is a text, or nothing.
    pub(super) fn text_or_empty(&self, key: &str) -> Cow<'a, str> {
        self.text(key).unwrap_or_default()
    }

    /// Returns a field that is an object.
    pub(super) fn object(&self, key: &str) -> Option<ClaudeObject<'a>> {
        Self::read(self.raw(key)?.get())
    }

    /// Returns the parts of a field that is an array.
    pub(super) fn array(&self, key: &str) -> Vec<&'a RawValue> {
        self.raw(key).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// Returns the parts of a field that is an array of objects; others are left out.
    pub(super) fn objects(&self, key: &str) -> Vec<ClaudeObject<'a>> {
        self.array(key).into_iter().filter_map(|raw| Self::read(raw.get())).collect()
    }

    /// Returns a field as a tree.
    pub(super) fn value(&self, key: &str) -> Option<Value> {
        lenient::value(self.raw(key)?.get())
    }

    /// Returns a field as the JSON that its author wrote.
    pub(super) fn json(&self, key: &str) -> Option<Json> {
        self.raw(key).map(|raw| Json::from_raw(raw.to_owned()))
    }

    /// Returns a field that is `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        serde_json::from_str(self.raw(key)?.get()).ok()
    }

    /// Returns whether a field is `true`.
    pub(super) fn is(&self, key: &str) -> bool {
        self.flag(key) == Some(true)
    }

    /// Returns a field that is a number.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        serde_json::from_str(self.raw(key)?.get()).ok()
    }

    /// Returns a field that is a count. Some counts were no whole numbers in 2.1.197.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        self.number(key).filter(|number| (0.0..9e15).contains(number)).map(|number| number.round() as u64)
    }

    /// Returns the names and values of the fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

/// Returns a value that is a text, mending half surrogate pairs.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    if !text.starts_with('"') {
        return None;
    }
    match serde_json::from_str::<LooseText<'_>>(text) {
        Ok(LooseText(text)) => text,
        Err(_) => serde_json::from_str(&lenient::repair(text)).ok().map(Cow::Owned),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ClaudeObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ClaudeFields;
        impl<'de> Visitor<'de> for ClaudeFields {
            type Value = ClaudeObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ClaudeObject<'de>, M::Error> {
                let mut fields = Vec::new();
                while let Some(LooseText(name)) = map.next_key()? {
                    fields.push((name.unwrap_or_default(), map.next_value()?));
                }
                Ok(ClaudeObject(fields))
            }
        }
        deserializer.deserialize_map(ClaudeFields)
    }
}

/// Gives every object of a line to `take`; what is none is noise, and a blank line is nothing.
pub(super) fn each(
    line: &str,
    out: &mut Output<'_>,
    mut take: impl FnMut(&str, &ClaudeObject<'_>, &mut Output<'_>),
) {
    if line.trim_ascii_start().starts_with('{')
        && let Some(object) = ClaudeObject::read(line)
    {
        return take(line, &object, out);
    }
    if lenient::is_blank(line) {
        return;
    }
    let repaired = lenient::repair(line);
    let text = repaired.trim_start();
    if !text.starts_with('{') {
        return out.noise(line);
    }
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<ClaudeObject<'_>>();
    let mut read = 0;
    while let Some(Ok(object)) = objects.next() {
        let from = std::mem::replace(&mut read, objects.byte_offset());
        take(text[from..read].trim(), &object, out);
    }
    let rest = text[read..].trim();
    if !rest.is_empty() {
        out.noise(rest);
    }
}

/// A line that is a piece of streamed content: `stream_event` with a `content_block_delta`.
#[derive(Debug)]
pub(super) struct ClaudeDelta<'a> {
    /// The message, where the line names it (since 2.1.325).
    pub(super) message: Option<Cow<'a, str>>,
    /// The call of the sub-agent.
    pub(super) parent: Option<Cow<'a, str>>,
    /// The block.
    pub(super) block: u32,
    /// The piece.
    pub(super) piece: ClaudePiece<'a>,
}

/// A piece of a block.
#[derive(Debug)]
pub(super) enum ClaudePiece<'a> {
    Text(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    /// A part that the whole block repeats and that is not needed before: arguments, signatures.
    Other,
}

impl<'a> ClaudeDelta<'a> {
    /// Reads the line, if it is one of these and in good order. Everything else is for [`ClaudeObject`].
    pub(super) fn read(line: &'a str) -> Option<Self> {
        // Only to save the attempt: a delta whose keys are in another order is read as an object.
        if !line.starts_with(r#"{"type":"stream_event""#) {
            return None;
        }
        direct::read(line).or_else(|| Self::typed(line))
    }

    /// Reads the line, whatever the order and form of its fields.
    pub(super) fn typed(line: &'a str) -> Option<Self> {
        let line: DeltaLine<'a> = serde_json::from_str(line).ok()?;
        let event = line.event;
        if event.kind != "content_block_delta" {
            return None;
        }
        let delta = event.delta?;
        let piece = match delta.kind {
            "text_delta" => ClaudePiece::Text(delta.text.0?),
            "thinking_delta" => ClaudePiece::Thinking(delta.thinking.0?),
            "input_json_delta" | "signature_delta" | "citations_delta" => ClaudePiece::Other,
            _ => return None,
        };
        Some(Self {
            message: line.api_message_id.0,
            parent: line.parent_tool_use_id.0,
            block: event.index?,
            piece,
        })
    }
}

#[derive(Deserialize)]
struct DeltaLine<'a> {
    #[serde(borrow)]
    event: DeltaEvent<'a>,
    #[serde(borrow, default)]
    parent_tool_use_id: LooseText<'a>,
    #[serde(borrow, default)]
    api_message_id: LooseText<'a>,
}

#[derive(Deserialize)]
struct DeltaEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(default)]
    index: Option<u32>,
    #[serde(borrow, default)]
    delta: Option<DeltaBody<'a>>,
}

#[derive(Deserialize)]
struct DeltaBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow, default)]
    text: LooseText<'a>,
    #[serde(borrow, default)]
    thinking: LooseText<'a>,
}
