//! The lines of pi's JSON modes: only what is read.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialects::loose_json::{Field, Object};

/// A line. Fields that differ by its type are kept as text and read when the type is known.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PiLine<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) type_name: Field<'a>,
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow)]
    pub(super) cwd: Field<'a>,

    // Messages.
    #[serde(borrow)]
    pub(super) assistant_message_event: Object<Update<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,

    // Tools.
    #[serde(borrow)]
    pub(super) tool_call_id: Field<'a>,
    #[serde(borrow)]
    pub(super) tool_name: Field<'a>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) partial_result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) is_error: Field<'a>,

    // Ends, retries and compactions.
    #[serde(borrow)]
    pub(super) will_retry: Field<'a>,
    #[serde(borrow)]
    pub(super) attempt: Field<'a>,
    #[serde(borrow)]
    pub(super) max_attempts: Field<'a>,
    #[serde(borrow)]
    pub(super) delay_ms: Field<'a>,
    #[serde(borrow)]
    pub(super) error_message: Field<'a>,
    #[serde(borrow)]
    pub(super) success: Field<'a>,
    #[serde(borrow)]
    pub(super) final_error: Field<'a>,
    #[serde(borrow)]
    pub(super) reason: Field<'a>,
    #[serde(borrow)]
    pub(super) aborted: Field<'a>,

    /// The steers that wait.
    #[serde(borrow)]
    pub(super) steering: Option<&'a RawValue>,

    // Settings, extensions, and commands of the host.
    #[serde(borrow)]
    pub(super) level: Field<'a>,
    #[serde(borrow)]
    pub(super) delta: Field<'a>,
    #[serde(borrow)]
    pub(super) command: Field<'a>,
    #[serde(borrow)]
    pub(super) error: Field<'a>,
    #[serde(borrow)]
    pub(super) extension_path: Field<'a>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) method: Field<'a>,
    #[serde(borrow)]
    pub(super) title: Field<'a>,
    #[serde(borrow)]
    pub(super) options: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) notify_type: Field<'a>,
    #[serde(borrow)]
    pub(super) status_text: Field<'a>,
}

/// A piece of the assistant's message. Versions up to 0.74 add the whole message so far, which is not read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Update<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) type_name: Field<'a>,
    #[serde(borrow)]
    pub(super) content_index: Field<'a>,
    #[serde(borrow)]
    pub(super) delta: Field<'a>,
    #[serde(borrow)]
    pub(super) content: Field<'a>,
}

/// A message, when it begins and when it is complete.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PiMessage<'a> {
    #[serde(borrow)]
    pub(super) role: Field<'a>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) model: Field<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_reason: Field<'a>,
    #[serde(borrow)]
    pub(super) error_message: Field<'a>,
}

/// A block of an assistant's message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PiBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) type_name: Field<'a>,
    #[serde(borrow)]
    pub(super) text: Field<'a>,
    #[serde(borrow)]
    pub(super) thinking: Field<'a>,
}

/// The result of a compaction.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Compaction<'a> {
    #[serde(borrow)]
    pub(super) tokens_before: Field<'a>,
    #[serde(borrow)]
    pub(super) tokens_after: Field<'a>,
    #[serde(borrow)]
    pub(super) estimated_tokens_after: Field<'a>,
}

/// The arguments of a tool, as far as they name a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Args<'a> {
    #[serde(borrow)]
    pub(super) path: Field<'a>,
}

/// The result of a tool.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolResult<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) details: Object<PiDetails<'a>>,
}

/// Details of an edit besides its text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PiDetails<'a> {
    #[serde(borrow)]
    pub(super) patch: Field<'a>,
    #[serde(borrow)]
    pub(super) diff: Field<'a>,
}

/// The response to a command.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PiResponseData<'a> {
    #[serde(borrow)]
    pub(super) session_id: Field<'a>,
    #[serde(borrow)]
    pub(super) model: Object<PiModel<'a>>,
    /// The id of a model, where the model itself is the answer, and its provider.
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow)]
    pub(super) provider: Field<'a>,
    #[serde(borrow)]
    pub(super) context_usage: Object<ContextUsage<'a>>,
    #[serde(borrow)]
    pub(super) tokens_before: Field<'a>,
    #[serde(borrow)]
    pub(super) output: Field<'a>,
    #[serde(borrow)]
    pub(super) exit_code: Field<'a>,
    #[serde(borrow)]
    pub(super) cancelled: Field<'a>,
}

/// A model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PiModel<'a> {
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow)]
    pub(super) provider: Field<'a>,
}

/// How full the context is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContextUsage<'a> {
    #[serde(borrow)]
    pub(super) tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) context_window: Field<'a>,
}

/// A command of the host.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PiCommand<'a> {
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow, rename = "type")]
    pub(super) type_name: Field<'a>,
    #[serde(borrow)]
    pub(super) command: Field<'a>,
    #[serde(borrow)]
    pub(super) value: Field<'a>,
    #[serde(borrow)]
    pub(super) confirmed: Field<'a>,
}
