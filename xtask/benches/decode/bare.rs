//! Bare readers: the code that a competent person writes for the fields that matter, without events.
//!
//! Each is a struct that serde fills; strings are borrowed from the line where they have no escapes. Nothing looks at
//! what was read, so the fields are there to be filled.

#![expect(dead_code, reason = "the fields are filled, which is what is measured, and no code reads them")]

use std::borrow::Cow;
use std::fmt;
use std::hint::black_box;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A bare reader.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bare {
    /// A type and a text.
    Content,
    /// Items that begin and are completed.
    Items,
    /// Updates of messages, and tools beside them.
    Updates,
    /// Messages of blocks, with the model's own events wrapped in lines between them.
    Wrapped,
    /// Everything at the top of the line.
    Flat,
    /// Pieces of an answer.
    Chunks,
    /// A role and a text.
    Roles,
    /// No JSON: there is nothing to read but UTF-8.
    Text,
}

impl Bare {
    /// Reads a line.
    pub(crate) fn read(self, line: &[u8]) {
        match self {
            Self::Content => parse::<Content<'_>>(line),
            Self::Items => parse::<ItemLine<'_>>(line),
            Self::Updates => parse::<UpdateLine<'_>>(line),
            Self::Wrapped => parse::<WrappedLine<'_>>(line),
            Self::Flat => parse::<FlatLine<'_>>(line),
            Self::Chunks => parse::<Chunk<'_>>(line),
            Self::Roles => parse::<Role<'_>>(line),
            Self::Text => drop(black_box(std::str::from_utf8(line).expect("a line of text").to_owned())),
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) {
    drop(black_box(serde_json::from_slice::<T>(line).expect("a line of JSON")));
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    content: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    delta: Cow<'a, str>,
    done: bool,
}

#[derive(Deserialize)]
struct Role<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ItemLine<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    thread_id: Option<&'a str>,
    #[serde(borrow)]
    item: Option<Item<'a>>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Item<'a> {
    id: Option<&'a str>,
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    command: Option<Text<'a>>,
    #[serde(borrow)]
    aggregated_output: Option<Text<'a>>,
    exit_code: Option<i64>,
    status: Option<&'a str>,
    #[serde(borrow)]
    changes: Option<&'a RawValue>,
    server: Option<&'a str>,
    tool: Option<&'a str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct UpdateLine<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    id: Option<&'a str>,
    #[serde(rename = "assistantMessageEvent", borrow)]
    event: Option<Update<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(rename = "toolCallId")]
    tool_call: Option<&'a str>,
    #[serde(rename = "toolName")]
    tool: Option<&'a str>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<Message<'a>>,
    #[serde(rename = "isError")]
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    delta: Option<Text<'a>>,
    #[serde(rename = "toolCall", borrow)]
    tool_call: Option<Block<'a>>,
}

#[derive(Deserialize)]
struct WrappedLine<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    subtype: Option<&'a str>,
    session_id: Option<&'a str>,
    parent_tool_use_id: Option<&'a str>,
    model: Option<&'a str>,
    #[serde(borrow)]
    event: Option<Wrapped<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    is_error: Option<bool>,
    #[serde(borrow)]
    result: Option<Text<'a>>,
    total_cost_usd: Option<f64>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type")]
    type_name: Option<&'a str>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    #[serde(borrow)]
    partial_json: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<&'a str>,
    role: Option<&'a str>,
    model: Option<&'a str>,
    #[serde(borrow)]
    content: Option<Blocks<'a>>,
    usage: Option<Usage>,
    #[serde(alias = "stopReason")]
    stop_reason: Option<&'a str>,
    #[serde(rename = "errorMessage", borrow)]
    error: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    tool_use_id: Option<&'a str>,
    is_error: Option<bool>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    #[serde(alias = "arguments", borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<Blocks<'a>>,
}

#[derive(Deserialize)]
struct FlatLine<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    session_id: Option<&'a str>,
    model: Option<&'a str>,
    role: Option<&'a str>,
    #[serde(borrow)]
    content: Option<Text<'a>>,
    delta: Option<bool>,
    tool_name: Option<&'a str>,
    tool_id: Option<&'a str>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    status: Option<&'a str>,
    #[serde(borrow)]
    output: Option<Text<'a>>,
    stats: Option<Usage>,
}

/// A text inside an `Option`, where `Cow` alone would always copy.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A content that is a text or a list of blocks. By hand, because serde's own way (`untagged`) copies first.
enum Blocks<'a> {
    Text(Cow<'a, str>),
    List(Vec<Block<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Blocks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Blocks<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or blocks")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Blocks<'de>, E> {
                Ok(Blocks::Text(text.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Blocks<'de>, E> {
                Ok(Blocks::Text(text.to_owned().into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Blocks<'de>, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = list.next_element()? {
                    blocks.push(block);
                }
                Ok(Blocks::List(blocks))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
