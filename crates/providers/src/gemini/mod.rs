//! Gemini CLI: its JSON lines, its one JSON object, its text, and the reasons that it gives only on standard error.
//!
//! `failures` finds why a run failed (messages, exit codes, standard error) and reads the notices of retries; `messages` takes
//! leaked thoughts out of the text.

mod dialect;
mod failures;
mod messages;
mod tools;
mod wire;

use self::dialect::Gemini;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::dialects::shaped::Shaped;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[DialectEntry {
        name: "gemini",
        about: "Gemini CLI: JSON lines, one JSON object, or text",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Announced,
        make: |shape| Box::new(Shaped::new(Gemini::default(), shape)),
        client: None,
    }],
    nesting: &["GEMINI_CLI"],
    ..provider_entry!("gemini")
};
