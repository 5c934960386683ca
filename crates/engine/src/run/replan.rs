//! Replanning after a program rejected its options: the caller reads its help once, and the next attempt uses only options of
//! the help.
//!
//! A host plans by the help that it knows. Without the help, the plan may have several forms that the program lacks, and only
//! the first of them fails provably untouched: a form that prints one document at the end shows no steps, so its usage error
//! proves nothing ([`Footprint::UsageError`] needs lines). So the help is read after the first usage error, before another form
//! is tried. Reading the help and planning by it are not here.

use bowline_protocol::kinds::{Level, Notice, SessionState};
use bowline_protocol::{Kind, Millis};

use super::ladder::{StopCause, StopLadder};
use super::{AgentProcess, Now, ReplanResult, Run, RunAction, RunPhase, RunStep, Watchdog};
use crate::fallback::StreamFallback;
use crate::footprint::{Footprint, is_usage_error};

/// How long the help may take: the sum of two slow starts of a program. After that the plan stays as it is.
const REPLANNING: Millis = Millis(12_000);

impl Run {
    /// Returns whether the help may give a better second attempt than the plan: only after a usage error of the first attempt,
    /// which provably did nothing, and only if the prompt may be sent again at all.
    pub(super) fn should_replan(&self, footprint: Footprint) -> bool {
        let usage_error = self.state.failure.as_ref().is_some_and(is_usage_error);
        self.plan.replannable
            && self.attempt == 0
            && footprint.is_untouched()
            && usage_error
            && self.why.is_none()
            && !self.no_more
            && self.plan.stream_fallback != StreamFallback::Never
    }

    pub(super) fn replan(&mut self, footprint: Footprint, now: Now, step: &mut RunStep) {
        self.phase = RunPhase::Replanning { until: now.up.plus(REPLANNING), footprint };
        step.actions.push(RunAction::Replan);
    }

    /// Handles the result of replanning.
    pub(super) fn replanned(&mut self, replanned: ReplanResult, now: Now, step: &mut RunStep) {
        let RunPhase::Replanning { footprint, .. } = self.phase else { return };
        match replanned {
            ReplanResult::Unchanged => {}
            ReplanResult::Instead(attempt, notices) => {
                let reported = std::mem::take(&mut self.plan.notices);
                for notice in notices.into_iter().filter(|it| !reported.contains(it)) {
                    self.emit(Kind::Notice(notice), now, step);
                }
                // The other forms of the old plan were chosen without the help, and may use options that the program lacks.
                self.plan.attempts.truncate(self.attempt + 1);
                self.plan.attempts.push(*attempt);
                self.by_help = true;
            }
            ReplanResult::Refused(text) => {
                // The program lacks an option that a promise of the request needs. A form without it would break the promise.
                self.no_more = true;
                let code = Some("not_sent_again".to_owned());
                self.emit(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
            }
        }
        self.conclude(footprint, now, step);
    }

    /// Returns when the wait for the help ends. The time limit of the whole run still applies.
    pub(super) fn replan_deadline(&self, until: Millis) -> Millis {
        let total = self.watch.total_at().map(|(at, _)| at);
        total.into_iter().chain(self.guard.deadline()).fold(until, Millis::min)
    }

    pub(super) fn replan_timer(&mut self, until: Millis, now: Now, step: &mut RunStep) {
        let has_passed = |at: Option<Millis>| at.is_some_and(|at| now.up >= at);
        let total = self.watch.total_at();
        if let Some((_, limit)) = total.filter(|(at, _)| now.up >= *at) {
            self.watchdog_expired(Watchdog::Total, limit, now, step);
        } else if has_passed(self.guard.deadline()) {
            let why = self.guard.time_is_over();
            self.stop_for_budget(why, now, step);
        } else if has_passed(Some(until)) {
            // Without the help the plan stays as it is.
            self.replanned(ReplanResult::Unchanged, now, step);
        }
    }

    /// Ends the run while the help is read, as a second turn that ended before its process started. The turn of the first
    /// process is over, and its usage error did not end the run.
    pub(super) fn stop_replanning(&mut self, why: StopCause, now: Now, step: &mut RunStep) {
        self.no_more = true;
        self.change_state(SessionState::Stopping, Some(why.in_words()), now, step);
        self.ladder = Some(StopLadder::over(why));
        self.phase = RunPhase::Spawning;
        // Forget the exit of the first process: the second turn has none.
        self.process = AgentProcess::default();
        self.decoder = Self::decoder(&self.plan, self.attempt);
        self.state.next_attempt(self.plan.resume.clone());
        self.open_turn();
        self.emit_decoded(now, step);
        self.judge(now, step);
    }
}
