//! pi: `--mode json`, text, and the two-way `--mode rpc`.
//!
//! `dialect` reads the events that both JSON modes print, and `dialect/rpc` the rest of the two-way mode, whose other side is
//! `client`. Versions up to 0.74
//! repeat the message so far with each update and end with `agent_end`; 0.87 prints only new text and ends with
//! `agent_settled`.

mod account;
mod client;
mod dialect;
mod messages;
mod tools;
mod wire;

use bowline_protocol::kinds::Transport;

use self::dialect::PiDialect;
use self::dialect::rpc::PiRpc;
use crate::catalogue::ProviderEntry;
use crate::conversation::{Images, ProtocolClient};
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::dialects::shaped::Shaped;

/// The client of the two-way mode.
const CLIENT: ProtocolClient = ProtocolClient {
    transport: Transport::Pipe,
    needs_cwd: false,
    asks_host: false,
    announces_tools: false,
    images: Images::Bytes,
    first_message: |_| client::PiClient::first_message(),
    dialect: |conversation| Box::new(client::PiClient::new(conversation)),
    refuses: |_| None,
};

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[
        DialectEntry {
            name: "pi",
            about: "pi: JSON lines or text",
            framing: Framing::Lines,
            terminal: Terminal::Event,
            commentary: Commentary::AskedForTools,
            steps: StepOutput::Announced,
            make: |shape| Box::new(Shaped::new(PiDialect::default(), shape)),
            client: None,
        },
        DialectEntry {
            name: "pi-rpc",
            about: "pi's two-way mode: commands, answers and events as JSON lines",
            framing: Framing::Lines,
            terminal: Terminal::Event,
            commentary: Commentary::AskedForTools,
            steps: StepOutput::Announced,
            make: |_| Box::new(PiRpc::default()),
            client: Some(CLIENT),
        },
    ],
    account_readers: account::READERS,
    nesting: &["PI_CODING_AGENT"],
    ..provider_entry!("pi")
};
