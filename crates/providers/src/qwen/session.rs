//! Data about the program itself: the session, its servers, a shortened context.

use bowline_protocol::kinds::{CompactTrigger, ContextCompacted, McpServerStatus, McpState, SessionStarted};
use bowline_protocol::{Kind, NativeSessionId};
use serde_json::Value;

use super::wire::QwenLine;
use crate::dialect::Output;

/// Handles the `init` line.
pub(super) fn started(line: &QwenLine, out: &mut Output<'_>) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    out.emit(Kind::SessionStarted(SessionStarted {
        native_session: line.session_id.as_str().map(NativeSessionId::from),
        version: text(&line.qwen_code_version),
        model: text(&line.model),
        cwd: text(&line.cwd),
        tools: line.tools.as_array().into_iter().flatten().filter_map(text).collect(),
        permission_mode: text(&line.permission_mode),
        ..SessionStarted::default()
    }));
    for server in line.mcp_servers.as_array().into_iter().flatten() {
        let Some(name) = server.get("name").and_then(Value::as_str) else { continue };
        let status = server.get("status").and_then(Value::as_str).unwrap_or_default();
        let state = match status {
            "connected" | "ready" => McpState::Ready,
            "connecting" | "pending" => McpState::Connecting,
            "needs-auth" | "needs_auth" => McpState::NeedsLogin,
            "disabled" => McpState::Disabled,
            _ => McpState::Failed,
        };
        out.emit(Kind::McpServerStatus(McpServerStatus { name: name.to_owned(), state, error: None }));
    }
}

/// Returns whether this version calls every turn a success: 0.15.10 does, 0.24.4 does not.
pub(super) fn always_succeeds(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    // Versions between the two recordings are unknown: they are treated like the old one, which checks more.
    numbers.next() == Some(0) && numbers.next().is_some_and(|minor| minor < 24)
}

/// Handles a line about a context that was shortened.
pub(super) fn compacted(line: &QwenLine, out: &mut Output<'_>) {
    let told = if line.compact_metadata.is_object() { &line.compact_metadata } else { &line.data };
    let count = |keys: [&str; 3]| keys.iter().find_map(|key| told.get(*key)?.as_u64());
    let manual = told.get("trigger").and_then(Value::as_str) == Some("manual");
    out.emit(Kind::ContextCompacted(ContextCompacted {
        trigger: if manual { CompactTrigger::Manual } else { CompactTrigger::Auto },
        tokens_before: count(["pre_tokens", "originalTokenCount", "tokensBefore"]),
        tokens_after: count(["post_tokens", "newTokenCount", "tokensAfter"]),
    }));
}
