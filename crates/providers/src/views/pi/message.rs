//! pi's types as they stand in JSON: the assistant message and the records around it.
//!
//! Field names are pi's. The order in which records are printed is decided in the parent module.

use bowline_protocol::{Json, ToolId};
use serde::Serialize;

use crate::views::Setup;
use crate::views::tally::Tally;

/// pi's `AssistantMessageEvent`. pi's JSON mode leaves `partial` out of what it prints, so it may be missing.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum PiRecord<'a> {
    Start {
        partial: &'a PiViewMessage,
    },
    TextStart {
        content_index: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    TextDelta {
        content_index: usize,
        delta: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    TextEnd {
        content_index: usize,
        content: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    ThinkingStart {
        content_index: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    ThinkingDelta {
        content_index: usize,
        delta: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    ThinkingEnd {
        content_index: usize,
        content: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    ToolcallStart {
        content_index: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    ToolcallDelta {
        content_index: usize,
        delta: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    ToolcallEnd {
        content_index: usize,
        tool_call: &'a PiContent,
        #[serde(skip_serializing_if = "Option::is_none")]
        partial: Option<&'a PiViewMessage>,
    },
    Done {
        reason: &'a str,
        message: &'a PiViewMessage,
    },
    Error {
        reason: &'a str,
        error: &'a PiViewMessage,
    },
}

/// pi's `AssistantMessage`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PiViewMessage {
    role: &'static str,
    /// The blocks, in the order in which they began.
    pub(super) content: Vec<PiContent>,
    api: &'static str,
    provider: String,
    model: String,
    usage: PiUsage,
    stop_reason: &'static str,
    /// The error, after it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error_message: Option<String>,
    timestamp: i64,
}

/// A block of a message.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum PiContent {
    Text { text: String },
    Thinking { thinking: String },
    ToolCall { id: ToolId, name: String, arguments: Json },
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PiUsage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total_tokens: u64,
    cost: PiCost,
}

/// In US dollars. Agents tell only the total.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PiCost {
    input: u8,
    output: u8,
    cache_read: u8,
    cache_write: u8,
    total: f64,
}

impl Default for PiViewMessage {
    fn default() -> Self {
        Self {
            role: "assistant",
            content: Vec::new(),
            api: "external-cli",
            provider: String::new(),
            model: String::new(),
            usage: PiUsage::default(),
            // pi's own providers say so from the beginning, too.
            stop_reason: "stop",
            error_message: None,
            timestamp: 0,
        }
    }
}

impl PiViewMessage {
    /// Takes over everything but the content and the end.
    pub(super) fn set_heading(&mut self, tally: &Tally, setup: &Setup) {
        self.provider = tally.provider(setup);
        self.model = tally.named_model().unwrap_or_default().to_owned();
        self.timestamp = tally.first_at.map_or(0, |at| at.as_millis());
        let usage = tally.usage.unwrap_or_default();
        self.usage = PiUsage {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            total_tokens: usage.total(),
            cost: PiCost { total: tally.cost_usd.unwrap_or(0.0), ..PiCost::default() },
        };
    }

    /// Removes text and thinking blocks without content. Their places are of no use once nothing follows.
    pub(super) fn drop_empty_blocks(&mut self) {
        self.content.retain(|content| match content {
            PiContent::Text { text } | PiContent::Thinking { thinking: text } => !text.is_empty(),
            PiContent::ToolCall { .. } => true,
        });
    }

    /// Returns how the message ended.
    pub(super) fn end(&mut self, stop_reason: &'static str, error: Option<String>) {
        self.stop_reason = stop_reason;
        self.error_message = error;
    }
}

impl PiContent {
    /// Makes a text block with nothing in it.
    pub(super) fn empty_text() -> Self {
        Self::Text { text: String::new() }
    }

    /// Makes a thinking block with nothing in it.
    pub(super) fn empty_thinking() -> Self {
        Self::Thinking { thinking: String::new() }
    }

    /// Appends to text or thinking; the arguments of a call are set when they are complete.
    pub(super) fn push(&mut self, delta: &str) {
        match self {
            Self::Text { text } | Self::Thinking { thinking: text } => text.push_str(delta),
            Self::ToolCall { .. } => {}
        }
    }
}
