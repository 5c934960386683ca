//! GitHub Copilot CLI: `--output-format json`, and text.
//!
//! `dialect` is the reader and its verdicts, `session` reads lines about the session as a whole, and `usage` the lines that
//! text mode prints beside the answer.

mod dialect;
mod messages;
mod session;
mod tools;
mod usage;
mod wire;

use self::dialect::Copilot;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::dialects::shaped::Shaped;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[DialectEntry {
        name: "copilot",
        about: "GitHub Copilot CLI: JSON lines or text",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::AskedForTools,
        steps: StepOutput::Announced,
        make: |shape| Box::new(Shaped::new(Copilot::default(), shape)),
        client: None,
    }],
    nesting: &["COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"],
    ..provider_entry!("copilot")
};
