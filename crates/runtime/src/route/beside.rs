//! Tasks that ask several agents the same thing side by side.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Who is asked by tasks that run side by side. None of them falls back to somebody whom another of them asks: that one would
/// do the same work twice.
///
/// ```
/// # use bowline::{Fallback, route::Beside};
/// let beside = Beside::default();
/// let ask = |name: &str| bowline::task("Review this").provider(name).fallback(Fallback::Next).beside(&beside);
/// let both = [ask("claude"), ask("codex")];
/// # drop(both);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Beside(Arc<Mutex<BTreeSet<String>>>);

impl Beside {
    /// Takes somebody for one of the tasks. Says whether nobody else had.
    pub(crate) fn take(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned())
    }

    pub(crate) fn is_free(&self, name: &str) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}
