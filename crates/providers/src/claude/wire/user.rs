//! A `user` line, read in one pass.
//!
//! It mostly holds the result of a tool, which may be a megabyte, so that [`ClaudeObject`], which looks at a value once for
//! each level that it is down, is no reader for it. Texts are borrowed from the line where they have no escapes.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess};
use serde_json::value::RawValue;

use super::ClaudeObject;
use crate::dialects::content;
use crate::dialects::loose_json::{self, Field, List, LooseFlag, LooseText, Maybe, Pick};
use crate::lenient;

/// A `user` line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserLine<'a> {
    /// Read so that a line with two of them is not taken for one of these.
    #[serde(borrow, rename = "type")]
    type_name: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) message: Maybe<UserLineMessage<'a>>,
    #[serde(borrow)]
    pub(crate) parent_tool_use_id: LooseText<'a>,
    #[serde(rename = "isReplay")]
    pub(crate) is_replay: LooseFlag,
    /// An object after a success, a text after a failure.
    #[serde(borrow)]
    pub(crate) tool_use_result: Maybe<ToolResultDetails<'a>>,
    #[serde(borrow)]
    pub(crate) tool_result_meta: List<Maybe<UserLineMeta<'a>>>,
}

impl<'a> UserLine<'a> {
    /// Reads the line, if it is one of these and in good order. Everything else is for [`ClaudeObject`].
    pub(crate) fn read(line: &'a str) -> Option<Self> {
        // Only to save the attempt: a line whose keys are in another order is looked at as an object first.
        if !line.starts_with(r#"{"type":"user""#) {
            return None;
        }
        serde_json::from_str(line).ok().filter(|user: &Self| user.type_name.get() == Some("user"))
    }

    /// Reads a line that is known to be one of these, and gives it to `take`; what cannot be read has no message.
    pub(crate) fn with(line: &str, take: impl FnOnce(&UserLine<'_>)) {
        match serde_json::from_str(line) {
            Ok(user) => take(&user),
            // A key twice, or half a surrogate pair.
            Err(_) => {
                let plain = lenient::value(line).unwrap_or_default().to_string();
                take(&serde_json::from_str(&plain).unwrap_or_default());
            }
        }
    }
}

/// The message of the user's side.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserLineMessage<'a> {
    #[serde(borrow)]
    pub(crate) content: ResultContent<'a>,
}

/// A text, or blocks: what is said, and what a tool gave back.
#[derive(Debug)]
pub(crate) enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<UserBlock<'a>>),
}

impl<'a> ResultContent<'a> {
    /// Reads a content that was left as it stands.
    pub(crate) fn of(raw: Option<&'a RawValue>) -> Self {
        let Some(raw) = raw else { return Self::default() };
        serde_json::from_str(raw.get()).unwrap_or_else(|_| {
            // Half a surrogate pair.
            let words = lenient::value(raw.get()).as_ref().and_then(content::text_of);
            words.map_or_else(Self::default, |words| Self::Text(words.into()))
        })
    }

    /// Returns the text; blocks that are not text have none.
    pub(crate) fn words(&self) -> Option<Cow<'_, str>> {
        let blocks = match self {
            Self::Text(text) => return Some(Cow::Borrowed(text)),
            Self::Blocks(blocks) => blocks,
        };
        let mut texts = blocks.iter().filter_map(UserBlock::words);
        let first = Cow::Borrowed(texts.next()?);
        Some(texts.fold(first, |words, text| words + text))
    }

    /// Returns the blocks that are results of tools.
    pub(crate) fn results(&self) -> Vec<&UserBlock<'a>> {
        match self {
            Self::Text(_) => Vec::new(),
            Self::Blocks(blocks) => blocks.iter().filter(|block| block.is_result()).collect(),
        }
    }
}

impl Default for ResultContent<'_> {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl<'de: 'a, 'a> Pick<'de> for ResultContent<'a> {
    fn text(text: &str) -> Self {
        Self::Text(Cow::Owned(text.to_owned()))
    }

    fn borrowed(text: &'de str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    fn seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut blocks = Vec::new();
        while let Some(UserMember(block)) = seq.next_element()? {
            blocks.push(block);
        }
        Ok(Self::Blocks(blocks))
    }
}

/// A block of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserBlock<'a> {
    #[serde(borrow, rename = "type")]
    type_name: LooseText<'a>,
    #[serde(borrow)]
    text: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) tool_use_id: LooseText<'a>,
    pub(crate) is_error: LooseFlag,
    /// The result of a tool.
    #[serde(borrow)]
    pub(crate) content: ResultContent<'a>,
}

impl UserBlock<'_> {
    fn words(&self) -> Option<&str> {
        match self.type_name.get() {
            None | Some("text" | "output_text") => self.text.get(),
            Some(_) => None,
        }
    }

    fn is_result(&self) -> bool {
        self.type_name.or_empty().ends_with("tool_result")
    }
}

/// A member of a list of blocks: a string counts as a block, and anything else as an empty one.
#[derive(Default)]
struct UserMember<'a>(UserBlock<'a>);

impl<'de: 'a, 'a> Pick<'de> for UserMember<'a> {
    fn text(text: &str) -> Self {
        Self(UserBlock { text: LooseText::text(text), ..UserBlock::default() })
    }

    fn borrowed(text: &'de str) -> Self {
        Self(UserBlock { text: LooseText::borrowed(text), ..UserBlock::default() })
    }

    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        UserBlock::deserialize(MapAccessDeserializer::new(map)).map(Self)
    }
}

/// The program's own data about a tool's result.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ToolResultDetails<'a> {
    pub(crate) interrupted: LooseFlag,
    /// The answers to questions that the tool asked.
    #[serde(borrow)]
    pub(crate) answers: Maybe<ClaudeObject<'a>>,
    #[serde(borrow, rename = "type")]
    pub(crate) type_name: LooseText<'a>,
    #[serde(borrow, rename = "filePath")]
    pub(crate) file_path: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) notebook_path: LooseText<'a>,
    #[serde(borrow, rename = "structuredPatch")]
    pub(crate) patch: Option<List<Maybe<Hunk<'a>>>>,
}

/// A part of a file that was changed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Hunk<'a> {
    #[serde(borrow)]
    pub(crate) old_start: Field<'a>,
    #[serde(borrow)]
    pub(crate) old_lines: Field<'a>,
    #[serde(borrow)]
    pub(crate) new_start: Field<'a>,
    #[serde(borrow)]
    pub(crate) new_lines: Field<'a>,
    #[serde(borrow)]
    pub(crate) lines: List<LooseText<'a>>,
}

/// The outcome of the permission for a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserLineMeta<'a> {
    #[serde(borrow)]
    pub(crate) id: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) permission_decision: loose_json::Object<PermissionDecision<'a>>,
    #[serde(borrow)]
    pub(crate) non_execution_kind: LooseText<'a>,
}

/// The decider of a call, and the decision.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PermissionDecision<'a> {
    #[serde(borrow)]
    pub(crate) decision: LooseText<'a>,
}

loose_json::picked!(impl<'a> ResultContent<'a>; impl<'a> UserMember<'a>;);

#[cfg(test)]
mod tests {
    use super::*;

    fn words(content: &str) -> Option<String> {
        let line = format!(r#"{{"type":"user","message":{{"content":{content}}}}}"#);
        let user = UserLine::read(&line).unwrap_or_else(|| panic!("{line}"));
        user.message.0?.content.words().map(Cow::into_owned)
    }

    #[test]
    fn words_are_a_text_or_the_text_of_blocks() {
        assert_eq!(words(r#""a\nb""#).as_deref(), Some("a\nb"));
        let blocks = r#"["a",{"type":"text","text":"b"},{"text":"c"},{"type":"image","text":"x"},{"type":"text"},7,null]"#;
        assert_eq!(words(blocks).as_deref(), Some("abc"));
        for none in ["[]", "null", "7", r#"{"text":"x"}"#, r#"[{"type":"tool_result","content":"x"}]"#] {
            assert_eq!(words(none), None, "{none}");
        }
    }

    #[test]
    fn a_careless_line_is_read_the_long_way() {
        let check = |line: &str| {
            assert!(UserLine::read(line).is_none(), "{line}");
            let mut read = None;
            UserLine::with(line, |user| {
                read =
                    user.message.0.as_ref().and_then(|message| message.content.words().map(Cow::into_owned));
            });
            read
        };
        let twice = r#"{"type":"user","message":{"content":"a"},"message":{"content":"b"}}"#;
        assert_eq!(check(twice).as_deref(), Some("b"));
        assert_eq!(check(r#"{"type":"user","message":{"content":"\ud83d"}}"#).as_deref(), Some("\u{FFFD}"));
        assert_eq!(check(r#"{"message":{"content":"a"},"type":"user"}"#).as_deref(), Some("a"));
        assert_eq!(check(r#"{"type":"user","type":"result"}"#), None);
    }
}
