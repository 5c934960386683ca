//! Qwen Code: its JSON lines in both shapes, its JSON array, its text, and its two-way control lines.
//!
//! `messages` joins messages from pieces and wholes, and drops text that a retry repeats. `approvals` reads the control lines of
//! both directions.

mod approvals;
mod dialect;
mod failures;
mod messages;
mod session;
mod tools;
mod wire;

use self::dialect::Qwen;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::dialects::shaped::Shaped;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[DialectEntry {
        name: "qwen",
        about: "Qwen Code: JSON lines in both shapes, one JSON array, or text; two-way",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::BeforeTools,
        steps: StepOutput::Announced,
        make: |shape| Box::new(Shaped::lines_or_text(Qwen::default(), shape)),
        client: None,
    }],
    nesting: &["QWEN_CODE"],
    ..provider_entry!("qwen")
};
