//! The standard streams and the terminal of this process.

mod stdout;
pub(crate) mod tables;
pub(crate) mod terminal;

pub(crate) use stdout::{FULL, Stdout, object};
