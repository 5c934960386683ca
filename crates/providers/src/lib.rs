//! Reads the output formats of agent command lines, and turns them into Bowline's one event stream.
//!
//! This crate does no I/O: it uses no files, processes, clock or environment. Bytes and the present time are
//! arguments, events are results. The path of a byte: [`framing`] cuts lines, a [`dialect::Dialect`] interprets
//! each line, [`decode::Decoder`] tracks turns, messages and usage, and a view ([`views`]) writes the events in
//! another program's format.
//!
//! Each provider has a folder with its `manifest.toml`; [`catalogue`] lists them. The formats that the specifications
//! define, which belong to no single provider, are in [`dialects`].

#![warn(missing_docs)]

pub mod ansi;
pub mod ask;
mod base64;
pub mod catalogue;
pub mod chat;
pub mod compat;
pub mod conversation;
pub mod decode;
pub mod dialects;
pub mod executable;
pub mod failure;
pub mod framing;
pub mod invocation;
mod lenient;
pub mod manifest;
pub mod models;
pub mod moment;
pub mod novelty;
pub mod pattern;
#[cfg(test)]
mod played;
pub mod prices;
pub mod probe;
pub mod rpc;
pub mod simulate;
pub mod usage;
pub mod views;

pub use catalogue::acp;
pub use decode::dialect;
