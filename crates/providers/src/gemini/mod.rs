//! Gemini CLI: its JSON lines, its one JSON object, its text, and the reasons that it gives only on standard error.
//!
//! `dialect` reads what it prints, `wire` is the form of that, `failures` says why a run failed (messages, exit codes,
//! standard error), `retries` reads the notices of its retries, `thought` takes leaked thoughts out of the text, `work`
//! follows tool calls.

mod dialect;
mod failures;
mod retries;
mod thought;
mod wire;
mod work;

use self::dialect::Gemini;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::Entry;
use crate::dialects::shaped::Shaped;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[Entry {
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
