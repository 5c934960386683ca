//! opencode: `run --format json`, and text.
//!
//! There is no first and no last event: the id of the session is on every line, and the end is the end of the output
//! with its exit code. `dialect` follows the steps, `messages` reads the parts of one, `stderr` the reports that are only there.

mod account;
mod dialect;
mod messages;
mod stderr;
mod wire;

use self::dialect::Opencode;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::dialects::shaped::Shaped;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[DialectEntry {
        name: "opencode",
        about: "opencode: JSON lines or text",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::AskedForTools,
        steps: StepOutput::Immediate,
        make: |shape| Box::new(Shaped::new(Opencode::default(), shape)),
        client: None,
    }],
    account_readers: account::READERS,
    nesting: &["OPENCODE", "OPENCODE_PID", "OPENCODE_RUN_ID"],
    ..provider_entry!("opencode")
};
