//! What must hold for every input, whatever a program prints.
//!
//! Each check takes an input, runs our code over it and panics when a promise is broken. The fuzz targets in `fuzz/`
//! and ordinary property tests call the same functions, so that a promise is written down once. Nothing here knows
//! what the right answer for a particular input is; that is the business of the tests beside the code.

mod chunking;
mod classify;
mod decode;
mod fixtures;
mod framing;
mod skip;

pub use chunking::Chunking;
pub use classify::{check_classify, check_terminal_text, check_usage};
pub use decode::{Case, SEPARATOR, check_decode, check_wire};
pub use fixtures::long_turns::{LONG_TURNS, LongTurn};
pub use framing::check_framing;
pub use skip::skip;
