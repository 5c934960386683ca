//! Promises that hold for every input, whatever a program prints.
//!
//! Each check takes an input, runs our code over it and panics when a promise is broken. The fuzz targets in `fuzz/`
//! and ordinary property tests call the same functions, so that a promise is written down once. These checks do not know
//! the right result for a particular input; the tests beside the code do. [`recordings`] has the recordings of real programs.

mod chunking;
mod classify;
mod decode;
mod fixtures;
mod framing;
mod programs;
pub mod recordings;
mod skip;

pub use chunking::Chunking;
pub use classify::{check_classify, check_terminal_text, check_usage};
pub use decode::{Case, SEPARATOR, check_decode, check_wire};
pub use fixtures::long_turns::{LONG_TURNS, LongTurn};
pub use framing::check_framing;
pub use programs::{copy_program, write_program};
pub use skip::skip;
