//! Options of a task that limit a turn: its cost, its steps and its time.

use std::time::Duration;

use bowline_protocol::Millis;

use super::{Task, millis};

impl Task {
    /// Limits the number of turns.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.request.max_turns = Some(turns);
        self
    }

    /// Limits the cost, in US dollars. The run compares the cost with the limit whenever the agent reports usage. An agent with
    /// a cost limit of its own gets it too.
    pub fn max_cost(mut self, usd: f64) -> Self {
        self.request.max_cost_usd = Some(usd);
        self
    }

    /// Sets the timeout of the whole turn.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.request.timeout_ms = Some(millis(limit));
        self
    }

    /// Sets the idle timeout: the longest time without output.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.request.idle_timeout_ms = Some(millis(limit));
        self
    }

    /// Sets the timeout of the whole turn, or removes the default of the provider's manifest.
    pub fn timeout_ms(mut self, limit: Option<Millis>) -> Self {
        self.request.timeout_ms = limit;
        self.no_timeout = limit.is_none();
        self
    }

    /// Sets the idle timeout, or removes the default of the provider's manifest.
    pub fn idle_timeout_ms(mut self, limit: Option<Millis>) -> Self {
        self.request.idle_timeout_ms = limit;
        self.no_idle_timeout = limit.is_none();
        self
    }
}
