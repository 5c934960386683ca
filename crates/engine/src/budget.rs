//! The budget of a run, and the guard that checks it while the run goes on.
//!
//! The guard uses the agent's usage reports whenever they come. Without reports it estimates tokens by the text; without a
//! reported cost it uses the price list. Each finding names its source. A model that is not in the price list has no price, and
//! the guard can then check a cost limit only by the costs that the agent reports.

use bowline_protocol::kinds::{TurnEnded, UsageReported};
use bowline_protocol::{Millis, Usage, UsageSource};
use bowline_providers::prices::{self, Row};
use bowline_providers::usage::TurnSpending;

/// Amounts of a limit or of usage. `None` in a limit means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts {
    /// Cost in US dollars.
    pub cost: Option<f64>,
    /// Tokens of all kinds.
    pub tokens: Option<u64>,
    /// Working time.
    pub time: Option<Millis>,
}

impl Amounts {
    /// Returns whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum of both. Takes the longer of the two times, because the work runs in parallel.
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

/// The scope of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetScope {
    /// One request with all its attempts. Agents that share the request report their usage.
    Request,
    /// One day, over all runs.
    Day,
    /// One project, over all runs ever.
    Project,
}

impl std::fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Request => "this request",
            Self::Day => "today",
            Self::Project => "this project",
        })
    }
}

/// One limit and its scope.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetLimit {
    /// The scope.
    pub extent: BudgetScope,
    /// The limit in total.
    pub amounts: Amounts,
    /// The amount used before this run, and by other runs since.
    pub before: Amounts,
}

/// The limits of a run, and the prices to compute costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// The limits.
    pub limits: Vec<BudgetLimit>,
    /// The user's prices. They take precedence over the built-in ones.
    pub prices: Vec<Row>,
    /// The requested model, until the agent names another.
    pub model: Option<String>,
}

/// The result of a budget check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetFinding {
    /// A limit is reached.
    Over(String),
    /// A cost limit cannot be checked. Reported once.
    Unchecked(String),
}

/// The budget guard of one run.
#[derive(Debug)]
pub struct BudgetGuard {
    budget: Budget,
    /// The usage of ended turns.
    ended: Usage,
    ended_cost: Option<f64>,
    /// Whether part of that was estimated by the text.
    ended_estimated: bool,
    /// The sources of the open turn's usage: the agent's reports, our estimate.
    reported: bool,
    estimated: bool,
    /// Since when the work goes on; none while it rests.
    working_since: Option<Millis>,
    /// The working time before that.
    worked: Millis,
    /// The usage of the agents that share the request.
    others: Amounts,
    limit_reported: bool,
    unchecked_reported: bool,
}

/// The amounts spent, and their sources.
#[derive(Clone, Debug, PartialEq)]
pub struct SpendSum {
    /// The tokens.
    pub usage: Usage,
    /// The cost; `None` if unknown.
    pub cost: Option<f64>,
    /// The source of the cost.
    pub basis: String,
    /// The source of the tokens.
    pub counted: &'static str,
}

impl SpendSum {
    /// Returns the amounts.
    pub fn amounts(&self) -> Amounts {
        Amounts { cost: self.cost, tokens: Some(self.usage.total()), time: None }
    }
}

impl BudgetGuard {
    /// Returns whether something is limited within a scope.
    pub fn has_limit(&self, extent: BudgetScope) -> bool {
        self.budget.limits.iter().any(|limit| limit.extent == extent && !limit.amounts.is_empty())
    }

    /// Creates the guard of a run.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            ended: Usage::default(),
            ended_cost: None,
            ended_estimated: false,
            reported: false,
            estimated: false,
            working_since: None,
            worked: Millis(0),
            others: Amounts::default(),
            limit_reported: false,
            unchecked_reported: false,
        }
    }

    /// Sets the usage of the agents that share the request.
    pub fn others(&mut self, others: Amounts) {
        self.others = others;
    }

    /// Sets the usage before this run, and by other runs since.
    pub fn before(&mut self, extent: BudgetScope, before: Amounts) {
        for limit in self.budget.limits.iter_mut().filter(|limit| limit.extent == extent) {
            limit.before = before;
        }
    }

    /// Starts the working time, or goes on with it.
    pub fn begins(&mut self, now: Millis) {
        self.working_since.get_or_insert(now);
    }

    /// Stops the working time: no turn runs.
    pub fn rests(&mut self, now: Millis) {
        if let Some(since) = self.working_since.take() {
            self.worked = self.worked.plus(Millis(now.0.saturating_sub(since.0)));
        }
    }

    /// Leaves out a time in which the agent waited for a person.
    pub fn skip(&mut self, waited: Millis, now: Millis) {
        // The wait may have begun while nothing ran.
        self.working_since = self.working_since.map(|since| since.plus(waited).min(now));
    }

    /// Handles that another turn of the session begins: a limit that it reaches is a new finding.
    pub fn next_turn(&mut self) {
        self.limit_reported = false;
    }

    /// Returns why no further turn may begin, if a limit is reached.
    pub fn used_up(&self, model: Option<&str>) -> Option<String> {
        let sum = self.sum(None, model);
        let counted = self.budget.limits.iter().find_map(|limit| over(limit, &sum, &self.others));
        counted.or_else(|| self.time_left().filter(|left| left.0 == 0).map(|_| self.time_message()))
    }

    /// Returns the working time that is left, without the work since it went on.
    fn time_left(&self) -> Option<Millis> {
        let left = |limit: &BudgetLimit| {
            let used = limit.before.time.unwrap_or(Millis(0)).plus(self.worked);
            limit.amounts.time.map(|time| Millis(time.0.saturating_sub(used.0)))
        };
        self.budget.limits.iter().filter_map(left).min()
    }

    /// Returns when the time limit is reached.
    pub fn deadline(&self) -> Option<Millis> {
        // Once the limit is reported, its deadline is in the past and would fire again and again.
        let since = self.working_since.filter(|_| !self.limit_reported)?;
        self.time_left().map(|left| since.plus(left))
    }

    /// Returns the message that the time limit is reached.
    pub fn time_is_over(&mut self) -> String {
        self.limit_reported = true;
        self.time_message()
    }

    fn time_message(&self) -> String {
        let limit = self.budget.limits.iter().filter(|limit| limit.amounts.time.is_some());
        let limit = limit.min_by_key(|limit| limit.amounts.time);
        let (time, extent) = limit.map_or((Millis(0), BudgetScope::Request), |limit| {
            (limit.amounts.time.unwrap_or(Millis(0)), limit.extent)
        });
        format!("the budget of {time} for {extent} is used up")
    }

    /// Records the source of the open turn's tokens.
    pub fn reported(&mut self, report: &UsageReported) {
        match report.source {
            // A report of zero tokens proves nothing about usage.
            UsageSource::Reported => self.reported |= report.usage.total() > 0,
            UsageSource::Estimated => self.estimated = true,
        }
    }

    /// Adds the usage of a turn that ended.
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

    /// Returns the usage of the run, including the open turn's.
    pub fn sum(&self, open: Option<TurnSpending>, model: Option<&str>) -> SpendSum {
        let open_estimated = open.is_some_and(|open| open.source == UsageSource::Estimated)
            || (self.estimated && !self.reported);
        let usage = open.map_or(self.ended, |open| self.ended.plus(&open.usage));
        // An open turn without a reported cost adds nothing. The price list does not fill in a part: that would mix two
        // sources.
        let cost = match (self.ended_cost, open.and_then(|open| open.cost_usd)) {
            (None, None) => None,
            (ended, open) => Some(ended.unwrap_or(0.0) + open.unwrap_or(0.0)),
        };
        let model = model.or(self.budget.model.as_deref());
        sum(usage, cost, self.ended_estimated || open_estimated, model, &self.budget.prices)
    }

    /// Checks whether a limit is reached, including the open turn's usage.
    pub fn check(&mut self, open: Option<TurnSpending>, model: Option<&str>) -> Option<BudgetFinding> {
        let counts = |limit: &BudgetLimit| limit.amounts.cost.is_some() || limit.amounts.tokens.is_some();
        // The stop has begun. Usage that arrives meanwhile must not begin a second one.
        if self.limit_reported || !self.budget.limits.iter().any(counts) {
            return None;
        }
        let sum = self.sum(open, model);
        let over = |limit: &BudgetLimit| over(limit, &sum, &self.others);
        if let Some(why) = self.budget.limits.iter().find_map(over) {
            self.limit_reported = true;
            return Some(BudgetFinding::Over(why));
        }
        let money = self.budget.limits.iter().any(|limit| limit.amounts.cost.is_some());
        let reported = sum.usage.total() > 0 && sum.counted == REPORTED;
        if money && sum.cost.is_none() && reported && !self.unchecked_reported {
            self.unchecked_reported = true;
            return Some(BudgetFinding::Unchecked(format!(
                "the cost limit cannot be checked: {}",
                sum.basis
            )));
        }
        None
    }
}

/// The sources of tokens.
const REPORTED: &str = "as the agent reports";
const ESTIMATED: &str = "counted by its text";

/// Computes the amounts spent. The cost that the agent reports takes precedence over the price list.
pub fn sum(usage: Usage, cost: Option<f64>, estimated: bool, model: Option<&str>, own: &[Row]) -> SpendSum {
    let counted = if estimated { ESTIMATED } else { REPORTED };
    if let Some(cost) = cost {
        return SpendSum { usage, cost: Some(cost), basis: REPORTED.to_owned(), counted };
    }
    // A user's own price may match any model, also an unknown one.
    let (cost, basis) = match (model, prices::of(model.unwrap_or_default(), own)) {
        (_, Some(price)) => {
            let basis = format!("by the price list ({}), tokens {counted}", price.as_of);
            (Some(price.of(&usage)), basis)
        }
        (Some(model), None) => {
            (None, format!("the price of `{model}` is unknown; `bowline prices` lists the known ones"))
        }
        (None, None) => (None, "the agent did not report its model, so the price is unknown".to_owned()),
    };
    SpendSum { usage, cost, basis, counted }
}

/// Returns the message that a limit is reached.
fn over(limit: &BudgetLimit, sum: &SpendSum, others: &Amounts) -> Option<String> {
    let BudgetLimit { extent, amounts, before } = limit;
    // For a day or a project, the amount used before includes the usage of others.
    let beside = if *extent == BudgetScope::Request { *others } else { Amounts::default() };
    let together = match extent {
        BudgetScope::Request if !beside.is_empty() => " with the agents that share the request",
        BudgetScope::Day | BudgetScope::Project if !before.is_empty() => " with other runs",
        BudgetScope::Request | BudgetScope::Day | BudgetScope::Project => "",
    };
    let all = sum.amounts().plus(&beside).plus(before);
    let so_far = |own: bool, basis: &str| match extent {
        BudgetScope::Day | BudgetScope::Project if !own => "so far, all of it by other runs".to_owned(),
        BudgetScope::Request | BudgetScope::Day | BudgetScope::Project => {
            format!("so far{together}, {basis}")
        }
    };
    // `>=`, because the next model call would exceed it. With nothing spent, no limit is reached, not even one of 0.
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

/// Formats dollars: two digits from a dollar on, four below.
pub fn dollars(amount: f64) -> String {
    match amount {
        0.0 => "$0.00".to_owned(),
        // Amounts that four digits would round to a dollar, or to zero.
        0.99995.. => format!("${amount:.2}"),
        ..0.00005 => "less than $0.0001".to_owned(),
        _ => format!("${amount:.4}"),
    }
}

#[cfg(test)]
mod tests;
