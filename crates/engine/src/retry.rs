//! Decides what follows a failed attempt: a retry, a fallback to another agent, or the end.
//!
//! The adapter protocol's table defines which categories may be retried and which may fall back. This module adds the rules
//! that make a second attempt safe: none after a tool ran or may have run ([`crate::footprint`]), because it would run twice;
//! none when a budget is used up; none for a failure that only the caller can fix. The breaker does not limit retries: it stops
//! new requests to a failing agent, while a request makes all its own retries. The caller waits, starts the next attempt, and
//! passes in the random number. [`outlook()`] simulates the same decisions for a caller that explains a route.

mod outlook;

use bowline_protocol::{Category, Code, Failure, Millis, Timestamp};
use serde::{Deserialize, Serialize};

use crate::footprint::Footprint;
pub use outlook::{OutlookStart, OutlookStep, RetryOutlook, RouteStop, next_turn, outlook};

/// The default number of retries of one agent.
pub const RETRIES: u32 = 2;

/// The upper bound of the wait before the first retry. It doubles with each retry.
pub const FIRST_WAIT: Millis = Millis(1_000);

/// The longest wait before a retry. A longer one is a limit, and the run waits for it only on request.
pub const LONGEST_WAIT: Millis = Millis(30_000);

/// How often a run waits for a limit. An agent may name a new time again and again.
const MOST_WAITS: u32 = 5;

/// When the router may fall back to another agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Never.
    None,
    /// After the failures for which the adapter protocol's table allows it.
    #[default]
    Next,
    /// After every failure, including a failed login or a bad request: the rule of the executable providers' router.
    Any,
}

impl Fallback {
    /// Every rule.
    pub const ALL: [Self; 3] = [Self::None, Self::Next, Self::Any];

    /// Returns the word used in files and options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Next => "next",
            Self::Any => "any",
        }
    }
}

/// The caller's rules for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryRules {
    /// How often each agent is retried.
    pub retries: u32,
    /// When the router may fall back to another agent.
    pub fallback: Fallback,
    /// Whether to send a request again although a tool ran, or may have run: side effects may happen twice.
    pub repeat_tools: bool,
    /// Whether to wait for a limit that resets later.
    pub wait_for_limit: bool,
    /// The upper bound of the wait before the first retry. It doubles with each retry.
    pub first_wait: Millis,
    /// The longest wait before a retry. A longer one is a limit.
    pub longest_wait: Millis,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self {
            retries: RETRIES,
            fallback: Fallback::Next,
            repeat_tools: false,
            wait_for_limit: false,
            first_wait: FIRST_WAIT,
            longest_wait: LONGEST_WAIT,
        }
    }
}

/// An attempt that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedAttempt<'a> {
    /// The failure.
    pub failure: &'a Failure,
    /// How often this agent was retried already.
    pub retries: u32,
    /// How often the run waited for a limit of this agent already.
    pub waits: u32,
    /// The work that the agent may have done with the prompt.
    pub footprint: Footprint,
    /// The next agent to fall back to.
    pub next: Option<&'a str>,
}

/// The next step after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Retry the same agent after this wait.
    Retry {
        /// The wait.
        after: Millis,
    },
    /// Retry the same agent when its limit has reset.
    Wait {
        /// When the limit resets.
        until: Timestamp,
    },
    /// Fall back to the next agent.
    FallBack,
    /// End the request.
    Stop,
}

/// The next step, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryVerdict {
    /// The next step.
    pub next: NextStep,
    /// The reason, for people.
    pub reason: String,
}

/// How the wait before a retry is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryWait {
    /// Drawn with this random number.
    Drawn(u64),
    /// Not drawn: the longest wait is taken, and the reason contains the bounds.
    Bounds,
}

/// Decides what follows a failure.
pub fn decide(
    rules: &RetryRules,
    attempt: &FailedAttempt<'_>,
    now: Timestamp,
    wait: RetryWait,
) -> RetryVerdict {
    let category = attempt.failure.category.as_str().replace('_', " ");
    let stop = |reason: String| RetryVerdict { next: NextStep::Stop, reason };
    if let Some(reason) = blocking_reason(attempt) {
        return stop(format!("{category}: {reason}"));
    }
    let mut parts = Vec::new();
    // Each of the three is tried only if the one before it is not allowed: retry, fallback, wait for a limit.
    let retry = retry(rules, attempt, now, wait, &mut parts);
    let fallback = if retry.is_none() { fall_back(rules, attempt, &mut parts) } else { None };
    let limit =
        if retry.is_none() && fallback.is_none() { limit(rules, attempt, now, &mut parts) } else { None };
    let next = retry.or(fallback).or(limit).unwrap_or(NextStep::Stop);
    // Last, so that a request which ends anyway has the reason of the rules, and not this one.
    if next != NextStep::Stop && attempt.footprint.may_have_worked() && !rules.repeat_tools {
        return stop(format!("{category}: {}", attempt.footprint.reason()));
    }
    RetryVerdict { next, reason: format!("{category}: {}", parts.join("; ")) }
}

/// Returns why nothing may follow, under any rules.
#[expect(clippy::wildcard_enum_match_arm, reason = "the table decides about the other codes")]
fn blocking_reason(attempt: &FailedAttempt<'_>) -> Option<String> {
    let ours = match attempt.failure.code {
        Code::Budget => "the budget counts for every attempt",
        Code::Policy => "the policy holds for every agent",
        Code::DiskFull | Code::DiskQuota => "the journal's disk is full",
        Code::Cancelled => "the caller cancelled it",
        _ => return None,
    };
    Some(ours.to_owned())
}

fn retry(
    rules: &RetryRules,
    attempt: &FailedAttempt<'_>,
    now: Timestamp,
    wait: RetryWait,
    parts: &mut Vec<String>,
) -> Option<NextStep> {
    let mut not = |why: String| {
        parts.push(why);
        None
    };
    if !attempt.failure.category.may_retry() {
        return not("not retried".to_owned());
    }
    if attempt.retries >= rules.retries {
        return not(match attempt.retries {
            0 => "not to be retried".to_owned(),
            1 => "retried once already".to_owned(),
            times => format!("retried {times} times already"),
        });
    }
    let named = named_wait(attempt.failure, now);
    // An earlier retry would meet the same limit. `limit` waits for it, if the caller wants that.
    if let Some(named) = named.filter(|named| *named > rules.longest_wait) {
        return not(format!(
            "not retried, because {named} is longer than the longest wait of {}",
            rules.longest_wait
        ));
    }
    let (least, most) = rules.bounds(attempt.retries, named);
    let (after, words) = match wait {
        RetryWait::Drawn(dice) => {
            // Never earlier than the time that the agent named: such a retry is known to fail.
            let after = rules.backoff(attempt.retries, dice).max(least);
            (after, after.to_string())
        }
        RetryWait::Bounds => (most, between(least, most)),
    };
    let (which, of) = (attempt.retries + 1, rules.retries);
    parts.push(format!("retry {which} of {of} in {words}"));
    Some(NextStep::Retry { after })
}

fn fall_back(rules: &RetryRules, attempt: &FailedAttempt<'_>, parts: &mut Vec<String>) -> Option<NextStep> {
    let allowed = match rules.fallback {
        Fallback::None => false,
        Fallback::Next => attempt.failure.category.may_fall_back(),
        Fallback::Any => true,
    };
    match attempt.next {
        _ if !allowed => parts.push(format!("no fallback under `{}`", rules.fallback.as_str())),
        None => parts.push("no other agent to fall back to".to_owned()),
        Some(next) => {
            parts.push(format!("falls back to {next}"));
            return Some(NextStep::FallBack);
        }
    }
    None
}

fn limit(
    rules: &RetryRules,
    attempt: &FailedAttempt<'_>,
    now: Timestamp,
    parts: &mut Vec<String>,
) -> Option<NextStep> {
    // A server that is down may name a time too, but it has no limit that resets.
    let limited = matches!(attempt.failure.category, Category::RateLimit | Category::Quota);
    let named = named_wait(attempt.failure, now).filter(|_| limited)?;
    if !rules.wait_for_limit {
        parts.push(format!("the limit resets in {}, and the run does not wait for it", named));
        return None;
    }
    if attempt.waits >= MOST_WAITS {
        parts.push(format!("already waited {MOST_WAITS} times for the limit"));
        return None;
    }
    parts.push(format!("waits {} for the limit", named));
    Some(NextStep::Wait { until: now.after(named) })
}

/// Returns how long the agent has to be left alone, according to its failure.
pub(crate) fn named_wait(failure: &Failure, now: Timestamp) -> Option<Millis> {
    let resets = failure.resets_at.map(|at| at.since(now));
    // `None` is less than `Some`. Of two times the later one counts, because both have to pass.
    failure.retry_after_ms.max(resets)
}

impl RetryRules {
    /// Draws the wait before a retry: a random time up to a bound that doubles with each retry, so that many callers do not
    /// come back at the same moment.
    pub fn backoff(&self, retries: u32, dice: u64) -> Millis {
        let bound = self.bound(retries);
        // Full jitter: from 0 to the bound, both included. `bound + 1` overflows for the largest bound.
        Millis(if bound == u64::MAX { dice } else { dice % (bound + 1) })
    }

    fn bound(&self, retries: u32) -> u64 {
        // 16 doublings exceed every sensible `longest_wait`. A shift by 64 or more would overflow.
        self.first_wait.0.saturating_mul(1 << retries.min(16)).min(self.longest_wait.0)
    }

    /// Returns the shortest and the longest wait before a retry. A time that the agent named is the shortest.
    fn bounds(&self, retries: u32, named: Option<Millis>) -> (Millis, Millis) {
        let least = named.unwrap_or(Millis(0));
        (least, Millis(self.bound(retries)).max(least))
    }
}

/// Formats the bounds of a wait.
pub fn between(least: Millis, most: Millis) -> String {
    match (least, most) {
        (Millis(0), most) if most > least => format!("up to {most}"),
        (least, most) if most > least => format!("{least} to {most}"),
        (least, _) => least.to_string(),
    }
}

#[cfg(test)]
mod tests;
