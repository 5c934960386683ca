//! `acp`: the Agent Client Protocol, version 1, as JSON lines on standard input and output.
//!
//! Any agent may speak it, so there is no manifest here. What single agents add to the protocol in `_meta` and in
//! extension methods is read where it matters, and the agent is named beside the code that reads it.
//!
//! The types of the wire are our own ([`wire`]) and not those of the official schema crate (1.15.1). Its types own every
//! string and hold tool arguments as trees; they refuse a line for an unknown stop reason, permission or block, or a
//! missing title; and the crate switches on `serde_json`'s `preserve_order` for the whole build. The tests hold an
//! example of every update that it knows.
//!
//! `dialect` takes the agent's messages and `client` the client's; answers are matched with `requests`, and `prompts`
//! become turns. `updates` reads what happens in a session, `voice` what is said, `calls`, `call` and `diffs` what is
//! done, `approvals` what is asked, `options` what can be set, `errors` what went wrong.

mod approvals;
mod call;
mod calls;
mod client;
mod dialect;
mod diffs;
mod errors;
mod options;
mod prompts;
mod requests;
mod updates;
mod voice;
mod wire;

pub(crate) use self::dialect::Acp;
