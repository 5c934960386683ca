//! This process and its machine: clocks, the keeper, private files, short commands and containers. Knows nothing of sessions.

pub(crate) mod causes;
pub(crate) mod clock;
pub(crate) mod container;
pub(crate) mod host;
pub(crate) mod output;
pub mod project;
pub(crate) mod real_path;
pub(crate) mod suggest;
pub(crate) mod surroundings;
pub(crate) mod workspace;
