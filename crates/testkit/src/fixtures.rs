//! Output that checks and benchmarks share, shaped like the recordings of real programs.

pub(crate) mod long_turns;
