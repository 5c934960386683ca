//! Who of those who may be asked is asked, and in which order.

use bowline_engine::retry::Turn;
use bowline_engine::route::{self, Decision, Problem, Strategy};

use super::candidates::{Field, How};
use super::memory::Store;
use crate::Error;
use crate::config::Config;

impl Field {
    /// Decides by what is known.
    pub(super) fn decide(&self) -> Decision {
        route::decide(&self.ask, &self.candidates)
    }

    /// Decides who is asked. Where they take turns, nobody else decides meanwhile, and the next one knows whose turn it was.
    pub(super) fn take_turn(&mut self, store: &Store) -> Result<Decision, Error> {
        if self.ask.strategy != Strategy::RoundRobin || self.ask.named {
            return Ok(self.decide_to_ask());
        }
        store.change(|memory| {
            self.ask.last.clone_from(&memory.last);
            let decision = self.decide_to_ask();
            if let Some(first) = decision.order.first() {
                memory.takes_turn(&self.candidates[*first].0.name);
            }
            decision
        })
    }

    /// Decides who is asked. Who was named is asked whatever we think of it: what is the matter with it, it says itself.
    pub(super) fn decide_to_ask(&self) -> Decision {
        let mut decision = self.decide();
        let named = self.candidates.iter().position(|(candidate, _)| candidate.named);
        let Some(place) = named.filter(|place| decision.verdicts[*place].turn.is_none()) else {
            return decision;
        };
        if let How::Not(why) = &self.hows[place] {
            let (name, why) = (self.candidates[place].0.name.clone(), why.clone());
            return nobody(decision, Problem::Unusable { name, why });
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

    /// Decides who would be asked, for whoever wants to know. One that was named and cannot be run as it is wanted, or is not
    /// there and has nobody behind it, is nobody to be asked.
    pub(super) fn decide_to_tell(&self) -> Decision {
        let mut decision = self.decide_to_ask();
        let named = self.candidates.iter().position(|(candidate, _)| candidate.named);
        let Some(place) = named.filter(|_| decision.problem.is_none()) else { return decision };
        let facts = &self.candidates[place].1;
        let absent = facts.absent.as_ref().filter(|_| decision.order.len() < 2);
        if let Some(why) = facts.cannot.as_ref().or(absent) {
            decision.verdicts[place].reason.clone_from(why);
            return nobody(decision, Problem::Nobody);
        }
        decision
    }

    /// Puts whoever has the fallback's model behind the first, with that model.
    pub(super) fn with_fallback_model(
        &self,
        order: &[usize],
        config: &Config,
    ) -> Vec<(usize, Option<String>)> {
        let wanted = config.router.as_ref().and_then(|router| router.routing.fallback_model.clone());
        let wanted = wanted.filter(|_| self.ask.model.is_none() && !self.ask.named && !self.ask.listed);
        let has = |place: &&usize| {
            let candidate = &self.candidates[**place].0;
            wanted.as_ref().is_some_and(|model| {
                candidate.has(model) && candidate.meant(&self.ask).model.as_ref() != Some(model)
            })
        };
        // Whoever is asked first may have both.
        let others = order.iter().skip(1).chain(order.first());
        let second = others.into_iter().find(has).map(|place| (*place, wanted.clone()));
        let mut all: Vec<(usize, Option<String>)> = order.iter().map(|place| (*place, None)).collect();
        if let Some(second) = second {
            all.insert(1, second);
        }
        all
    }

    /// Returns how those who are asked are called, and remembered with their models.
    pub(super) fn turns(&self, order: &[(usize, Option<String>)]) -> Vec<Turn> {
        let turn = |(place, own): &(usize, Option<String>)| {
            let candidate = &self.candidates[*place].0;
            let model = own.clone().or_else(|| candidate.meant(&self.ask).model);
            Turn { name: candidate.name.clone(), key: candidate.key(model.as_deref()), model }
        };
        order.iter().map(turn).collect()
    }
}

/// Makes a decision one by which nobody is asked.
fn nobody(mut decision: Decision, problem: Problem) -> Decision {
    (decision.order, decision.problem) = (Vec::new(), Some(problem));
    decision.verdicts.iter_mut().for_each(|verdict| verdict.turn = None);
    decision
}
