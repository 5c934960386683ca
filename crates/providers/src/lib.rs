//! How agent command lines speak, and how that becomes Bowline's one event stream.
//!
//! This crate thinks about bytes and never touches the outside: no files, processes, clock or environment. Bytes and
//! the present time come in as arguments, events go out. A byte's way through it: [`framing`] cuts lines,
//! a [`dialect::Dialect`] says what a line means, [`decode::Decoder`] keeps the account of turns, messages and usage,
//! and a view ([`views`]) writes the events in somebody else's format.
//!
//! Each provider has a folder with its `manifest.toml`; [`catalogue`] lists them. The formats that the specifications
//! define, which belong to no single provider, are in [`dialects`].

#![warn(missing_docs)]

pub mod acp;
pub mod ansi;
pub mod ask;
pub mod catalogue;
pub mod chat;
mod claude;
mod codex;
pub mod compat;
pub mod conversation;
mod copilot;
pub mod decode;
pub mod dialect;
pub mod dialects;
pub mod executable;
pub mod failure;
pub mod framing;
mod gemini;
#[path = "grok-cli/mod.rs"]
mod grok_cli;
pub mod invocation;
mod lenient;
pub mod manifest;
pub mod models;
pub mod moment;
pub mod novelty;
mod opencode;
pub mod pattern;
mod pi;
pub mod prices;
pub mod probe;
mod qwen;
pub mod rpc;
pub mod simulate;
mod turns;
pub mod usage;
pub mod views;
