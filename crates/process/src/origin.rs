//! Whether a process belongs to an agent, as a value, and whether this process started an agent without a keeper.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process started an agent itself, without a keeper.
static OWN_TREES: AtomicBool = AtomicBool::new(false);

/// Notes that this process starts an agent without a keeper.
pub(crate) fn note_own_tree() {
    OWN_TREES.store(true, Ordering::Release);
}

/// Returns whether this process started an agent without a keeper.
#[cfg(target_os = "linux")]
pub(crate) fn has_own_trees() -> bool {
    OWN_TREES.load(Ordering::Acquire)
}

/// Whether a process belongs to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessOrigin {
    /// It does not descend from an agent.
    Outside,
    /// It belongs to the process tree of an agent.
    Agent {
        /// The evidence.
        reason: String,
    },
    /// The system does not show it. Treat the process like an agent's.
    Unknown {
        /// The gap.
        reason: String,
    },
}
