//! How a program is ended: politely, then with SIGTERM to all of its tree, then with SIGKILL.

use bowline_protocol::{Failure, Millis};

use super::values::{Action, Plan, Polite, Scope, Signal, Watchdog};

/// Why a program is being ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Why {
    /// A client wants it.
    Cancelled,
    /// A deadline passed.
    TimedOut(Watchdog, Millis),
    /// It has given its answer and does not exit.
    Lingering,
    /// Something that makes going on impossible or wrong.
    Trouble(Box<Failure>),
}

impl Why {
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Cancelled => "the caller cancelled".to_owned(),
            Self::TimedOut(which, limit) => which.about(*limit),
            Self::Lingering => "it has answered and does not exit".to_owned(),
            Self::Trouble(failure) => failure.message.clone(),
        }
    }
}

/// How far we went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    Polite,
    Terminate,
    Kill,
}

/// A ladder that somebody is on.
#[derive(Debug)]
pub(super) struct Ladder {
    pub(super) why: Why,
    pub(super) rung: Rung,
    /// When the next rung is due.
    pub(super) next_at: Millis,
    /// When patience is over, for its process and for whoever it leaves.
    pub(super) kill_at: Millis,
}

/// How much of the grace the polite way gets.
const POLITE_SHARE: u64 = 2;

/// How long a program that has answered gets between SIGTERM and SIGKILL.
pub(super) const LINGERING_GRACE: Millis = Millis(200);

/// What it gets of that even if we come late ourselves.
const LINGERING_AT_LEAST: Millis = Millis(50);

/// How long we wait for the end of a killed process to be told.
const REAPED_WITHIN: Millis = Millis(5_000);

impl Ladder {
    /// Steps on the first rung. A program that has answered has to be gone at some time, whoever else wants it to go.
    pub(super) fn begin(why: Why, plan: &Plan, gone_by: Option<Millis>, now: Millis) -> (Self, Action) {
        let gone_by = gone_by.map(|at| at.max(now.plus(LINGERING_AT_LEAST)));
        if matches!(why, Why::Lingering) {
            // The answer is there: nothing is lost by skipping the polite way.
            let kill_at = gone_by.unwrap_or(now.plus(LINGERING_GRACE));
            let ladder = Self { why, rung: Rung::Terminate, next_at: kill_at, kill_at };
            return (ladder, Action::Signal(Signal::Terminate, Scope::Tree));
        }
        let first = match &plan.polite {
            Polite::Signal(signal, scope) => Action::Signal(*signal, *scope),
            Polite::CloseStdin | Polite::Protocol => Action::CloseStdin,
        };
        let kill_at = now.plus(plan.limits.grace).min(gone_by.unwrap_or(Millis(u64::MAX)));
        let next_at = now.plus(Millis(kill_at.0.saturating_sub(now.0) / POLITE_SHARE));
        (Self { why, rung: Rung::Polite, next_at, kill_at }, first)
    }

    /// Makes a ladder of which nothing is left to climb.
    pub(super) fn over(why: Why) -> Self {
        Self { why, rung: Rung::Kill, next_at: Millis(u64::MAX), kill_at: Millis(u64::MAX) }
    }

    /// Steps on the next rung; nothing when the last one has been tried for long enough.
    pub(super) fn climb(&mut self, now: Millis) -> Option<Action> {
        match self.rung {
            Rung::Polite if now < self.kill_at => {
                self.rung = Rung::Terminate;
                self.next_at = self.kill_at;
                Some(Action::Signal(Signal::Terminate, Scope::Tree))
            }
            Rung::Polite | Rung::Terminate => {
                self.rung = Rung::Kill;
                self.next_at = now.plus(REAPED_WITHIN);
                Some(Action::KillTree)
            }
            Rung::Kill => None,
        }
    }
}
