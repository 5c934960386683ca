//! What `codex exec --json` prints: only the fields that are needed.
//!
//! `app-server` speaks of the same items in camelCase, so both spellings of a field are one field here.

use bowline_protocol::Excerpt;
use serde::Deserialize;
use serde::de::MapAccess;
use serde::de::value::MapAccessDeserializer;
use serde_json::value::RawValue;

pub(super) use crate::dialects::loose::part;

use crate::dialects::loose::{self, Boxed, Head, List, Maybe, Number, Pick, Text};
use crate::usage::Tokens;

/// A line. Small, because every line is one; what is rare is kept raw.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) type_name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thread_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) item: Boxed<Item<'a>>,
    #[serde(borrow, default)]
    pub(super) usage: Tokens<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message: Text<'a>,
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

/// A thing that the agent said or did. Which fields there are depends on the type.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, rename = "type", default)]
    pub(super) type_name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) status: Text<'a>,
    /// What was said or thought.
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    /// The same in the form that the adapter protocol documents.
    #[serde(borrow, default)]
    pub(super) agent_message: Maybe<Said<'a>>,
    #[serde(borrow, default)]
    pub(super) phase: Text<'a>,
    #[serde(borrow, default)]
    pub(super) message: Text<'a>,
    #[serde(borrow, default)]
    pub(super) command: Text<'a>,
    #[serde(borrow, default)]
    pub(super) cwd: Text<'a>,
    #[serde(alias = "aggregatedOutput", default)]
    pub(super) aggregated_output: Head,
    #[serde(alias = "exitCode", default)]
    pub(super) exit_code: Number,
    #[serde(borrow)]
    pub(super) changes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) server: Text<'a>,
    #[serde(borrow, default)]
    pub(super) tool: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Maybe<McpResult<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, alias = "contentItems")]
    pub(super) content_items: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) query: Text<'a>,
    #[serde(borrow)]
    pub(super) action: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) path: Text<'a>,
    #[serde(borrow)]
    pub(super) items: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) prompt: Text<'a>,
    #[serde(borrow, alias = "senderThreadId", default)]
    pub(super) sender_thread_id: Text<'a>,
    #[serde(borrow, alias = "receiverThreadIds")]
    pub(super) receiver_thread_ids: Option<&'a RawValue>,
    #[serde(borrow, alias = "agentsStates")]
    pub(super) agents_states: Option<&'a RawValue>,
}

/// What an MCP tool gave back. Of long texts only the beginning is wanted, and it is read in the same pass.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct McpResult<'a> {
    content: List<Maybe<Block>>,
    #[serde(borrow, alias = "structuredContent")]
    structured_content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Block {
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
pub(super) struct Said<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
}

/// One changed file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Change<'a> {
    #[serde(borrow)]
    pub(super) path: Text<'a>,
    #[serde(borrow)]
    pub(super) kind: ChangeKind<'a>,
}

/// What was done to a file: a word, or an object with the word as its type.
#[derive(Debug, Default)]
pub(super) struct ChangeKind<'a> {
    pub(super) type_name: Text<'a>,
    pub(super) move_path: Text<'a>,
}

impl<'de: 'a, 'a> Pick<'de> for ChangeKind<'a> {
    fn text(text: &str) -> Self {
        Self { type_name: Text::text(text), ..Self::default() }
    }

    fn borrowed(text: &'de str) -> Self {
        Self { type_name: Text::borrowed(text), ..Self::default() }
    }

    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Fields<'a> {
            #[serde(borrow, rename = "type")]
            type_name: Text<'a>,
            #[serde(borrow, alias = "movePath")]
            move_path: Text<'a>,
        }
        let Fields { type_name, move_path } = Fields::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Self { type_name, move_path })
    }
}

loose::picked!(impl<'a> ChangeKind<'a>;);

/// Reads a text that was kept raw.
pub(super) fn text(raw: Option<&RawValue>) -> Option<String> {
    part::<Text<'_>>(raw).owned()
}
