//! pi: `--mode json`, text, and the two-way `--mode rpc`.
//!
//! `events` reads what both JSON modes print, with `message` and `tools` for its two large parts; `dialect` and `rpc` are
//! the two readers, `wire` the lines. Versions up to 0.74 repeat the message so far with each update and end with
//! `agent_end`; 0.87 says only what is new and ends with `agent_settled`.

mod asked;
mod dialect;
mod events;
mod message;
mod rpc;
mod tools;
mod wire;

use self::dialect::Pi;
use self::rpc::Rpc;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::Entry;
use crate::dialects::shaped::Shaped;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[
        Entry {
            name: "pi",
            about: "pi: JSON lines or text",
            framing: Framing::Lines,
            terminal: Terminal::Event,
            commentary: Commentary::AskedForTools,
            steps: StepOutput::Announced,
            make: |shape| Box::new(Shaped::new(Pi::default(), shape)),
            client: None,
        },
        Entry {
            name: "pi-rpc",
            about: "pi's two-way mode: commands, answers and events as JSON lines",
            framing: Framing::Lines,
            terminal: Terminal::Event,
            commentary: Commentary::AskedForTools,
            steps: StepOutput::Announced,
            make: |_| Box::new(Rpc::default()),
            client: None,
        },
    ],
    account_readers: asked::READERS,
    nesting: &["PI_CODING_AGENT"],
    ..provider_entry!("pi")
};
