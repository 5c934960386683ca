//! The circuit breaker of a provider: it stops requests to a provider that keeps failing, or whose limit is used up.
//!
//! Five failures within a minute open the breaker for half a minute. Then one request may probe the provider, and its outcome
//! decides. Only failures after which another provider may be tried count: a wrong key or a bad request proves nothing about
//! the service. A limit that resets at a known time is a cool-down until then. The state is plain data; the caller stores it in
//! a file.

use bowline_protocol::{Category, Failure, Millis, Timestamp};
use serde::{Deserialize, Serialize};

use crate::retry;

/// How many failures open the breaker.
pub const FAILURES: usize = 5;

/// The time window of these failures.
pub const WINDOW: Millis = Millis(60_000);

/// How long the breaker stays open.
pub const OPEN_FOR: Millis = Millis(30_000);

/// How long a probing request may take before another one may probe.
const PROBE_FOR: Millis = Millis(600_000);

/// The breaker of one provider, profile and model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breaker {
    /// The last failures, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Timestamp>,
    /// When the breaker opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_since: Option<Timestamp>,
    /// When the probing request was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_since: Option<Timestamp>,
    /// The process that sent the probing request. If it is gone, the probe no longer counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_by: Option<String>,
    /// When the provider's limit resets.
    #[serde(skip_serializing_if = "Option::is_none")]
    cools_until: Option<Timestamp>,
}

/// Whether requests may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests may be sent.
    #[default]
    Closed,
    /// The provider failed too often; the router skips it until then.
    Open {
        /// When one request may probe it.
        until: Timestamp,
    },
    /// One request may probe it.
    HalfOpen,
    /// One request probes it.
    Probing,
    /// Its limit is used up until then.
    Cooling {
        /// When the limit resets.
        until: Timestamp,
    },
}

impl BreakerState {
    /// Returns why no request may be sent; `None` when one may be.
    pub fn refuses(self, now: Timestamp) -> Option<String> {
        match self {
            Self::Closed | Self::HalfOpen => None,
            Self::Open { until } => {
                let left = until.since(now);
                Some(format!("it failed {FAILURES} times within a minute and is skipped for another {left}"))
            }
            Self::Probing => Some("it failed too often, and another request is probing it".to_owned()),
            Self::Cooling { until } => {
                Some(format!("its limit is used up and resets in {}", until.since(now)))
            }
        }
    }
}

impl Breaker {
    /// Returns whether requests may be sent.
    pub fn state(&self, now: Timestamp) -> BreakerState {
        // A limit with a known reset time comes first: that time is exact, and `OPEN_FOR` is a guess.
        if let Some(until) = self.cools_until.filter(|until| *until > now) {
            return BreakerState::Cooling { until };
        }
        // A clock that was set back must not block a provider: ignore times in the future.
        let past = |since: &Timestamp| *since <= now;
        let Some(since) = self.open_since.filter(past) else { return BreakerState::Closed };
        let until = since.after(OPEN_FOR);
        if now < until {
            return BreakerState::Open { until };
        }
        match self.probe_since.filter(past) {
            Some(probe) if now < probe.after(PROBE_FOR) => BreakerState::Probing,
            Some(_) | None => BreakerState::HalfOpen,
        }
    }

    /// Records that a process sends a request. The first request after the breaker was open is the probe.
    pub fn sent(&mut self, by: &str, now: Timestamp) {
        if self.state(now) == BreakerState::HalfOpen {
            (self.probe_since, self.probe_by) = (Some(now), Some(by.to_owned()));
        }
    }

    /// Records that the provider answered.
    pub fn answered(&mut self) {
        // One answer clears everything, also a cool-down: the answer proves that the limit no longer holds.
        *self = Self::default();
    }

    /// Records that a request ended without a result about the service, because the caller cancelled it.
    pub fn abandoned(&mut self) {
        (self.probe_since, self.probe_by) = (None, None);
    }

    /// Forgets the probing request if its sender is gone and cannot report the result.
    pub fn forget_gone(&mut self, is_there: impl Fn(&str) -> bool) {
        if self.probe_by.as_deref().is_some_and(|by| !is_there(by)) {
            self.abandoned();
        }
    }

    /// Records that a request failed.
    pub fn failed(&mut self, failure: &Failure, now: Timestamp) {
        if matches!(failure.category, Category::RateLimit | Category::Quota) {
            // The request itself waits for a shorter time (`retry`). Other requests need not avoid the provider for it.
            let named = retry::named_wait(failure, now).filter(|named| *named > retry::LONGEST_WAIT);
            self.cools_until = named.map(|named| now.after(named)).or(self.cools_until);
        }
        // Read this before `abandoned` clears it.
        let tried = self.probe_since.is_some();
        self.abandoned();
        if !failure.category.may_fall_back() {
            if tried {
                // The provider answered, even if with a refusal: the service is reachable.
                (self.open_since, self.failures) = (None, Vec::new());
            }
            return;
        }
        // Times in the future go as well: after the clock was set back they would count for longer than the window.
        self.failures.retain(|at| *at <= now && now < at.after(WINDOW));
        self.failures.push(now);
        // One failed probe is enough: the provider has not recovered.
        if tried || self.failures.len() >= FAILURES {
            self.open_since = Some(now);
            self.failures.clear();
        }
    }

    /// Returns whether the breaker has no state worth storing.
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        self.state(now) == BreakerState::Closed && self.failures.iter().all(|at| now >= at.after(WINDOW))
    }
}

#[cfg(test)]
mod tests {
    use bowline_protocol::Code;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    fn server() -> Failure {
        Failure::new(Category::Server, Code::ServerError, "500")
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        (0..5).for_each(|second| breaker.failed(&server(), at(second)));
        breaker
    }

    #[test]
    fn five_failures_in_a_minute_open_it_for_half_a_minute() {
        let mut breaker = Breaker::default();
        for second in 0..4 {
            breaker.failed(&server(), at(second));
            assert_eq!(breaker.state(at(second)), BreakerState::Closed);
        }
        breaker.failed(&server(), at(4));
        assert_eq!(breaker.state(at(4)), BreakerState::Open { until: at(34) });
        assert_eq!(breaker.state(at(33)), BreakerState::Open { until: at(34) });
        assert_eq!(breaker.state(at(34)), BreakerState::HalfOpen);
    }

    #[test]
    fn failures_that_are_spread_out_do_not() {
        let mut breaker = Breaker::default();
        for second in (0..).step_by(16).take(20) {
            breaker.failed(&server(), at(second));
            assert_eq!(breaker.state(at(second)), BreakerState::Closed);
        }
    }

    #[test]
    fn one_request_tries_and_decides() {
        let mut breaker = opened();
        breaker.sent("one", at(40));
        assert_eq!(breaker.state(at(40)), BreakerState::Probing, "no other request may");
        let mut good = breaker.clone();
        good.answered();
        assert_eq!(good.state(at(41)), BreakerState::Closed);
        let mut bad = breaker.clone();
        bad.failed(&server(), at(41));
        assert_eq!(bad.state(at(41)), BreakerState::Open { until: at(71) }, "once is enough then");
        let mut refused = breaker.clone();
        refused.failed(&Failure::new(Category::Authentication, Code::InvalidCredentials, "401"), at(41));
        assert_eq!(refused.state(at(41)), BreakerState::Closed, "the service is there");
        let mut stopped = breaker.clone();
        stopped.abandoned();
        assert_eq!(stopped.state(at(41)), BreakerState::HalfOpen, "the next one tries");
        breaker.forget_gone(|by| by == "one");
        assert_eq!(breaker.state(at(41)), BreakerState::Probing, "the prober is alive");
        assert_eq!(breaker.state(at(40 + 601)), BreakerState::HalfOpen, "it takes too long");
        breaker.forget_gone(|_| false);
        assert_eq!(breaker.state(at(41)), BreakerState::HalfOpen, "the prober is gone");
    }

    #[test]
    fn failures_that_may_not_fall_back_do_not_count() {
        for category in Category::ALL {
            let mut breaker = Breaker::default();
            (0..9).for_each(|second| breaker.failed(&Failure::new(category, Code::Unknown, ""), at(second)));
            let open = matches!(breaker.state(at(9)), BreakerState::Open { .. });
            assert_eq!(open, category.may_fall_back(), "{category}");
        }
    }

    #[test]
    fn a_limit_cools_until_it_is_reset_and_survives_a_file() {
        let mut breaker = Breaker::default();
        let limit = Failure {
            resets_at: Some(at(14_400)),
            ..Failure::new(Category::Quota, Code::UsageLimit, "limit reached")
        };
        breaker.failed(&limit, at(0));
        let kept: Breaker = serde_json::from_str(&serde_json::to_string(&breaker).unwrap()).unwrap();
        assert_eq!(kept, breaker);
        assert_eq!(kept.state(at(1)), BreakerState::Cooling { until: at(14_400) });
        assert_eq!(
            kept.state(at(0)).refuses(at(0)).as_deref(),
            Some("its limit is used up and resets in 4 h")
        );
        assert_eq!(kept.state(at(14_400)), BreakerState::Closed);
        let mut soon = Breaker::default();
        let soon_over = Failure {
            retry_after_ms: Some(Millis(5_000)),
            ..Failure::new(Category::RateLimit, Code::RateLimited, "429")
        };
        soon.failed(&soon_over, at(0));
        assert_eq!(soon.state(at(0)), BreakerState::Closed, "what is waited for anyway is no cool-down");
    }

    #[test]
    fn each_span_ends_at_its_last_moment_and_not_after_it() {
        let millis = |span: u64| at(0).after(Millis(span));
        // Four failures at once, the fifth within the window or at its end.
        for (last, expect) in [(WINDOW.0 - 1, true), (WINDOW.0, false)] {
            let mut breaker = Breaker::default();
            (0..FAILURES - 1).for_each(|_| breaker.failed(&server(), at(0)));
            assert!(!breaker.is_quiet(millis(WINDOW.0 - 1)), "they still count");
            assert!(breaker.is_quiet(millis(WINDOW.0)), "they count no more");
            breaker.failed(&server(), millis(last));
            assert_eq!(matches!(breaker.state(millis(last)), BreakerState::Open { .. }), expect, "{last}");
        }
        // The probing request has this long.
        let mut breaker = opened();
        breaker.sent("one", at(40));
        assert_eq!(breaker.state(at(40).after(Millis(PROBE_FOR.0 - 1))), BreakerState::Probing);
        assert_eq!(breaker.state(at(40).after(PROBE_FOR)), BreakerState::HalfOpen);
        // A limit short enough for a retry is no cool-down; a longer one is.
        for (named, cools) in [(retry::LONGEST_WAIT.0, false), (retry::LONGEST_WAIT.0 + 1, true)] {
            let limit = Failure {
                retry_after_ms: Some(Millis(named)),
                ..Failure::new(Category::RateLimit, Code::RateLimited, "429")
            };
            let mut breaker = Breaker::default();
            breaker.failed(&limit, at(0));
            assert_eq!(breaker.state(at(0)) != BreakerState::Closed, cools, "{named}");
            assert_eq!(breaker.is_quiet(at(0)), !cools, "a limit does not count as a failure of the service");
        }
        assert!(!opened().is_quiet(at(5)), "it is open");
        assert!(Breaker::default().is_quiet(at(0)));
    }

    #[test]
    fn only_a_limit_cools_and_only_the_first_request_tries() {
        let named = Failure { retry_after_ms: Some(Millis(3_600_000)), ..server() };
        let mut breaker = Breaker::default();
        breaker.failed(&named, at(0));
        assert_eq!(breaker.state(at(0)), BreakerState::Closed, "a server that is down has no limit");
        let mut breaker = opened();
        breaker.sent("too early", at(10));
        assert_eq!(breaker.state(at(34)), BreakerState::HalfOpen);
        breaker.sent("one", at(34));
        breaker.sent("two", at(35));
        breaker.forget_gone(|by| by == "one");
        assert_eq!(breaker.state(at(36)), BreakerState::Probing, "the second does not take its place");
    }

    #[test]
    fn each_state_has_a_reason_why_no_request_is_sent() {
        let until = at(30);
        let told = [
            (BreakerState::Closed, None),
            (BreakerState::HalfOpen, None),
            (
                BreakerState::Open { until },
                Some("it failed 5 times within a minute and is skipped for another 30 s"),
            ),
            (BreakerState::Probing, Some("it failed too often, and another request is probing it")),
            (BreakerState::Cooling { until }, Some("its limit is used up and resets in 30 s")),
        ];
        for (state, why) in told {
            assert_eq!(state.refuses(at(0)).as_deref(), why);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_blocks_no_provider() {
        assert_eq!(opened().state(at(-3_600)), BreakerState::Closed);
    }
}
