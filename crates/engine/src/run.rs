//! One run: from a request to its outcome, over one or two processes.
//!
//! ```text
//!  new ─[waiting]─> spawning ──spawned──> running ──exited──> draining ──pipes closed, or long enough──> sweeping
//!                    │                     │  ^                                                           │ swept
//!                    │ failed              │  └── a ladder may be going on: polite, SIGTERM, SIGKILL      v
//!                    v                     v                                                           looking
//!                  over <────────────── (killed and not reaped: given up after a while) <─────────────────┘ files
//!                    ^                                                                                    │
//!                    └──────────────── no second attempt ──────────── judged ─────────────────────────────┘
//! ```
//!
//! Standard output that ends, a process that ends, and a descendant that still holds the pipe are three things. Only
//! when the tree is gone is the end of the output judged, so that nothing is said after it. A program that has
//! given its answer and does not exit is ended without prejudice: the answer counts.
//!
//! Where files are looked at, somebody looks before the first process is there, between new and spawning (preparing):
//! for a short while, and as a part of the time that all of it may take. Who is stopped then has started nobody.

mod account;
mod end;
mod ladder;
mod spend;
mod stop;
mod values;
mod watch;

#[cfg(test)]
mod tests;

use bowline_protocol::kinds::{
    Level, Notice, ProcessSpawned, SessionStarted, SessionState, SessionStateChanged,
};
use bowline_protocol::{Code, Exit, Failure, Kind, Millis};
use bowline_providers::decode::Decoder;
use bowline_providers::dialect::{Draft, Words};
use bowline_providers::moment::Moment;
use bowline_providers::usage::Spent;

use crate::budget::{Guard, Sum};
use crate::fallback::Rule;
use account::Account;
use ladder::{Ladder, Rung, Why};
pub use values::{
    Action, Attempt, Command, Ended, Input, Limits, Now, Plan, Polite, Scope, Signal, SpawnFailure, Step,
    Survivor, Swept, Wanted, Watchdog,
};
use watch::Watch;

/// How long a pipe is listened to after the program that was started has ended, in case somebody else still writes.
const DRAIN: Millis = Millis(250);

/// The longest that a writer can hold up the end of a run by writing on.
const DRAIN_AT_MOST: Millis = Millis(1_000);

/// How long we wait for a killed process to be reaped, for a sweep, or for git.
const PATIENCE: Millis = Millis(5_000);

/// How long the look at the files before the start may take. Then the agent starts, and what it changes is not known.
const PREPARATION: Millis = Millis(5_000);

/// The run of one request.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    moment: Moment,
    phase: Phase,
    attempt: usize,
    decoder: Decoder,
    drafts: Vec<Draft>,
    account: Account,
    watch: Watch,
    ladder: Option<Ladder>,
    /// Why we ended the program, once that is done.
    why: Option<Why>,
    process: Process,
    survivors: Vec<Survivor>,
    left_behind: Vec<Survivor>,
    killed: Vec<Survivor>,
    rule: Rule,
    /// Whether somebody wanted to stop when the program had ended already.
    no_more: bool,
    guard: Guard,
    /// What the open turn had used when its budget ended it.
    counted: Option<Spent>,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    /// The program is started later.
    Waiting {
        until: Millis,
    },
    /// Somebody looks at the files before anybody can change them.
    Preparing {
        until: Millis,
    },
    Spawning,
    Running,
    /// The process has ended; its pipes may be held by others until then.
    Draining {
        until: Millis,
        at_most: Millis,
    },
    /// What is left of the tree is being ended.
    Sweeping {
        until: Millis,
    },
    /// The tree is gone, but a pipe is not closed yet: what lies in it is read until then.
    Closing {
        until: Millis,
    },
    /// Somebody looks at the files.
    Looking {
        until: Millis,
    },
    Over,
}

/// What is known about the process of the attempt.
#[derive(Debug, Default)]
struct Process {
    pid: Option<u32>,
    exit: Option<Exit>,
    stdout_closed: bool,
    stderr_closed: bool,
}

impl Process {
    fn is_closed(&self) -> bool {
        self.stdout_closed && self.stderr_closed
    }
}

impl Run {
    /// Makes a run of a plan that has at least one attempt.
    pub fn new(mut plan: Plan) -> Self {
        let decoder = Self::decoder(&plan, 0);
        Self {
            moment: Moment { at: bowline_protocol::Timestamp::EPOCH, zone: plan.zone.clone() },
            account: Account::new(&plan),
            watch: Watch::new(plan.limits),
            counted: None,
            guard: Guard::new(std::mem::take(&mut plan.budget)),
            plan,
            phase: Phase::New,
            attempt: 0,
            decoder,
            drafts: Vec::new(),
            ladder: None,
            why: None,
            process: Process::default(),
            survivors: Vec::new(),
            left_behind: Vec::new(),
            killed: Vec::new(),
            rule: Rule::Result,
            no_more: false,
        }
    }

    fn decoder(plan: &Plan, attempt: usize) -> Decoder {
        let attempt = &plan.attempts[attempt];
        Decoder::of_shape(attempt.dialect, attempt.shape)
            .talking(attempt.dialect, attempt.conversation.as_deref())
    }

    /// Says whether a protocol carries the prompt of the current attempt.
    fn talks(&self) -> bool {
        let attempt = &self.plan.attempts[self.attempt];
        attempt.dialect.voice.is_some() && attempt.conversation.is_some()
    }

    /// Takes what happened and adds what follows.
    pub fn handle(&mut self, input: Input<'_>, now: Now, step: &mut Step) {
        self.moment.at = now.wall;
        if self.phase == Phase::Over {
            return;
        }
        match input {
            Input::Begin => self.begin(now, step),
            Input::Prepared(looked) => self.prepared(looked, now, step),
            Input::Spawned { pid, containment } => self.spawned(pid, containment, now, step),
            Input::SpawnFailed(SpawnFailure { failure }) => self.not_spawned(failure, now, step),
            // Nobody can be heard before there is a process.
            Input::Stdout(_) | Input::Stderr(_) | Input::StdoutClosed | Input::StderrClosed
                if matches!(
                    self.phase,
                    Phase::New | Phase::Waiting { .. } | Phase::Preparing { .. } | Phase::Spawning
                ) => {}
            Input::Stdout(bytes) => self.output(bytes, now, step),
            Input::Stderr(bytes) => self.complaint(bytes, now, step),
            Input::StdoutClosed => {
                self.process.stdout_closed = true;
                self.closed(now, step);
            }
            Input::StderrClosed => {
                self.process.stderr_closed = true;
                self.closed(now, step);
            }
            Input::Exited(exit) => self.exited(exit, now, step),
            Input::Swept(swept) => self.swept(swept, now, step),
            Input::Files(files) => self.files(files, now, step),
            Input::Command(command) => self.command(command, now, step),
            Input::Trouble(failure) => self.stop(Why::Trouble(Box::new(failure)), now, step),
            Input::Overdue(limit) => self.overdue(limit, now, step),
            Input::Others(amounts) => {
                self.guard.others(amounts);
                if self.phase == Phase::Running {
                    self.weigh(now, step);
                }
            }
            Input::Before(used) => {
                used.into_iter().for_each(|(extent, before)| self.guard.before(extent, before));
                // Who is done uses no more.
                if self.phase == Phase::Running && !self.account.may_linger() {
                    self.weigh(now, step);
                }
            }
            Input::Remark(notice) => self.say(Kind::Notice(notice), now, step),
            Input::Timer => self.timer(now, step),
        }
    }

    /// Returns what the run has used so far.
    pub fn spent(&self) -> Sum {
        self.guard.sum(self.decoder.spent(), self.account.model.as_deref())
    }

    /// Returns the model that answers, as far as anybody said.
    pub fn model(&self) -> Option<&str> {
        self.account.model.as_deref().or(self.plan.model.as_deref())
    }

    /// Returns when [`Input::Timer`] is due, as time since the run began.
    pub fn deadline(&self) -> Option<Millis> {
        let phase = match self.phase {
            Phase::New | Phase::Over => return None,
            Phase::Preparing { until } => {
                return Some(self.watch.total_at().map_or(until, |(at, _)| at.min(until)));
            }
            Phase::Spawning | Phase::Running => {
                self.watch.deadline().into_iter().chain(self.guard.deadline()).min()
            }
            // To wait is part of the time that somebody gave.
            Phase::Waiting { until } => {
                return Some(self.guard.deadline().map_or(until, |at| at.min(until)));
            }
            Phase::Draining { until, .. }
            | Phase::Sweeping { until }
            | Phase::Closing { until }
            | Phase::Looking { until } => return Some(until),
        };
        let ladder = self.ladder.as_ref().map(|ladder| ladder.next_at);
        if ladder.is_some() { ladder } else { phase }
    }

    /// Says whether it is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    fn begin(&mut self, now: Now, step: &mut Step) {
        if self.phase != Phase::New {
            return;
        }
        let started = SessionStarted {
            provider: Some(self.plan.provider.clone()),
            version: self.plan.version.clone(),
            cwd: self.plan.cwd.clone(),
            model: self.plan.model.clone(),
            capabilities: self.plan.capabilities.clone().map(Box::new),
            ..SessionStarted::default()
        };
        self.say(Kind::SessionStarted(started), now, step);
        for kind in std::mem::take(&mut self.plan.opening) {
            self.say(kind, now, step);
        }
        if self.plan.delay == Millis(0) {
            self.prepare(now, step);
        } else {
            self.guard.begins(now.up);
            self.phase = Phase::Waiting { until: now.up.plus(self.plan.delay) };
        }
    }

    /// Looks at the files before anybody can change them, if anybody wants to know.
    fn prepare(&mut self, now: Now, step: &mut Step) {
        self.watch.begin(now.up);
        if self.plan.files {
            self.state(SessionState::Preparing, None, now, step);
            self.phase = Phase::Preparing { until: now.up.plus(PREPARATION) };
            step.actions.push(Action::Prepare);
        } else {
            self.first_attempt(now, step);
        }
    }

    /// The files were looked at, or could not be.
    fn prepared(&mut self, looked: Result<(), String>, now: Now, step: &mut Step) {
        if !matches!(self.phase, Phase::Preparing { .. }) {
            return;
        }
        if let Err(why) = looked {
            self.plan.files = false;
            let text = format!("which files change will not be known: {why}");
            self.plan.notices.push(Notice { level: Level::Warn, text, code: None });
        }
        self.first_attempt(now, step);
    }

    fn first_attempt(&mut self, now: Now, step: &mut Step) {
        self.state(SessionState::Starting, None, now, step);
        for notice in std::mem::take(&mut self.plan.notices) {
            self.say(Kind::Notice(notice), now, step);
        }
        self.spawn(now, step);
    }

    /// Begins the current attempt.
    fn spawn(&mut self, now: Now, step: &mut Step) {
        self.phase = Phase::Spawning;
        self.process = Process::default();
        self.watch.spawning(now.up);
        self.guard.begins(now.up);
        self.decoder.prompt(&self.plan.prompt, &mut self.drafts);
        self.pass(now, step);
        step.actions.push(Action::Spawn(self.attempt));
    }

    fn spawned(&mut self, pid: u32, containment: &str, now: Now, step: &mut Step) {
        if self.phase != Phase::Spawning {
            return;
        }
        self.phase = Phase::Running;
        self.process.pid = Some(pid);
        // Arguments and standard input carry the prompt, unless a protocol gets to it later.
        self.account.prompted = !self.talks();
        self.watch.running(now.up);
        let attempt = &self.plan.attempts[self.attempt];
        let spawned = ProcessSpawned {
            pid,
            program: attempt.program.clone(),
            transport: attempt.transport,
            containment: Some(containment.to_owned()),
        };
        self.say(Kind::ProcessSpawned(spawned), now, step);
        self.state(SessionState::Running, None, now, step);
        if let Some(ladder) = &mut self.ladder {
            // It was stopped before it ran.
            ladder.rung = Rung::Kill;
            ladder.next_at = now.up.plus(PATIENCE);
            step.actions.push(Action::KillTree);
            return;
        }
        self.decoder.open(&self.moment, &mut self.drafts);
        self.pass(now, step);
        self.speak(step);
    }

    fn not_spawned(&mut self, failure: Failure, now: Now, step: &mut Step) {
        if self.phase != Phase::Spawning {
            return;
        }
        self.ladder.get_or_insert(Ladder::over(Why::Trouble(Box::new(failure))));
        self.judge(now, step);
    }

    fn output(&mut self, bytes: &[u8], now: Now, step: &mut Step) {
        self.watch.heard(now.up);
        if let Phase::Draining { until, at_most } = &mut self.phase {
            *until = now.up.plus(DRAIN).min(*at_most);
        }
        self.decoder.stdout(bytes, &self.moment, &mut self.drafts);
        self.pass(now, step);
        self.account.stdout_bytes += bytes.len() as u64;
        self.speak(step);
    }

    /// Passes on what the dialect wants to say to the program.
    fn speak(&mut self, step: &mut Step) {
        let Words { bytes, last, prompt } = self.decoder.take_stdin();
        self.account.prompted |= prompt;
        if !bytes.is_empty() {
            step.actions.push(Action::Write(bytes));
        }
        if last {
            step.actions.push(Action::CloseStdin);
        }
    }

    fn complaint(&mut self, bytes: &[u8], now: Now, step: &mut Step) {
        self.watch.alive(now.up);
        self.decoder.stderr(bytes, &self.moment, &mut self.drafts);
        self.pass(now, step);
        self.account.stderr_bytes += bytes.len() as u64;
    }

    /// A pipe was closed.
    fn closed(&mut self, now: Now, step: &mut Step) {
        if !self.process.is_closed() {
            if self.process.stdout_closed && self.phase == Phase::Running {
                // It has nothing more to say, so it has no more time than after its answer.
                self.watch.finished(now.up);
            }
            return;
        }
        match self.phase {
            Phase::Draining { .. } => self.sweep(now, step),
            Phase::Closing { .. } => self.look(now, step),
            Phase::Running => self.watch.finished(now.up),
            Phase::New
            | Phase::Waiting { .. }
            | Phase::Preparing { .. }
            | Phase::Spawning
            | Phase::Sweeping { .. }
            | Phase::Looking { .. }
            | Phase::Over => {}
        }
    }

    fn timer(&mut self, now: Now, step: &mut Step) {
        match self.phase {
            Phase::New | Phase::Over => {}
            Phase::Waiting { .. } if self.guard.deadline().is_some_and(|at| now.up >= at) => {
                let why = self.guard.time_is_over();
                self.use_up(why, now, step);
            }
            Phase::Waiting { until } if now.up >= until => self.prepare(now, step),
            Phase::Waiting { .. } => {}
            Phase::Preparing { until } => match self.watch.total_at() {
                Some((at, limit)) if now.up >= at => self.bitten(Watchdog::Total, limit, now, step),
                _ if now.up >= until => {
                    let why = format!("git took longer than {}", values::seconds(PREPARATION));
                    self.prepared(Err(why), now, step);
                }
                _ => {}
            },
            Phase::Spawning | Phase::Running if self.ladder.is_some() => self.climb(now, step),
            Phase::Spawning | Phase::Running if self.guard.deadline().is_some_and(|at| now.up >= at) => {
                let why = self.guard.time_is_over();
                self.use_up(why, now, step);
            }
            Phase::Spawning | Phase::Running => match self.watch.check(now.up) {
                watch::Bite::None => {}
                watch::Bite::Stall(text) => {
                    let code = Some("stall".to_owned());
                    self.say(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
                }
                watch::Bite::Lingering => self.stop(Why::Lingering, now, step),
                watch::Bite::Watchdog(which, limit) => self.bitten(which, limit, now, step),
            },
            Phase::Draining { until, .. } if now.up >= until => self.sweep(now, step),
            Phase::Closing { until } if now.up >= until => self.look(now, step),
            Phase::Sweeping { until } if now.up >= until => {
                let text = "whether every process of the agent is gone could not be confirmed".to_owned();
                let code = Some(Code::CleanupUnconfirmed.as_str().to_owned());
                self.say(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
                self.look(now, step);
            }
            Phase::Looking { until } if now.up >= until => {
                let text = "git did not say in time which files changed".to_owned();
                self.say(Kind::Notice(Notice { level: Level::Warn, text, code: None }), now, step);
                self.judge(now, step);
            }
            Phase::Draining { .. }
            | Phase::Sweeping { .. }
            | Phase::Closing { .. }
            | Phase::Looking { .. } => {}
        }
    }

    /// A watchdog ends it.
    fn bitten(&mut self, which: Watchdog, limit: Millis, now: Now, step: &mut Step) {
        let (text, code) = (which.about(limit), Some(which.code().to_owned()));
        self.say(Kind::Notice(Notice { level: Level::Error, text, code }), now, step);
        self.stop(Why::TimedOut(which, limit), now, step);
    }

    /// Says something in our own name.
    fn say(&mut self, kind: Kind, now: Now, step: &mut Step) {
        let event = self.account.own(kind, now.wall);
        step.durable |= Account::is_durable(&event.kind);
        step.events.push(event);
    }

    fn state(&mut self, state: SessionState, reason: Option<String>, now: Now, step: &mut Step) {
        self.say(Kind::SessionStateChanged(SessionStateChanged { state, reason }), now, step);
    }

    /// Numbers what the decoder said, and takes note of what matters for the run.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the account looks at the other kinds")]
    fn pass(&mut self, now: Now, step: &mut Step) {
        let mut drafts = std::mem::take(&mut self.drafts);
        self.tell_counted(&mut drafts);
        for mut draft in drafts.drain(..) {
            match &mut draft.kind {
                Kind::UsageReported(report) => self.guard.reported(report),
                Kind::TurnEnded(ended) => {
                    self.guard.turn_ended(ended);
                    self.blame_budget(ended, now, step);
                }
                _ => {}
            }
            let why = self.ladder.as_ref().map(|ladder| &ladder.why).or(self.why.as_ref());
            let Some(event) = self.account.agents(draft, now.wall, why) else { continue };
            step.durable |= Account::is_durable(&event.kind);
            if matches!(event.kind, Kind::TurnStarted(_) | Kind::TurnEnded(_)) {
                if self.account.may_linger() {
                    self.watch.finished(now.up);
                } else {
                    self.watch.goes_on();
                }
            }
            step.events.push(event);
            if let Some(answer) = self.account.resume_answer() {
                let rejected = self.account.wrong_session();
                self.say(Kind::ResumeAnswered(answer), now, step);
                if let Some(failure) = rejected {
                    self.stop(Why::Trouble(Box::new(failure)), now, step);
                }
            }
        }
        // Keep the room for the next piece.
        self.drafts = drafts;
        self.watch.in_tool(self.account.is_working());
        self.weigh(now, step);
    }
}
