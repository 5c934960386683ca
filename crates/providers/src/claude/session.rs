//! `system` lines: all reports of the program beside the conversation.

pub(super) mod answers;

use bowline_protocol::kinds::{
    CompactTrigger, ContextCompacted, Level, LimitReported, LimitState, McpServerStatus, McpState,
    ModelChanged, Notice, OptionState, OptionsChanged, SessionStarted, SessionState, SessionStateChanged,
    Status, UnrecognizedReason,
};
use bowline_protocol::{Excerpt, Kind, NativeSessionId};

use super::dialect::Claude;
use super::failures::{self, moment};
use super::wire::{ClaudeObject, text};
use crate::dialect::Output;

impl Claude {
    /// Handles a `system` line.
    pub(super) fn system(&mut self, raw: &str, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let subtype = line.text_or_empty("subtype");
        match subtype.as_ref() {
            "init" => self.init(line, out),
            "status" => self.status(line, out),
            "api_retry" => out.emit(Kind::Retrying(failures::retrying(line))),
            "permission_denied" => {
                let owned = |key: &str| line.text(key).map(String::from);
                let rule = owned("decision_reason_type");
                self.requests.refused(&line.text_or_empty("tool_use_id"), rule, owned("message"), out);
            }
            "compact_boundary" | "microcompact_boundary" => compacted(line, out),
            "task_started" => self.tasks.started(line, out),
            "task_updated" => self.tasks.updated(line, out),
            "background_tasks_changed" => self.tasks.listed(line, out),
            "task_notification" => self.notified |= self.tasks.ended(line, out),
            // Printed only with the environment variable `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1`.
            "session_state_changed" => state_changed(raw, line, out),
            "hook_response" => hook_response(line, out),
            "model_refusal_fallback" => {
                let model = ["fallback_model", "to_model", "model"].iter().find_map(|key| line.text(key));
                match model {
                    Some(model) => self.changed_model(&model, Some("refusal"), out),
                    None => remark(&subtype, line, Level::Warn, out),
                }
            }
            "model_refusal_no_fallback" | "mirror_error" | "worker_shutting_down" => {
                remark(&subtype, line, Level::Warn, out);
            }
            "informational"
            | "notification"
            | "local_command_output"
            | "plugin_install"
            | "conversation_reset"
            | "memory_recall"
            | "files_persisted"
            | "active_goal" => remark(&subtype, line, Level::Info, out),
            // Estimates of thoughts, reported even when the thoughts are not; the result has the numbers.
            "thinking_tokens" => out.quiet(),
            // The call and the end of a task report the same.
            "hook_started" | "hook_progress" | "task_progress" => out.quiet(),
            // For the terminal, and lists that Bowline does not use.
            "ui_invalidate" | "commands_changed" => out.quiet(),
            // Our answer to the question has its own event.
            "elicitation_complete" => out.quiet(),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(&format!("system/{subtype}"))),
        }
    }

    fn init(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let owned = |key: &str| line.text(key).map(String::from);
        let session = owned("session_id");
        let model = owned("model");
        // `init` repeats every turn. A repetition without a field must not erase the value of an earlier one.
        self.session = session.clone().or(self.session.take());
        self.mode(&line.text_or_empty("permissionMode"));
        self.model = model.clone().or(self.model.take());
        out.emit(Kind::SessionStarted(SessionStarted {
            native_session: session.map(NativeSessionId::from),
            version: owned("claude_code_version"),
            model,
            cwd: owned("cwd"),
            tools: line.array("tools").into_iter().filter_map(text).map(String::from).collect(),
            // The mode `manual` is reported as `default` here (2.1.325).
            permission_mode: owned("permissionMode"),
            ..SessionStarted::default()
        }));
        self.servers.tell(&line.objects("mcp_servers"), out);
        self.announced(out);
    }

    fn mode(&mut self, mode: &str) {
        if !mode.is_empty() {
            self.requests.accepts_edits = mode == "acceptEdits";
        }
    }

    /// Handles data about the session that only the result of a turn has, as in `json`.
    pub(super) fn session_of_result(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        if self.session.is_some() {
            return;
        }
        self.session = line.text("session_id").map(String::from);
        if let Some(session) = &self.session {
            out.emit(Kind::SessionStarted(SessionStarted {
                native_session: Some(NativeSessionId::from(session.as_str())),
                ..SessionStarted::default()
            }));
        }
    }

    fn status(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        out.quiet();
        let status = line.text("status").map(String::from);
        let mode = line.text("permissionMode").map(String::from);
        // A change of mode comes as a status that does not mean busy.
        if status.is_some() || mode.is_none() || line.raw("compact_result").is_some() {
            out.emit(Kind::Status(Status { status }));
        }
        if let Some(mode) = mode {
            self.mode(&mode);
            let mode = OptionState { id: "permission_mode".into(), choices: Vec::new(), current: Some(mode) };
            out.emit(Kind::OptionsChanged(OptionsChanged { options: vec![mode] }));
        }
        let result = line.text_or_empty("compact_result");
        if !matches!(result.as_ref(), "" | "success") {
            let why = line.text("compact_error").unwrap_or(result);
            let text = format!("the conversation could not be compacted: {why}");
            out.emit(Kind::Notice(Notice {
                level: Level::Warn,
                text,
                code: Some("compaction_failed".into()),
            }));
        }
    }

    /// Emits the change to another model, unless it is only another spelling of the same.
    pub(super) fn changed_model(&mut self, model: &str, reason: Option<&str>, out: &mut Output<'_>) {
        // The variant stands in brackets, `…[1m]`: `init` may have it while the messages of the same model do not.
        let plain = |model: &str| model.split('[').next().unwrap_or_default().to_owned();
        let changed = self.model.as_deref().is_some_and(|known| plain(known) != plain(model));
        if changed || self.model.is_none() {
            self.model = Some(model.to_owned());
        }
        if changed {
            let (model, reason) = (model.to_owned(), reason.map(str::to_owned));
            out.emit(Kind::ModelChanged(ModelChanged { model, reason }));
        }
    }

    /// Takes `rate_limit_event`.
    pub(super) fn limit(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        out.quiet();
        let Some(info) = line.object("rate_limit_info") else { return };
        let windows = info.object("unifiedWindows").unwrap_or_default();
        let named = info.text("rateLimitType");
        let window = named.as_ref().and_then(|name| windows.object(name));
        let resets_at = moment(&info, "resetsAt");
        let state = limit_state(&info);
        if state == LimitState::Exhausted {
            // The failure that follows may have only a text such as "resets 9:45am (UTC)".
            self.limit_resets_at = resets_at;
        }
        out.emit(Kind::LimitReported(LimitReported {
            window: named.as_ref().map_or_else(|| "unified".to_owned(), ToString::to_string),
            state,
            used_percent: percent(&info).or_else(|| percent(window.as_ref()?)),
            resets_at,
        }));
        for (name, _) in windows.fields().filter(|(name, _)| named.as_deref() != Some(*name)) {
            let Some(window) = windows.object(name) else { continue };
            out.emit(Kind::LimitReported(LimitReported {
                window: name.to_owned(),
                state: limit_state(&window),
                used_percent: percent(&window),
                resets_at: moment(&window, "resetsAt"),
            }));
        }
    }
}

fn limit_state(info: &ClaudeObject<'_>) -> LimitState {
    match info.text_or_empty("status").as_ref() {
        "rejected" => LimitState::Exhausted,
        "allowed_warning" => LimitState::Warning,
        _ => LimitState::Allowed,
    }
}

fn percent(window: &ClaudeObject<'_>) -> Option<f64> {
    window.number("utilization").map(|part| part * 100.0)
}

fn compacted(line: &ClaudeObject<'_>, out: &mut Output<'_>) {
    // The spelling depends on the kind of boundary and the version.
    let data = ["compact_metadata", "compactMetadata", "microcompactMetadata"];
    let data = data.iter().find_map(|key| line.object(key)).unwrap_or_default();
    // Some wrappers put the figures beside the subtype.
    let manual = data.text("trigger").or_else(|| line.text("trigger")).as_deref() == Some("manual");
    let count = |keys: [&str; 2]| keys.iter().find_map(|key| data.count(key).or_else(|| line.count(key)));
    out.emit(Kind::ContextCompacted(ContextCompacted {
        trigger: if manual { CompactTrigger::Manual } else { CompactTrigger::Auto },
        tokens_before: count(["pre_tokens", "preTokens"]),
        tokens_after: count(["post_tokens", "postTokens"]),
    }));
}

fn state_changed(raw: &str, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
    let state = match line.text_or_empty("state").as_ref() {
        "running" => SessionState::Running,
        "idle" => SessionState::Idle,
        "requires_action" => SessionState::WaitingForApproval,
        other => {
            let name = format!("system/session_state_changed {other}");
            return out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(&name));
        }
    };
    out.emit(Kind::SessionStateChanged(SessionStateChanged { state, reason: None }));
}

/// Handles the end of a hook. Only a failed one is reported to the user.
fn hook_response(line: &ClaudeObject<'_>, out: &mut Output<'_>) {
    let well = matches!(line.text_or_empty("outcome").as_ref(), "" | "success")
        // An absent exit code is `None`, which is less than any `Some`: a hook without one counts as successful.
        && line.count("exit_code") <= Some(0);
    if well {
        return out.quiet();
    }
    let said =
        ["stderr", "output", "stdout"].iter().find_map(|key| line.text(key).filter(|said| !said.is_empty()));
    let name = line.text("hook_name").or_else(|| line.text("hook_event")).unwrap_or("hook".into());
    let outcome = line.text_or_empty("outcome");
    let text = format!("the hook {name} ended with {outcome}: {}", said.unwrap_or_default().trim());
    let text = Excerpt::with_limit(&text, 4096).text;
    out.emit(Kind::Notice(Notice { level: Level::Warn, text, code: Some("hook_failed".into()) }));
}

/// Passes a remark on to the user, under the name that the program has for it.
pub(super) fn remark(name: &str, line: &ClaudeObject<'_>, level: Level, out: &mut Output<'_>) {
    let said = ["content", "message", "text", "summary", "suggestion", "error", "reason", "value"];
    let said = said.iter().find_map(|key| line.text(key).filter(|said| !said.trim().is_empty()));
    let level = match line.text("level").as_deref() {
        Some("error") => Level::Error,
        Some("warning" | "warn") => Level::Warn,
        Some(_) | None => level,
    };
    let text = said.map_or_else(|| name.replace('_', " "), |said| Excerpt::with_limit(&said, 4096).text);
    out.emit(Kind::Notice(Notice { level, text, code: Some(name.to_owned()) }));
}

/// The MCP servers whose state was reported. Every `init` lists them all again.
#[derive(Debug, Default)]
pub(super) struct McpServers(Vec<(String, McpState)>);

/// The most servers that are remembered.
const MOST_SERVERS: usize = 256;

impl McpServers {
    /// Emits changes of the servers' states.
    pub(super) fn tell(&mut self, servers: &[ClaudeObject<'_>], out: &mut Output<'_>) {
        for server in servers {
            let state = match server.text_or_empty("status").as_ref() {
                "connected" => McpState::Ready,
                "pending" | "connecting" => McpState::Connecting,
                "needs-auth" | "needs_auth" => McpState::NeedsLogin,
                "disabled" => McpState::Disabled,
                // Anything else is a server whose tools cannot be used.
                _ => McpState::Failed,
            };
            let name = server.text_or_empty("name").into_owned();
            if self.0.contains(&(name.clone(), state)) {
                continue;
            }
            self.0.retain(|(known, _)| *known != name);
            if self.0.len() < MOST_SERVERS {
                self.0.push((name.clone(), state));
            }
            let error = server.text("error").map(String::from);
            out.emit(Kind::McpServerStatus(McpServerStatus { name, state, error }));
        }
    }
}
