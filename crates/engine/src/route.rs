//! Decides which providers to try, in which order, and why the others are skipped.
//!
//! The input is a list of candidates with facts about them. The result is an order, with a reason for every candidate. Equal
//! facts give equal results: this module looks nothing up, reads no clock and draws no random number. Whether a candidate can
//! honour a request is one of the facts, because only the code that builds commands knows it.

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

use crate::breaker::BreakerState;

pub use fit::{Truncation, shorten, tokens};
pub use hint::{HINTS, canonical};
pub use memory::{MemoryEntry, RouteMemory, key};
pub use order::RouteStrategy;

/// A provider that the router may choose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// The name to show to people: its name in the configuration, or the provider's.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// Whether the caller named it. Then it comes first, and may get any model.
    pub named: bool,
    /// Whether it has its own program or variables. Then its failures say nothing about the provider elsewhere.
    pub own: bool,
    /// The account, if there are several.
    pub profile: Option<String>,
    /// Whether it may be chosen at all.
    pub enabled: bool,
    /// Higher comes first. The order of the list decides among equals.
    pub priority: i64,
    /// Its default model.
    pub model: Option<String>,
    /// Models by hint, each by its canonical name.
    pub hints: BTreeMap<String, String>,
    /// Patterns of the provider's own model names; `*` matches any text.
    pub patterns: Vec<String>,
    /// Models that the program itself lists.
    pub listed: Vec<String>,
    /// Whether its models run on this machine, if that is known.
    pub local: bool,
    /// Whether it gets the model of the request even if it is not known to have it.
    pub any_model: bool,
}

/// Facts about a candidate with the model that it would use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateFacts {
    /// Why its program is not available.
    pub absent: Option<String>,
    /// Whether its account is logged in.
    pub login: LoginState,
    /// Why it cannot honour the request.
    pub cannot: Option<String>,
    /// The state of its breaker.
    pub breaker: BreakerState,
    /// A used-up limit that the program itself reports.
    pub limit: Option<UsedUpLimit>,
    /// The time to its first output.
    pub latency: Option<Millis>,
    /// The price of its model.
    pub price: Option<Price>,
}

impl CandidateFacts {
    /// Returns when the limits reset that make the router skip it. The inner `None` means at an unknown time.
    fn limited_until(&self) -> Option<Option<Timestamp>> {
        let cools = match self.breaker {
            BreakerState::Cooling { until } => Some(until),
            BreakerState::Closed | BreakerState::HalfOpen => None,
            // Failures rule it out, and not a limit: waiting for a reset would not help.
            BreakerState::Open { .. } | BreakerState::Probing => return None,
        };
        match (cools, &self.limit) {
            (None, None) => None,
            (Some(until), None) => Some(Some(until)),
            // Both have to pass. If one time is unknown, so is the later of the two.
            (cools, Some(limit)) => Some(limit.resets_at.map(|at| cools.map_or(at, |until| until.max(at)))),
        }
    }
}

/// Whether an account is logged in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LoginState {
    /// A login was found, or none is needed.
    #[default]
    Seen,
    /// No login was found, but only the program itself can tell for sure.
    Unseen,
    /// Not logged in, for this reason.
    Missing(String),
}

impl LoginState {
    /// Returns why the account is not logged in.
    fn missing(&self) -> Option<String> {
        match self {
            Self::Seen | Self::Unseen => None,
            Self::Missing(why) => Some(why.clone()),
        }
    }
}

/// A limit that is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedUpLimit {
    /// The window of the limit.
    pub window: String,
    /// When it resets.
    pub resets_at: Option<Timestamp>,
}

/// The routing part of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRequest {
    /// The kind of model, by its canonical name.
    pub hint: Option<String>,
    /// The requested model.
    pub model: Option<String>,
    /// Whether the caller named a provider. Then the model does not have to identify one.
    pub named: bool,
    /// Whether the caller listed the candidates. Then the order of the list counts, and several may have the model.
    pub listed: bool,
    /// How to order the candidates.
    pub strategy: RouteStrategy,
    /// The longest time to the first output. Slower candidates come last.
    pub max_latency: Option<Millis>,
    /// Whether candidates with models on this machine come first.
    pub prefer_local: bool,
    /// The candidate that had the last turn, for round-robin.
    pub last: Option<String>,
    /// The current time.
    pub now: Timestamp,
}

/// The model that a candidate would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateModel {
    /// The model; `None` leaves the choice to the program.
    pub model: Option<String>,
    /// Whether the candidate has a model for this request.
    pub fits: bool,
}

/// The order of the candidates, and the reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteDecision {
    /// The indexes of the candidates to try, in order.
    pub order: Vec<usize>,
    /// The verdict on every candidate, in the order of the list.
    pub verdicts: Vec<CandidateVerdict>,
    /// Why no candidate can be used.
    pub problem: Option<RouteProblem>,
}

/// The verdict on one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateVerdict {
    /// The name to show to people.
    pub name: String,
    /// The model that it would use.
    pub model: Option<String>,
    /// Its position in the order, from 1; `None` if it is skipped.
    pub turn: Option<usize>,
    /// The reason.
    pub reason: String,
}

/// Why no candidate can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteProblem {
    /// No candidate is known to have the model.
    #[error("no provider is known for the model `{model}`")]
    UnknownModel {
        /// The model.
        model: String,
    },
    /// Several candidates have the model.
    #[error("the model `{model}` may be meant for {}", names.join(" or "))]
    Ambiguous {
        /// The model.
        model: String,
        /// The providers that have it.
        names: Vec<String>,
    },
    /// The named candidate has an unusable configuration.
    #[error("`{name}` cannot be used: {why}")]
    Unusable {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
    /// The router skipped all of them.
    #[error("none of the providers can be used")]
    NoneUsable,
    /// The limits of all usable candidates are used up.
    #[error("the limits of all usable providers are used up{}", resets_at.map(|at| format!("; the first to reset is that of {name}, at {at}")).unwrap_or_default())]
    Limited {
        /// The index of the candidate whose limit resets first.
        place: usize,
        /// Its name.
        name: String,
        /// When its limit resets, if known.
        resets_at: Option<Timestamp>,
    },
    /// The list of candidates is empty.
    #[error("there is no provider to choose from")]
    Empty,
}

impl Candidate {
    /// Returns the model that it would use for a request.
    pub fn model_for(&self, ask: &RouteRequest) -> CandidateModel {
        if let Some(model) = &ask.model {
            return CandidateModel {
                model: Some(model.clone()),
                fits: self.named || self.any_model || self.has(model),
            };
        }
        let hinted = ask.hint.as_ref().and_then(|hint| self.hints.get(hint));
        CandidateModel {
            model: hinted.or(self.model.as_ref()).cloned(),
            fits: ask.hint.is_none() || hinted.is_some(),
        }
    }

    /// Returns its key in the route memory, with this model.
    pub fn key(&self, model: Option<&str>) -> String {
        let who = if self.own { format!("{}/{}", self.provider, self.name) } else { self.provider.clone() };
        key(&who, self.profile.as_deref(), model)
    }

    /// Returns whether the configuration names this model for the candidate.
    fn configures(&self, model: &str) -> bool {
        self.model.as_deref() == Some(model) || self.hints.values().any(|it| it == model)
    }

    /// Returns whether this candidate is known to have a model.
    pub fn has(&self, model: &str) -> bool {
        self.claim(model).is_some()
    }

    /// Returns how this candidate is known to have a model.
    fn claim(&self, model: &str) -> Option<ModelClaim> {
        if self.configures(model) {
            Some(ModelClaim::Configured)
        } else if self.owns(model) {
            Some(ModelClaim::Owned)
        } else {
            self.listed.iter().any(|it| it == model).then_some(ModelClaim::Listed)
        }
    }

    fn owns(&self, model: &str) -> bool {
        self.patterns.iter().any(|it| pattern::matches(it, model))
    }
}

/// How a candidate is known to have a model, the strongest claim first. A configuration states the user's choice. A provider's
/// own pattern counts more than a list of models, because many lists have the same models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ModelClaim {
    Configured,
    Owned,
    Listed,
}

/// Returns the strongest claim to the requested model among the available candidates. A candidate that may not be logged in
/// counts only if no other has the model.
fn strongest_claim(ask: &RouteRequest, candidates: &[(Candidate, CandidateFacts)]) -> Option<ModelClaim> {
    let model = ask.model.as_ref().filter(|_| !ask.named && !ask.listed)?;
    let there = |(candidate, facts): &&(Candidate, CandidateFacts)| {
        candidate.enabled && facts.absent.is_none() && facts.login.missing().is_none()
    };
    let claims = candidates.iter().filter(there).filter_map(|(candidate, facts)| {
        candidate.claim(model).map(|claim| (facts.login == LoginState::Unseen, claim))
    });
    claims.min().map(|(_, claim)| claim)
}

/// Decides which candidates to try, and in which order.
pub fn decide(ask: &RouteRequest, candidates: &[(Candidate, CandidateFacts)]) -> RouteDecision {
    let meant: Vec<CandidateModel> =
        candidates.iter().map(|(candidate, _)| candidate.model_for(ask)).collect();
    let strongest = strongest_claim(ask, candidates);
    let mut verdicts: Vec<CandidateVerdict> = candidates
        .iter()
        .zip(&meant)
        .map(|((candidate, facts), meant)| CandidateVerdict {
            name: candidate.name.clone(),
            model: meant.model.clone(),
            turn: None,
            reason: skip_reason(ask, candidate, meant, facts, strongest).unwrap_or_default(),
        })
        .collect();
    let mut order: Vec<usize> =
        (0..candidates.len()).filter(|place| verdicts[*place].reason.is_empty()).collect();
    let problem = problem(ask, candidates, &order, &meant, strongest);
    if problem.is_some() {
        for place in order.drain(..) {
            verdicts[place].reason = "another provider has that model too".to_owned();
        }
        return RouteDecision { order, verdicts, problem };
    }
    order::sort(ask, candidates, &meant, &mut order);
    for (turn, place) in order.iter().enumerate() {
        verdicts[*place].turn = Some(turn + 1);
        verdicts[*place].reason = order::reason(ask, &candidates[*place], &meant[*place]);
    }
    RouteDecision { order, verdicts, problem: None }
}

/// The reason for a candidate without the requested model, after the model's name.
pub const NOT_ITS_MODEL: &str = " is not one of its known models";

/// Returns why a candidate is skipped.
fn skip_reason(
    ask: &RouteRequest,
    candidate: &Candidate,
    meant: &CandidateModel,
    facts: &CandidateFacts,
    strongest: Option<ModelClaim>,
) -> Option<String> {
    if !candidate.enabled {
        return Some("disabled in the configuration".to_owned());
    }
    if let Some(model) = ask.model.as_ref().filter(|_| !meant.fits) {
        return Some(format!("`{model}`{NOT_ITS_MODEL}"));
    }
    if let (Some(model), Some(strongest)) = (&ask.model, strongest)
        && candidate.claim(model).is_some_and(|claim| claim > strongest)
    {
        return Some(match strongest {
            ModelClaim::Configured => format!("`{model}` is configured for another provider"),
            ModelClaim::Owned | ModelClaim::Listed => format!("`{model}` is a model of another provider"),
        });
    }
    let limit = facts.limit.as_ref().map(|limit| {
        let resets = limit.resets_at.map(|at| format!(" and resets in {}", at.since(ask.now)));
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
    ask: &RouteRequest,
    candidates: &[(Candidate, CandidateFacts)],
    order: &[usize],
    meant: &[CandidateModel],
    strongest: Option<ModelClaim>,
) -> Option<RouteProblem> {
    if candidates.is_empty() {
        return Some(RouteProblem::Empty);
    }
    if let Some(model) = ask.model.as_ref().filter(|_| !ask.named && !ask.listed) {
        let model = model.clone();
        if !candidates.iter().any(|(candidate, _)| candidate.enabled && candidate.has(&model)) {
            return Some(RouteProblem::UnknownModel { model });
        }
        let mut names: Vec<String> = Vec::new();
        let seen = |place: &&usize| candidates[**place].1.login == LoginState::Seen;
        // A candidate that may not be logged in makes a model ambiguous only if no candidate is surely logged in.
        let any_seen = order.iter().any(|place| seen(&place));
        for place in order.iter().filter(|place| !any_seen || seen(place)) {
            let name = &candidates[*place].0.provider;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if strongest != Some(ModelClaim::Configured) && names.len() > 1 {
            return Some(RouteProblem::Ambiguous { model, names });
        }
    }
    order.is_empty().then(|| limited(ask, candidates, meant, strongest).unwrap_or(RouteProblem::NoneUsable))
}

/// Finds the candidate whose limit resets first, among those that only a limit rules out.
fn limited(
    ask: &RouteRequest,
    candidates: &[(Candidate, CandidateFacts)],
    meant: &[CandidateModel],
    strongest: Option<ModelClaim>,
) -> Option<RouteProblem> {
    let waiting =
        candidates.iter().zip(meant).enumerate().filter_map(|(place, ((candidate, facts), meant))| {
            let resets_at = facts.limited_until()?;
            // If the candidate could be used without its limits, waiting for them helps.
            let free = CandidateFacts { breaker: BreakerState::Closed, limit: None, ..facts.clone() };
            skip_reason(ask, candidate, meant, &free, strongest).is_none().then_some((place, resets_at))
        });
    // An unknown time sorts last.
    let (place, resets_at) = waiting.min_by_key(|(_, resets_at)| (resets_at.is_none(), *resets_at))?;
    Some(RouteProblem::Limited { place, name: candidates[place].0.name.clone(), resets_at })
}
