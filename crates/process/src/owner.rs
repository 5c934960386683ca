//! Who owns a tree: a keeper, or in the weakest case this process itself.

use std::time::Duration;

use crate::happening::{Guarantee, Scope, Signal};

/// What an owner does to a tree when it is told. None of it waits; what comes of it is reported as happenings.
pub(crate) trait Owner: Send + Sync + std::fmt::Debug {
    fn signal(&self, signal: Signal, scope: Scope);

    /// Ends the tree: SIGTERM, and SIGKILL after the grace. `Swept` follows if an answer is wanted.
    fn end(&self, grace: Duration, answer: Answer);

    fn guarantee(&self) -> Guarantee;
}

/// Whether `Swept` is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Wanted,
    NotWanted,
}
