//! `acp`: the Agent Client Protocol, version 1, as JSON lines on standard input and output.
//!
//! Any agent may speak it: [`agent`] makes the manifest of one that is only known by its command. Additions of single agents to the protocol in `_meta` and in
//! extension methods are read where they matter, and the agent is named beside the code that reads it.
//!
//! The types of the wire are our own (`wire`) and not those of the official schema crate (1.15.1). Its types own every
//! string and hold tool arguments as trees; they refuse a line for an unknown stop reason, permission or block, or a
//! missing title; and the crate switches on `serde_json`'s `preserve_order` for the whole build. The tests hold an
//! example of every update that it knows.
//!
//! `dialect` reads the messages of both sides: requests and their responses, prompts, which become turns, and the updates of a
//! session. `session` has its settings. `client` is the other side: it chooses the settings and translates the orders of its caller.

mod account;
mod approvals;
mod client;
mod dialect;
mod failures;
mod messages;
mod session;
mod tools;
mod wire;

use bowline_protocol::kinds::Transport;

use self::dialect::Acp;
use crate::catalogue::ProviderEntry;
use crate::conversation::{Images, ProtocolClient};
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::manifest::Manifest;

/// The name of the dialect.
pub(crate) const NAME: &str = "acp";

/// The client of the protocol.
pub(crate) const CLIENT: ProtocolClient = ProtocolClient {
    transport: Transport::Acp,
    needs_cwd: true,
    images: Images::Bytes,
    first_message: client::AcpClient::first_message,
    dialect: |conversation| Box::new(client::AcpClient::new(conversation)),
    refuses: |_| None,
};

/// The manifest of an agent of which only the command is known.
const ANY: &str = include_str!("any.toml");

/// Makes the manifest of an agent of which only the command is known: `acp:<command>`.
///
/// The command is cut at blanks; there is no shell, and no way to quote. A command that needs one goes into a script.
pub fn agent(command: &str) -> Option<Manifest> {
    let mut words = command.split_whitespace().map(str::to_owned);
    let program = words.next()?;
    let mut manifest = Manifest::parse(ANY).expect("a test reads it");
    manifest.name = format!("{NAME}:{command}");
    manifest.title.clone_from(&program);
    manifest.program = program;
    manifest.run.args = words.collect();
    Some(manifest)
}

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[DialectEntry {
        name: NAME,
        about: "the Agent Client Protocol, version 1, as JSON lines in both directions",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Immediate,
        make: |_| Box::new(Acp::default()),
        client: Some(CLIENT),
    }],
    account_readers: account::READERS,
    ..ProviderEntry::EMPTY
};
