//! The commands, one file each.

pub(crate) mod classify;
pub(crate) mod decode;
mod input;
pub(crate) mod tables;
