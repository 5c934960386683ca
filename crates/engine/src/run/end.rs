//! How a run ends once its process has: the tree is swept, the files are looked at, the end of the output is judged, and
//! then there is one more attempt or the session is over.

use bowline_protocol::kinds::{
    CapabilityDegraded, EndReason, FallbackTaken, FilesTouched, Level, Notice, Outcome, ProcessLeaked,
    ProcessReaped, SessionEnded, SessionState, TouchSource, TouchedFile,
};
use bowline_protocol::{Category, Code, Exit, Failure, Kind, Millis};
use bowline_providers::decode::{Cause, End};

use super::ladder::Why;
use super::{Action, DRAIN, DRAIN_AT_MOST, Ended, Now, PATIENCE, Phase, Run, Step, Survivor, Swept};
use crate::fallback::{self, Rule, StreamEnd};
use crate::footprint::{Footprint, Traces};

/// What descendants of a program that has ended get between SIGTERM and SIGKILL.
const SWEEP_GRACE: Millis = Millis(250);

impl Run {
    pub(super) fn exited(&mut self, exit: Exit, now: Now, step: &mut Step) {
        if self.phase != Phase::Running || self.process.exit.is_some() {
            return;
        }
        self.process.exit = Some(exit);
        if let Some(pid) = self.process.pid {
            self.say(Kind::ProcessReaped(ProcessReaped { pid, exit }), now, step);
        }
        if self.process.is_closed() {
            self.sweep(now, step);
        } else {
            let until = self.patience(DRAIN, now);
            self.phase = Phase::Draining { until, at_most: self.patience(DRAIN_AT_MOST, now) };
        }
    }

    pub(super) fn sweep(&mut self, now: Now, step: &mut Step) {
        self.phase = Phase::Sweeping { until: now.up.plus(PATIENCE) };
        let until = self.patience(SWEEP_GRACE, now);
        step.actions.push(Action::Sweep(Millis(until.0.saturating_sub(now.up.0))));
    }

    /// Returns until when whoever outlives the program is waited for: for so long, but not beyond the moment at which the
    /// program itself would have been killed.
    fn patience(&self, usual: Millis, now: Now) -> Millis {
        let ladder = self.ladder.as_ref().map(|ladder| ladder.kill_at);
        let latest = ladder.into_iter().chain(self.watch.gone_by()).min();
        now.up.plus(usual).min(latest.unwrap_or(Millis(u64::MAX))).max(now.up)
    }

    pub(super) fn swept(&mut self, swept: Swept, now: Now, step: &mut Step) {
        if !matches!(self.phase, Phase::Sweeping { .. }) {
            return;
        }
        let Swept { ended, killed, survivors } = swept;
        // Where we ended the program, what it had started ended with it, and that is no news; unless it had to be killed.
        if self.ladder.is_some() {
            self.killed.extend(killed);
        } else if !ended.is_empty() {
            let them: Vec<String> =
                ended.iter().map(|it| format!("{} (pid {})", it.command, it.pid)).collect();
            let text = format!("outlived the agent, and was ended: {}", them.join(", "));
            let code = Some("left_behind".to_owned());
            self.say(Kind::Notice(Notice { level: Level::Info, text, code }), now, step);
            self.left_behind.extend(ended);
        }
        for Survivor { pid, command } in &survivors {
            let reason = "it did not end when it was killed".to_owned();
            let leaked = ProcessLeaked { pid: *pid, command: command.clone(), reason };
            self.say(Kind::ProcessLeaked(leaked), now, step);
        }
        self.survivors.extend(survivors);
        if self.process.is_closed() {
            self.look(now, step);
        } else {
            self.phase = Phase::Closing { until: now.up.plus(DRAIN) };
        }
    }

    pub(super) fn look(&mut self, now: Now, step: &mut Step) {
        if self.plan.files {
            self.phase = Phase::Looking { until: now.up.plus(PATIENCE) };
            step.actions.push(Action::LookAtFiles);
        } else {
            self.judge(now, step);
        }
    }

    pub(super) fn files(&mut self, files: Vec<TouchedFile>, now: Now, step: &mut Step) {
        if !matches!(self.phase, Phase::Looking { .. }) {
            return;
        }
        if !files.is_empty() {
            self.account.seen = self.account.seen.max(Footprint::FilesChanged);
            let touched = FilesTouched { seen_by: TouchSource::Git, files, room: None };
            self.say(Kind::FilesTouched(touched), now, step);
        }
        self.judge(now, step);
    }

    /// Judges the end of the output, then begins the second attempt or ends the session.
    pub(super) fn judge(&mut self, now: Now, step: &mut Step) {
        let why = self.ladder.take().map(|ladder| ladder.why);
        let (exit, cause) = match &why {
            None => (self.process.exit, Cause::Exited),
            Some(Why::Cancelled | Why::Trouble(_)) => (self.process.exit, Cause::Cancelled),
            Some(Why::TimedOut(..)) => (self.process.exit, Cause::TimedOut),
            // We ended it, so how it ended says nothing about its answer.
            Some(Why::Lingering) => (None, Cause::Exited),
        };
        self.why = why;
        if matches!(self.phase, Phase::Spawning | Phase::Running) {
            // Its process was given up, or never was: what it said last cannot make us stop it again.
            self.phase = Phase::Looking { until: now.up };
        }
        self.decoder.finish(&End { exit, cause }, &self.moment, &mut self.drafts);
        self.pass(now, step);
        // But it may be a reason of ours not to ask a second time.
        if let Some(ladder) = self.ladder.take() {
            self.why = Some(ladder.why);
        }
        let footprint = self.footprint_of_attempt();
        self.account.footprint = self.account.footprint.max(footprint);
        self.rule = self.rule_of_the_end(footprint);
        let again = self.rule == Rule::Retry;
        if let Some(about) = self.rule.about() {
            let failure = self.account.failure.clone().unwrap_or_else(|| {
                Failure::new(Category::Unknown, Code::Truncated, "the stream ended without a result")
            });
            let kind = if again {
                let (from, to) = ("streaming".to_owned(), "non-streaming".to_owned());
                let rule = self.rule.as_str().to_owned();
                let reason = Some(footprint.reason().to_owned());
                Kind::FallbackTaken(FallbackTaken { from, to, rule, reason, failure: Box::new(failure) })
            } else {
                Kind::Notice(not_again(self.rule, about, footprint))
            };
            self.say(kind, now, step);
            if again {
                self.step_down(now, step);
            }
        }
        if again {
            self.attempt += 1;
            self.decoder = Self::decoder(&self.plan, self.attempt);
            self.account.next_attempt(self.plan.resume.clone());
            self.why = None;
            self.spawn(now, step);
        } else {
            self.end(now, step);
        }
    }

    /// Says what the next form has to do without, and why it is taken.
    fn step_down(&mut self, now: Now, step: &mut Step) {
        let why = self.account.failure.as_ref().map_or("it ended without a word", |it| it.message.as_str());
        let reason = format!("the better form did not work: {why}");
        let next = self.plan.attempts.get(self.attempt + 1).map(|next| next.degraded.clone());
        for degraded in next.unwrap_or_default() {
            let reason = reason.clone();
            self.say(Kind::CapabilityDegraded(CapabilityDegraded { reason, ..degraded }), now, step);
        }
    }

    /// Returns what the program of this attempt may have done with the prompt.
    fn footprint_of_attempt(&self) -> Footprint {
        let attempt = &self.plan.attempts[self.attempt];
        let traces = Traces {
            seen: self.account.seen,
            prompted: self.account.prompted,
            generates_only: attempt.dialect.generates_only(),
            steps: attempt.dialect.steps_of(attempt.shape),
            shape: attempt.shape,
            framing: attempt.dialect.framing,
            usage_reported: self.account.usage_reported,
            printed: self.account.has_printed(),
            timed_out: matches!(self.why, Some(Why::TimedOut(..))),
            trouble: matches!(self.why, Some(Why::Trouble(_))),
            failure: self.account.failure.as_ref(),
        };
        traces.footprint()
    }

    fn rule_of_the_end(&self, footprint: Footprint) -> Rule {
        let end = StreamEnd {
            outcome: self.account.outcome.unwrap_or(Outcome::Truncated),
            failure: self.account.failure.as_ref(),
            has_text: self.account.has_text,
            footprint,
            steps_down: self
                .plan
                .attempts
                .get(self.attempt + 1)
                .is_some_and(|next| !next.degraded.is_empty()),
        };
        // Trouble of our own is not the stream's: a second attempt would meet the same.
        let ours = matches!(self.why, Some(Why::Trouble(_)));
        let again = self.attempt + 1 < self.plan.attempts.len() && !ours && !self.no_more;
        fallback::decide(&end, self.plan.stream_fallback, again)
    }

    fn end(&mut self, now: Now, step: &mut Step) {
        let outcome = self.account.outcome.unwrap_or(Outcome::Truncated);
        let state =
            if outcome == Outcome::Completed { SessionState::Completed } else { SessionState::Failed };
        self.state(state, None, now, step);
        let reason = match &self.why {
            None | Some(Why::Lingering) => EndReason::Exited,
            Some(Why::Cancelled | Why::Trouble(_)) => EndReason::Stopped,
            Some(Why::TimedOut(..)) => EndReason::TimedOut,
        };
        self.say(Kind::SessionEnded(SessionEnded { exit: self.process.exit, reason }), now, step);
        self.phase = Phase::Over;
        let timed_out = match &self.why {
            Some(Why::TimedOut(which, _)) => Some(*which),
            _ => None,
        };
        let ended = Ended {
            outcome,
            failure: self.account.failure.take(),
            exit: self.process.exit,
            survivors: std::mem::take(&mut self.survivors),
            left_behind: std::mem::take(&mut self.left_behind),
            killed: std::mem::take(&mut self.killed),
            rule: self.rule,
            stream_fallback: self.attempt > 0,
            timed_out,
            tool_ran: self.account.tool_ever_ran,
            footprint: self.account.footprint,
        };
        step.actions.push(Action::Done(Box::new(ended)));
    }
}

/// Makes the remark that a request is not sent once more, and why.
fn not_again(rule: Rule, about: &str, footprint: Footprint) -> Notice {
    let code = Some(rule.as_str().to_owned());
    // That the prompt is sent once is the ordinary case: the failure itself is what people have to read.
    let (level, text) = match rule {
        Rule::NotSentAgain => (Level::Info, format!("{about}: {}", footprint.reason())),
        Rule::Result | Rule::Aborted | Rule::KeepText | Rule::Retry | Rule::ToolRan | Rule::GiveUp => {
            (Level::Warn, about.to_owned())
        }
    };
    Notice { level, text, code }
}
