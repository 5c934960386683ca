//! The order of the candidates.

use bowline_protocol::Millis;
use serde::{Deserialize, Serialize};

use super::{Candidate, CandidateFacts, CandidateModel, LoginState, RouteRequest};

/// How to order the candidates that can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteStrategy {
    /// The highest priority first.
    #[default]
    Priority,
    /// Each in its turn.
    RoundRobin,
    /// The shortest time to the first output first.
    LeastLatency,
    /// The cheapest model first.
    LeastCost,
}

impl RouteStrategy {
    /// Every strategy.
    pub const ALL: [Self; 4] = [Self::Priority, Self::RoundRobin, Self::LeastLatency, Self::LeastCost];

    /// Returns the word used in files and options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::RoundRobin => "round-robin",
            Self::LeastLatency => "least-latency",
            Self::LeastCost => "least-cost",
        }
    }
}

/// Orders the candidates that can be used. A candidate with a model for the hint comes before one without.
pub(super) fn sort(
    ask: &RouteRequest,
    candidates: &[(Candidate, CandidateFacts)],
    meant: &[CandidateModel],
    order: &mut [usize],
) {
    if ask.listed {
        return order.sort_unstable();
    }
    // These sorts are stable: a later sort keeps the order of earlier ones among equals.
    order.sort_by_key(|place| std::cmp::Reverse(candidates[*place].0.priority));
    match ask.strategy {
        RouteStrategy::Priority => {}
        RouteStrategy::RoundRobin => {
            // This undoes the sort by priority: turns follow the order of the list. Indexes are unique, so the sort need not be
            // stable.
            order.sort_unstable();
            let last = ask.last.as_ref();
            let after = candidates.iter().position(|(candidate, _)| Some(&candidate.name) == last);
            if let Some(after) = after {
                let first = order.iter().position(|place| *place > after).unwrap_or(0);
                order.rotate_left(first);
            }
        }
        // A candidate without a measurement comes first, so that it gets measured.
        RouteStrategy::LeastLatency => {
            order.sort_by_key(|place| candidates[*place].1.latency.unwrap_or(Millis(0)))
        }
        RouteStrategy::LeastCost => order.sort_by(|one, other| {
            // A model without a known price comes last.
            let cost = |place: &usize| {
                candidates[*place].1.price.as_ref().map_or(f64::INFINITY, |price| price.blended())
            };
            cost(one).total_cmp(&cost(other))
        }),
    }
    if ask.prefer_local {
        order.sort_by_key(|place| !candidates[*place].0.local);
    }
    if ask.hint.is_some() {
        order.sort_by_key(|place| !meant[*place].fits);
    }
    // A slow candidate comes last, but stays in the list: it is better than none.
    order.sort_by_key(|place| too_slow(ask, &candidates[*place].1).is_some());
    order.sort_by_key(|place| candidates[*place].1.login != LoginState::Seen);
    // The last sort is the strongest: a provider that the caller named comes first, whatever the sorts above decided.
    order.sort_by_key(|place| !candidates[*place].0.named);
}

/// Returns the time to the first output, if it is too long.
fn too_slow(ask: &RouteRequest, facts: &CandidateFacts) -> Option<Millis> {
    facts.latency.zip(ask.max_latency).filter(|(takes, most)| takes > most).map(|(takes, _)| takes)
}

/// Returns the reason for a candidate's position.
pub(super) fn reason(
    ask: &RouteRequest,
    (candidate, facts): &(Candidate, CandidateFacts),
    meant: &CandidateModel,
) -> String {
    let place = match ask.strategy {
        _ if ask.listed => "in the order of the request".to_owned(),
        RouteStrategy::Priority => format!("priority {}", candidate.priority),
        RouteStrategy::RoundRobin => match &ask.last {
            Some(last) => format!("in turn, after {last}"),
            None => "in turn".to_owned(),
        },
        RouteStrategy::LeastLatency => match facts.latency {
            Some(latency) => format!("its first output takes {}", latency),
            None => "its speed was never measured, so it is tried first".to_owned(),
        },
        RouteStrategy::LeastCost => match &facts.price {
            Some(price) => format!("${:.2} a million tokens, {}", price.blended(), price.as_of),
            None => "its price is unknown".to_owned(),
        },
    };
    let place = if ask.prefer_local && candidate.local && !ask.listed {
        format!("runs on this machine; {place}")
    } else {
        place
    };
    let place = match (too_slow(ask, facts), ask.max_latency) {
        (Some(takes), Some(most)) if !ask.listed => {
            format!("last, because its first output takes {takes} and only {most} is allowed; {place}")
        }
        _ => place,
    };
    let place = if facts.login == LoginState::Seen || ask.listed {
        place
    } else {
        format!("after the others, because no login was found (only the program itself can tell); {place}")
    };
    match (&ask.hint, meant.fits) {
        (Some(hint), true) => format!("has a model for `{hint}`; {place}"),
        (Some(hint), false) => format!("has no model for `{hint}`; {place}"),
        (None, _) => place,
    }
}
