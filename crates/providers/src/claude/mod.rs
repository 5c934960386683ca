//! Claude Code: the formats of the `claude` program.
//!
//! `dialect` tells the lines apart and keeps the state of the turn; each other room reads one subject. `wire` is how
//! their JSON is taken apart, `user` the lines with results of tools. How the program is started is in `manifest.toml`.

mod answers;
mod asked;
mod control;
mod dialect;
mod direct;
mod errors;
mod messages;
mod outcome;
mod speech;
mod spend;
mod system;
mod tasks;
mod toolcalls;
mod user;
mod wire;

pub(crate) use asked::ASKED;
pub(crate) use dialect::Claude;
