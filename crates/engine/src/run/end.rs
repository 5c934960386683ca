//! The end of a run after its process has exited: the tree is swept, the changed files are read, the end of the output is
//! judged, and then one more attempt begins or the session is over.

use bowline_protocol::kinds::{
    CapabilityDegraded, EndReason, FallbackTaken, FilesTouched, Level, Notice, Outcome, ProcessLeaked,
    ProcessReaped, SessionEnded, SessionState, TouchSource, TouchedFile,
};
use bowline_protocol::{Category, Code, Exit, Failure, Kind, Millis};
use bowline_providers::decode::{Cause, End};
use bowline_providers::dialect::Shape;

use super::ladder::StopCause;
use super::reasons;
use super::{
    DRAIN, DRAIN_AT_MOST, LifeReport, Now, PATIENCE, Run, RunAction, RunEnd, RunPhase, RunStep, Survivor,
    SweepResult,
};
use crate::fallback::{self, StreamEnd, StreamRule};
use crate::footprint::{AttemptTraces, Footprint};
use crate::usage_error::rejects_ours;

/// The time between SIGTERM and SIGKILL for descendants of a program that has exited.
const SWEEP_GRACE: Millis = Millis(250);

impl Run {
    pub(super) fn exited(&mut self, exit: Exit, now: Now, step: &mut RunStep) {
        // The exit may arrive after the run gave the process up.
        if self.phase != RunPhase::Running || self.process.exit.is_some() {
            return;
        }
        self.process.exit = Some(exit);
        if let Some(pid) = self.process.pid {
            self.emit(Kind::ProcessReaped(ProcessReaped { pid, exit }), now, step);
        }
        // The exit can overtake the last bytes in the pipe, and a descendant can hold its write end open: the reader sees the
        // end of the file only when all write ends are closed (pipe(7)). So wait for it, but not forever.
        if self.process.is_closed() {
            self.sweep(now, step);
        } else {
            let until = self.patience(DRAIN, now);
            self.phase = RunPhase::Draining { until, at_most: self.patience(DRAIN_AT_MOST, now) };
        }
    }

    pub(super) fn sweep(&mut self, now: Now, step: &mut RunStep) {
        self.phase = RunPhase::Sweeping { until: now.up.plus(PATIENCE) };
        let until = self.patience(SWEEP_GRACE, now);
        step.actions.push(RunAction::Sweep(Millis(until.0.saturating_sub(now.up.0))));
    }

    /// Returns how long to wait for processes that outlive the program: the usual time, but not beyond the moment at which the
    /// program itself would have been killed.
    fn patience(&self, usual: Millis, now: Now) -> Millis {
        let ladder = self.ladder.as_ref().map(|ladder| ladder.kill_at);
        let latest = ladder.into_iter().chain(self.watch.gone_by()).min();
        now.up.plus(usual).min(latest.unwrap_or(Millis(u64::MAX))).max(now.up)
    }

    pub(super) fn swept(&mut self, swept: SweepResult, now: Now, step: &mut RunStep) {
        if !matches!(self.phase, RunPhase::Sweeping { .. }) {
            return;
        }
        let SweepResult { ended, killed, survivors } = swept;
        // If the run ended the program, its descendants ended with it, which needs no report; unless they had to be killed.
        if self.ladder.is_some() {
            self.killed.extend(killed);
        } else if !ended.is_empty() {
            let them: Vec<String> =
                ended.iter().map(|it| format!("{} (pid {})", it.command, it.pid)).collect();
            let text = format!("outlived the agent, and was ended: {}", them.join(", "));
            let code = Some("left_behind".to_owned());
            self.emit(Kind::Notice(Notice { level: Level::Info, text, code }), now, step);
            self.left_behind.extend(ended);
        }
        for Survivor { pid, command } in &survivors {
            let reason = "it did not end when it was killed".to_owned();
            let leaked = ProcessLeaked { pid: *pid, command: command.clone(), reason };
            self.emit(Kind::ProcessLeaked(leaked), now, step);
        }
        self.survivors.extend(survivors);
        // The tree is gone, but its last bytes may still be on the way from the pipe to this run.
        if self.process.is_closed() {
            self.look_at_files(now, step);
        } else {
            self.phase = RunPhase::Closing { until: now.up.plus(DRAIN) };
        }
    }

    pub(super) fn look_at_files(&mut self, now: Now, step: &mut RunStep) {
        if self.plan.files {
            self.phase = RunPhase::Looking { until: now.up.plus(PATIENCE) };
            step.actions.push(RunAction::LookAtFiles);
        } else {
            self.judge(now, step);
        }
    }

    pub(super) fn files(&mut self, files: Vec<TouchedFile>, now: Now, step: &mut RunStep) {
        if self.phase == RunPhase::Running {
            return self.turn_files(files, now, step);
        }
        if !matches!(self.phase, RunPhase::Looking { .. }) {
            return;
        }
        if !files.is_empty() {
            // Git does not show which process changed a file, so a change by the user's editor counts too. That only makes a
            // second attempt less likely.
            self.state.seen = self.state.seen.max(Footprint::FilesChanged);
            let touched = FilesTouched { seen_by: TouchSource::Git, files, room: None };
            self.emit(Kind::FilesTouched(touched), now, step);
        }
        self.judge(now, step);
    }

    /// Judges the end of the output, then concludes, or has the program's help read first.
    pub(super) fn judge(&mut self, now: Now, step: &mut RunStep) {
        // Take the ladder before `finish`: the last events may be a reason to stop, and that reason needs a free place.
        let why = self.ladder.take().map(|ladder| ladder.why);
        let (exit, cause) = match &why {
            // Exit code 0 alone is not a success: one program in our captures exits with 0 after SIGTERM, another one after every
            // API error. The decoder also looks for the end mark of the format.
            None => (self.process.exit, Cause::Exited),
            Some(StopCause::Cancelled | StopCause::Trouble(_)) => (self.process.exit, Cause::Cancelled),
            Some(StopCause::TimedOut(..)) => (self.process.exit, Cause::TimedOut),
            // The run ended the program, so its exit says nothing about its answer.
            Some(StopCause::Lingering) => (None, Cause::Exited),
        };
        // Set it before `finish`: the turn that ends there takes its outcome from it (`apply_stop_cause`).
        self.why = why;
        if matches!(self.phase, RunPhase::Spawning | RunPhase::Running) {
            // The process was given up, or never ran. Its last output must not make the run stop it again.
            self.phase = RunPhase::Looking { until: now.up };
        }
        self.decoder.finish(&End { exit, cause }, &self.moment, &mut self.drafts);
        self.emit_decoded(now, step);
        self.withdraw_approvals(now, step);
        self.withdraw_questions(now, step);
        // But it may be a reason on our side against a second attempt.
        if let Some(ladder) = self.ladder.take() {
            self.why = Some(ladder.why);
        }
        // Only after `finish`, which may still emit the event that shows a tool.
        let footprint = self.footprint_of_attempt();
        self.state.footprint = self.state.footprint.max(footprint);
        if self.should_replan(footprint) {
            self.replan(footprint, now, step);
        } else {
            self.conclude(footprint, now, step);
        }
    }

    /// Begins the second attempt or ends the session, once the attempt is judged.
    pub(super) fn conclude(&mut self, footprint: Footprint, now: Now, step: &mut RunStep) {
        self.rule = self.rule_of_the_end(footprint);
        let again = self.rule == StreamRule::Retry;
        if let Some(about) = self.rule.about() {
            let failure = self.state.failure.clone().unwrap_or_else(|| {
                Failure::new(Category::Unknown, Code::Truncated, "the stream ended without a result")
            });
            let kind = if again {
                let (from, to) = ("streaming".to_owned(), self.next_form().to_owned());
                let rule = self.rule.as_str().to_owned();
                let reason = Some(footprint.reason().to_owned());
                Kind::FallbackTaken(FallbackTaken { from, to, rule, reason, failure: Box::new(failure) })
            } else {
                Kind::Notice(not_sent_again(self.rule, about, footprint))
            };
            self.emit(kind, now, step);
            if again {
                self.step_down(now, step);
            }
        }
        if again {
            // `step_down` above reads the failure of this attempt. `next_attempt` clears it.
            self.attempt += 1;
            self.decoder = Self::decoder(&self.plan, self.attempt);
            self.state.next_attempt(self.plan.resume.clone());
            self.why = None;
            self.spawn(now, step);
        } else {
            self.end(now, step);
        }
    }

    /// Returns the name of the next form for people. By its help a program may still have one that is read line by line.
    fn next_form(&self) -> &'static str {
        let next = self.plan.attempts.get(self.attempt + 1);
        let by_lines = next.is_some_and(|next| next.shape == Shape::Lines);
        if self.by_help && by_lines { "another format" } else { "non-streaming" }
    }

    /// Reports what the next form lacks, and why the run takes it.
    fn step_down(&mut self, now: Now, step: &mut RunStep) {
        let why = self.state.failure.as_ref().map_or("it ended without a message", |it| it.message.as_str());
        let reason = format!("the better form did not work: {why}");
        let next = self.plan.attempts.get(self.attempt + 1).map(|next| next.degraded.clone());
        for degraded in next.unwrap_or_default() {
            // The help names the missing option, which is more exact than the program's error.
            let reason = if self.by_help { degraded.reason.clone() } else { reason.clone() };
            self.emit(Kind::CapabilityDegraded(CapabilityDegraded { reason, ..degraded }), now, step);
        }
    }

    /// Returns what the program of this attempt may have done with the prompt.
    fn footprint_of_attempt(&self) -> Footprint {
        let attempt = &self.plan.attempts[self.attempt];
        let traces = AttemptTraces {
            seen: self.state.seen,
            prompted: self.state.prompted,
            generates_only: attempt.dialect.generates_only(),
            steps: attempt.dialect.steps_of(attempt.shape),
            shape: attempt.shape,
            framing: attempt.dialect.framing,
            usage_reported: self.state.usage_reported,
            printed: self.state.has_printed(),
            rejects_ours: rejects_ours(&self.state.stderr_head, &attempt.program, &attempt.options),
            timed_out: matches!(self.why, Some(StopCause::TimedOut(..))),
            trouble: matches!(self.why, Some(StopCause::Trouble(_))),
            failure: self.state.failure.as_ref(),
        };
        traces.footprint()
    }

    fn rule_of_the_end(&self, footprint: Footprint) -> StreamRule {
        let end = StreamEnd {
            outcome: self.state.outcome.unwrap_or(Outcome::Truncated),
            failure: self.state.failure.as_ref(),
            has_text: self.state.has_text,
            footprint,
            steps_down: self
                .plan
                .attempts
                .get(self.attempt + 1)
                .is_some_and(|next| !next.degraded.is_empty()),
        };
        // An error on our side is not the stream's fault: a second attempt would meet the same error.
        let ours = matches!(self.why, Some(StopCause::Trouble(_)));
        let again = self.attempt + 1 < self.plan.attempts.len() && !ours && !self.no_more;
        fallback::decide(&end, self.plan.stream_fallback, again)
    }

    fn end(&mut self, now: Now, step: &mut RunStep) {
        let outcome = self.state.outcome.unwrap_or(Outcome::Truncated);
        let reason = match &self.why {
            // A program that lingered had answered. For the caller it ended by itself.
            None | Some(StopCause::Lingering) => EndReason::Exited,
            Some(StopCause::Cancelled) => EndReason::Stopped,
            Some(StopCause::Trouble(_)) => EndReason::Failed,
            Some(StopCause::TimedOut(..)) => EndReason::TimedOut,
        };
        // A live session goes on without this process.
        if !self.plan.lifetime.is_live() {
            let failure = self.state.failure.clone();
            self.emit_session_ended(outcome, self.process.exit, reason, failure.as_ref(), now, step);
        }
        // From here on `handle` ignores every input, so `Done` is the last action.
        self.phase = RunPhase::Over;
        let timed_out = match &self.why {
            Some(StopCause::TimedOut(which, ..)) => Some(*which),
            _ => None,
        };
        let ended = RunEnd {
            outcome,
            failure: self.state.failure.take(),
            exit: self.process.exit,
            reason,
            survivors: std::mem::take(&mut self.survivors),
            left_behind: std::mem::take(&mut self.left_behind),
            killed: std::mem::take(&mut self.killed),
            rule: self.rule,
            stream_fallback: self.attempt > 0,
            timed_out,
            tool_ran: self.state.tool_ever_ran,
            footprint: self.state.footprint,
        };
        if self.plan.lifetime.is_live() {
            self.guard.rests(now.up);
            self.life.report(LifeReport::Over(Box::new(ended)));
        } else {
            step.actions.push(RunAction::Done(Box::new(ended)));
        }
    }
}

impl Run {
    /// Emits the end of the stint.
    pub(crate) fn emit_session_ended(
        &mut self,
        outcome: Outcome,
        exit: Option<Exit>,
        reason: EndReason,
        failure: Option<&Failure>,
        now: Now,
        step: &mut RunStep,
    ) {
        let state =
            if outcome == Outcome::Completed { SessionState::Completed } else { SessionState::Failed };
        self.change_state(state, reasons::of_end(outcome, reason, failure), now, step);
        self.emit(Kind::SessionEnded(SessionEnded { exit, reason }), now, step);
    }
}

/// Makes the notice that a request is not sent once more, and why.
fn not_sent_again(rule: StreamRule, about: &str, footprint: Footprint) -> Notice {
    let code = Some(rule.as_str().to_owned());
    // That the prompt is sent once is the usual case: people should read the failure itself.
    let (level, text) = match rule {
        StreamRule::NotSentAgain => (Level::Info, format!("{about}: {}", footprint.reason())),
        StreamRule::Result
        | StreamRule::Aborted
        | StreamRule::KeepText
        | StreamRule::Retry
        | StreamRule::ToolRan
        | StreamRule::GiveUp => (Level::Warn, about.to_owned()),
    };
    Notice { level, text, code }
}
