//! The commands, one file each.

pub(crate) mod certify;
pub(crate) mod classify;
pub(crate) mod decode;
pub(crate) mod demo;
mod input;
pub(crate) mod run;
pub(crate) mod simulate;
pub(crate) mod tables;
