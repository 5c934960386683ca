//! What would follow if every attempt failed in the same way: the decisions of a request, played ahead.
//!
//! Each step is the word of [`decide`] on what a request would know then: who is left, how often somebody was asked, and what
//! the breaker makes of it. It is taken that an attempt fails at once and that the longest wait is drawn.

use bowline_protocol::{Failure, Millis, Timestamp};

use super::{Attempt, Next, Rules, Verdict, Wait, decide, told};
use crate::footprint::Footprint;
use crate::route::Memory;

/// The most attempts that are played. Whoever asks for more retries knows how they go on.
const MOST: usize = 200;

/// Somebody who is asked in their turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What people call it.
    pub name: String,
    /// The model that it is asked with.
    pub model: Option<String>,
    /// The name under which it is remembered.
    pub key: String,
}

/// Where a request stands before its first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// When that is.
    pub at: Timestamp,
    /// How often a limit was waited for already.
    pub waits: u32,
}

/// An attempt that fails, and what is done then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose turn it was.
    pub turn: usize,
    /// How often it had been asked again.
    pub retries: u32,
    /// What is done, and why.
    pub verdict: Verdict,
    /// The shortest and the longest wait before the next attempt.
    pub wait: (Millis, Millis),
    /// Whose turn it is next.
    pub next: Option<usize>,
}

/// All attempts of a request that fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// One after the other.
    pub steps: Vec<Step>,
    /// Whether there would be more of them.
    pub goes_on: bool,
}

/// Returns who comes after a turn and is not left alone by the breaker.
pub fn next_turn(
    turns: &[Turn],
    memory: &Memory,
    turn: usize,
    now: Timestamp,
    may: impl Fn(&Turn) -> bool,
) -> Option<usize> {
    let free =
        |place: &usize| may(&turns[*place]) && memory.state(&turns[*place].key, now).refuses(now).is_none();
    (turn + 1..turns.len()).find(free)
}

/// Plays a request in which every attempt fails in the same way.
pub fn outlook(
    rules: &Rules,
    turns: &[Turn],
    memory: &Memory,
    failure: &Failure,
    footprint: Footprint,
    start: Start,
) -> Outlook {
    let (mut memory, mut outlook) = (memory.clone(), Outlook::default());
    let (mut turn, mut retries, mut waits, mut now) = (0, 0, start.waits, start.at);
    while turn < turns.len() {
        if outlook.steps.len() == MOST {
            outlook.goes_on = true;
            break;
        }
        memory.sent(&turns[turn].key, "", now);
        memory.failed(&turns[turn].key, failure, now);
        let after = next_turn(turns, &memory, turn, now, |_| true);
        let attempt = Attempt {
            failure,
            retries,
            waits,
            footprint,
            next: after.map(|after| turns[after].name.as_str()),
        };
        let verdict = decide(rules, &attempt, now, Wait::Told);
        let (wait, next) = match verdict.next {
            Next::Retry { .. } => (rules.bounds(retries, told(failure, now)), Some(turn)),
            Next::Wait { until } => ((until.since(now), until.since(now)), Some(turn)),
            Next::FallBack => ((Millis(0), Millis(0)), after),
            Next::Stop => ((Millis(0), Millis(0)), None),
        };
        let waits_for_limit = matches!(verdict.next, Next::Wait { .. });
        outlook.steps.push(Step { turn, retries, verdict, wait, next });
        let Some(next) = next else { break };
        (retries, waits) = match (next == turn, waits_for_limit) {
            (false, _) => (0, 0),
            (true, false) => (retries + 1, waits),
            (true, true) => (retries, waits + 1),
        };
        (turn, now) = (next, now.after(wait.1));
    }
    outlook
}
