//! What follows a failed attempt: the same agent once more, another one, or nothing.
//!
//! The adapter protocol's table decides: which categories may be retried, and which may fall back. What is added to it is
//! what makes a second attempt safe: none after a tool ran or may have run ([`crate::footprint`]), because it would run twice;
//! none when a budget is used up; none for what only the caller can change. The breaker does not count here: it keeps new
//! requests from an agent that fails, and a request makes as many retries as it was given. The caller waits and starts, and
//! passes in the randomness. [`outlook`] plays the same decisions ahead, for `route --explain`.

mod outlook;

use bowline_protocol::{Category, Code, Failure, Millis, Timestamp};
use serde::{Deserialize, Serialize};

use crate::footprint::Footprint;
pub use outlook::{Outlook, Start, Step, Turn, next_turn, outlook};

/// How often one agent is asked again, if nothing else is said.
pub const RETRIES: u32 = 2;

/// The wait before the first retry, at most. It doubles with each.
pub const FIRST_WAIT: Millis = Millis(1_000);

/// The longest wait before a retry. What takes longer is a limit, and waited for only on request.
pub const LONGEST_WAIT: Millis = Millis(30_000);

/// How often a limit is waited for. An agent that names a new time again and again is not worth more.
const MOST_WAITS: u32 = 5;

/// When another agent may be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Never.
    None,
    /// After the failures for which the adapter protocol's table allows it.
    #[default]
    Next,
    /// After every failure, also of a login or of the request itself: the rule of the executable providers' router.
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

/// What the caller wants to happen after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How often each agent is asked again.
    pub retries: u32,
    /// When another agent may be asked.
    pub fallback: Fallback,
    /// Whether a request is sent again although a tool ran, or may have run: side effects may happen twice.
    pub repeat_tools: bool,
    /// Whether a limit that resets later is waited for.
    pub wait_for_limit: bool,
    /// The wait before the first retry, at most. It doubles with each.
    pub first_wait: Millis,
    /// The longest wait before a retry. What takes longer is a limit.
    pub longest_wait: Millis,
}

impl Default for Rules {
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
pub struct Attempt<'a> {
    /// Why.
    pub failure: &'a Failure,
    /// How often this agent was asked again already.
    pub retries: u32,
    /// How often a limit of it was waited for already.
    pub waits: u32,
    /// What the agent may have done with the prompt.
    pub footprint: Footprint,
    /// The agent that would be asked next.
    pub next: Option<&'a str>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask the same agent again, after this long.
    Retry {
        /// The wait.
        after: Millis,
    },
    /// Ask the same agent again when its limit has been reset.
    Wait {
        /// When that is.
        until: Timestamp,
    },
    /// Ask the next agent.
    FallBack,
    /// Leave it at that.
    Stop,
}

/// What is to be done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What.
    pub next: Next,
    /// Why, for people.
    pub reason: String,
}

/// How the wait before a retry is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It is drawn with this number, which may be any.
    Drawn(u64),
    /// Nobody waits: the longest is taken, and the reason tells the bounds.
    Told,
}

/// Decides what follows a failure.
pub fn decide(rules: &Rules, attempt: &Attempt<'_>, now: Timestamp, wait: Wait) -> Verdict {
    let category = attempt.failure.category.as_str().replace('_', " ");
    let stop = |reason: String| Verdict { next: Next::Stop, reason };
    if let Some(reason) = final_word(attempt) {
        return stop(format!("{category}: {reason}"));
    }
    let mut parts = Vec::new();
    let retry = retry(rules, attempt, now, wait, &mut parts);
    let fallback = if retry.is_none() { fall_back(rules, attempt, &mut parts) } else { None };
    let limit =
        if retry.is_none() && fallback.is_none() { limit(rules, attempt, now, &mut parts) } else { None };
    let next = retry.or(fallback).or(limit).unwrap_or(Next::Stop);
    if next != Next::Stop && attempt.footprint.may_have_worked() && !rules.repeat_tools {
        return stop(format!("{category}: {}", attempt.footprint.reason()));
    }
    Verdict { next, reason: format!("{category}: {}", parts.join("; ")) }
}

/// Returns why nothing can follow, whatever the rules are.
#[expect(clippy::wildcard_enum_match_arm, reason = "most codes are a matter of the table")]
fn final_word(attempt: &Attempt<'_>) -> Option<String> {
    let ours = match attempt.failure.code {
        Code::Budget => "the budget counts for every attempt",
        Code::Policy => "the policy holds for every agent",
        Code::DiskFull | Code::DiskQuota => "the journal has no more room, whoever is asked",
        Code::Cancelled => "somebody stopped it",
        _ => return None,
    };
    Some(ours.to_owned())
}

fn retry(
    rules: &Rules,
    attempt: &Attempt<'_>,
    now: Timestamp,
    wait: Wait,
    parts: &mut Vec<String>,
) -> Option<Next> {
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
    let told = told(attempt.failure, now);
    if let Some(told) = told.filter(|told| *told > rules.longest_wait) {
        return not(format!("not retried, because {told} is longer than {} to wait", rules.longest_wait));
    }
    let (least, most) = rules.bounds(attempt.retries, told);
    let (after, words) = match wait {
        Wait::Drawn(dice) => {
            let after = rules.backoff(attempt.retries, dice).max(least);
            (after, after.to_string())
        }
        Wait::Told => (most, between(least, most)),
    };
    let (which, of) = (attempt.retries + 1, rules.retries);
    parts.push(format!("retry {which} of {of} in {words}"));
    Some(Next::Retry { after })
}

fn fall_back(rules: &Rules, attempt: &Attempt<'_>, parts: &mut Vec<String>) -> Option<Next> {
    let allowed = match rules.fallback {
        Fallback::None => false,
        Fallback::Next => attempt.failure.category.may_fall_back(),
        Fallback::Any => true,
    };
    match attempt.next {
        _ if !allowed => parts.push(format!("no fallback under `{}`", rules.fallback.as_str())),
        None => parts.push("nobody left to fall back to".to_owned()),
        Some(next) => {
            parts.push(format!("falls back to {next}"));
            return Some(Next::FallBack);
        }
    }
    None
}

fn limit(rules: &Rules, attempt: &Attempt<'_>, now: Timestamp, parts: &mut Vec<String>) -> Option<Next> {
    let limited = matches!(attempt.failure.category, Category::RateLimit | Category::Quota);
    let told = told(attempt.failure, now).filter(|_| limited)?;
    if !rules.wait_for_limit {
        parts.push(format!("the limit resets in {} and is not waited for", told));
        return None;
    }
    if attempt.waits >= MOST_WAITS {
        parts.push(format!("the limit was waited for {MOST_WAITS} times already"));
        return None;
    }
    parts.push(format!("waits {} for the limit", told));
    Some(Next::Wait { until: now.after(told) })
}

/// Returns how long the agent says that it is to be left alone.
pub(crate) fn told(failure: &Failure, now: Timestamp) -> Option<Millis> {
    let resets = failure.resets_at.map(|at| at.since(now));
    failure.retry_after_ms.max(resets)
}

impl Rules {
    /// Draws a wait before a retry: anything up to a bound that doubles each time, so that many callers do not come back
    /// at the same moment.
    pub fn backoff(&self, retries: u32, dice: u64) -> Millis {
        let bound = self.bound(retries);
        Millis(if bound == u64::MAX { dice } else { dice % (bound + 1) })
    }

    fn bound(&self, retries: u32) -> u64 {
        self.first_wait.0.saturating_mul(1 << retries.min(16)).min(self.longest_wait.0)
    }

    /// Returns the shortest and the longest wait before a retry, where the agent named a time or did not.
    fn bounds(&self, retries: u32, told: Option<Millis>) -> (Millis, Millis) {
        let least = told.unwrap_or(Millis(0));
        (least, Millis(self.bound(retries)).max(least))
    }
}

/// Writes the bounds of a wait.
pub fn between(least: Millis, most: Millis) -> String {
    match (least, most) {
        (Millis(0), most) if most > least => format!("up to {most}"),
        (least, most) if most > least => format!("{least} to {most}"),
        (least, _) => least.to_string(),
    }
}

#[cfg(test)]
mod tests;
