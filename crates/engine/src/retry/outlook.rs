//! Simulates a request in which every attempt fails in the same way.
//!
//! Each step is the result of [`decide`] with the facts that the request would have then: the agents that are left, the retries
//! so far, and the state of the breakers. It assumes that an attempt fails at once and that the longest wait is drawn.

use bowline_protocol::{Failure, Millis, Timestamp};

use super::{FailedAttempt, NextStep, RetryRules, RetryVerdict, RetryWait, decide, named_wait};
use crate::footprint::Footprint;
use crate::route::RouteMemory;

/// The most attempts to simulate. More of them would only repeat.
const MOST: usize = 200;

/// An agent in the order of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStop {
    /// The name to show to people.
    pub name: String,
    /// The model to use.
    pub model: Option<String>,
    /// Its key in the route memory.
    pub key: String,
}

/// The state of a request before its first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlookStart {
    /// The time.
    pub at: Timestamp,
    /// How often the request waited for a limit already.
    pub waits: u32,
}

/// An attempt that fails, and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlookStep {
    /// The index of the agent in the route.
    pub turn: usize,
    /// How often it was retried before.
    pub retries: u32,
    /// The next step and its reason.
    pub verdict: RetryVerdict,
    /// The shortest and the longest wait before the next attempt.
    pub wait: (Millis, Millis),
    /// The index of the next agent.
    pub next: Option<usize>,
}

/// All failing attempts of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryOutlook {
    /// The attempts in order.
    pub steps: Vec<OutlookStep>,
    /// Whether more attempts would follow.
    pub goes_on: bool,
}

/// Returns the next agent after `turn` whose breaker allows requests.
pub fn next_turn(
    turns: &[RouteStop],
    memory: &RouteMemory,
    turn: usize,
    now: Timestamp,
    may: impl Fn(&RouteStop) -> bool,
) -> Option<usize> {
    let free =
        |place: &usize| may(&turns[*place]) && memory.state(&turns[*place].key, now).refuses(now).is_none();
    (turn + 1..turns.len()).find(free)
}

/// Simulates a request in which every attempt fails in the same way.
pub fn outlook(
    rules: &RetryRules,
    turns: &[RouteStop],
    memory: &RouteMemory,
    failure: &Failure,
    footprint: Footprint,
    start: OutlookStart,
) -> RetryOutlook {
    let (mut memory, mut outlook) = (memory.clone(), RetryOutlook::default());
    let (mut turn, mut retries, mut waits, mut now) = (0, 0, start.waits, start.at);
    while turn < turns.len() {
        if outlook.steps.len() == MOST {
            outlook.goes_on = true;
            break;
        }
        // As a real request does: `sent` marks a probe, and one failed probe opens the breaker again.
        memory.sent(&turns[turn].key, "", now);
        memory.failed(&turns[turn].key, failure, now);
        let after = next_turn(turns, &memory, turn, now, |_| true);
        let attempt = FailedAttempt {
            failure,
            retries,
            waits,
            footprint,
            next: after.map(|after| turns[after].name.as_str()),
        };
        let verdict = decide(rules, &attempt, now, RetryWait::Bounds);
        let (wait, next) = match verdict.next {
            NextStep::Retry { .. } => (rules.bounds(retries, named_wait(failure, now)), Some(turn)),
            NextStep::Wait { until } => ((until.since(now), until.since(now)), Some(turn)),
            NextStep::FallBack => ((Millis(0), Millis(0)), after),
            NextStep::Stop => ((Millis(0), Millis(0)), None),
        };
        let waits_for_limit = matches!(verdict.next, NextStep::Wait { .. });
        outlook.steps.push(OutlookStep { turn, retries, verdict, wait, next });
        let Some(next) = next else { break };
        (retries, waits) = match (next == turn, waits_for_limit) {
            // Another agent has retries and waits of its own.
            (false, _) => (0, 0),
            (true, false) => (retries + 1, waits),
            (true, true) => (retries, waits + 1),
        };
        // Breakers close with time, so the simulated clock has to advance.
        (turn, now) = (next, now.after(wait.1));
    }
    outlook
}
