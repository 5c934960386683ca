//! Settings of an open session: the request that changes one, and what a change does to the agent's permissions.
//!
//! An agent that leaves the mode in which it asks acts without a request, so no rule of the engine would stop it. A mode that Bowline
//! knows therefore counts as the permission mode that it stands for. A mode that it does not know, and any other setting about
//! permissions, is refused.

use bowline_protocol::PermissionMode;
use serde_json::json;

use super::AcpClient;
use super::choices::{self, SettingChoice};
use crate::conversation::ToolGating;
use crate::dialect::OptionPermission;

/// Categories and ids of settings, other than the mode, by which agents act without a request. Copilot 1.0.102 has `allow_all` in the
/// category `permissions`.
const ABOUT_PERMISSIONS: &[&str] = &[
    "permissions",
    "permission",
    "permission_mode",
    "allow_all",
    "approval",
    "approvals",
    "approval_mode",
    "approval_policy",
    "auto_approve",
    "sandbox",
    "sandbox_mode",
    "yolo",
];

/// The values that turn such a setting off.
const OFF: &[&str] = &["off", "false"];

const OTHER_MODE: &str =
    "this mode decides by itself what needs an approval; set `permission` to read, ask, edit or yolo";
const OTHER_SETTING: &str =
    "this setting allows actions without an approval; set `permission` to read, ask, edit or yolo";

const UNDER_POLICY: &str = "under a policy the agent stays in the mode in which it asks; set `permission` to read, ask, edit or yolo";

impl AcpClient {
    /// Returns whether a change of an option changes nothing at the agent: under policies it stays in the mode in which it asks, and
    /// the host decides by the new one.
    pub(super) fn stays_asking(&self, option: &str) -> bool {
        option == "permission" && self.talk.gated == ToolGating::On
    }

    /// Returns the request that changes a setting.
    pub(super) fn setting(&self, option: &str, value: &str) -> Result<SettingChoice, &'static str> {
        match option {
            "permission" => match serde_json::from_value::<PermissionMode>(json!(value)) {
                Ok(mode) => choices::live_mode(mode, &self.reader.options),
                Err(_) => Err("the permission modes are `read`, `ask`, `edit` and `yolo`"),
            },
            _ => self.reader.options.choice(option, value),
        }
    }

    /// Returns what a change does to the agent's permissions, while the engine decides by `current`.
    pub(super) fn permission_of_setting(
        &self,
        option: &str,
        value: &str,
        current: PermissionMode,
    ) -> OptionPermission {
        let options = &self.reader.options;
        if !options.is_mode(option) {
            let category = options.category(option).unwrap_or_default();
            let is_about =
                |name: &str| ABOUT_PERMISSIONS.contains(&name.to_lowercase().replace('-', "_").as_str());
            let widens = (is_about(option) || is_about(category)) && !OFF.contains(&value);
            return if widens {
                OptionPermission::Unknown(OTHER_SETTING)
            } else {
                OptionPermission::Unchanged
            };
        }
        if self.talk.gated == ToolGating::On {
            return OptionPermission::Unknown(UNDER_POLICY);
        }
        // The mode of a permission mode may be that of a wider one, too: `default` is that of `read` where no mode only reads.
        if choices::live_mode(current, options).is_ok_and(|choice| choice.value() == value) {
            return OptionPermission::Is(current);
        }
        // The user accepted this mode for the permission mode of the start.
        if self.own_mode.as_deref() == Some(value) {
            return OptionPermission::Is(self.talk.permission);
        }
        choices::permission_of_mode(value).unwrap_or(OptionPermission::Unknown(OTHER_MODE))
    }
}
