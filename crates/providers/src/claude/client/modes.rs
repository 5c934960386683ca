//! Permission modes in the program's words.

use bowline_protocol::PermissionMode;

use super::ClaudeClient;

impl ClaudeClient {
    /// Returns the program's word for one of our permission modes.
    pub(super) fn mode(&self, value: &str) -> Result<&'static str, &'static str> {
        let wanted = PermissionMode::ALL.into_iter().find(|mode| mode.as_str() == value);
        match (self.talk.permission, wanted) {
            (_, None) => Err("the permission modes are `read`, `ask`, `edit` and `yolo`"),
            // Its tools are denied by arguments of the process.
            (PermissionMode::Read, Some(_)) | (_, Some(PermissionMode::Read)) => {
                Err("the agent enters and leaves the mode `read` only at its start")
            }
            (_, Some(PermissionMode::Ask)) => Ok("default"),
            (_, Some(PermissionMode::Edit)) => Ok("acceptEdits"),
            // The program refuses it in a process that was not started in it.
            (_, Some(PermissionMode::Yolo)) => Ok("bypassPermissions"),
        }
    }
}
