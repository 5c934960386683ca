//! Data about the session as a whole: its id, its model, its context, servers and remarks.

use bowline_protocol::kinds::{
    CompactTrigger, ContextCompacted, ContextGauge, Level, McpServerStatus, McpState, ModelChanged, Notice,
    OptionState, OptionsChanged, SessionStarted, Status, UsageReported,
};
use bowline_protocol::{Basis, Kind, MessageId, NativeSessionId, Usage, UsageSource};

use super::wire::{CopilotData, CopilotLine, Outcome, Server};
use crate::dialect::Output;
use crate::dialects::loose_json::{self, Field, Object};

/// State of the session.
#[derive(Debug, Default)]
pub(super) struct Session {
    name: Option<String>,
    model: Option<String>,
}

impl Session {
    /// Handles the name of the session, once.
    pub(super) fn named(&mut self, name: &Field<'_>, out: &mut Output<'_>) {
        if let Some(name) = name.text().filter(|name| self.name.as_deref() != Some(*name)) {
            self.name = Some(name.to_owned());
            let native_session = Some(NativeSessionId::from(name));
            out.emit(Kind::SessionStarted(SessionStarted { native_session, ..SessionStarted::default() }));
        }
    }

    /// Handles a line about the session. Returns `false` for any other.
    pub(super) fn take(&mut self, line: &CopilotLine<'_>, out: &mut Output<'_>) -> bool {
        let data = &line.data.0;
        match line.type_name.str() {
            "session.start" | "session.resume" => self.started(data, out),
            "session.model_change" => self.model(&data.new_model, out),
            // The tools that there are now; of them, only the model is named.
            "session.tools_updated" => self.model(&data.model, out),
            "session.mode_changed" => {
                let option = OptionState {
                    id: "mode".to_owned(),
                    choices: Vec::new(),
                    current: data.new_mode.string(),
                };
                out.emit(Kind::OptionsChanged(OptionsChanged { options: vec![option] }));
            }
            "session.mcp_servers_loaded" => {
                for Object(server) in loose_json::part::<Vec<Object<Server<'_>>>>(data.servers) {
                    mcp(server.name.str(), server.status.str(), server.error.string(), out);
                }
            }
            "session.mcp_server_status_changed" => mcp(data.server_name.str(), data.status.str(), None, out),
            "session.info" => notice(Level::Info, &data.info_type, data, out),
            "session.warning" => notice(Level::Warn, &data.warning_type, data, out),
            "session.task_complete" => out.notice(Level::Info, data.summary.str()),
            "skill.invoked" => out.notice(Level::Info, format!("skill {}", data.name.str())),
            "system.notification" => out.notice(Level::Info, data.content.str()),
            "assistant.intent" => status(data.intent.text(), out),
            "session.usage_info" => {
                if let Some(used) = data.current_tokens.whole() {
                    out.emit(Kind::ContextGauge(ContextGauge { used, window: data.token_limit.whole() }));
                }
            }
            "assistant.usage" => usage(data, out),
            "session.compaction_start" => status(Some("compacting"), out),
            "session.compaction_complete" => compacted(data, out),
            "session.truncation" => out.emit(Kind::ContextCompacted(ContextCompacted {
                trigger: CompactTrigger::Auto,
                tokens_before: data.pre_truncation_tokens_in_messages.whole(),
                tokens_after: data.post_truncation_tokens_in_messages.whole(),
            })),
            other => return says_nothing(other),
        }
        true
    }

    fn started(&mut self, data: &CopilotData<'_>, out: &mut Output<'_>) {
        self.name = data.session_id.string().or(self.name.take());
        self.model = data.selected_model.string().or(self.model.take());
        out.emit(Kind::SessionStarted(SessionStarted {
            native_session: data.session_id.text().map(NativeSessionId::from),
            version: data.copilot_version.string(),
            model: data.selected_model.string(),
            cwd: data.context.0.cwd.string(),
            ..SessionStarted::default()
        }));
    }

    fn model(&mut self, model: &Field<'_>, out: &mut Output<'_>) {
        if let Some(model) = model.text().filter(|model| self.model.as_deref() != Some(*model)) {
            self.model = Some(model.to_owned());
            out.emit(Kind::ModelChanged(ModelChanged { model: model.to_owned(), reason: None }));
        }
    }
}

/// Returns whether a line of this type is known and adds nothing to other lines.
fn says_nothing(type_name: &str) -> bool {
    match type_name {
        // A turn of theirs is a call of the model: its message, tools and failures are reported.
        "assistant.turn_start"
        | "assistant.turn_end"
        | "assistant.idle"
        | "agent.interrupted"
        | "assistant.message_start"
        | "assistant.streaming_delta"
        | "model.call_finished"
        | "model.call_final_result" => true,
        // Without data: something changed, but not what.
        "session.background_tasks_changed" | "session.todos_changed" | "pending_messages.modified" => true,
        // Lists of what could be used.
        "session.skills_loaded"
        | "session.custom_agents_updated"
        | "session.extensions_loaded"
        | "commands.changed"
        | "capabilities.changed"
        | "session.mcp_tools_list_changed"
        // 1.0.102, once for each MCP server that has tools.
        | "session.mcp_server_tools_loaded" => true,
        // The program's own book-keeping, and its instructions.
        "session.title_changed"
        | "session.context_changed"
        | "session.plan_changed"
        | "session.workspace_file_changed"
        | "session.permissions_changed"
        | "session.usage_checkpoint"
        | "session.shutdown"
        | "session.snapshot_rewind"
        | "system.message"
        | "hook.start"
        | "hook.end"
        | "hook.progress" => true,
        _ => false,
    }
}

fn mcp(name: &str, status: &str, error: Option<String>, out: &mut Output<'_>) {
    let state = match status {
        "connected" | "ready" => McpState::Ready,
        "failed" | "error" => McpState::Failed,
        "needs-auth" | "needs_auth" => McpState::NeedsLogin,
        "disabled" | "not_configured" => McpState::Disabled,
        _ => McpState::Connecting,
    };
    out.emit(Kind::McpServerStatus(McpServerStatus { name: name.to_owned(), state, error }));
}

fn notice(level: Level, code: &Field<'_>, data: &CopilotData<'_>, out: &mut Output<'_>) {
    out.emit(Kind::Notice(Notice { level, text: data.message.str().to_owned(), code: code.string() }));
}

fn status(status: Option<&str>, out: &mut Output<'_>) {
    out.emit(Kind::Status(Status { status: status.map(str::to_owned) }));
}

fn compacted(data: &CopilotData<'_>, out: &mut Output<'_>) {
    status(None, out);
    if data.success.truth() == Some(false) {
        let error: Outcome<'_> = loose_json::part(data.error);
        let words = loose_json::part::<Field<'_>>(data.error);
        let text = words.text().or(error.message.text()).unwrap_or("the conversation could not be compacted");
        return out.notice(Level::Warn, text);
    }
    out.emit(Kind::ContextCompacted(ContextCompacted {
        trigger: CompactTrigger::Auto,
        tokens_before: data.pre_compaction_tokens.whole(),
        tokens_after: data.post_compaction_tokens.whole(),
    }));
}

/// Handles the tokens of one call, which newer versions may tell. The input counts what the cache served, as the figures of
/// text mode do.
fn usage(data: &CopilotData<'_>, out: &mut Output<'_>) {
    let (Some(input), Some(output)) = (data.input_tokens.whole(), data.output_tokens.whole()) else { return };
    let cache_read = data.cache_read_tokens.whole().unwrap_or(0);
    let cache_write = data.cache_write_tokens.whole().unwrap_or(0);
    out.emit(Kind::UsageReported(UsageReported {
        usage: Usage {
            // Saturating: a version that counts the cache apart would make this negative.
            input: input.saturating_sub(cache_read.saturating_add(cache_write)),
            output,
            cache_read,
            cache_write,
            reasoning: data.reasoning_tokens.whole(),
        },
        basis: Basis::PerCall,
        source: UsageSource::Reported,
        cost_usd: None,
        model: data.model.string(),
        message: data.api_call_id.text().map(MessageId::from),
    }));
}
