//! What a run may use, and the guard that looks at it while the run goes on.
//!
//! The guard sees what the agent reports, as often as it reports it. Where nothing is reported, the text is counted;
//! where tokens are told and money is not, the price list is asked. What a finding rests on is always said. A model that
//! is not in the list has no price, and a limit of money is then watched only as far as the agent itself tells.

use bowline_protocol::kinds::{TurnEnded, UsageReported};
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

/// What a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One request, over all its attempts. Those who share it tell what they use.
    Request,
    /// A day: everybody's.
    Day,
    /// A project: everybody's, ever.
    Project,
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Request => "this request",
            Self::Day => "today",
            Self::Project => "this project",
        })
    }
}

/// One limit, and what it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// What it is for.
    pub extent: Extent,
    /// What may be used in all.
    pub amounts: Amounts,
    /// What of it was used before this run, and by others meanwhile.
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
    /// Whether some of that was counted by its text, as far as anybody told.
    ended_estimated: bool,
    /// How the open turn is told of: by the agent, by our count.
    reported: bool,
    estimated: bool,
    /// When the time of each limit is over.
    began: Option<Millis>,
    /// What those use who share the request.
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
    /// What the tokens rest on.
    pub counted: &'static str,
}

impl Sum {
    /// Returns how much it is.
    pub fn amounts(&self) -> Amounts {
        Amounts { cost: self.cost, tokens: Some(self.usage.total()), time: None }
    }
}

impl Guard {
    /// Makes the guard of a run.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            ended: Usage::default(),
            ended_cost: None,
            ended_estimated: false,
            reported: false,
            estimated: false,
            began: None,
            others: Amounts::default(),
            told: false,
            blind: false,
        }
    }

    /// Says what those have used who share the request.
    pub fn others(&mut self, others: Amounts) {
        self.others = others;
    }

    /// Says what was used before this run, and by others meanwhile.
    pub fn before(&mut self, extent: Extent, before: Amounts) {
        for limit in self.budget.limits.iter_mut().filter(|limit| limit.extent == extent) {
            limit.before = before;
        }
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
        let (time, extent) = limit.map_or((Millis(0), Extent::Request), |limit| {
            (limit.amounts.time.unwrap_or(Millis(0)), limit.extent)
        });
        format!("the budget of {time} for {extent} is used up")
    }

    /// Takes note of where the tokens of the open turn come from.
    pub fn reported(&mut self, report: &UsageReported) {
        match report.source {
            // A report of nothing is no word on what was used.
            UsageSource::Reported => self.reported |= report.usage.total() > 0,
            UsageSource::Estimated => self.estimated = true,
        }
    }

    /// Adds a turn that ended.
    pub fn turn_ended(&mut self, ended: &TurnEnded) {
        if let Some(usage) = &ended.usage {
            self.ended = self.ended.plus(usage);
            self.ended_estimated |= self.estimated && !self.reported;
        }
        (self.reported, self.estimated) = (false, false);
        if let Some(cost) = ended.cost_usd {
            self.ended_cost = Some(self.ended_cost.unwrap_or(0.0) + cost);
        }
    }

    /// Returns what the run has used, given what the open turn has.
    pub fn sum(&self, open: Option<Spent>, model: Option<&str>) -> Sum {
        let open_estimated = open.is_some_and(|open| open.source == UsageSource::Estimated)
            || (self.estimated && !self.reported);
        let usage = open.map_or(self.ended, |open| self.ended.plus(&open.usage));
        let cost = match (self.ended_cost, open.and_then(|open| open.cost_usd)) {
            (None, None) => None,
            (ended, open) => Some(ended.unwrap_or(0.0) + open.unwrap_or(0.0)),
        };
        let model = model.or(self.budget.model.as_deref());
        sum(usage, cost, self.ended_estimated || open_estimated, model, &self.budget.prices)
    }

    /// Looks whether a limit is reached, given what the open turn has used.
    pub fn check(&mut self, open: Option<Spent>, model: Option<&str>) -> Option<Finding> {
        let counts = |limit: &Limit| limit.amounts.cost.is_some() || limit.amounts.tokens.is_some();
        if self.told || !self.budget.limits.iter().any(counts) {
            return None;
        }
        let sum = self.sum(open, model);
        let over = |limit: &Limit| over(limit, &sum, &self.others);
        if let Some(why) = self.budget.limits.iter().find_map(over) {
            self.told = true;
            return Some(Finding::Over(why));
        }
        let money = self.budget.limits.iter().any(|limit| limit.amounts.cost.is_some());
        let told = sum.usage.total() > 0 && sum.counted == REPORTED;
        if money && sum.cost.is_none() && told && !self.blind {
            self.blind = true;
            return Some(Finding::Blind(format!("the limit of money is not watched: {}", sum.basis)));
        }
        None
    }
}

/// What tokens rest on.
const REPORTED: &str = "as the agent reports";
const ESTIMATED: &str = "counted by its text";

/// Adds up what was spent. The agent's own word about money comes first, then the price list.
pub fn sum(usage: Usage, cost: Option<f64>, estimated: bool, model: Option<&str>, own: &[Row]) -> Sum {
    let counted = if estimated { ESTIMATED } else { REPORTED };
    if let Some(cost) = cost {
        return Sum { usage, cost: Some(cost), basis: REPORTED.to_owned(), counted };
    }
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
    Sum { usage, cost, basis, counted }
}

/// Says that a limit is reached, in words.
fn over(limit: &Limit, sum: &Sum, others: &Amounts) -> Option<String> {
    let Limit { extent, amounts, before } = limit;
    // Of a day and a project, what others use is in what was used before.
    let beside = if *extent == Extent::Request { *others } else { Amounts::default() };
    let together = match extent {
        Extent::Request if !beside.is_empty() => " with those that run beside it",
        Extent::Day | Extent::Project if !before.is_empty() => " with other runs",
        Extent::Request | Extent::Day | Extent::Project => "",
    };
    let all = sum.amounts().plus(&beside).plus(before);
    let so_far = |own: bool, basis: &str| match extent {
        Extent::Day | Extent::Project if !own => "so far, all of it by other runs".to_owned(),
        Extent::Request | Extent::Day | Extent::Project => format!("so far{together}, {basis}"),
    };
    if let (Some(most), Some(cost)) = (amounts.cost, all.cost)
        && cost >= most
        && cost > 0.0
    {
        let so_far = so_far(sum.cost.is_some_and(|cost| cost > 0.0), &sum.basis);
        let (most, cost) = (dollars(most), dollars(cost));
        return Some(format!("the budget of {most} for {extent} is used up: {cost} {so_far}"));
    }
    let tokens = all.tokens.unwrap_or(0);
    let most = amounts.tokens.filter(|most| tokens >= *most && tokens > 0)?;
    let so_far = so_far(sum.usage.total() > 0, sum.counted);
    Some(format!("the budget of {most} tokens for {extent} is used up: {tokens} {so_far}"))
}

/// Writes money: two digits from a dollar on, four below.
pub fn dollars(amount: f64) -> String {
    match amount {
        0.0 => "$0.00".to_owned(),
        // What these write with four digits is a dollar, or nothing.
        0.99995.. => format!("${amount:.2}"),
        ..0.00005 => "less than $0.0001".to_owned(),
        _ => format!("${amount:.4}"),
    }
}

#[cfg(test)]
mod tests;
