//! Codex: `codex exec`, in its three shapes, and `codex app-server`.
//!
//! Both dialects have the same items: `tools` interprets an item, `messages` keeps text from being emitted twice, and
//! `failures` interprets Codex's messages about failures and retries. `dialect/legacy` reads the form that older versions
//! print. `client` is the client of an app server that sends one prompt.

mod account;
mod approvals;
mod client;
mod dialect;
mod failures;
mod messages;
mod session;
mod stderr;
mod tools;
mod usage;
mod wire;

use bowline_protocol::kinds::Transport;

use self::dialect::app_server::AppServer;
use self::dialect::exec::Exec;
use crate::catalogue::ProviderEntry;
use crate::conversation::{Images, ProtocolClient};
use crate::dialect::{Commentary, Framing, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::dialects::shaped::Shaped;

/// The client of the app server.
pub(crate) const CLIENT: ProtocolClient = ProtocolClient {
    transport: Transport::JsonRpc,
    needs_cwd: false,
    asks_host: false,
    announces_tools: false,
    images: Images::Paths,
    first_message: |_| client::AppServerClient::first_message(),
    dialect: |conversation| Box::new(client::AppServerClient::new(conversation)),
    refuses: client::AppServerClient::refuses,
};

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[
        DialectEntry {
            name: "codex-exec",
            about: "`codex exec`: JSON lines, those of older versions, or plain text",
            framing: Framing::Lines,
            terminal: Terminal::Event,
            commentary: Commentary::AllButLast,
            steps: StepOutput::Announced,
            make: |shape| Box::new(Shaped::new(Exec::default(), shape)),
            client: None,
        },
        DialectEntry {
            name: "codex-app-server",
            about: "`codex app-server`: JSON-RPC in both directions",
            framing: Framing::Lines,
            terminal: Terminal::Event,
            commentary: Commentary::Told,
            steps: StepOutput::Announced,
            make: |_| Box::new(AppServer::default()),
            client: Some(CLIENT),
        },
    ],
    account_readers: account::READERS,
    nesting: &[
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_THREAD_ID",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
    ],
    ..provider_entry!("codex")
};
