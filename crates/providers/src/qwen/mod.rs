//! Qwen Code: its JSON lines in both shapes, its JSON array, its text, and its two-way control lines.
//!
//! `dialect` reads what it prints, `wire` is the form of that, `speech` puts messages together from pieces and wholes,
//! `retold` drops what a retry tells again, `retries` reads the notices of retries, `work` follows tool calls, `session`
//! reads its session data, `control` reads the control lines of both directions, `failures` finds why a run failed.

mod control;
mod dialect;
mod failures;
mod retold;
mod retries;
mod session;
mod speech;
mod wire;
mod work;

use self::dialect::Qwen;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::Entry;
use crate::dialects::shaped::Shaped;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[Entry {
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
