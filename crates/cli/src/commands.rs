//! The commands, one file each, and what they share: accounts, session ids and input.

pub(crate) mod account;
pub(crate) mod certify;
pub(crate) mod classify;
pub(crate) mod complete;
pub(crate) mod config;
pub(crate) mod decode;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod executable;
pub(crate) mod init;
mod input;
pub(crate) mod limits;
pub(crate) mod models;
pub(crate) mod prices;
pub(crate) mod provide;
pub(crate) mod provider;
pub(crate) mod providers;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod session_ids;
pub(crate) mod sessions;
pub(crate) mod shell;
pub(crate) mod simulate;
pub(crate) mod trust;
