//! Stopping a run: by its caller, by a watchdog, or by an error on our side. The stop ladder goes on until the process is gone
//! or given up.

use bowline_protocol::kinds::{Level, Notice, ProcessLeaked, SessionState};
use bowline_protocol::{Kind, Millis};
use bowline_providers::manifest::run::StopMethod;

use super::ladder::{LadderStep, StopCause, StopLadder};
use super::{DRAIN, Now, PATIENCE, Run, RunAction, RunCommand, RunPhase, RunStep, Survivor, Watchdog};

impl Run {
    pub(super) fn command(&mut self, command: RunCommand, now: Now, step: &mut RunStep) {
        match command {
            RunCommand::Cancel => self.stop(StopCause::Cancelled, now, step),
            RunCommand::Kill => {
                // This begins the ladder if there is none. The code below moves it to its last step.
                self.stop(StopCause::Cancelled, now, step);
                if self.phase == RunPhase::Running
                    && let Some(ladder) = &mut self.ladder
                    && ladder.reached != LadderStep::Kill
                {
                    ladder.reached = LadderStep::Kill;
                    (ladder.next_at, ladder.kill_at) = (now.up.plus(PATIENCE), now.up);
                    step.actions.push(RunAction::KillTree);
                }
                // There is no process to kill yet. After `DRAIN`, `next_step` judges the run, and the caller drops the start.
                if self.phase == RunPhase::Spawning
                    && let Some(ladder) = &mut self.ladder
                {
                    ladder.next_at = ladder.next_at.min(now.up.plus(DRAIN));
                }
                self.shorten_waits(now, step);
            }
        }
    }

    /// Shortens the waits after the exit of the process: a caller that kills wants the run to end at once.
    fn shorten_waits(&mut self, now: Now, step: &mut RunStep) {
        match self.phase {
            RunPhase::Draining { .. } => self.sweep(now, step),
            RunPhase::Closing { .. } => self.look_at_files(now, step),
            RunPhase::Looking { .. } => {
                let text = "the changed files are unknown: the run did not wait for git".to_owned();
                self.emit(Kind::Notice(Notice { level: Level::Warn, text, code: None }), now, step);
                self.judge(now, step);
            }
            // Keep waiting for the sweep: it makes sure that no process is left.
            RunPhase::New
            | RunPhase::Waiting { .. }
            | RunPhase::Preparing { .. }
            | RunPhase::Spawning
            | RunPhase::Running
            | RunPhase::Sweeping { .. }
            | RunPhase::Replanning { .. }
            | RunPhase::Over => {}
        }
    }

    /// Handles that the run took too long by the wall clock.
    pub(super) fn overdue(&mut self, limit: Millis, now: Now, step: &mut RunStep) {
        // The wall clock does not leave out the time of a person, and the limit does.
        if self.waits_for_person() {
            return;
        }
        let which = Watchdog::Total;
        let waits = matches!(
            self.phase,
            RunPhase::Preparing { .. } | RunPhase::Spawning | RunPhase::Running | RunPhase::Replanning { .. }
        );
        if waits && self.ladder.is_none() {
            let text =
                format!("{}: the machine slept meanwhile, or this process was stopped", which.about(limit));
            let code = Some(which.code().to_owned());
            self.emit(Kind::Notice(Notice { level: Level::Error, text, code }), now, step);
        }
        self.stop(StopCause::TimedOut(which, limit, self.decoder.retrying()), now, step);
    }

    /// Begins to end the program, unless that has begun.
    pub(super) fn stop(&mut self, why: StopCause, now: Now, step: &mut RunStep) {
        match self.phase {
            RunPhase::Spawning | RunPhase::Running => {}
            RunPhase::New | RunPhase::Waiting { .. } | RunPhase::Preparing { .. } => {
                // No process was started: the run ends before it began.
                if self.phase != RunPhase::New {
                    self.change_state(SessionState::Stopping, Some(why.in_words()), now, step);
                }
                self.ladder = Some(StopLadder::over(why));
                // `judge` treats `Spawning` as "never ran". The prompt opens the turn that `judge` then ends: every run has a
                // turn with an outcome.
                self.phase = RunPhase::Spawning;
                self.open_turn();
                self.emit_decoded(now, step);
                self.judge(now, step);
                return;
            }
            RunPhase::Replanning { .. } => return self.stop_replanning(why, now, step),
            RunPhase::Draining { .. }
            | RunPhase::Sweeping { .. }
            | RunPhase::Closing { .. }
            | RunPhase::Looking { .. }
            | RunPhase::Over => {
                // The program has already exited by itself. A reason on our side still counts.
                match why {
                    StopCause::Trouble(_) => drop(self.ladder.get_or_insert(StopLadder::over(why))),
                    // A caller that cancels does not want a second attempt.
                    StopCause::Cancelled => self.no_more = true,
                    // Both end a running program only, and this one has exited.
                    StopCause::TimedOut(..) | StopCause::Lingering => {}
                }
                return;
            }
        }
        if let Some(ladder) = &mut self.ladder {
            // A program that lingers after its answer is ended anyway, so a new reason replaces that one. Any other first
            // reason stays.
            if matches!(ladder.why, StopCause::Lingering) && !matches!(why, StopCause::Lingering) {
                ladder.why = why;
            }
            return;
        }
        // The end of a program that has answered is not a stop of the session, so subscribers see no `stopping`.
        if !matches!(why, StopCause::Lingering) {
            self.change_state(SessionState::Stopping, Some(why.in_words()), now, step);
        }
        let grace = self.plan.attempts[self.attempt].limits.grace;
        let polite = (self.plan.polite, self.plan.stop_scope);
        let (ladder, first) = StopLadder::begin(why, polite, grace, self.watch.gone_by(), now.up);
        self.ladder = Some(ladder);
        // While the program is being started, it cannot be stopped politely yet.
        if self.phase != RunPhase::Running {
            return;
        }
        // An interrupt that had no effect is not repeated (`Run::interrupt` has the reasons).
        let polite = self.plan.polite == StopMethod::Protocol
            && first == RunAction::CloseStdin
            && !self.life.is_interrupting();
        // `interrupt` queues the protocol's cancel request. A dialect without one falls back to a closed standard input.
        if polite && self.decoder.interrupt(&self.moment, &mut self.drafts).is_sent() {
            self.emit_decoded(now, step);
            self.take_client_output(now, step);
        } else {
            step.actions.push(first);
        }
        self.deny_for_stop(now, step);
        self.dismiss_questions(now, step);
    }

    /// Takes the next step of the ladder if it is due.
    pub(super) fn next_step(&mut self, now: Now, step: &mut RunStep) {
        let Some(ladder) = &mut self.ladder else { return };
        if now.up < ladder.next_at {
            return;
        }
        if self.phase == RunPhase::Spawning {
            // The caller drops the start when the run is over, which ends a process that may have been started.
            return self.judge(now, step);
        }
        match ladder.next_step(now.up) {
            Some(action) => step.actions.push(action),
            None => {
                // Killed, and its exit was not reported: give it up.
                if let Some(pid) = self.process.pid {
                    let command = self.plan.attempts[self.attempt].program.clone();
                    let reason = "its end was never confirmed".to_owned();
                    self.emit(Kind::ProcessLeaked(ProcessLeaked { pid, command, reason }), now, step);
                    let command = self.plan.attempts[self.attempt].program.clone();
                    self.survivors.push(Survivor { pid, command });
                }
                self.judge(now, step);
            }
        }
    }
}
