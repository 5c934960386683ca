//! What a run does about its budget: what it has used is looked at, and it ends when that is enough.

use bowline_protocol::kinds::{Level, Notice, Outcome, TurnEnded};
use bowline_protocol::{Category, Code, Failure, Kind, Source};
use bowline_providers::dialect::Draft;
use bowline_providers::usage::Spent;

use super::Run;
use super::ladder::Why;
use super::values::{Now, Step};
use crate::budget::Finding;

impl Run {
    /// A turn that its budget ended has used what was counted then. Who is stopped may say that it was nothing.
    pub(super) fn tell_counted(&mut self, drafts: &mut Vec<Draft>) {
        let Some(spent @ Spent { usage, cost_usd, .. }) = self.counted else { return };
        let ended = drafts.iter_mut().enumerate().find_map(|(place, draft)| {
            let Draft { turn, raw, kind: Kind::TurnEnded(ended), .. } = draft else { return None };
            Some((place, *turn, *raw, ended))
        });
        let Some((place, turn, raw, ended)) = ended else { return };
        self.counted = None;
        if ended.usage.is_some_and(|told| told.total() >= usage.total()) {
            return;
        }
        ended.usage = Some(usage);
        ended.cost_usd = ended.cost_usd.filter(|cost| *cost > 0.0).or(cost_usd);
        let kind = Kind::UsageReported(spent.of_turn());
        drafts.insert(place, Draft { turn, source: Source::Bowline, raw, kind });
    }

    /// Looks whether the budget is used up.
    pub(super) fn weigh(&mut self, now: Now, step: &mut Step) {
        match self.guard.check(self.decoder.spent(), self.account.model.as_deref()) {
            None => {}
            Some(Finding::Blind(text)) => {
                let code = Some("budget_blind".to_owned());
                self.say(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
            }
            Some(Finding::Over(why)) if self.account.may_linger() => {
                // The answer is there: nothing is saved by throwing it away.
                let text = format!("{why}; it was told when the answer was complete");
                let code = Some("budget_exceeded".to_owned());
                self.say(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
            }
            Some(Finding::Over(why)) => self.use_up(why, now, step),
        }
    }

    /// Ends the program politely because the budget is used up. What it has said stays.
    pub(super) fn use_up(&mut self, why: String, now: Now, step: &mut Step) {
        self.counted = self.decoder.spent();
        let failure = self.out_of_budget(why, "what there is of the answer was kept", now, step);
        self.stop(Why::Trouble(Box::new(failure)), now, step);
    }

    /// A turn that failed and has used the budget up: nobody may be asked again, whatever the failure was.
    pub(super) fn blame_budget(&mut self, ended: &mut TurnEnded, now: Now, step: &mut Step) {
        let why = self.ladder.as_ref().map(|ladder| &ladder.why).or(self.why.as_ref());
        let ours = !matches!(why, None | Some(Why::Lingering));
        if ours || !matches!(ended.outcome, Outcome::Failed | Outcome::Truncated) {
            return;
        }
        let Some(Finding::Over(why)) = self.guard.check(None, self.account.model.as_deref()) else { return };
        let told = ended.failure.take();
        let said = match &told {
            Some(told) => format!("the agent had failed: {}", told.message),
            None => "the agent had ended without an answer".to_owned(),
        };
        let mut failure = self.out_of_budget(why, &said, now, step);
        if let Some(told) = told {
            (failure.raw, failure.exit, failure.stderr_tail) = (told.raw, told.exit, told.stderr_tail);
        }
        (ended.outcome, ended.stop, ended.failure) = (Outcome::Failed, None, Some(Box::new(failure)));
        self.no_more = true;
    }

    /// Says that the budget is used up, and returns that as a failure.
    fn out_of_budget(&mut self, why: String, so_far: &str, now: Now, step: &mut Step) -> Failure {
        let code = Some(Code::Budget.as_str().to_owned());
        self.say(Kind::Notice(Notice { level: Level::Warn, text: why.clone(), code }), now, step);
        let mut failure = Failure::new(Category::Configuration, Code::Budget, why);
        failure.hint = Some(format!("raise the budget, or ask for less; {so_far}"));
        failure
    }
}
