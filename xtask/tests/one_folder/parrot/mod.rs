//! The parrot: a provider that exists only in a test. It prints `{"say": TEXT}`, one message a line.

mod account;
mod dialect;

use self::dialect::Parrot;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[DialectEntry {
        name: "parrot",
        about: "the parrot: JSON lines",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(Parrot::default()),
        client: None,
    }],
    account_readers: account::READERS,
    nesting: &["PARROT_CAGE"],
    ..provider_entry!("parrot")
};
