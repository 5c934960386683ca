//! This process and its machine: clocks, the keeper, private files, short commands and containers. Knows nothing of sessions.

pub(crate) mod clock;
pub(crate) mod container;
pub(crate) mod host;
pub(crate) mod output;
pub(crate) mod suggest;
