//! The watchdogs: which deadline is next, and which has passed.

use bowline_protocol::Millis;

use super::ladder::LINGERING_GRACE;
use super::values::{Limits, Watchdog, seconds};

/// The share of a limit after which a silence is remarked upon.
const STALL_SHARE: u64 = 3;

/// A silence shorter than this is not worth a remark.
const STALL_AT_LEAST: Millis = Millis(10_000);

/// How long a silence may be before it is remarked upon, where no limit says.
const STALL_UNLIMITED: Millis = Millis(120_000);

/// What a look at the clock found.
#[derive(Debug, PartialEq)]
pub(super) enum Bite {
    None,
    /// Nothing came for a while. A remark, no more.
    Stall(String),
    /// It has answered and does not exit.
    Lingering,
    Watchdog(Watchdog, Millis),
}

/// The clocks of one attempt.
#[derive(Debug)]
pub(super) struct Watch {
    limits: Limits,
    /// When the run began.
    began: Option<Millis>,
    spawning_since: Millis,
    running_since: Option<Millis>,
    /// When standard output was first heard.
    heard: bool,
    last_sign: Millis,
    /// When the answer was complete.
    finished: Option<Millis>,
    stall_told: bool,
    in_tool: bool,
}

impl Watch {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            began: None,
            spawning_since: Millis(0),
            running_since: None,
            heard: false,
            last_sign: Millis(0),
            finished: None,
            stall_told: false,
            in_tool: false,
        }
    }

    pub(super) fn begin(&mut self, now: Millis) {
        self.began = Some(now);
    }

    pub(super) fn spawning(&mut self, now: Millis) {
        self.spawning_since = now;
        self.running_since = None;
        self.heard = false;
        self.finished = None;
    }

    pub(super) fn running(&mut self, now: Millis) {
        self.running_since = Some(now);
        self.alive(now);
    }

    /// There was a sign of life.
    pub(super) fn alive(&mut self, now: Millis) {
        self.last_sign = now;
        self.stall_told = false;
    }

    /// Standard output was heard.
    pub(super) fn heard(&mut self, now: Millis) {
        self.heard = true;
        self.alive(now);
    }

    /// The answer is complete: from now on the program should exit.
    pub(super) fn finished(&mut self, now: Millis) {
        self.finished.get_or_insert(now);
    }

    /// Returns when nobody may be there any more who belongs to a complete answer.
    pub(super) fn gone_by(&self) -> Option<Millis> {
        self.finished.map(|since| since.plus(self.limits.shutdown).plus(LINGERING_GRACE))
    }

    /// There is more to come.
    pub(super) fn goes_on(&mut self) {
        self.finished = None;
    }

    /// Whether the agent works at something of which it need not speak meanwhile.
    pub(super) fn in_tool(&mut self, working: bool) {
        self.in_tool = working;
    }

    /// The limit between two signs of life, and the watchdog that keeps it.
    fn silence(&self, in_tool: bool) -> Option<(Watchdog, Millis)> {
        if in_tool {
            self.limits.in_tool.map(|limit| (Watchdog::InTool, limit))
        } else {
            self.limits.idle.map(|limit| (Watchdog::Idle, limit))
        }
    }

    /// When a silence is remarked upon: well before a watchdog acts.
    fn stall_after(&self) -> Millis {
        let first = self.limits.first_event.filter(|_| !self.heard);
        let limits = [self.silence(self.in_tool).map(|(_, limit)| limit), self.limits.total, first];
        let shortest = limits.into_iter().flatten().min();
        let after = shortest.map_or(STALL_UNLIMITED, |limit| Millis(limit.0 / STALL_SHARE));
        after.clamp(STALL_AT_LEAST, STALL_UNLIMITED)
    }

    /// When all of it has taken too long, and the limit.
    pub(super) fn total_at(&self) -> Option<(Millis, Millis)> {
        self.began.zip(self.limits.total).map(|(began, limit)| (began.plus(limit), limit))
    }

    /// Every deadline that is running, with what passes then.
    fn deadlines(&self) -> impl Iterator<Item = (Millis, Watchdog, Millis)> {
        let running = self.running_since;
        let at = |since: Option<Millis>, limit: Option<Millis>, which| {
            since.zip(limit).map(|(since, limit)| (since.plus(limit), which, limit))
        };
        let spawning = running.is_none().then_some(self.spawning_since);
        let waiting = running.filter(|_| !self.heard);
        let (silent, limit) =
            self.silence(self.in_tool).map_or((Watchdog::Idle, None), |(which, limit)| (which, Some(limit)));
        [
            self.total_at().map(|(at, limit)| (at, Watchdog::Total, limit)),
            at(spawning, self.limits.spawn, Watchdog::Spawn),
            at(waiting, self.limits.first_event, Watchdog::FirstEvent),
            at(running.and(Some(self.last_sign)), limit, silent),
        ]
        .into_iter()
        .flatten()
    }

    /// Returns when it is time to look again.
    pub(super) fn deadline(&self) -> Option<Millis> {
        let finished = self.finished.map(|since| since.plus(self.limits.shutdown));
        let stall = (self.running_since.is_some() && !self.stall_told && self.finished.is_none())
            .then(|| self.last_sign.plus(self.stall_after()));
        self.deadlines().map(|(at, ..)| at).chain(finished).chain(stall).min()
    }

    /// Looks at the clock.
    pub(super) fn check(&mut self, now: Millis) -> Bite {
        if self.finished.is_some_and(|since| now >= since.plus(self.limits.shutdown)) {
            return Bite::Lingering;
        }
        if let Some((_, which, limit)) = self.deadlines().find(|(at, ..)| now >= *at) {
            return Bite::Watchdog(which, limit);
        }
        let silent = Millis(now.0.saturating_sub(self.last_sign.0));
        if self.running_since.is_some()
            && !self.stall_told
            && self.finished.is_none()
            && silent >= self.stall_after()
        {
            self.stall_told = true;
            return Bite::Stall(format!("nothing has come from the program for {}", seconds(silent)));
        }
        Bite::None
    }
}
