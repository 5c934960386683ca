//! What a run may use, and the guard that looks at it while the run goes on.
//!
//! The guard sees what the agent reports, as often as it reports it. Where nothing is reported, the text is counted;
//! where tokens are told and money is not, the price list is asked. What a finding rests on is always said. A model that
//! is not in the list has no price, and a limit of money is then watched only as far as the agent itself tells.

use bowline_protocol::kinds::TurnEnded;
use bowline_protocol::{Millis, Usage, UsageSource};
use bowline_providers::prices::{self, Row};
use bowline_providers::usage::Spent;

/// Amounts that may be used. What is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts {
    /// Money, in US dollars.
    pub cost: Option<f64>,
    /// Tokens of all kinds.
    pub tokens: Option<u64>,
    /// Time of work.
    pub time: Option<Millis>,
}

impl Amounts {
    /// Says whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum of what was used here and there. Times are not added: who works side by side takes no longer.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let cost = match (self.cost, other.cost) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        let tokens = match (self.tokens, other.tokens) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self { cost, tokens, time: self.time.max(other.time) }
    }
}

/// One limit, and what it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// What it is for, as a clause: `this request`, `today`.
    pub scope: String,
    /// What may be used in all.
    pub amounts: Amounts,
    /// What of it was used before this run.
    pub before: Amounts,
}

/// What a run may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// The limits.
    pub limits: Vec<Limit>,
    /// Prices that come before those that ship.
    pub prices: Vec<Row>,
    /// The model that was asked for, until another is named.
    pub model: Option<String>,
}

/// What a look at the budget found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A limit is reached.
    Over(String),
    /// A limit of money cannot be watched. Said once.
    Blind(String),
}

/// The guard of one run.
#[derive(Debug)]
pub struct Guard {
    budget: Budget,
    /// What ended turns have used.
    ended: Usage,
    ended_cost: Option<f64>,
    /// When the time of each limit is over.
    began: Option<Millis>,
    /// What this run has used, and what those use who share the limits with it.
    spent: Amounts,
    others: Amounts,
    told: bool,
    blind: bool,
}

/// What was spent, and what that rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    /// The tokens.
    pub usage: Usage,
    /// What they cost; nothing if that is not known.
    pub cost: Option<f64>,
    /// What the cost rests on.
    pub basis: String,
}

impl Guard {
    /// Makes the guard of a run.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            ended: Usage::default(),
            ended_cost: None,
            began: None,
            spent: Amounts::default(),
            others: Amounts::default(),
            told: false,
            blind: false,
        }
    }

    /// Returns what the run has used, as far as somebody limits it.
    pub fn spent(&self) -> Amounts {
        self.spent
    }

    /// Says what those have used who share the limits.
    pub fn others(&mut self, others: Amounts) {
        self.others = others;
    }

    /// Says that the work begins.
    pub fn begins(&mut self, now: Millis) {
        self.began.get_or_insert(now);
    }

    /// Returns when the time is over.
    pub fn deadline(&self) -> Option<Millis> {
        let began = self.began.filter(|_| !self.told)?;
        let left = |limit: &Limit| {
            let before = limit.before.time.unwrap_or(Millis(0));
            limit.amounts.time.map(|time| Millis(time.0.saturating_sub(before.0)))
        };
        self.budget.limits.iter().filter_map(left).min().map(|left| began.plus(left))
    }

    /// Says that the time is over, in words.
    pub fn time_is_over(&mut self) -> String {
        self.told = true;
        let limit = self.budget.limits.iter().filter(|limit| limit.amounts.time.is_some());
        let limit = limit.min_by_key(|limit| limit.amounts.time);
        let (time, scope) = limit
            .map_or((Millis(0), ""), |limit| (limit.amounts.time.unwrap_or(Millis(0)), limit.scope.as_str()));
        format!("the budget of {} for {scope} is used up", time)
    }

    /// Adds a turn that ended.
    pub fn turn_ended(&mut self, ended: &TurnEnded) {
        if let Some(usage) = &ended.usage {
            self.ended = self.ended.plus(usage);
        }
        if let Some(cost) = ended.cost_usd {
            self.ended_cost = Some(self.ended_cost.unwrap_or(0.0) + cost);
        }
    }

    /// Looks whether a limit is reached, given what the open turn has used.
    pub fn check(&mut self, open: Option<Spent>, model: Option<&str>) -> Option<Finding> {
        let counts = |limit: &Limit| limit.amounts.cost.is_some() || limit.amounts.tokens.is_some();
        if !self.budget.limits.iter().any(counts) {
            return None;
        }
        let estimated = open.is_some_and(|open| open.source == UsageSource::Estimated);
        let usage = open.map_or(self.ended, |open| self.ended.plus(&open.usage));
        let cost = match (self.ended_cost, open.and_then(|open| open.cost_usd)) {
            (None, None) => None,
            (ended, open) => Some(ended.unwrap_or(0.0) + open.unwrap_or(0.0)),
        };
        let model = model.or(self.budget.model.as_deref());
        let sum = sum(usage, cost, estimated, model, &self.budget.prices);
        self.spent = Amounts { cost: sum.cost, tokens: Some(usage.total()), time: None };
        if self.told {
            return None;
        }
        let over = |limit: &Limit| over(limit, &sum, &self.others, estimated);
        if let Some(why) = self.budget.limits.iter().find_map(over) {
            self.told = true;
            return Some(Finding::Over(why));
        }
        let money = self.budget.limits.iter().any(|limit| limit.amounts.cost.is_some());
        if money && sum.cost.is_none() && usage.total() > 0 && !self.blind && !estimated {
            self.blind = true;
            return Some(Finding::Blind(format!("the limit of money is not watched: {}", sum.basis)));
        }
        None
    }
}

/// Adds up what was spent. The agent's own word about money comes first, then the price list.
pub fn sum(usage: Usage, cost: Option<f64>, estimated: bool, model: Option<&str>, own: &[Row]) -> Sum {
    if let Some(cost) = cost {
        return Sum { usage, cost: Some(cost), basis: "as the agent reports".to_owned() };
    }
    let counted = if estimated { "counted by its text" } else { "as the agent reports" };
    // A price of one's own may be for any model, also for one that is not told.
    let (cost, basis) = match (model, prices::of(model.unwrap_or_default(), own)) {
        (_, Some(price)) => {
            let basis = format!("by the price list ({}), tokens {counted}", price.as_of);
            (Some(price.of(&usage)), basis)
        }
        (Some(model), None) => {
            (None, format!("what `{model}` costs is not known; `bowline prices` lists the models that are"))
        }
        (None, None) => (None, "which model answers was not told, so that its price is not known".to_owned()),
    };
    Sum { usage, cost, basis }
}

/// Says that a limit is reached, in words.
fn over(limit: &Limit, sum: &Sum, others: &Amounts, estimated: bool) -> Option<String> {
    let Limit { scope, amounts, before } = limit;
    let together = if others.is_empty() { "" } else { " with those that run beside it" };
    let now = Amounts { cost: sum.cost, tokens: Some(sum.usage.total()), time: None }.plus(others);
    if let (Some(most), Some(cost)) = (amounts.cost, now.cost) {
        let all = cost + before.cost.unwrap_or(0.0);
        if all >= most && cost > 0.0 {
            let (most, all, basis) = (dollars(most), dollars(all), &sum.basis);
            return Some(format!(
                "the budget of {most} for {scope} is used up: {all} so far{together}, {basis}"
            ));
        }
    }
    let tokens = now.tokens.unwrap_or(0);
    let all = tokens.saturating_add(before.tokens.unwrap_or(0));
    let most = amounts.tokens.filter(|most| all >= *most && tokens > 0)?;
    let counted = if estimated { "counted by its text" } else { "as the agent reports" };
    Some(format!("the budget of {most} tokens for {scope} is used up: {all} so far{together}, {counted}"))
}

/// Writes money with as many digits as it needs.
pub fn dollars(amount: f64) -> String {
    if amount != 0.0 && amount.abs() < 0.095 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

#[cfg(test)]
mod tests;
