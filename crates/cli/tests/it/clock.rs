//! Time in tests: nothing is waited for without an end, and what is promised to be fast is measured.

use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine before a test gives up.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// How often something is tried that has to be fast.
const TRIES: usize = 4;

#[expect(clippy::disallowed_methods, reason = "a test that waits has to know for how long")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "this did not come: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks that something takes at most so many milliseconds. A machine that has much else to do makes everything longer and
/// nothing shorter, so that the best of some tries tells.
#[track_caller]
pub(crate) fn takes_at_most(limit: i128, mut measure: impl FnMut() -> i128) {
    let mut tries = Vec::new();
    while tries.len() < TRIES {
        let took = measure();
        if took <= limit {
            return;
        }
        tries.push(took);
    }
    panic!("it took {tries:?} ms, and may take {limit}");
}
