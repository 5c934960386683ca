//! The sum of the reports of a session, turn by turn.

use std::collections::VecDeque;

use bowline_protocol::kinds::UsageReported;
use bowline_protocol::{Basis, MessageId, Usage};

/// The most calls whose reports can be replaced by newer ones: so many agents may work side by side.
pub(crate) const MOST_CALLS: usize = 64;

/// The count of a session. Reports between turns are not counted, but what is cumulative goes on over all of them.
#[derive(Clone, Debug, Default)]
pub struct UsageCount {
    /// The last cumulative report, to compute what a turn added to it.
    cumulative: Usage,
    cumulative_cost: Option<f64>,
    turn: Option<TurnCount>,
}

/// The count of the turn that is open.
#[derive(Clone, Debug, Default)]
struct TurnCount {
    usage: Option<Usage>,
    cost: Option<f64>,
    /// The last report of each call, so that a repeated one replaces it. Sub-agents call between the agent's own reports.
    calls: VecDeque<(MessageId, Usage)>,
    /// Whether what is counted so far are calls of this turn, one by one.
    by_call: bool,
}

impl UsageCount {
    /// Begins a turn.
    pub fn begin(&mut self) {
        self.turn = Some(TurnCount::default());
    }

    /// Ends the turn.
    pub fn end(&mut self) {
        self.turn = None;
    }

    /// Returns the tokens of the turn, as they were reported.
    pub fn usage(&self) -> Option<Usage> {
        self.turn.as_ref()?.usage
    }

    /// Returns what the turn cost in US dollars, as it was reported.
    pub fn cost_usd(&self) -> Option<f64> {
        self.turn.as_ref()?.cost
    }

    /// Adds a report.
    pub fn report(&mut self, report: &UsageReported) {
        let (usage, cost) = match report.basis {
            Basis::Cumulative => {
                let cost = report.cost_usd.map(|cost| (cost - self.cumulative_cost.unwrap_or(0.0)).max(0.0));
                let usage = report.usage.since(&self.cumulative);
                // A report between turns stays out of the base, so that the next turn's difference includes it.
                if self.turn.is_some() {
                    self.cumulative = report.usage;
                    self.cumulative_cost = report.cost_usd.or(self.cumulative_cost);
                }
                (usage, cost)
            }
            Basis::PerCall | Basis::PerTurn => (report.usage, report.cost_usd),
        };
        if let Some(turn) = &mut self.turn {
            turn.add(report, usage, cost);
        }
    }
}

impl TurnCount {
    fn add(&mut self, report: &UsageReported, usage: Usage, cost: Option<f64>) {
        let both = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        match report.basis {
            // A stopped agent may report at its end that it used nothing, after it has reported its calls.
            Basis::PerTurn if usage.total() == 0 && self.usage.is_some() => {}
            Basis::PerTurn => {
                self.usage = Some(usage);
                self.cost = cost.or(self.cost);
            }
            Basis::PerCall => {
                // An agent repeats a call's numbers with each block of its message: the newest replace the older.
                let mut before = self.usage.unwrap_or_default();
                if let Some(message) = &report.message {
                    if let Some((_, last)) = self.calls.iter_mut().rev().find(|(id, _)| id == message) {
                        // Take the old numbers of this call out of the sum before the new ones are added.
                        before = before.since(&std::mem::replace(last, usage));
                    } else {
                        if self.calls.len() == MOST_CALLS {
                            self.calls.pop_front();
                        }
                        self.calls.push_back((message.clone(), usage));
                    }
                }
                self.usage = Some(before.plus(&usage));
                // Calls without a message are those of sub-agents, which no report of the agent's own covers.
                self.by_call = report.message.is_some();
                self.cost = both(self.cost, cost);
            }
            Basis::Cumulative => {
                if std::mem::take(&mut self.by_call) {
                    // It covers the calls that were reported one by one, and those that were not.
                    (self.usage, self.cost) = (None, None);
                    self.calls.clear();
                }
                // Two cumulative reports in one turn: what they add is added up.
                self.usage = Some(self.usage.unwrap_or_default().plus(&usage));
                self.cost = both(self.cost, cost);
            }
        }
    }
}
