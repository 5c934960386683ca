//! The lines of `--output-format json`: only what is read.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialects::loose_json::{Field, Object};

/// A line. All but the last have `data`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CopilotLine<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) type_name: Field<'a>,
    #[serde(borrow)]
    pub(super) data: Object<CopilotData<'a>>,
    /// The sub-agent that it is about; absent for the agent itself.
    #[serde(borrow)]
    pub(super) agent_id: Field<'a>,
    // The result.
    #[serde(borrow)]
    pub(super) session_id: Field<'a>,
    #[serde(borrow)]
    pub(super) exit_code: Field<'a>,
    #[serde(borrow)]
    pub(super) usage: Object<ResultUsage<'a>>,
}

/// The content of a line. Its type determines the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CopilotData<'a> {
    // Text.
    #[serde(borrow)]
    pub(super) message_id: Field<'a>,
    #[serde(borrow)]
    pub(super) delta_content: Field<'a>,
    #[serde(borrow)]
    pub(super) reasoning_id: Field<'a>,
    #[serde(borrow)]
    pub(super) reasoning_text: Field<'a>,
    #[serde(borrow)]
    pub(super) content: Field<'a>,
    #[serde(borrow)]
    pub(super) phase: Field<'a>,
    /// The tools that a message asks for.
    #[serde(borrow)]
    pub(super) tool_requests: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) parent_tool_call_id: Field<'a>,
    #[serde(borrow)]
    pub(super) source: Field<'a>,
    #[serde(borrow)]
    pub(super) intent: Field<'a>,

    // Work.
    #[serde(borrow)]
    pub(super) tool_call_id: Field<'a>,
    #[serde(borrow)]
    pub(super) tool_name: Field<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) partial_output: Field<'a>,
    #[serde(borrow)]
    pub(super) progress_message: Field<'a>,
    #[serde(borrow)]
    pub(super) success: Field<'a>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) file_edits: Option<&'a RawValue>,

    // Approvals and questions.
    #[serde(borrow)]
    pub(super) request_id: Field<'a>,
    #[serde(borrow)]
    pub(super) permission_request: Object<CopilotPermission<'a>>,
    #[serde(borrow)]
    pub(super) question: Field<'a>,
    #[serde(borrow)]
    pub(super) choices: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) answer: Field<'a>,

    // How it goes.
    #[serde(borrow)]
    pub(super) model: Field<'a>,
    #[serde(borrow)]
    pub(super) new_model: Field<'a>,
    #[serde(borrow)]
    pub(super) new_mode: Field<'a>,
    #[serde(borrow)]
    pub(super) status_code: Field<'a>,
    #[serde(borrow)]
    pub(super) retry_attempt: Field<'a>,
    #[serde(borrow)]
    pub(super) error_message: Field<'a>,
    #[serde(borrow)]
    pub(super) error_type: Field<'a>,
    #[serde(borrow)]
    pub(super) message: Field<'a>,
    #[serde(borrow)]
    pub(super) info_type: Field<'a>,
    #[serde(borrow)]
    pub(super) warning_type: Field<'a>,
    #[serde(borrow)]
    pub(super) reason: Field<'a>,
    #[serde(borrow)]
    pub(super) aborted: Field<'a>,
    #[serde(borrow)]
    pub(super) name: Field<'a>,

    // Tokens.
    #[serde(borrow)]
    pub(super) input_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) output_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) cache_read_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) cache_write_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) reasoning_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) api_call_id: Field<'a>,
    #[serde(borrow)]
    pub(super) current_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) token_limit: Field<'a>,
    #[serde(borrow)]
    pub(super) pre_compaction_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) post_compaction_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) pre_truncation_tokens_in_messages: Field<'a>,
    #[serde(borrow)]
    pub(super) post_truncation_tokens_in_messages: Field<'a>,

    // The session.
    #[serde(borrow)]
    pub(super) session_id: Field<'a>,
    #[serde(borrow)]
    pub(super) selected_model: Field<'a>,
    #[serde(borrow)]
    pub(super) copilot_version: Field<'a>,
    #[serde(borrow)]
    pub(super) context: Object<CopilotContext<'a>>,
    #[serde(borrow)]
    pub(super) servers: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) server_name: Field<'a>,
    #[serde(borrow)]
    pub(super) status: Field<'a>,
    #[serde(borrow)]
    pub(super) summary: Field<'a>,
}

/// Where the session runs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CopilotContext<'a> {
    #[serde(borrow)]
    pub(super) cwd: Field<'a>,
}

/// A question whether something is allowed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CopilotPermission<'a> {
    #[serde(borrow)]
    pub(super) kind: Field<'a>,
    #[serde(borrow)]
    pub(super) tool_call_id: Field<'a>,
    #[serde(borrow)]
    pub(super) intention: Field<'a>,
    #[serde(borrow)]
    pub(super) full_command_text: Field<'a>,
    #[serde(borrow)]
    pub(super) file_name: Field<'a>,
    #[serde(borrow)]
    pub(super) path: Field<'a>,
    #[serde(borrow)]
    pub(super) url: Field<'a>,
}

/// The result of a tool, or of a question.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Outcome<'a> {
    #[serde(borrow)]
    pub(super) content: Field<'a>,
    #[serde(borrow, rename = "detailedContent")]
    pub(super) detailed_content: Field<'a>,
    #[serde(borrow)]
    pub(super) message: Field<'a>,
    #[serde(borrow)]
    pub(super) code: Field<'a>,
    #[serde(borrow)]
    pub(super) kind: Field<'a>,
}

/// An MCP server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Server<'a> {
    #[serde(borrow)]
    pub(super) name: Field<'a>,
    #[serde(borrow)]
    pub(super) status: Field<'a>,
    #[serde(borrow)]
    pub(super) error: Field<'a>,
}

/// The figures of the result. Premium requests are no tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResultUsage<'a> {
    #[serde(borrow)]
    pub(super) code_changes: Object<CodeChanges<'a>>,
}

/// The change.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CodeChanges<'a> {
    #[serde(borrow)]
    pub(super) lines_added: Field<'a>,
    #[serde(borrow)]
    pub(super) lines_removed: Field<'a>,
    #[serde(borrow)]
    pub(super) files_modified: Option<&'a RawValue>,
}
