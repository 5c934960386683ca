//! Who is asked, in which order, and why the others are not.
//!
//! Candidates and what is known about them go in; an order comes out, with a reason for every candidate. The same facts
//! give the same answer: nothing is looked up here, no clock is read and no dice are thrown. Whether a candidate can honour
//! a request is told as a fact, because the one place that knows is where commands are built.

mod fit;
mod hint;
mod memory;
mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bowline_protocol::{Millis, Timestamp};
use bowline_providers::pattern;
use bowline_providers::prices::Price;

use crate::breaker::State;

pub use fit::{Truncation, shorten, tokens};
pub use hint::{HINTS, canonical};
pub use memory::{Entry, Memory, key};
pub use order::Strategy;

/// Somebody who may be asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// What people call it: its name in the configuration, or the provider's.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// Whether the caller named it: then it comes first, and the model need not tell that it is meant.
    pub named: bool,
    /// Whether its program or its variables are its own: then what happens to it says nothing about the provider elsewhere.
    pub own: bool,
    /// The account, where there are several.
    pub profile: Option<String>,
    /// Whether it may be chosen at all.
    pub enabled: bool,
    /// Higher comes first; the order of the list decides among equals.
    pub priority: i64,
    /// The model that it is asked with unless somebody says otherwise.
    pub model: Option<String>,
    /// Models by hint, each by its proper name.
    pub hints: BTreeMap<String, String>,
    /// Names of models that are the provider's own; `*` is any text.
    pub patterns: Vec<String>,
    /// Models that the program itself lists.
    pub listed: Vec<String>,
    /// Whether its models run on this machine, as far as that is known.
    pub local: bool,
    /// Whether it gets the model of the request although it is not known to have it.
    pub any_model: bool,
}

/// What is known about a candidate and the model that it would be asked with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Why its program cannot be had.
    pub absent: Option<String>,
    /// Whether somebody is logged in.
    pub login: Login,
    /// Why it cannot honour the request.
    pub cannot: Option<String>,
    /// Whether it is left alone for a while.
    pub breaker: State,
    /// A limit that is used up, as the program itself tells.
    pub limit: Option<Limit>,
    /// How long it takes to the first word.
    pub latency: Option<Millis>,
    /// What its model costs.
    pub price: Option<Price>,
}

impl Facts {
    /// Returns when the limits of somebody are reset that keep them from being asked; within, nothing where that is not known.
    fn limited_until(&self) -> Option<Option<Timestamp>> {
        let cools = match self.breaker {
            State::Cooling { until } => Some(until),
            State::Closed | State::HalfOpen => None,
            State::Open { .. } | State::Probing => return None,
        };
        match (cools, &self.limit) {
            (None, None) => None,
            (Some(until), None) => Some(Some(until)),
            (cools, Some(limit)) => Some(limit.resets_at.map(|at| cools.map_or(at, |until| until.max(at)))),
        }
    }
}

/// Whether somebody is logged in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// As far as can be seen, or nobody has to be.
    #[default]
    Seen,
    /// Nothing is seen, and only the program itself can tell.
    Unseen,
    /// No, for this reason.
    Missing(String),
}

impl Login {
    /// Says why nobody is logged in.
    fn missing(&self) -> Option<String> {
        match self {
            Self::Seen | Self::Unseen => None,
            Self::Missing(why) => Some(why.clone()),
        }
    }
}

/// A limit that is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Which one.
    pub window: String,
    /// When it is reset.
    pub resets_at: Option<Timestamp>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// What sort of model is wanted, by its proper name.
    pub hint: Option<String>,
    /// Which model is wanted.
    pub model: Option<String>,
    /// Whether somebody was named, so that the model need not tell who is meant.
    pub named: bool,
    /// Whether the caller listed the candidates: they are asked in the order of the list, and several may have the model.
    pub listed: bool,
    /// Who comes first.
    pub strategy: Strategy,
    /// How long the first word may take. Who takes longer comes last.
    pub max_latency: Option<Millis>,
    /// Whether those come first whose models run on this machine.
    pub prefer_local: bool,
    /// Who was asked last, for those who take turns.
    pub last: Option<String>,
    /// The present.
    pub now: Timestamp,
}

/// Which model a candidate would be asked with, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// The model; none leaves it to the program.
    pub model: Option<String>,
    /// Whether the candidate has a model of its own for what was asked.
    pub fits: bool,
}

/// Who is asked, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The places of those who are asked, in their order.
    pub order: Vec<usize>,
    /// A word on every candidate, in the order of the list.
    pub verdicts: Vec<Verdict>,
    /// Why nobody is asked.
    pub problem: Option<Problem>,
}

/// A word on one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What people call it.
    pub name: String,
    /// The model that it would be asked with.
    pub model: Option<String>,
    /// Its turn, counted from 1; none if it is not asked.
    pub turn: Option<usize>,
    /// Why.
    pub reason: String,
}

/// Why nobody is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A model that nobody is known to have.
    #[error("no provider is known for the model `{model}`")]
    UnknownModel {
        /// The model.
        model: String,
    },
    /// A model that several have.
    #[error("the model `{model}` may be meant for {}", names.join(" or "))]
    Ambiguous {
        /// The model.
        model: String,
        /// Who has it.
        names: Vec<String>,
    },
    /// Who was named is described in a way that cannot be used.
    #[error("`{name}` cannot be asked: {why}")]
    Unusable {
        /// Who.
        name: String,
        /// Why.
        why: String,
    },
    /// All of them were ruled out.
    #[error("none of the providers can be asked")]
    Nobody,
    /// Of those who could be asked, the limits are used up.
    #[error("the limits of all who could be asked are used up{}", resets_at.map(|at| format!("; the first to reset is that of {name}, at {at}")).unwrap_or_default())]
    Limited {
        /// Its place in the list.
        place: usize,
        /// Whose limit is reset first.
        name: String,
        /// When that is, where it is known.
        resets_at: Option<Timestamp>,
    },
    /// There is no list to choose from.
    #[error("there is no provider to choose from")]
    Empty,
}

impl Candidate {
    /// Returns which model it would be asked with.
    pub fn meant(&self, ask: &Ask) -> Meant {
        if let Some(model) = &ask.model {
            return Meant {
                model: Some(model.clone()),
                fits: self.named || self.any_model || self.has(model),
            };
        }
        let hinted = ask.hint.as_ref().and_then(|hint| self.hints.get(hint));
        Meant { model: hinted.or(self.model.as_ref()).cloned(), fits: ask.hint.is_none() || hinted.is_some() }
    }

    /// Returns the name under which it is remembered with a model.
    pub fn key(&self, model: Option<&str>) -> String {
        let who = if self.own { format!("{}/{}", self.provider, self.name) } else { self.provider.clone() };
        key(&who, self.profile.as_deref(), model)
    }

    /// Says whether the configuration names the model for this candidate.
    fn configures(&self, model: &str) -> bool {
        self.model.as_deref() == Some(model) || self.hints.values().any(|it| it == model)
    }

    /// Says whether a model is known as one of this candidate.
    pub fn has(&self, model: &str) -> bool {
        self.claim(model).is_some()
    }

    /// Says how a model is known as one of this candidate.
    fn claim(&self, model: &str) -> Option<Claim> {
        if self.configures(model) {
            Some(Claim::Configured)
        } else if self.owns(model) {
            Some(Claim::Owned)
        } else {
            self.listed.iter().any(|it| it == model).then_some(Claim::Listed)
        }
    }

    fn owns(&self, model: &str) -> bool {
        self.patterns.iter().any(|it| pattern::matches(it, model))
    }
}

/// How a model is known as somebody's, the strongest first. Whoever wrote it into a configuration has said whom they mean. After
/// that a provider's own pattern counts more than a list of models, in which many have the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Configured,
    Owned,
    Listed,
}

/// Returns the strongest claim to the model that was asked for, among those who are there. Who may not be logged in counts only
/// where nobody else has the model.
fn strongest(ask: &Ask, candidates: &[(Candidate, Facts)]) -> Option<Claim> {
    let model = ask.model.as_ref().filter(|_| !ask.named && !ask.listed)?;
    let there = |(candidate, facts): &&(Candidate, Facts)| {
        candidate.enabled && facts.absent.is_none() && facts.login.missing().is_none()
    };
    let claims = candidates.iter().filter(there).filter_map(|(candidate, facts)| {
        candidate.claim(model).map(|claim| (facts.login == Login::Unseen, claim))
    });
    claims.min().map(|(_, claim)| claim)
}

/// Decides who is asked.
pub fn decide(ask: &Ask, candidates: &[(Candidate, Facts)]) -> Decision {
    let meant: Vec<Meant> = candidates.iter().map(|(candidate, _)| candidate.meant(ask)).collect();
    let strongest = strongest(ask, candidates);
    let mut verdicts: Vec<Verdict> = candidates
        .iter()
        .zip(&meant)
        .map(|((candidate, facts), meant)| Verdict {
            name: candidate.name.clone(),
            model: meant.model.clone(),
            turn: None,
            reason: ruled_out(ask, candidate, meant, facts, strongest).unwrap_or_default(),
        })
        .collect();
    let mut order: Vec<usize> =
        (0..candidates.len()).filter(|place| verdicts[*place].reason.is_empty()).collect();
    let problem = problem(ask, candidates, &order, &meant, strongest);
    if problem.is_some() {
        for place in order.drain(..) {
            verdicts[place].reason = "it has that model, and so has another".to_owned();
        }
        return Decision { order, verdicts, problem };
    }
    order::sort(ask, candidates, &meant, &mut order);
    for (turn, place) in order.iter().enumerate() {
        verdicts[*place].turn = Some(turn + 1);
        verdicts[*place].reason = order::reason(ask, &candidates[*place], &meant[*place]);
    }
    Decision { order, verdicts, problem: None }
}

/// What is said of whoever does not have the model that was asked for, after its name.
pub const NOT_ITS_MODEL: &str = " is not known as a model of it";

/// Returns why a candidate is not asked.
fn ruled_out(
    ask: &Ask,
    candidate: &Candidate,
    meant: &Meant,
    facts: &Facts,
    strongest: Option<Claim>,
) -> Option<String> {
    if !candidate.enabled {
        return Some("it is switched off in the configuration".to_owned());
    }
    if let Some(model) = ask.model.as_ref().filter(|_| !meant.fits) {
        return Some(format!("`{model}`{NOT_ITS_MODEL}"));
    }
    if let (Some(model), Some(strongest)) = (&ask.model, strongest)
        && candidate.claim(model).is_some_and(|claim| claim > strongest)
    {
        return Some(match strongest {
            Claim::Configured => format!("`{model}` is written down for another"),
            Claim::Owned | Claim::Listed => format!("`{model}` is a model of another"),
        });
    }
    let limit = facts.limit.as_ref().map(|limit| {
        let resets = limit.resets_at.map(|at| format!(", and resets in {}", at.since(ask.now)));
        format!("its {} limit is used up{}", limit.window, resets.unwrap_or_default())
    });
    facts
        .absent
        .clone()
        .or_else(|| facts.login.missing())
        .or_else(|| facts.cannot.clone())
        .or_else(|| facts.breaker.refuses(ask.now))
        .or(limit)
}

fn problem(
    ask: &Ask,
    candidates: &[(Candidate, Facts)],
    order: &[usize],
    meant: &[Meant],
    strongest: Option<Claim>,
) -> Option<Problem> {
    if candidates.is_empty() {
        return Some(Problem::Empty);
    }
    if let Some(model) = ask.model.as_ref().filter(|_| !ask.named && !ask.listed) {
        let model = model.clone();
        if !candidates.iter().any(|(candidate, _)| candidate.enabled && candidate.has(&model)) {
            return Some(Problem::UnknownModel { model });
        }
        let mut names: Vec<String> = Vec::new();
        let seen = |place: &&usize| candidates[**place].1.login == Login::Seen;
        let any_seen = order.iter().any(|place| seen(&place));
        for place in order.iter().filter(|place| !any_seen || seen(place)) {
            let name = &candidates[*place].0.provider;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if strongest != Some(Claim::Configured) && names.len() > 1 {
            return Some(Problem::Ambiguous { model, names });
        }
    }
    order.is_empty().then(|| limited(ask, candidates, meant, strongest).unwrap_or(Problem::Nobody))
}

/// Finds whose limit is reset first, among those who could be asked if it were not for a limit.
fn limited(
    ask: &Ask,
    candidates: &[(Candidate, Facts)],
    meant: &[Meant],
    strongest: Option<Claim>,
) -> Option<Problem> {
    let waiting =
        candidates.iter().zip(meant).enumerate().filter_map(|(place, ((candidate, facts), meant))| {
            let resets_at = facts.limited_until()?;
            let free = Facts { breaker: State::Closed, limit: None, ..facts.clone() };
            ruled_out(ask, candidate, meant, &free, strongest).is_none().then_some((place, resets_at))
        });
    // A time that is not known comes last.
    let (place, resets_at) = waiting.min_by_key(|(_, resets_at)| (resets_at.is_none(), *resets_at))?;
    Some(Problem::Limited { place, name: candidates[place].0.name.clone(), resets_at })
}
