//! Codex: `codex exec`, in its three shapes, and `codex app-server`.
//!
//! Both dialects have the same items: `items` interprets an item, `speech` keeps text from being emitted
//! twice, `words` interprets Codex's messages about failures and retries. `legacy` reads the form that older versions
//! print. `client` is the client of an app server that sends one prompt.

mod app_server;
mod app_wire;
mod approvals;
mod asked;
mod client;
mod ending;
mod exec;
mod items;
mod legacy;
mod legacy_tools;
mod notifications;
mod parts;
mod responses;
mod speech;
mod stderr;
mod stream;
mod threads;
mod usage;
mod wire;
mod words;

pub(crate) use self::app_server::AppServer;
pub(crate) use self::asked::ASKED;
pub(crate) use self::exec::Exec;

use bowline_protocol::kinds::Transport;

use crate::conversation::{Images, ProtocolClient};

/// The client of the app server.
pub(crate) const CLIENT: ProtocolClient = ProtocolClient {
    transport: Transport::JsonRpc,
    needs_cwd: false,
    images: Images::Paths,
    first_message: client::AppServerClient::first_message,
    dialect: |conversation| Box::new(client::AppServerClient::new(conversation)),
    refuses: client::AppServerClient::refuses,
};
