//! Codex: `codex exec`, in its three shapes, and `codex app-server`.
//!
//! Both dialects speak of the same items; `items` says what an item means, `speech` what was said and must not be said
//! twice, `words` what Codex's sentences about failures and retries mean. `legacy` reads the form that older versions
//! print. `speaker` is the client of an app server that sends one prompt.

mod app_server;
mod app_wire;
mod approvals;
mod asked;
mod ending;
mod exec;
mod items;
mod legacy;
mod legacy_tools;
mod notifications;
mod parts;
mod responses;
mod speaker;
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

use crate::conversation::{Images, Voice};

/// How we speak to the app server.
pub(crate) const VOICE: Voice = Voice {
    transport: Transport::JsonRpc,
    needs_cwd: false,
    images: Images::Paths,
    first_words: speaker::Speaker::first_words,
    speaker: |conversation| Box::new(speaker::Speaker::new(conversation)),
    refuses: speaker::Speaker::refuses,
};
