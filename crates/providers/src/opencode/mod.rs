//! opencode: `run --format json`, and text.
//!
//! There is no first and no last event: the name of the session is on every line, and the end is the end of the output
//! with its exit code. `dialect` follows the steps, `part` reads what stands inside one, `stderr` what only stderr tells.

mod asked;
mod dialect;
mod part;
mod stderr;
mod wire;

pub(crate) use asked::ASKED;
pub(crate) use dialect::Opencode;
