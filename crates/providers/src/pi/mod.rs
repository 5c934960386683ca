//! pi: `--mode json`, text, and the two-way `--mode rpc`.
//!
//! `events` reads what both JSON modes print, with `message` and `tools` for its two large parts; `dialect` and `rpc` are
//! the two readers, `wire` the lines. Versions up to 0.74 repeat the message so far with each update and end with
//! `agent_end`; 0.87 says only what is new and ends with `agent_settled`.

mod asked;
mod dialect;
mod events;
mod message;
mod rpc;
mod tools;
mod wire;

pub(crate) use asked::ASKED;
pub(crate) use dialect::Pi;
pub(crate) use rpc::Rpc;
