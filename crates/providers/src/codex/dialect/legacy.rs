//! The JSON lines of older versions: `{"id":"0","msg":{"type":"agent_message",…}}`.
//!
//! The core of Codex still uses it internally, and `app-server` of a certain age forwards it as `codex/event/…`.
//! Text may come in pieces and then whole; newer cores report some things in two ways, of which one is read. The recordings of
//! this form are from 0.42.0.

use bowline_protocol::kinds::{
    Level, ModelChanged, Notice, Phase, SessionStarted, ToolKind, ToolStatus, UnrecognizedReason, UserOrigin,
};
use bowline_protocol::{Basis, Excerpt, Json, Kind, NativeSessionId};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::approvals;
use super::super::session;
use super::super::tools::CodexToolCall;
use super::super::tools::legacy;
use super::super::tools::parts;
use super::super::usage::{self, TokenCounts};
use super::super::wire::part;
use super::exec::ExecState;
use crate::dialect::Output;
use crate::dialects::loose_json::{Head, LooseFlag, LooseText, Maybe, Number};
use crate::dialects::speech::BlockKind;
use crate::dialects::text_dedup::{TextSoFar, WholeText};

/// Reads the events of older versions.
#[derive(Debug, Default)]
pub(crate) struct Legacy {
    /// The text of the current message and thought so far.
    text: TextSoFar,
    thought: TextSoFar,
    /// Whether the turn has any text.
    spoke: bool,
}

/// An event. Which fields there are depends on the type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Msg<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) type_name: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) message: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) text: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) delta: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) phase: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) reason: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) last_agent_message: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) turn_id: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) call_id: LooseText<'a>,
    /// A list of words, or a sentence.
    #[serde(borrow)]
    pub(crate) command: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) cwd: LooseText<'a>,
    pub(crate) aggregated_output: Head,
    pub(crate) formatted_output: Head,
    pub(crate) stdout: Head,
    pub(crate) stderr: Head,
    pub(crate) exit_code: Number,
    pub(crate) success: LooseFlag,
    #[serde(borrow)]
    pub(crate) changes: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) invocation: Maybe<McpInvocation<'a>>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) query: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) path: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) rate_limits: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) unified_diff: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) plan: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) session_id: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) model: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) to_model: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) summary: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) server: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) status: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) prompt: LooseText<'a>,
}

/// A call of an MCP tool.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct McpInvocation<'a> {
    #[serde(borrow)]
    pub(crate) server: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) tool: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
}

impl Legacy {
    /// Handles an event.
    pub(crate) fn message(&mut self, msg: &Msg<'_>, line: &str, state: &mut ExecState, out: &mut Output<'_>) {
        let type_name = msg.type_name.or_empty();
        match type_name {
            "agent_message_delta" => self.piece(BlockKind::Text, msg.delta.or_empty(), state, out),
            "agent_reasoning_delta" | "agent_reasoning_raw_content_delta" => {
                self.piece(BlockKind::Thinking, msg.delta.or_empty(), state, out);
            }
            "agent_message" => {
                self.whole(BlockKind::Text, msg.message.or_empty(), phase(msg), state, out);
                // `exec` prints no end of the task and exits with 0 (0.42.0).
                out.complete_at_eof(None);
            }
            "agent_reasoning" | "agent_reasoning_raw_content" => {
                self.whole(BlockKind::Thinking, msg.text.or_empty(), Phase::Final, state, out);
            }
            "task_started" | "turn_started" => {
                self.turn();
                state.begin(msg.turn_id.owned(), out);
            }
            "task_complete" | "turn_complete" => self.complete(msg, state, out),
            "turn_aborted" => {
                self.turn();
                state.ended();
                out.cancelled();
            }
            "error" | "stream_error" => state.error(msg.message.or_empty(), out),
            "token_count" => tokens(msg, line, out),
            "session_configured" => out.emit(Kind::SessionStarted(SessionStarted {
                native_session: msg.session_id.get().map(NativeSessionId::from),
                model: msg.model.owned(),
                cwd: msg.cwd.owned(),
                ..SessionStarted::default()
            })),
            "user_message" => out.user(UserOrigin::Replayed, msg.message.or_empty(), None),
            "turn_diff" => out.emit(session::diff(msg.unified_diff.or_empty())),
            "plan_update" => parts::plan(msg.plan, out),
            "context_compacted" => out.emit(parts::compacted(bowline_protocol::kinds::CompactTrigger::Auto)),
            "model_reroute" => {
                let model = msg.to_model.or_empty().to_owned();
                out.emit(Kind::ModelChanged(ModelChanged { model, reason: msg.reason.owned() }));
            }
            "mcp_startup_update" => server(msg, out),
            "warning" | "guardian_warning" => notice(Level::Warn, msg.message.or_empty(), out),
            "deprecation_notice" => notice(Level::Warn, msg.summary.or_empty(), out),
            "background_event" => notice(Level::Info, msg.message.or_empty(), out),
            "exec_approval_request" => out.emit(approvals::command(
                msg.call_id.or_empty(),
                &legacy::words(msg.command),
                msg.reason.get(),
                state.calls.running(msg.call_id.or_empty()),
            )),
            "apply_patch_approval_request" => out.emit(approvals::edit(
                msg.call_id.or_empty(),
                msg.reason.get(),
                state.calls.running(msg.call_id.or_empty()),
            )),
            name if name.ends_with("_begin")
                || name.ends_with("_end")
                || name == "exec_command_output_delta" =>
            {
                // The message before a tool was commentary. It set `complete_at_eof`, which a tool call revokes.
                out.incomplete_at_eof();
                if !legacy::tool(name, msg, state, out) {
                    out.unrecognized(UnrecognizedReason::UnknownType, line, Some(name));
                }
            }
            "view_image_tool_call" => {
                let id = msg.call_id.or_empty();
                let call =
                    CodexToolCall::new("view_image", ToolKind::Read, Json::of(&msg.path.or_empty()).ok());
                state.calls.start(id, call, None, out);
                state.calls.finish(id, ToolStatus::Completed, None, None, out);
            }
            name if REPEATED.contains(&name) => out.quiet(),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, line, Some(type_name)),
        }
    }

    /// Handles a piece of a text.
    fn piece(&mut self, sort: BlockKind, text: &str, state: &mut ExecState, out: &mut Output<'_>) {
        state.progress();
        let (said, block) = match sort {
            BlockKind::Text => (&mut self.text, 0),
            BlockKind::Thinking => (&mut self.thought, THOUGHT),
        };
        said.add(text);
        sort.emit(&state.speech.current(), block, text, None, out);
    }

    /// Handles a text that may have come in pieces before.
    fn whole(
        &mut self,
        sort: BlockKind,
        text: &str,
        phase: Phase,
        state: &mut ExecState,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        state.progress();
        let said = match sort {
            BlockKind::Text => std::mem::take(&mut self.text),
            BlockKind::Thinking => std::mem::take(&mut self.thought),
        };
        self.spoke |= sort == BlockKind::Text;
        if said.is_empty() {
            return state.speech.whole(sort, text, phase, None, out);
        }
        let message = state.speech.current();
        let rest = match said.compare(text) {
            WholeText::Adds(rest) => rest,
            // The pieces are already emitted. Where the whole differs, they stay.
            WholeText::Known | WholeText::Differs => "",
        };
        match sort {
            BlockKind::Thinking => out.thinking(&message, THOUGHT, rest, None),
            BlockKind::Text => {
                out.text(&message, 0, rest, None);
                state.speech.finish(message, phase, out);
            }
        }
    }

    fn complete(&mut self, msg: &Msg<'_>, state: &mut ExecState, out: &mut Output<'_>) {
        if let Some(text) = msg.last_agent_message.owned().filter(|_| !self.spoke && self.text.is_empty()) {
            self.whole(BlockKind::Text, &text, Phase::Final, state, out);
        }
        // After an error the task completes too, without a message.
        let error = state.error.take().filter(|_| msg.last_agent_message.get().is_none());
        self.turn();
        state.ended();
        match error {
            Some(error) => out.failed(&super::super::failures::report(&error)),
            None => out.completed(None),
        }
    }

    fn turn(&mut self) {
        *self = Self::default();
    }
}

/// Events that repeat another one, or have no interest for a reader of the turn.
const REPEATED: &[&str] = &[
    "agent_message_content_delta",
    "reasoning_content_delta",
    "reasoning_raw_content_delta",
    "agent_reasoning_section_break",
    "item_started",
    "item_completed",
    "raw_response_item",
    "terminal_interaction",
    "mcp_startup_complete",
    "mcp_list_tools_response",
    "list_custom_prompts_response",
    "list_skills_response",
    "get_history_entry_response",
    "conversation_path",
    "thread_name_updated",
    "thread_settings_applied",
    "skills_update_available",
    "entered_review_mode",
    "exited_review_mode",
    "undo_started",
    "undo_completed",
    "plan_delta",
    "hook_started",
    "hook_completed",
    "shutdown_complete",
];

/// The block of a message that holds what was thought before it.
const THOUGHT: u32 = 1;

fn phase(msg: &Msg<'_>) -> Phase {
    if msg.phase.get() == Some("commentary") { Phase::Commentary } else { Phase::Final }
}

fn notice(level: Level, text: &str, out: &mut Output<'_>) {
    out.emit(Kind::Notice(Notice { level, text: Excerpt::with_limit(text, 4096).text, code: None }));
}

/// Handles a count of tokens: of the thread and the last request, or, before 0.30, of the thread only.
fn tokens(msg: &Msg<'_>, line: &str, out: &mut Output<'_>) {
    out.quiet();
    let counts = TokenCounts::of(msg.info);
    let flat = || {
        // Rare: a second parse only for versions before 0.30, which put the counts beside the type.
        let line: Value = serde_json::from_str(line).ok()?;
        crate::usage::read(line.get("msg").or_else(|| line.get("params")?.get("msg"))?)
    };
    if let Some(usage) = counts.total.usage().or_else(flat) {
        out.emit(usage::reported(usage, Basis::Cumulative));
    }
    if let Some(gauge) = counts.gauge() {
        out.emit(gauge);
    }
    session::limits(msg.rate_limits, out);
}

/// Handles the state of an MCP server: `"ready"`, or `{"state":"failed","error":"…"}`.
fn server(msg: &Msg<'_>, out: &mut Output<'_>) {
    let status: Value = part(msg.status);
    let word = status.as_str().or_else(|| status.get("state")?.as_str()).unwrap_or_default();
    let error = status.get("error").and_then(Value::as_str).map(str::to_owned);
    out.emit(session::server_status(msg.server.or_empty(), word, error));
}
