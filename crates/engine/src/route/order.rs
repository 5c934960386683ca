//! Who comes first.

use bowline_protocol::Millis;
use serde::{Deserialize, Serialize};

use super::{Ask, Candidate, Facts, Login, Meant};

/// How those who can be asked are put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The highest priority first.
    #[default]
    Priority,
    /// In turn.
    RoundRobin,
    /// Whoever has the first word soonest.
    LeastLatency,
    /// Whose model costs least.
    LeastCost,
}

impl Strategy {
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

/// Puts those who can be asked in order. Who has a model for the hint comes before who has none.
pub(super) fn sort(ask: &Ask, candidates: &[(Candidate, Facts)], meant: &[Meant], order: &mut [usize]) {
    if ask.listed {
        return order.sort_unstable();
    }
    // Each sort keeps the order of equals, so that the earlier ones decide among them.
    order.sort_by_key(|place| std::cmp::Reverse(candidates[*place].0.priority));
    match ask.strategy {
        Strategy::Priority => {}
        Strategy::RoundRobin => {
            order.sort_unstable();
            let last = ask.last.as_ref();
            let after = candidates.iter().position(|(candidate, _)| Some(&candidate.name) == last);
            if let Some(after) = after {
                let first = order.iter().position(|place| *place > after).unwrap_or(0);
                order.rotate_left(first);
            }
        }
        // Nobody can be compared who was never tried.
        Strategy::LeastLatency => {
            order.sort_by_key(|place| candidates[*place].1.latency.unwrap_or(Millis(0)))
        }
        Strategy::LeastCost => order.sort_by(|one, other| {
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
    // Nobody is left out for it: somebody slow is better than nobody.
    order.sort_by_key(|place| too_slow(ask, &candidates[*place].1).is_some());
    order.sort_by_key(|place| candidates[*place].1.login != Login::Seen);
    order.sort_by_key(|place| !candidates[*place].0.named);
}

/// Returns how long somebody takes to the first word, if that is too long.
fn too_slow(ask: &Ask, facts: &Facts) -> Option<Millis> {
    facts.latency.zip(ask.max_latency).filter(|(takes, most)| takes > most).map(|(takes, _)| takes)
}

/// Says why somebody is where they are.
pub(super) fn reason(ask: &Ask, (candidate, facts): &(Candidate, Facts), meant: &Meant) -> String {
    let place = match ask.strategy {
        _ if ask.listed => "in the order of the request".to_owned(),
        Strategy::Priority => format!("priority {}", candidate.priority),
        Strategy::RoundRobin => match &ask.last {
            Some(last) => format!("in turn, after {last}"),
            None => "in turn".to_owned(),
        },
        Strategy::LeastLatency => match facts.latency {
            Some(latency) => format!("its first word takes {}", latency),
            None => "how fast it is was never measured, so it is tried".to_owned(),
        },
        Strategy::LeastCost => match &facts.price {
            Some(price) => format!("${:.2} a million tokens, {}", price.blended(), price.as_of),
            None => "what it costs is not known".to_owned(),
        },
    };
    let place = if ask.prefer_local && candidate.local && !ask.listed {
        format!("runs here; {place}")
    } else {
        place
    };
    let place = match (too_slow(ask, facts), ask.max_latency) {
        (Some(takes), Some(most)) if !ask.listed => {
            format!("last, because its first word takes {takes}, and {most} is allowed; {place}")
        }
        _ => place,
    };
    let place = if facts.login == Login::Seen || ask.listed {
        place
    } else {
        format!("after the others, because no login is seen and only the program itself can tell; {place}")
    };
    match (&ask.hint, meant.fits) {
        (Some(hint), true) => format!("has a model for `{hint}`; {place}"),
        (Some(hint), false) => format!("has no model for `{hint}`; {place}"),
        (None, _) => place,
    }
}
