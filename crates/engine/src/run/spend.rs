//! The budget of a run: the run checks its usage, and stops when a limit is reached.

use bowline_protocol::kinds::{Level, Notice, Outcome, TurnEnded};
use bowline_protocol::{Category, Code, Failure, Kind, Source};
use bowline_providers::dialect::UnnumberedEvent;
use bowline_providers::usage::TurnSpending;

use super::Run;
use super::ladder::StopCause;
use super::values::{Now, RunStep};
use crate::budget::{BudgetFinding, BudgetScope};

impl Run {
    /// Sets the usage of a turn that its budget ended to the amount counted then. A stopped program may report zero.
    pub(super) fn keep_counted_usage(&mut self, drafts: &mut Vec<UnnumberedEvent>) {
        let Some(spent @ TurnSpending { usage, cost_usd, .. }) = self.counted else { return };
        let ended = drafts.iter_mut().enumerate().find_map(|(place, draft)| {
            let UnnumberedEvent { turn, raw, kind: Kind::TurnEnded(ended), .. } = draft else { return None };
            Some((place, *turn, *raw, ended))
        });
        let Some((place, turn, raw, ended)) = ended else { return };
        // The amount belongs to this turn only.
        self.counted = None;
        // A larger report also contains the tokens that arrived after the stop.
        if ended.usage.is_some_and(|reported| reported.total() >= usage.total()) {
            return;
        }
        ended.usage = Some(usage);
        ended.cost_usd = ended.cost_usd.filter(|cost| *cost > 0.0).or(cost_usd);
        let kind = Kind::UsageReported(spent.of_turn());
        drafts.insert(place, UnnumberedEvent { turn, source: Source::Bowline, raw, kind });
    }

    /// Returns whether something is limited within a scope.
    pub(crate) fn has_limit(&self, extent: BudgetScope) -> bool {
        self.guard.has_limit(extent)
    }

    /// Returns why no further turn may begin: the budget of the session is used up.
    pub(crate) fn out_of_budget_because(&self) -> Option<String> {
        self.guard.used_up(self.state.model.as_deref())
    }

    /// Checks whether the budget is used up.
    pub(super) fn check_budget(&mut self, now: Now, step: &mut RunStep) {
        match self.guard.check(self.decoder.spent(), self.state.model.as_deref()) {
            None => {}
            Some(BudgetFinding::Unchecked(text)) => {
                let code = Some("budget_blind".to_owned());
                self.emit(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
            }
            Some(BudgetFinding::Over(why)) if self.may_linger() => {
                // The answer is complete: discarding it would save nothing.
                let text = format!("{why}; this was reported after the answer was complete");
                let code = Some("budget_exceeded".to_owned());
                self.emit(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
            }
            Some(BudgetFinding::Over(why)) => self.stop_for_budget(why, now, step),
        }
    }

    /// Ends the program politely because the budget is used up. Its output is kept.
    pub(super) fn stop_for_budget(&mut self, why: String, now: Now, step: &mut RunStep) {
        // Read it before `stop`: the interrupted program may end its turn with a report of zero.
        self.counted = self.decoder.spent();
        let failure = self.out_of_budget(why, "the partial answer was kept", now, step);
        self.stop(StopCause::Trouble(Box::new(failure)), now, step);
    }

    /// Turns the failure of a turn that used up the budget into a budget failure: no retry may follow, whatever failed.
    pub(super) fn fail_for_budget(&mut self, ended: &mut TurnEnded, now: Now, step: &mut RunStep) {
        let why = self.ladder.as_ref().map(|ladder| &ladder.why).or(self.why.as_ref());
        // A run that we stop has its reason already. `Lingering` is not a reason for a failure.
        let ours = !matches!(why, None | Some(StopCause::Lingering));
        if ours || !matches!(ended.outcome, Outcome::Failed | Outcome::Truncated) {
            return;
        }
        // `None`, because `turn_ended` has already added this turn to the ended ones.
        let Some(BudgetFinding::Over(why)) = self.guard.check(None, self.state.model.as_deref()) else {
            return;
        };
        let reported = ended.failure.take();
        let earlier = match &reported {
            Some(reported) => format!("the agent had failed: {}", reported.message),
            None => "the agent had ended without an answer".to_owned(),
        };
        let mut failure = self.out_of_budget(why, &earlier, now, step);
        if let Some(reported) = reported {
            (failure.raw, failure.exit, failure.stderr_tail) =
                (reported.raw, reported.exit, reported.stderr_tail);
        }
        (ended.outcome, ended.stop, ended.failure) = (Outcome::Failed, None, Some(Box::new(failure)));
        self.no_more = true;
    }

    /// Reports that the budget is used up, and returns it as a failure.
    fn out_of_budget(&mut self, why: String, so_far: &str, now: Now, step: &mut RunStep) -> Failure {
        let code = Some(Code::Budget.as_str().to_owned());
        self.emit(Kind::Notice(Notice { level: Level::Warn, text: why.clone(), code }), now, step);
        let mut failure = Failure::new(Category::Configuration, Code::Budget, why);
        failure.hint = Some(format!("raise the budget, or ask for less; {so_far}"));
        failure
    }
}
