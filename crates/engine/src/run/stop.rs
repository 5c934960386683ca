//! How a run is ended from outside: by its caller, by a watchdog, by trouble of ours. One rung of the ladder after the
//! other, until its process is gone or given up.

use bowline_protocol::kinds::{Level, Notice, ProcessLeaked, SessionState};
use bowline_protocol::{Kind, Millis};

use super::ladder::{Ladder, Rung, Why};
use super::{Action, Command, DRAIN, Now, PATIENCE, Phase, Polite, Run, Step, Survivor, Watchdog};

impl Run {
    pub(super) fn command(&mut self, command: Command, now: Now, step: &mut Step) {
        match command {
            Command::Cancel => self.stop(Why::Cancelled, now, step),
            Command::Kill => {
                self.stop(Why::Cancelled, now, step);
                if self.phase == Phase::Running
                    && let Some(ladder) = &mut self.ladder
                    && ladder.rung != Rung::Kill
                {
                    ladder.rung = Rung::Kill;
                    (ladder.next_at, ladder.kill_at) = (now.up.plus(PATIENCE), now.up);
                    step.actions.push(Action::KillTree);
                }
                if self.phase == Phase::Spawning
                    && let Some(ladder) = &mut self.ladder
                {
                    ladder.next_at = ladder.next_at.min(now.up.plus(DRAIN));
                }
                self.hurry(now, step);
            }
        }
    }

    /// Waits no longer for what comes after the end of the process: who wants to kill wants to be gone.
    fn hurry(&mut self, now: Now, step: &mut Step) {
        match self.phase {
            Phase::Draining { .. } => self.sweep(now, step),
            Phase::Closing { .. } => self.look(now, step),
            Phase::Looking { .. } => {
                let text = "which files changed is not known: git was not waited for".to_owned();
                self.say(Kind::Notice(Notice { level: Level::Warn, text, code: None }), now, step);
                self.judge(now, step);
            }
            // The sweep is what makes sure that nobody is left.
            Phase::New
            | Phase::Waiting { .. }
            | Phase::Preparing { .. }
            | Phase::Spawning
            | Phase::Running
            | Phase::Sweeping { .. }
            | Phase::Over => {}
        }
    }

    /// All of it took too long by the clock on the wall.
    pub(super) fn overdue(&mut self, limit: Millis, now: Now, step: &mut Step) {
        let which = Watchdog::Total;
        let waits = matches!(self.phase, Phase::Preparing { .. } | Phase::Spawning | Phase::Running);
        if waits && self.ladder.is_none() {
            let text =
                format!("{}: the machine slept meanwhile, or this process was stopped", which.about(limit));
            let code = Some(which.code().to_owned());
            self.say(Kind::Notice(Notice { level: Level::Error, text, code }), now, step);
        }
        self.stop(Why::TimedOut(which, limit), now, step);
    }

    /// Begins to end the program, unless that has begun.
    pub(super) fn stop(&mut self, why: Why, now: Now, step: &mut Step) {
        match self.phase {
            Phase::Spawning | Phase::Running => {}
            Phase::New | Phase::Waiting { .. } | Phase::Preparing { .. } => {
                // Nobody was started: it is over before it began.
                if self.phase != Phase::New {
                    self.state(SessionState::Stopping, Some(why.in_words()), now, step);
                }
                self.ladder = Some(Ladder::over(why));
                self.phase = Phase::Spawning;
                self.decoder.prompt(&self.plan.prompt, &mut self.drafts);
                self.pass(now, step);
                self.judge(now, step);
                return;
            }
            Phase::Draining { .. }
            | Phase::Sweeping { .. }
            | Phase::Closing { .. }
            | Phase::Looking { .. }
            | Phase::Over => {
                // It has ended by itself, which nobody can take back; but a reason of our own still counts.
                match why {
                    Why::Trouble(_) => drop(self.ladder.get_or_insert(Ladder::over(why))),
                    // Whoever wants it to stop does not want it to begin again.
                    Why::Cancelled => self.no_more = true,
                    Why::TimedOut(..) | Why::Lingering => {}
                }
                return;
            }
        }
        if let Some(ladder) = &mut self.ladder {
            // A program that lingers after its answer is ended anyway; anything else keeps its first reason.
            if matches!(ladder.why, Why::Lingering) && !matches!(why, Why::Lingering) {
                ladder.why = why;
            }
            return;
        }
        if !matches!(why, Why::Lingering) {
            self.state(SessionState::Stopping, Some(why.in_words()), now, step);
        }
        let (ladder, first) = Ladder::begin(why, &self.plan, self.watch.gone_by(), now.up);
        self.ladder = Some(ladder);
        // While it is being started there is nobody to be polite to yet.
        if self.phase != Phase::Running {
            return;
        }
        let polite = self.plan.polite == Polite::Protocol && first == Action::CloseStdin;
        if polite && self.decoder.interrupt(&self.moment, &mut self.drafts) {
            self.pass(now, step);
            self.speak(step);
        } else {
            step.actions.push(first);
        }
    }

    /// Goes one rung higher if it is time.
    pub(super) fn climb(&mut self, now: Now, step: &mut Step) {
        let Some(ladder) = &mut self.ladder else { return };
        if now.up < ladder.next_at {
            return;
        }
        if self.phase == Phase::Spawning {
            // Whoever drives us drops the start when it is over, and with it ends what may have come of it.
            return self.judge(now, step);
        }
        match ladder.climb(now.up) {
            Some(action) => step.actions.push(action),
            None => {
                // Killed, and still no word of its end: we do not wait for ever.
                if let Some(pid) = self.process.pid {
                    let command = self.plan.attempts[self.attempt].program.clone();
                    let reason = "its end was never confirmed".to_owned();
                    self.say(Kind::ProcessLeaked(ProcessLeaked { pid, command, reason }), now, step);
                    let command = self.plan.attempts[self.attempt].program.clone();
                    self.survivors.push(Survivor { pid, command });
                }
                self.judge(now, step);
            }
        }
    }
}
