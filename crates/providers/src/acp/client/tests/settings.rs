//! Settings of recorded agents that change what they do without an approval.

use bowline_protocol::PermissionMode::{Ask, Read};

use super::live::open;
use super::*;
use crate::conversation::ToolGating;
use crate::played::{PlayedRecording, wire};

#[test]
fn a_setting_that_changes_what_the_agent_may_do_counts_as_a_permission_mode_or_is_refused() {
    const COPILOT: &str = "https://agentclientprotocol.com/protocol/session-modes#";
    let told = |wire: &str, permission, option: &str, value: &str| {
        let mut played = open(wire, permission);
        played.until("session/prompt");
        match played.decoder.option_permission(option, value, permission) {
            OptionPermission::Unchanged => "unchanged",
            OptionPermission::Is(mode) => mode.as_str(),
            OptionPermission::Unknown(_) => "refused",
        }
    };
    let agents = [
        (
            wire!("claude/2.1.325/acp-options"),
            "mode",
            [("default", "ask"), ("acceptEdits", "edit"), ("plan", "unchanged"), ("auto", "refused")],
        ),
        (
            wire!("codex/0.166.0/acp-options"),
            "mode",
            [
                ("read-only", "ask"),
                ("workspace-write", "edit"),
                ("agent", "refused"),
                ("agent-full-access", "yolo"),
            ],
        ),
        (
            wire!("gemini/0.61.0/acp-options"),
            "mode",
            [("default", "ask"), ("autoEdit", "edit"), ("plan", "unchanged"), ("yolo", "yolo")],
        ),
        (
            wire!("qwen/0.24.4/acp-options"),
            "mode",
            [("default", "ask"), ("auto-edit", "edit"), ("auto", "refused"), ("yolo", "yolo")],
        ),
        (
            wire!("copilot/1.0.102/acp-options"),
            "mode",
            [("#agent", "ask"), ("#plan", "unchanged"), ("#autopilot", "refused"), ("#other", "refused")],
        ),
        (
            wire!("copilot/1.0.102/acp-options"),
            "allow_all",
            [("on", "refused"), ("off", "unchanged"), ("true", "refused"), ("", "refused")],
        ),
        // `build` is the mode in which the agent began.
        (
            wire!("opencode/1.18.33/acp-options"),
            "mode",
            [("build", "ask"), ("plan", "unchanged"), ("code", "refused"), ("", "refused")],
        ),
    ];
    for (wire, option, values) in agents {
        for (value, expected) in values {
            let native = value.strip_prefix('#').map(|name| format!("{COPILOT}{name}"));
            let native = native.as_deref().unwrap_or(value);
            assert_eq!(told(wire, Ask, option, native), expected, "{option} = {value}");
        }
    }
    // The agent decides about options that change no permission.
    for option in ["model", "effort", "fast", "collaboration_mode"] {
        assert_eq!(told(wire!("codex/0.166.0/acp-options"), Ask, option, "high"), "unchanged");
    }
    // The asking mode is also that of `read`, where the engine denies the requests. opencode leaves its only reading mode.
    assert_eq!(told(wire!("gemini/0.61.0/acp-options"), Read, "mode", "default"), "read");
    assert_eq!(told(wire!("opencode/1.18.33/acp-options"), Read, "mode", "build"), "refused");
}

/// Under a policy the agent has to ask, whatever the permission mode is.
#[test]
fn under_a_policy_the_agent_keeps_the_mode_in_which_it_asks() {
    let gated = ToolGating::On;
    let talk = Conversation { permission: Ask, gated, cwd: "/home/u/proj".into(), ..Conversation::default() };
    let mut played = PlayedRecording::open("acp", wire!("gemini/0.61.0/acp-options"), &talk);
    played.until("session/prompt");
    played.take_sent();
    for mode in ["yolo", "plan", "default"] {
        let told = played.decoder.option_permission("mode", mode, Ask);
        assert!(matches!(told, OptionPermission::Unknown(_)), "{mode}: {told:?}");
    }
    let sent = played.decoder.set_option("permission", "yolo", &played.now, &mut played.drafts);
    assert_eq!((sent, played.take_sent().len()), (Sent::Done, 0), "only the host decides by it");
}
