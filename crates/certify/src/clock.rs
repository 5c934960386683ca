//! The clock of the suite: durations of cases, and the time of a report.

use std::time::{Duration, Instant};

/// Measures from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "the suite is an edge, and reads the clock here only")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Returns the present, for the head of a report.
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
