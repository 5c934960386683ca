//! Sessions on disk: their journals, the registry of the data home, the monitor of this process's runs, the spending ledger,
//! and the control sockets of live sessions.

pub(crate) mod aside;
pub mod budget;
pub(crate) mod control;
pub(crate) mod detached;
pub mod journal;
pub(crate) mod name_cache;
pub(crate) mod names;
pub mod registry;
pub mod resolve;
pub(crate) mod scratch;
pub(crate) mod session_monitor;
pub(crate) mod socket;
