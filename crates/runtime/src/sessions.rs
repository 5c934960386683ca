//! Sessions on disk: their journals, the registry of the data home, the monitor of this process's runs, and the spending ledger.

pub(crate) mod aside;
pub mod budget;
pub(crate) mod control;
pub mod journal;
pub(crate) mod names;
pub mod registry;
pub(crate) mod scratch;
pub(crate) mod session_monitor;
