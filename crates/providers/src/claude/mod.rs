//! Claude Code: the formats of the `claude` program.
//!
//! `dialect` separates the kinds of lines and keeps the state of the turn; each other module reads one subject. `wire` takes
//! their JSON apart. `client` is the other side of a live session. `manifest.toml` describes how to start the program.

mod account;
mod approvals;
mod client;
mod dialect;
mod failures;
mod messages;
mod session;
mod tools;
mod usage;
mod wire;

use bowline_protocol::kinds::Transport;

use self::dialect::Claude;
use crate::catalogue::ProviderEntry;
use crate::conversation::{Images, ProtocolClient};
use crate::dialect::{Commentary, Framing, Shape, StepOutput, Terminal};
use crate::dialects::DialectEntry;
use crate::dialects::shaped::Shaped;

/// The client of a live session.
const CLIENT: ProtocolClient = ProtocolClient {
    transport: Transport::Pipe,
    needs_cwd: false,
    asks_host: false,
    announces_tools: true,
    images: Images::Bytes,
    first_message: client::ClaudeClient::first_message,
    dialect: |conversation| Box::new(client::ClaudeClient::new(conversation)),
    refuses: |_| None,
};

/// The entry of this folder.
pub(crate) const PROVIDER: ProviderEntry = ProviderEntry {
    vocabulary: include_str!("vocabulary.txt"),
    dialects: &[
        DialectEntry {
            name: "claude",
            about: "Claude Code: JSON lines, one JSON document or plain text, and its control lines",
            framing: Framing::Lines,
            terminal: Terminal::Event,
            commentary: Commentary::Told,
            steps: StepOutput::Announced,
            make: |shape| Box::new(Shaped::new(Claude::default(), shape)),
            client: None,
        },
        DialectEntry {
            name: "claude-live",
            about: "Claude Code with its control protocol: JSON lines in both directions",
            framing: Framing::Lines,
            terminal: Terminal::Event,
            commentary: Commentary::Told,
            steps: StepOutput::Announced,
            make: |_| Box::new(Shaped::new(Claude::default(), Shape::Lines)),
            client: Some(CLIENT),
        },
    ],
    account_readers: account::READERS,
    nesting: &[
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_SIMPLE",
        "CLAUDE_CODE_SAFE_MODE",
        "CLAUDE_PID",
    ],
    ..provider_entry!("claude")
};
