//! grok-cli, the npm program: the conversation as JSON lines, printed when it is over.

mod dialect;

use self::dialect::GrokCli;
use crate::catalogue::ProviderEntry;
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[DialectEntry {
        name: "grok-cli",
        about: "grok-cli: JSON lines with role and content",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::AskedForTools,
        steps: StepOutput::Late,
        make: |_| Box::new(GrokCli::default()),
        client: None,
    }],
    ..provider_entry!("grok-cli")
};
