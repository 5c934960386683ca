//! Claude Code: the formats of the `claude` program.
//!
//! `dialect` tells the lines apart and keeps the state of the turn; each other room reads one subject. `wire` is how
//! their JSON is taken apart, `user` the lines with results of tools. How the program is started is in `manifest.toml`.

mod answers;
mod asked;
mod control;
mod dialect;
mod direct;
mod errors;
mod messages;
mod outcome;
mod speech;
mod spend;
mod system;
mod tasks;
mod toolcalls;
mod user;
mod wire;

use self::dialect::Claude;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::Entry;
use crate::dialects::shaped::Shaped;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[Entry {
        name: "claude",
        about: "Claude Code: JSON lines, one JSON document or plain text, and its control lines",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Announced,
        make: |shape| Box::new(Shaped::new(Claude::default(), shape)),
        client: None,
    }],
    account_readers: asked::READERS,
    nesting: &[
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_SIMPLE",
        "CLAUDE_CODE_SAFE_MODE",
        "CLAUDE_PID",
    ],
    ..provider_entry!("claude")
};
