//! Sessions on disk: their journals, the registry of the data home, the monitor of this process's runs, and the spending ledger.

pub(crate) mod aside;
pub mod budget;
pub mod journal;
pub mod registry;
pub(crate) mod session_monitor;
