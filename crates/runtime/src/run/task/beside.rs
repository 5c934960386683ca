//! Tasks that send the same prompt to several providers at the same time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The providers of tasks that run at the same time. No task falls back to a provider of another one, which would do the same
/// work twice.
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
    /// Reserves a provider for a task. Returns whether it was free.
    pub(crate) fn take(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned())
    }

    pub(crate) fn is_free(&self, name: &str) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}
