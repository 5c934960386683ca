//! The watchdogs: which deadline is next, and which has passed.

use bowline_protocol::{Failure, Millis, Remedy, RequestField};

use super::ladder::LINGERING_GRACE;
use super::values::RunLimits;

/// The share of a limit after which the run reports a silence: a third.
const STALL_SHARE: u64 = 3;

/// The shortest silence to report.
const STALL_AT_LEAST: Millis = Millis(10_000);

/// The silence to report if no limit is set.
const STALL_UNLIMITED: Millis = Millis(120_000);

/// The watchdogs, by phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watchdog {
    /// The program did not start in time.
    Spawn,
    /// It printed nothing at all.
    FirstEvent,
    /// It stopped printing.
    Idle,
    /// It stopped printing while a tool ran.
    InTool,
    /// The whole run took too long.
    Total,
}

impl Watchdog {
    /// Returns the code of its notice.
    pub fn code(self) -> &'static str {
        match self {
            Self::Spawn => "watchdog_spawn",
            Self::FirstEvent => "watchdog_first_event",
            Self::Idle => "watchdog_idle",
            Self::InTool => "watchdog_in_tool",
            Self::Total => "watchdog_total",
        }
    }

    /// Adds what the caller can do about a run that took too long.
    pub(super) fn advise(self, mut failure: Failure) -> Failure {
        let limit = match self {
            // A request has no field for these two limits.
            Self::Spawn | Self::FirstEvent => {
                failure.hint = Some("try again; if it happens again, run the program by itself".to_owned());
                return failure;
            }
            Self::Idle => Remedy::RaiseLimit { field: RequestField::IdleTimeout },
            Self::InTool => Remedy::LiftLimit { field: RequestField::IdleTimeout },
            Self::Total => Remedy::RaiseLimit { field: RequestField::Timeout },
        };
        failure.with_remedies(vec![limit, Remedy::TryAgain])
    }

    /// Returns a sentence about what happened.
    pub fn about(self, limit: Millis) -> String {
        let limit = seconds(limit);
        match self {
            Self::Spawn => format!("the program did not start within {limit}"),
            Self::FirstEvent => format!("the program printed nothing within {limit}"),
            Self::Idle => format!("no output from the program for {limit}"),
            Self::InTool => format!("no output from the program for {limit} while a tool ran"),
            Self::Total => format!("the turn took longer than {limit}"),
        }
    }
}

/// The result of a check of the clock.
#[derive(Debug, PartialEq)]
pub(super) enum WatchdogFinding {
    None,
    /// No output for a while. Only a notice.
    Stall(String),
    /// It has answered and does not exit.
    Lingering,
    Watchdog(Watchdog, Millis),
}

/// The watchdogs of one attempt.
#[derive(Debug)]
pub(super) struct Watchdogs {
    limits: RunLimits,
    /// When the run began.
    began: Option<Millis>,
    spawning_since: Millis,
    running_since: Option<Millis>,
    /// Whether the program has written to standard output.
    heard: bool,
    last_sign: Millis,
    /// When the answer was complete.
    finished: Option<Millis>,
    stall_reported: bool,
    in_tool: bool,
    /// Whether the program waits for a prompt. Then only its end is watched.
    paused: bool,
}

impl Watchdogs {
    pub(super) fn new(limits: RunLimits) -> Self {
        Self {
            limits,
            began: None,
            spawning_since: Millis(0),
            running_since: None,
            heard: false,
            last_sign: Millis(0),
            finished: None,
            stall_reported: false,
            in_tool: false,
            paused: false,
        }
    }

    /// Sets the limits of another form of the program. The total time goes on.
    pub(super) fn set_limits(&mut self, limits: RunLimits) {
        self.limits = limits;
    }

    pub(super) fn begin(&mut self, now: Millis) {
        self.began = Some(now);
    }

    pub(super) fn spawning(&mut self, now: Millis) {
        // `began` stays: the total limit covers all attempts.
        self.spawning_since = now;
        self.running_since = None;
        self.heard = false;
        self.finished = None;
    }

    pub(super) fn running(&mut self, now: Millis) {
        // The idle limit counts from this start, not from the last output of an earlier attempt.
        self.running_since = Some(now);
        self.sign_of_life(now);
    }

    /// Records a sign of life.
    pub(super) fn sign_of_life(&mut self, now: Millis) {
        self.last_sign = now;
        self.stall_reported = false;
    }

    /// Leaves out a time in which the program waited for a person. Its silence counts from now.
    pub(super) fn skip(&mut self, waited: Millis, now: Millis) {
        self.began = self.began.map(|began| began.plus(waited));
        self.running_since = self.running_since.map(|since| since.plus(waited));
        self.sign_of_life(now);
    }

    /// Stops the clocks: the program waits for a prompt.
    pub(super) fn pause(&mut self) {
        self.paused = true;
    }

    /// Starts the clocks again, for a turn that begins now.
    pub(super) fn resume(&mut self, now: Millis) {
        if self.paused {
            self.next_turn(now);
        }
    }

    /// Starts the clocks of a further turn. Each turn has the whole total limit.
    pub(super) fn next_turn(&mut self, now: Millis) {
        self.paused = false;
        self.began = Some(now);
        self.finished = None;
        self.sign_of_life(now);
    }

    /// Records output on standard output.
    pub(super) fn stdout_seen(&mut self, now: Millis) {
        self.heard = true;
        self.sign_of_life(now);
    }

    /// Records that the answer is complete: the program should exit now.
    pub(super) fn finished(&mut self, now: Millis) {
        // The first time counts. The closed pipes report the end once more, and must not extend the time to exit.
        self.finished.get_or_insert(now);
    }

    /// Returns when every process of a completed answer has to be gone.
    pub(super) fn gone_by(&self) -> Option<Millis> {
        self.finished.map(|since| since.plus(self.limits.shutdown).plus(LINGERING_GRACE))
    }

    /// Records that more output will follow.
    pub(super) fn answer_reopened(&mut self) {
        self.finished = None;
    }

    /// Sets whether the agent works at something that may be silent.
    pub(super) fn in_tool(&mut self, working: bool) {
        self.in_tool = working;
    }

    /// Returns the limit between two signs of life, with its watchdog.
    fn silence(&self, in_tool: bool) -> Option<(Watchdog, Millis)> {
        if in_tool {
            self.limits.in_tool.map(|limit| (Watchdog::InTool, limit))
        } else {
            self.limits.idle.map(|limit| (Watchdog::Idle, limit))
        }
    }

    /// Returns when the run reports a silence: well before a watchdog acts.
    fn stall_after(&self) -> Millis {
        let first = self.limits.first_event.filter(|_| !self.heard);
        let limits = [self.silence(self.in_tool).map(|(_, limit)| limit), self.limits.total, first];
        let shortest = limits.into_iter().flatten().min();
        let after = shortest.map_or(STALL_UNLIMITED, |limit| Millis(limit.0 / STALL_SHARE));
        after.clamp(STALL_AT_LEAST, STALL_UNLIMITED)
    }

    /// Returns when the total limit is reached, and the limit.
    pub(super) fn total_at(&self) -> Option<(Millis, Millis)> {
        self.began.zip(self.limits.total).map(|(began, limit)| (began.plus(limit), limit))
    }

    /// Returns every running deadline, with its watchdog and limit.
    fn deadlines(&self) -> impl Iterator<Item = (Millis, Watchdog, Millis)> {
        let running = self.running_since;
        let watches = !self.paused;
        let at = |since: Option<Millis>, limit: Option<Millis>, which| {
            since.zip(limit).map(|(since, limit)| (since.plus(limit), which, limit))
        };
        let spawning = running.is_none().then_some(self.spawning_since);
        let waiting = running.filter(|_| !self.heard);
        let (silent, limit) =
            self.silence(self.in_tool).map_or((Watchdog::Idle, None), |(which, limit)| (which, Some(limit)));
        [
            // `check` takes the first one that has passed, so this order decides the reason if a late timer finds several.
            self.total_at().map(|(at, limit)| (at, Watchdog::Total, limit)),
            at(spawning, self.limits.spawn, Watchdog::Spawn),
            at(waiting, self.limits.first_event, Watchdog::FirstEvent),
            at(running.and(Some(self.last_sign)), limit, silent),
        ]
        .into_iter()
        .flatten()
        .filter(move |_| watches)
    }

    /// Returns whether a silence is to be reported that is not reported yet.
    fn reports_stalls(&self) -> bool {
        self.running_since.is_some() && !self.stall_reported && !self.paused
    }

    /// Returns when the next check is due.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let finished = self.finished.map(|since| since.plus(self.limits.shutdown));
        let stall = (self.reports_stalls() && self.finished.is_none())
            .then(|| self.last_sign.plus(self.stall_after()));
        self.deadlines().map(|(at, ..)| at).chain(finished).chain(stall).min()
    }

    /// Checks the clock.
    pub(super) fn check(&mut self, now: Millis) -> WatchdogFinding {
        // First: a run with a complete answer must not end as a timeout.
        if self.finished.is_some_and(|since| now >= since.plus(self.limits.shutdown)) {
            return WatchdogFinding::Lingering;
        }
        if let Some((_, which, limit)) = self.deadlines().find(|(at, ..)| now >= *at) {
            return WatchdogFinding::Watchdog(which, limit);
        }
        let silent = Millis(now.0.saturating_sub(self.last_sign.0));
        if self.reports_stalls() && self.finished.is_none() && silent >= self.stall_after() {
            // One notice for each silence. The next sign of life resets it.
            self.stall_reported = true;
            return WatchdogFinding::Stall(format!("no output from the program for {}", seconds(silent)));
        }
        WatchdogFinding::None
    }
}

/// Formats a duration in seconds for people.
pub(super) fn seconds(span: Millis) -> String {
    if span.0.is_multiple_of(1000) {
        format!("{} s", span.0 / 1000)
    } else {
        format!("{:.1} s", span.0 as f64 / 1000.0)
    }
}
