//! The stop ladder: how a program is ended. First politely, then SIGTERM to its whole tree, then SIGKILL.

use bowline_protocol::{Category, Failure, Millis};
use bowline_providers::manifest::run::{StopMethod, StopScope};

use super::reasons::STOP_ORDERED;
use super::values::{RunAction, StopSignal};
use super::watch::Watchdog;

/// Why a program is being ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StopCause {
    /// The caller cancelled.
    Cancelled,
    /// A deadline passed. Contains the reason of the program's retry, if it was in one.
    TimedOut(Watchdog, Millis, Option<Category>),
    /// It has given its answer and does not exit.
    Lingering,
    /// An error that makes going on impossible or wrong.
    Trouble(Box<Failure>),
}

impl StopCause {
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Cancelled => STOP_ORDERED.to_owned(),
            Self::TimedOut(which, limit, _) => which.about(*limit),
            Self::Lingering => "it has answered and does not exit".to_owned(),
            Self::Trouble(failure) => failure.message.clone(),
        }
    }
}

/// The steps of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LadderStep {
    Polite,
    Terminate,
    Kill,
}

/// The progress on the ladder.
#[derive(Debug)]
pub(super) struct StopLadder {
    pub(super) why: StopCause,
    pub(super) reached: LadderStep,
    /// When the next step is due.
    pub(super) next_at: Millis,
    /// When SIGKILL is due, for the process and for its descendants.
    pub(super) kill_at: Millis,
}

/// The polite step gets one part in so many of the grace.
const POLITE_SHARE: u64 = 2;

/// How long a program that has answered gets between SIGTERM and SIGKILL.
pub(super) const LINGERING_GRACE: Millis = Millis(200);

/// The least of that time, if the run itself is late.
const LINGERING_AT_LEAST: Millis = Millis(50);

/// How long the run waits for the exit of a killed process.
const REAPED_WITHIN: Millis = Millis(5_000);

impl StopLadder {
    /// Begins with the first step. A program that has answered has to exit by `gone_by`, whatever the cause of the stop is.
    pub(super) fn begin(
        why: StopCause,
        polite: (StopMethod, StopScope),
        grace: Millis,
        gone_by: Option<Millis>,
        now: Millis,
    ) -> (Self, RunAction) {
        // A late run may be past `gone_by` already. The program still gets a moment to react to SIGTERM.
        let gone_by = gone_by.map(|at| at.max(now.plus(LINGERING_AT_LEAST)));
        if matches!(why, StopCause::Lingering) {
            // The answer is complete: skipping the polite step loses nothing.
            let kill_at = gone_by.unwrap_or(now.plus(LINGERING_GRACE));
            let ladder = Self { why, reached: LadderStep::Terminate, next_at: kill_at, kill_at };
            return (ladder, RunAction::Signal(StopSignal::Terminate, StopScope::Tree));
        }
        let first = match polite {
            // Each manifest names its signal: in our captures one program ends its commands after SIGINT and leaves them alive
            // after SIGTERM, another one the other way round.
            (StopMethod::Sigint, scope) => RunAction::Signal(StopSignal::Interrupt, scope),
            (StopMethod::Sigterm, scope) => RunAction::Signal(StopSignal::Terminate, scope),
            // For `Protocol`, `Run::stop` sends the cancel request instead, if the dialect has one.
            (StopMethod::StdinClose | StopMethod::Protocol, _) => RunAction::CloseStdin,
        };
        // The grace never reaches past `gone_by`: a stop after the answer must not delay an end that was already due.
        let kill_at = now.plus(grace).min(gone_by.unwrap_or(Millis(u64::MAX)));
        // The rest of the grace is for SIGTERM: descendants that the polite step did not reach need time of their own.
        let next_at = now.plus(Millis(kill_at.0.saturating_sub(now.0) / POLITE_SHARE));
        (Self { why, reached: LadderStep::Polite, next_at, kill_at }, first)
    }

    /// Creates a ladder without further steps.
    pub(super) fn over(why: StopCause) -> Self {
        Self { why, reached: LadderStep::Kill, next_at: Millis(u64::MAX), kill_at: Millis(u64::MAX) }
    }

    /// Takes the next step. Returns `None` when the last one was tried for long enough.
    pub(super) fn next_step(&mut self, now: Millis) -> Option<RunAction> {
        match self.reached {
            // A timer that fires late may find `kill_at` passed. The next arm then skips SIGTERM, so that the run ends on time.
            LadderStep::Polite if now < self.kill_at => {
                // To the tree: some programs work in a second process, which a signal to their launcher alone does not end.
                self.reached = LadderStep::Terminate;
                self.next_at = self.kill_at;
                Some(RunAction::Signal(StopSignal::Terminate, StopScope::Tree))
            }
            LadderStep::Polite | LadderStep::Terminate => {
                self.reached = LadderStep::Kill;
                self.next_at = now.plus(REAPED_WITHIN);
                Some(RunAction::KillTree)
            }
            // No program can catch or ignore SIGKILL (signal(7)). A process that is still there hangs in the kernel; a second
            // signal changes nothing.
            LadderStep::Kill => None,
        }
    }
}
