//! The dialects of Codex: `codex exec` and `codex app-server`, and the lines of older versions.

pub(super) mod app_server;
pub(super) mod ending;
pub(super) mod exec;
pub(super) mod legacy;
pub(super) mod responses;
pub(super) mod threads;
