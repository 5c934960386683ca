//! The tools and background tasks that have started and not ended.
//!
//! A program may start thousands and end none, so finding one does not depend on their number.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Ids of running work, in the order in which it started.
#[derive(Debug)]
pub(super) struct RunningIds<T> {
    by_start: BTreeMap<u64, T>,
    starts: HashMap<T, u64>,
    next: u64,
}

impl<T> Default for RunningIds<T> {
    fn default() -> Self {
        Self { by_start: BTreeMap::new(), starts: HashMap::new(), next: 0 }
    }
}

impl<T: Clone + Eq + Hash> RunningIds<T> {
    /// Adds an id. One that is already running keeps its place.
    pub(super) fn start(&mut self, id: &T) {
        if !self.starts.contains_key(id) {
            self.next += 1;
            self.starts.insert(id.clone(), self.next);
            self.by_start.insert(self.next, id.clone());
        }
    }

    /// Removes an id, if it is running.
    pub(super) fn end(&mut self, id: &T) {
        if let Some(start) = self.starts.remove(id) {
            self.by_start.remove(&start);
        }
    }

    /// Returns how many are running.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the ids in the order in which they started.
    pub(super) fn to_vec(&self) -> Vec<T> {
        self.by_start.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_in_the_order_of_their_start_and_count_once() {
        let mut running = RunningIds::default();
        ["b", "a", "c", "a"].iter().for_each(|id| running.start(id));
        running.end(&"b");
        running.end(&"x");
        running.start(&"b");
        assert_eq!(running.to_vec(), ["a", "c", "b"]);
        assert_eq!(running.len(), 3);
    }
}
