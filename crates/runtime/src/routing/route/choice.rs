//! The decision: which candidates the router tries, and in which order.

use bowline_engine::retry::RouteStop;
use bowline_engine::route::{self, RouteDecision, RouteProblem, RouteStrategy};

use super::candidates::{CandidateLaunch, Candidates};
use super::memory::Store;
use crate::run::error::Error;
use crate::run::settings::RunSettings;

impl Candidates {
    /// Decides by the gathered facts.
    pub(super) fn decide(&self) -> RouteDecision {
        let known: Vec<_> = self.all.iter().map(|it| (it.candidate.clone(), it.facts.clone())).collect();
        route::decide(&self.ask, &known)
    }

    /// Decides the order. With the round-robin strategy, it holds the lock of the router's memory and records whose turn it was.
    pub(super) fn take_turn(&mut self, store: &Store) -> Result<RouteDecision, Error> {
        if self.ask.strategy != RouteStrategy::RoundRobin || self.ask.named {
            return Ok(self.decide_to_ask());
        }
        store.change(|memory| {
            // The memory as it is now, under the lock: another process may have taken a turn since it was read.
            self.ask.last.clone_from(&memory.last);
            let decision = self.decide_to_ask();
            if let Some(first) = decision.order.first() {
                memory.takes_turn(&self.all[*first].candidate.name);
            }
            decision
        })
    }

    /// Decides the order for a run. A named provider stays in it even if the facts are against it: its own error is better.
    pub(super) fn decide_to_ask(&self) -> RouteDecision {
        let mut decision = self.decide();
        let named = self.all.iter().position(|it| it.candidate.named);
        let Some(place) = named.filter(|place| decision.verdicts[*place].turn.is_none()) else {
            return decision;
        };
        if let CandidateLaunch::Not(why) = &self.all[place].launch {
            let (name, why) = (self.all[place].candidate.name.clone(), why.clone());
            return no_choice(decision, RouteProblem::Unusable { name, why });
        }
        decision.order.insert(0, place);
        decision.problem = None;
        let why = std::mem::take(&mut decision.verdicts[place].reason);
        decision.verdicts[place].reason = format!("it was named, although {why}");
        for (turn, place) in decision.order.iter().enumerate() {
            decision.verdicts[*place].turn = Some(turn + 1);
        }
        decision
    }

    /// Decides the order for an explanation. It leaves out a named provider that cannot honour the request, or that is not
    /// installed and has no fallback.
    pub(super) fn decide_to_tell(&self) -> RouteDecision {
        let mut decision = self.decide_to_ask();
        let named = self.all.iter().position(|it| it.candidate.named);
        let Some(place) = named.filter(|_| decision.problem.is_none()) else { return decision };
        let facts = &self.all[place].facts;
        let absent = facts.absent.as_ref().filter(|_| decision.order.len() < 2);
        if let Some(why) = facts.cannot.as_ref().or(absent) {
            decision.verdicts[place].reason.clone_from(why);
            return no_choice(decision, RouteProblem::NoneUsable);
        }
        decision
    }

    /// Inserts a candidate that has the fallback model behind the first one, with that model.
    pub(super) fn with_fallback_model(
        &self,
        order: &[usize],
        settings: &RunSettings,
    ) -> Vec<(usize, Option<String>)> {
        let wanted = settings.router.as_ref().and_then(|router| router.routing.fallback_model.clone());
        let wanted = wanted.filter(|_| self.ask.model.is_none() && !self.ask.named && !self.ask.listed);
        let has = |place: &&usize| {
            let candidate = &self.all[**place].candidate;
            wanted.as_ref().is_some_and(|model| {
                candidate.has(model) && candidate.model_for(&self.ask).model.as_ref() != Some(model)
            })
        };
        // The first candidate may have both models.
        let others = order.iter().skip(1).chain(order.first());
        let second = others.into_iter().find(has).map(|place| (*place, wanted.clone()));
        let mut all: Vec<(usize, Option<String>)> = order.iter().map(|place| (*place, None)).collect();
        if let Some(second) = second {
            all.insert(1, second);
        }
        all
    }

    /// Returns the names, models and memory keys of an order.
    pub(super) fn turns(&self, order: &[(usize, Option<String>)]) -> Vec<RouteStop> {
        let turn = |(place, own): &(usize, Option<String>)| {
            let candidate = &self.all[*place].candidate;
            let model = own.clone().or_else(|| candidate.model_for(&self.ask).model);
            RouteStop { name: candidate.name.clone(), key: candidate.key(model.as_deref()), model }
        };
        order.iter().map(turn).collect()
    }
}

/// Clears the order of a decision and sets its problem.
fn no_choice(mut decision: RouteDecision, problem: RouteProblem) -> RouteDecision {
    (decision.order, decision.problem) = (Vec::new(), Some(problem));
    decision.verdicts.iter_mut().for_each(|verdict| verdict.turn = None);
    decision
}
