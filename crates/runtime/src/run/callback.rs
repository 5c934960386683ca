//! A function that is called with every event of a run.

use std::sync::{Arc, Mutex, PoisonError};

use bowline_protocol::Event;

/// The callback of one run.
pub(crate) type Callback = Box<dyn FnMut(&Event) + Send>;

/// A callback that the clones of a task share.
#[derive(Clone)]
pub(crate) struct SharedCallback(Arc<Mutex<Callback>>);

impl SharedCallback {
    pub(crate) fn new(callback: impl FnMut(&Event) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(callback))))
    }

    /// Calls it. Two tasks wait for each other here, so that it is never called twice at once.
    pub(crate) fn call(&self, event: &Event) {
        // A panic in the call of one task must not silence the callback for the others.
        let mut callback = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        callback(event);
    }

    /// Returns the callback for one run. Only where clones share it does each call take a lock.
    pub(crate) fn into_callback(self) -> Callback {
        match Arc::try_unwrap(self.0) {
            Ok(only) => only.into_inner().unwrap_or_else(PoisonError::into_inner),
            Err(shared) => {
                let shared = Self(shared);
                Box::new(move |event| shared.call(event))
            }
        }
    }
}
