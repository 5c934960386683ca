//! The settings of a thread, and notifications that stand for themselves: limits, states, diffs and MCP servers.

use bowline_protocol::kinds::{
    DiffAvailable, LimitReported, LimitState, McpServerStatus, McpState, ModelChanged, OptionState,
    OptionsChanged, SessionState, SessionStateChanged,
};
use bowline_protocol::{Excerpt, Kind, PermissionMode, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::Policy;
use super::wire::part;
use crate::conversation::ToolGating;
use crate::dialect::Output;
use crate::dialects::loose_json::{List, LooseText, Maybe, Number};

/// The settings of the session's thread, as the server last reported them.
#[derive(Debug, Default)]
pub(super) struct ThreadSettings {
    model: Option<String>,
    effort: Option<String>,
    permission: Option<String>,
}

impl ThreadSettings {
    /// Reads the answer that opens a thread, or the settings of a thread.
    pub(super) fn of(raw: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Settings<'a> {
            #[serde(borrow)]
            model: LooseText<'a>,
            #[serde(borrow)]
            effort: LooseText<'a>,
            #[serde(borrow)]
            reasoning_effort: LooseText<'a>,
            #[serde(borrow)]
            approval_policy: Option<&'a RawValue>,
            #[serde(borrow, alias = "sandboxPolicy")]
            sandbox: Maybe<SandboxType<'a>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct SandboxType<'a> {
            #[serde(borrow, rename = "type")]
            type_name: LooseText<'a>,
        }
        let settings = part::<Maybe<Settings<'_>>>(raw).0.unwrap_or_default();
        let asks = part::<LooseText<'_>>(settings.approval_policy).owned();
        let sandbox = settings.sandbox.0.and_then(|sandbox| sandbox.type_name.owned());
        Self {
            model: settings.model.owned(),
            effort: settings.effort.owned().or(settings.reasoning_effort.owned()),
            permission: asks.zip(sandbox).map(|(asks, sandbox)| permission(&asks, &sandbox)),
        }
    }

    /// Handles the current settings, and emits those that changed.
    pub(super) fn updated(&mut self, raw: Option<&RawValue>, out: &mut Output<'_>) {
        out.quiet();
        let before = std::mem::replace(self, Self::of(raw));
        let pairs = [
            ("model", &before.model, &self.model),
            ("effort", &before.effort, &self.effort),
            ("permission", &before.permission, &self.permission),
        ];
        let changed = pairs.into_iter().filter(|(_, before, now)| before != now);
        let option = |(id, _, now): (&str, &Option<String>, &Option<String>)| OptionState {
            id: id.to_owned(),
            choices: Vec::new(),
            current: now.clone(),
        };
        let options: Vec<OptionState> = changed.map(option).collect();
        if let Some(model) = self.model.clone().filter(|_| before.model != self.model) {
            out.emit(Kind::ModelChanged(ModelChanged { model, reason: None }));
        }
        if !options.is_empty() {
            out.emit(Kind::OptionsChanged(OptionsChanged { options }));
        }
    }
}

/// Returns the permission mode that these settings are, or both as they are.
fn permission(asks: &str, sandbox: &str) -> String {
    let modes = [
        (PermissionMode::Read, "read"),
        (PermissionMode::Ask, "ask"),
        (PermissionMode::Edit, "edit"),
        (PermissionMode::Yolo, "yolo"),
    ];
    let is = |(mode, _): &(PermissionMode, &str)| {
        let policy = Policy::of(*mode, ToolGating::Off);
        policy.asks == asks && policy.told == sandbox
    };
    let mode = modes.into_iter().find(is);
    mode.map_or_else(|| format!("{asks}, {sandbox}"), |(_, name)| name.to_owned())
}

/// Emits the state of every limit in the message.
pub(super) fn limits(raw: Option<&RawValue>, out: &mut Output<'_>) {
    let limits: Value = part(raw);
    let reached = ["rateLimitReachedType", "rate_limit_reached_type"]
        .iter()
        .any(|key| limits.get(key).is_some_and(Value::is_string));
    let id = ["limitId", "limit_id"].iter().find_map(|key| limits.get(key)?.as_str()).unwrap_or("codex");
    for window in ["primary", "secondary"] {
        if let Some(found) = limits.get(window).filter(|found| found.is_object()) {
            out.emit(limit(id, window, found, reached));
        }
    }
    out.quiet();
}

fn limit(id: &str, window: &str, limit: &Value, reached: bool) -> Kind {
    let number = |keys: [&str; 3]| keys.iter().find_map(|key| limit.get(key)?.as_f64());
    let used_percent = number(["usedPercent", "used_percent", "used_percent"]);
    let minutes = number(["windowDurationMins", "window_duration_mins", "window_minutes"]);
    let resets = number(["resetsAt", "resets_at", "resets_at"]);
    let state = match used_percent {
        // The percentage first: `reached` marks the whole snapshot, not this window.
        Some(used) if used >= 100.0 => LimitState::Exhausted,
        None if reached => LimitState::Exhausted,
        Some(used) if used >= 80.0 => LimitState::Warning,
        Some(_) | None => LimitState::Allowed,
    };
    Kind::LimitReported(LimitReported {
        window: minutes
            .map_or_else(|| format!("{id}/{window}"), |minutes| format!("{id}/{window}/{minutes}m")),
        state,
        used_percent,
        resets_at: resets.and_then(seconds),
    })
}

/// Reads a time in seconds since 1970.
fn seconds(seconds: f64) -> Option<Timestamp> {
    // Up to the year 5138. A larger number is no time in seconds, and must not overflow the cast.
    (0.0..1e11).contains(&seconds).then(|| Timestamp::from_millis((seconds * 1000.0) as i64))
}

/// Returns which state a thread is in; nothing for one that is not loaded.
pub(super) fn state(raw: Option<&RawValue>) -> Option<Kind> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct ThreadStatus<'a> {
        #[serde(borrow, rename = "type")]
        type_name: LooseText<'a>,
        #[serde(borrow)]
        active_flags: List<LooseText<'a>>,
    }
    let status = part::<Maybe<ThreadStatus<'_>>>(raw).0.unwrap_or_default();
    let flags: Vec<&str> = status.active_flags.0.iter().map(LooseText::or_empty).collect();
    let state = match status.type_name.or_empty() {
        "active" if flags.contains(&"waitingOnApproval") || flags.contains(&"waitingOnUserInput") => {
            SessionState::WaitingForApproval
        }
        "active" => SessionState::Running,
        "idle" => SessionState::Idle,
        "systemError" => SessionState::Failed,
        _ => return None,
    };
    let reason = (!flags.is_empty()).then(|| flags.join(", "));
    Some(Kind::SessionStateChanged(SessionStateChanged { state, reason }))
}

/// The place of a block among those of its kind.
pub(super) fn index(number: Number) -> u32 {
    number.0.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

/// Makes the event of a diff, with its size.
pub(super) fn diff(diff: &str) -> Kind {
    let count = |sign: char, rule: &str| {
        // The headers `+++ ` and `--- ` are no changed lines.
        let lines = diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(rule));
        Some(lines.count() as u64)
    };
    Kind::DiffAvailable(DiffAvailable {
        summary: None,
        files_changed: Some(diff.lines().filter(|line| line.starts_with("diff --git ")).count() as u64),
        lines_added: count('+', "+++ "),
        lines_removed: count('-', "--- "),
        diff: Some(Excerpt::of(diff)),
    })
}

/// Makes the event of an MCP server's state.
pub(super) fn server_status(name: &str, state: &str, error: Option<String>) -> Kind {
    let state = match state {
        "ready" => McpState::Ready,
        "failed" => McpState::Failed,
        "cancelled" | "disabled" => McpState::Disabled,
        "needsLogin" | "notLoggedIn" | "authRequired" => McpState::NeedsLogin,
        _ => McpState::Connecting,
    };
    Kind::McpServerStatus(McpServerStatus { name: name.to_owned(), state, error })
}
