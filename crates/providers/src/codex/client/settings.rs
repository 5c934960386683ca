//! The settings of a thread: what the server may do without asking, the model and the effort.

use bowline_protocol::PermissionMode;
use serde_json::{Value, json};

use crate::conversation::{Conversation, ToolGating};
use crate::dialect::Sent;

/// The server's settings for a permission mode: when it asks, and what its sandbox allows.
pub(in super::super) struct Policy {
    pub(in super::super) asks: &'static str,
    pub(super) sandbox: &'static str,
    /// The name of the sandbox in answers, and in the fields of a turn.
    pub(in super::super) told: &'static str,
}

impl Policy {
    pub(in super::super) fn of(permission: PermissionMode, gated: ToolGating) -> Self {
        let (asks, sandbox, told) = match permission {
            PermissionMode::Read => ("never", "read-only", "readOnly"),
            // All but what is known to read only is asked for before it runs. With `on-request` a command that its sandbox
            // stops would leave no trace (0.166.0).
            PermissionMode::Ask => ("untrusted", "read-only", "readOnly"),
            PermissionMode::Edit => ("on-request", "workspace-write", "workspaceWrite"),
            PermissionMode::Yolo => ("never", "danger-full-access", "dangerFullAccess"),
        };
        // A policy decides what Codex asks for, so it has to ask. `untrusted` runs only what it takes for reading without a request.
        let asks = match (gated, permission) {
            (ToolGating::On, PermissionMode::Edit | PermissionMode::Yolo) => "untrusted",
            (ToolGating::On, PermissionMode::Read | PermissionMode::Ask) | (ToolGating::Off, _) => asks,
        };
        Self { asks, sandbox, told }
    }
}

/// Settings that go with every further turn. The server keeps those of the last turn.
#[derive(Debug)]
pub(super) struct TurnSettings {
    model: Option<String>,
    effort: Option<String>,
    permission: Option<PermissionMode>,
}

impl TurnSettings {
    /// The model and the permissions of the first turn are those of the thread.
    pub(super) fn of(talk: &Conversation) -> Self {
        Self { model: None, effort: talk.effort.clone(), permission: None }
    }

    /// Changes a setting for the turns that follow.
    pub(super) fn set(&mut self, option: &str, value: &str) -> Sent {
        match option {
            "model" => self.model = Some(value.to_owned()),
            // The server accepts any effort (0.166.0), so a wrong one shows only in the model's answer.
            "effort" => self.effort = Some(value.to_owned()),
            "permission" => match serde_json::from_value::<PermissionMode>(json!(value)) {
                Ok(mode) => self.permission = Some(mode),
                Err(_) => return Sent::Cannot("the permission modes are `read`, `ask`, `edit` and `yolo`"),
            },
            _ => return Sent::Cannot("Codex can change `model`, `effort` and `permission` while it runs"),
        }
        Sent::Done
    }

    /// Writes them into the parameters of `turn/start`.
    pub(super) fn write(&self, talk: &Conversation, params: &mut Value) {
        if let Some(model) = &self.model {
            params["model"] = json!(model);
        }
        if let Some(effort) = &self.effort {
            params["effort"] = json!(effort);
        }
        // Both fields, or neither: an approval policy of one mode with the sandbox of another is a mode that we do not have.
        if let Some(permission) = self.permission {
            let policy = Policy::of(permission, talk.gated);
            params["approvalPolicy"] = json!(policy.asks);
            params["sandboxPolicy"] = json!({ "type": policy.told });
            // `sandboxPolicy` is a whole policy, so the directories of the thread have to be in it again.
            if permission == PermissionMode::Edit && !talk.add_dirs.is_empty() {
                params["sandboxPolicy"]["writableRoots"] = json!(writable_roots(talk));
            }
        }
    }
}

/// Returns the further directories that the agent may write to.
pub(super) fn writable_roots(talk: &Conversation) -> Vec<String> {
    talk.add_dirs.iter().map(|dir| talk.absolute(dir)).collect()
}
