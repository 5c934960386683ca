//! The clock of a run: when the next deadline is, and what follows when it has passed.

use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{Code, Kind, Millis};

use super::ladder::StopCause;
use super::watch::{WatchdogFinding, seconds};
use super::{Now, PREPARATION, Run, RunPhase, RunStep, Watchdog};

impl Run {
    /// Returns when [`RunInput::Timer`](super::RunInput::Timer) is due, as time since the run began.
    pub fn deadline(&self) -> Option<Millis> {
        let phase = match self.phase {
            RunPhase::New | RunPhase::Over => return None,
            RunPhase::Preparing { until } => {
                return Some(self.watch.total_at().map_or(until, |(at, _)| at.min(until)));
            }
            RunPhase::Spawning | RunPhase::Running => {
                let guard = self.guard.deadline().filter(|_| self.life.idle_since().is_none());
                let life = self.life.interrupt_deadline().into_iter().chain(self.life.looking_until());
                self.watch.deadline().into_iter().chain(guard).chain(life).min()
            }
            // The delay counts against the time limit of the budget.
            RunPhase::Waiting { until } => {
                return Some(self.guard.deadline().map_or(until, |at| at.min(until)));
            }
            RunPhase::Replanning { until, .. } => return Some(self.replan_deadline(until)),
            RunPhase::Draining { until, .. }
            | RunPhase::Sweeping { until }
            | RunPhase::Closing { until }
            | RunPhase::Looking { until } => return Some(until),
        };
        // While the program is being stopped, only the ladder has deadlines; while a person is waited for, only the requests.
        match &self.ladder {
            Some(ladder) => Some(ladder.next_at),
            None if self.waits_for_person() => {
                let life = self.life.interrupt_deadline().into_iter().chain(self.life.looking_until());
                self.approvals.deadline().into_iter().chain(life).min()
            }
            None => phase,
        }
    }

    pub(super) fn timer(&mut self, now: Now, step: &mut RunStep) {
        match self.phase {
            RunPhase::New | RunPhase::Over => {}
            RunPhase::Waiting { .. } if self.guard.deadline().is_some_and(|at| now.up >= at) => {
                let why = self.guard.time_is_over();
                self.stop_for_budget(why, now, step);
            }
            RunPhase::Waiting { until } if now.up >= until => self.prepare(now, step),
            RunPhase::Waiting { .. } => {}
            RunPhase::Preparing { until } => match self.watch.total_at() {
                Some((at, limit)) if now.up >= at => self.watchdog_expired(Watchdog::Total, limit, now, step),
                _ if now.up >= until => {
                    let why = format!("git took longer than {}", seconds(PREPARATION));
                    self.prepared(Err(why), now, step);
                }
                _ => {}
            },
            // This arm comes before the watchdogs: a program that is being stopped must not get a second reason.
            RunPhase::Spawning | RunPhase::Running if self.ladder.is_some() => self.next_step(now, step),
            RunPhase::Running if self.life.interrupt_deadline().is_some_and(|at| now.up >= at) => {
                let text =
                    "the agent did not end the interrupted turn within 10 s; its process is ended".to_owned();
                let code = Some("interrupt_ignored".to_owned());
                self.emit(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
                self.stop(StopCause::Cancelled, now, step);
            }
            RunPhase::Running if self.life.looking_until().is_some_and(|at| now.up >= at) => {
                self.files_unknown(now, step);
            }
            RunPhase::Running if self.waits_for_person() => self.deny_expired(now, step),
            // The budget comes before the watchdogs: no retry may follow a used-up budget (`retry::blocking_reason`).
            RunPhase::Spawning | RunPhase::Running
                if self.life.idle_since().is_none()
                    && self.guard.deadline().is_some_and(|at| now.up >= at) =>
            {
                let why = self.guard.time_is_over();
                self.stop_for_budget(why, now, step);
            }
            RunPhase::Spawning | RunPhase::Running => match self.watch.check(now.up) {
                WatchdogFinding::None => {}
                WatchdogFinding::Stall(text) => {
                    let code = Some("stall".to_owned());
                    self.emit(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
                }
                WatchdogFinding::Lingering => self.stop(StopCause::Lingering, now, step),
                WatchdogFinding::Watchdog(which, limit) => self.watchdog_expired(which, limit, now, step),
            },
            RunPhase::Draining { until, .. } if now.up >= until => self.sweep(now, step),
            RunPhase::Closing { until } if now.up >= until => self.look_at_files(now, step),
            RunPhase::Sweeping { until } if now.up >= until => {
                // The result of the sweep may still arrive. `swept` ignores it in another phase.
                let text = "could not confirm that every process of the agent is gone".to_owned();
                let code = Some(Code::CleanupUnconfirmed.as_str().to_owned());
                self.emit(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
                self.look_at_files(now, step);
            }
            RunPhase::Looking { until } if now.up >= until => {
                let text = "git did not report the changed files in time".to_owned();
                self.emit(Kind::Notice(Notice { level: Level::Warn, text, code: None }), now, step);
                self.judge(now, step);
            }
            RunPhase::Replanning { until, .. } => self.replan_timer(until, now, step),
            RunPhase::Draining { .. }
            | RunPhase::Sweeping { .. }
            | RunPhase::Closing { .. }
            | RunPhase::Looking { .. } => {}
        }
    }

    /// Ends the program because a watchdog's limit has passed.
    pub(super) fn watchdog_expired(&mut self, which: Watchdog, limit: Millis, now: Now, step: &mut RunStep) {
        let (text, code) = (which.about(limit), Some(which.code().to_owned()));
        self.emit(Kind::Notice(Notice { level: Level::Error, text, code }), now, step);
        self.stop(StopCause::TimedOut(which, limit, self.decoder.retrying()), now, step);
    }
}
