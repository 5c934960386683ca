//! The owner of a tree: a keeper, or without a keeper this process itself.

use std::time::Duration;

use crate::child_event::{Guarantee, Signal, SignalScope};

/// The operations on a tree. None of them waits; their results are reported as events.
pub(crate) trait TreeOwner: Send + Sync + std::fmt::Debug {
    fn signal(&self, signal: Signal, scope: SignalScope);

    /// Ends the tree: SIGTERM, and SIGKILL after the grace. `Swept` follows if the report is wanted.
    fn end(&self, grace: Duration, answer: SweptReport);

    fn guarantee(&self) -> Guarantee;
}

/// Whether the caller wants a `Swept` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweptReport {
    Wanted,
    NotWanted,
}
