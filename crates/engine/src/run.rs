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
//! The end of standard output, the exit of the process, and a descendant that still holds the pipe are three things. The run
//! judges the end of the output only when the tree is gone, so no output follows the judgement. If a program has answered and
//! does not exit, the run ends it, and the answer still counts.
//!
//! If the plan wants the changed files, the caller reads the state of the files before the first process starts, between new
//! and spawning (preparing). That has a short limit of its own, and counts against the total limit. A run cancelled in this
//! phase has spawned nothing.

mod child_starts;
mod decisions;
mod end;
mod host;
mod judging;
mod ladder;
mod life;
mod orders;
mod output;
mod questions;
pub(crate) mod reasons;
mod refusals;
mod replan;
mod request_ids;
mod spend;
mod state;
mod stop;
mod timers;
mod values;
mod watch;

#[cfg(test)]
pub(crate) mod tests;

use bowline_protocol::kinds::{
    Level, Notice, ProcessSpawned, SessionStarted, SessionState, SessionStateChanged,
};
use bowline_protocol::{Exit, Failure, Kind, Millis, OrderRefused};
use bowline_providers::decode::Decoder;
use bowline_providers::dialect::{HostToken, UnnumberedEvent};
use bowline_providers::moment::Moment;
use bowline_providers::usage::TurnSpending;

use crate::budget::{BudgetGuard, SpendSum};
use crate::fallback::StreamRule;
use crate::footprint::Footprint;
use decisions::Approvals;
pub use host::{ActFacts, HostResult, HostWork, HostWorkId, ResolvedPaths};
use ladder::{LadderStep, StopCause, StopLadder};
pub(crate) use life::LifeReport;
use life::LifeState;
use request_ids::RequestIds;
use state::RunState;
pub use values::{
    Approver, AttemptPlan, Lifetime, Now, Numbering, OrderId, ReplanResult, ResumeTarget, RunAction,
    RunCommand, RunEnd, RunInput, RunLimits, RunPlan, RunStep, SpawnFailure, StopSignal, Survivor,
    SweepResult, SyncId,
};
pub use watch::Watchdog;
use watch::Watchdogs;

/// How long the pipes are read after the program has exited, because a descendant may still write.
const DRAIN: Millis = Millis(250);

/// The longest time that such a writer can delay the end of a run.
const DRAIN_AT_MOST: Millis = Millis(1_000);

/// How long the run waits for a killed process to be reaped, for a sweep, or for git.
const PATIENCE: Millis = Millis(5_000);

/// How long the look at the files before the start may take. After that the agent starts, and the changed files stay unknown.
const PREPARATION: Millis = Millis(5_000);

/// The run of one request.
#[derive(Debug)]
pub struct Run {
    plan: RunPlan,
    moment: Moment,
    phase: RunPhase,
    attempt: usize,
    decoder: Decoder,
    drafts: Vec<UnnumberedEvent>,
    state: RunState,
    watch: Watchdogs,
    ladder: Option<StopLadder>,
    /// Why the run ended the program, once that is done.
    why: Option<StopCause>,
    process: AgentProcess,
    /// Whether the client has closed the program's standard input.
    hung_up: bool,
    survivors: Vec<Survivor>,
    left_behind: Vec<Survivor>,
    killed: Vec<Survivor>,
    rule: StreamRule,
    /// Whether the caller cancelled after the program had already exited. Then no second attempt follows.
    no_more: bool,
    /// Whether the next attempt was planned by the program's help.
    by_help: bool,
    guard: BudgetGuard,
    /// The usage of the open turn at the moment when the budget ended it.
    counted: Option<TurnSpending>,
    approvals: Approvals,
    life: LifeState,
    ids: RequestIds,
    /// The last sync that was asked for.
    syncs: SyncId,
    /// The last piece of work that the host was given. Counted over all processes, so that a late result meets no later work.
    host_works: HostWorkId,
    /// Requests of the agent that the host carries out.
    host_calls: Vec<(HostWorkId, HostToken)>,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunPhase {
    New,
    /// The start is delayed.
    Waiting {
        until: Millis,
    },
    /// The caller reads the state of the files before the agent can change them.
    Preparing {
        until: Millis,
    },
    Spawning,
    Running,
    /// The process has exited. Descendants may hold its pipes open until then.
    Draining {
        until: Millis,
        at_most: Millis,
    },
    /// The caller ends the remaining processes of the tree.
    Sweeping {
        until: Millis,
    },
    /// The tree is gone, but a pipe is not closed yet: the run reads the rest until then.
    Closing {
        until: Millis,
    },
    /// The caller reads which files changed.
    Looking {
        until: Millis,
    },
    /// The attempt is judged; the caller reads the program's help before the next one.
    Replanning {
        until: Millis,
        footprint: Footprint,
    },
    Over,
}

/// The facts about the process of the attempt.
#[derive(Debug, Default)]
struct AgentProcess {
    pid: Option<u32>,
    exit: Option<Exit>,
    stdout_closed: bool,
    stderr_closed: bool,
}

impl AgentProcess {
    fn is_closed(&self) -> bool {
        self.stdout_closed && self.stderr_closed
    }
}

impl Run {
    /// Creates a run of a plan, which has at least one attempt.
    pub fn new(mut plan: RunPlan) -> Self {
        let decoder = Self::decoder(&plan, 0);
        let ids = RequestIds::after(plan.numbering.next_seq - 1);
        Self {
            moment: Moment { at: bowline_protocol::Timestamp::EPOCH, zone: plan.zone.clone() },
            state: RunState::new(&plan),
            watch: Watchdogs::new(plan.attempts[0].limits),
            counted: None,
            guard: BudgetGuard::new(std::mem::take(&mut plan.budget)),
            plan,
            phase: RunPhase::New,
            attempt: 0,
            decoder,
            drafts: Vec::new(),
            ladder: None,
            why: None,
            process: AgentProcess::default(),
            hung_up: false,
            survivors: Vec::new(),
            left_behind: Vec::new(),
            killed: Vec::new(),
            rule: StreamRule::Result,
            no_more: false,
            by_help: false,
            approvals: Approvals::default(),
            life: LifeState::default(),
            ids,
            syncs: SyncId::default(),
            host_works: HostWorkId::default(),
            host_calls: Vec::new(),
        }
    }

    fn decoder(plan: &RunPlan, attempt: usize) -> Decoder {
        let attempt = &plan.attempts[attempt];
        Decoder::of_shape(attempt.dialect, attempt.shape)
            .talking(attempt.dialect, attempt.conversation.as_deref())
    }

    /// Returns whether a protocol carries the prompt of the current attempt.
    fn uses_protocol(&self) -> bool {
        let attempt = &self.plan.attempts[self.attempt];
        attempt.dialect.client.is_some() && attempt.conversation.is_some()
    }

    /// Handles one input, and adds the resulting events and actions to the step.
    pub fn handle(&mut self, input: RunInput<'_>, now: Now, step: &mut RunStep) {
        // Dialects compute instants from this moment, such as the reset of a limit that the program names without a date.
        self.moment.at = now.wall;
        // Inputs may still be on their way when the run is over.
        if self.phase == RunPhase::Over {
            // An order is always answered.
            if let RunInput::Order { order, .. } = input {
                step.actions.push(RunAction::Answer(order, Err(OrderRefused::Stopping)));
            }
            return;
        }
        match input {
            RunInput::Begin => self.begin(now, step),
            RunInput::Prepared(looked) => self.prepared(looked, now, step),
            RunInput::Spawned { pid, containment } => self.spawned(pid, containment, now, step),
            RunInput::SpawnFailed(SpawnFailure { failure }) => self.not_spawned(failure, now, step),
            // Output before the process runs, or after its attempt was judged.
            RunInput::Stdout(_) | RunInput::Stderr(_) | RunInput::StdoutClosed | RunInput::StderrClosed
                if matches!(
                    self.phase,
                    RunPhase::New
                        | RunPhase::Waiting { .. }
                        | RunPhase::Preparing { .. }
                        | RunPhase::Spawning
                        | RunPhase::Replanning { .. }
                ) => {}
            RunInput::Stdout(bytes) => self.output(bytes, now, step),
            RunInput::Stderr(bytes) => self.stderr(bytes, now, step),
            RunInput::StdoutClosed => {
                self.process.stdout_closed = true;
                self.closed(now, step);
            }
            RunInput::StderrClosed => {
                self.process.stderr_closed = true;
                self.closed(now, step);
            }
            RunInput::Exited(exit) => self.exited(exit, now, step),
            RunInput::Swept(swept) => self.swept(swept, now, step),
            RunInput::Files(files) => self.files(files, now, step),
            RunInput::Replanned(replanned) => self.replanned(replanned, now, step),
            RunInput::Command(command) => self.command(command, now, step),
            RunInput::Order { order, what, .. } => {
                let result = self.order(what, now, step);
                step.actions.push(RunAction::Answer(order, result));
            }
            // Only a live session asks for plans.
            RunInput::Planned(_) => {}
            RunInput::Trouble(failure) => self.stop(StopCause::Trouble(Box::new(failure)), now, step),
            RunInput::Overdue(limit) => self.overdue(limit, now, step),
            RunInput::Others(amounts) => {
                self.guard.others(amounts);
                if self.phase == RunPhase::Running {
                    self.check_budget(now, step);
                }
            }
            RunInput::Before(used) => {
                used.into_iter().for_each(|(extent, before)| self.guard.before(extent, before));
                // After a complete answer the agent uses nothing more.
                if self.phase == RunPhase::Running && !self.may_linger() {
                    self.check_budget(now, step);
                }
            }
            RunInput::Synced(sync) => self.synced(sync, now, step),
            RunInput::Host(work, result) => self.host_done(work, result, now, step),
            RunInput::Remark(notice) => self.emit(Kind::Notice(notice), now, step),
            RunInput::Timer => self.timer(now, step),
        }
    }

    /// Returns the usage of the run so far.
    pub fn spent(&self) -> SpendSum {
        self.guard.sum(self.decoder.spent(), self.state.model.as_deref())
    }

    /// Returns the model that answers, if the agent or the plan has named it.
    pub fn model(&self) -> Option<&str> {
        self.state.model.as_deref().or(self.plan.model.as_deref())
    }

    /// Returns whether the run is over.
    pub fn is_over(&self) -> bool {
        self.phase == RunPhase::Over
    }

    fn begin(&mut self, now: Now, step: &mut RunStep) {
        if self.phase != RunPhase::New {
            return;
        }
        // A live session has emitted it, once for all of its processes.
        if !self.plan.lifetime.is_live() {
            self.emit_session_started(now, step);
        }
        for kind in std::mem::take(&mut self.plan.opening) {
            self.emit(kind, now, step);
        }
        if self.plan.delay == Millis(0) {
            self.prepare(now, step);
        } else {
            // The delay counts against the budget's time, but not against the run's timeout, which begins in `prepare`.
            self.guard.begins(now.up);
            self.phase = RunPhase::Waiting { until: now.up.plus(self.plan.delay) };
        }
    }

    /// Emits the beginning of the stint.
    pub(crate) fn emit_session_started(&mut self, now: Now, step: &mut RunStep) {
        let started = SessionStarted {
            provider: Some(self.plan.provider.clone()),
            version: self.plan.version.clone(),
            cwd: self.plan.cwd.clone(),
            model: self.plan.model.clone(),
            capabilities: self.plan.capabilities.clone().map(Box::new),
            ..SessionStarted::default()
        };
        self.emit(Kind::SessionStarted(started), now, step);
    }

    /// Has the state of the files read before the agent can change them, if the plan wants it.
    fn prepare(&mut self, now: Now, step: &mut RunStep) {
        self.watch.begin(now.up);
        if self.plan.files {
            self.change_state(SessionState::Preparing, Some(reasons::READS_FILES.to_owned()), now, step);
            self.phase = RunPhase::Preparing { until: now.up.plus(PREPARATION) };
            step.actions.push(RunAction::Prepare);
        } else {
            self.first_attempt(now, step);
        }
    }

    /// Handles the result of the look at the files.
    fn prepared(&mut self, looked: Result<(), String>, now: Now, step: &mut RunStep) {
        if !matches!(self.phase, RunPhase::Preparing { .. }) {
            return;
        }
        if let Err(why) = looked {
            self.plan.files = false;
            let text = format!("the changed files will be unknown: {why}");
            // Do not emit it here: `first_attempt` emits all notices behind the change of state.
            self.plan.notices.push(Notice { level: Level::Warn, text, code: None });
        }
        self.first_attempt(now, step);
    }

    fn first_attempt(&mut self, now: Now, step: &mut RunStep) {
        let reason = self.start_reason();
        self.change_state(SessionState::Starting, Some(reason), now, step);
        // Keep them: a second plan may have the same ones.
        for notice in self.plan.notices.clone() {
            self.emit(Kind::Notice(notice), now, step);
        }
        self.spawn(now, step);
    }

    /// Begins the current attempt.
    fn spawn(&mut self, now: Now, step: &mut RunStep) {
        self.phase = RunPhase::Spawning;
        self.host_calls.clear();
        self.process = AgentProcess::default();
        self.hung_up = false;
        self.watch.set_limits(self.plan.attempts[self.attempt].limits);
        self.watch.spawning(now.up);
        self.guard.begins(now.up);
        // This opens the turn before the process exists, so that a failed start ends a turn as well.
        self.open_turn();
        self.emit_decoded(now, step);
        step.actions.push(RunAction::Spawn(self.attempt));
    }

    /// Opens the turn of the plan's prompt. A plan without one is never begun.
    fn open_turn(&mut self) {
        if let Some(prompt) = &self.plan.prompt {
            self.decoder.prompt(prompt, &mut self.drafts);
        }
    }

    fn spawned(&mut self, pid: u32, containment: &str, now: Now, step: &mut RunStep) {
        if self.phase != RunPhase::Spawning {
            return;
        }
        self.phase = RunPhase::Running;
        self.process.pid = Some(pid);
        // The prompt is in the arguments or on standard input, unless a protocol sends it later.
        self.state.prompted = !self.uses_protocol();
        self.watch.running(now.up);
        let attempt = &self.plan.attempts[self.attempt];
        let spawned = ProcessSpawned {
            pid,
            program: attempt.program.clone(),
            transport: attempt.transport,
            containment: Some(containment.to_owned()),
            dialect: Some(attempt.dialect.name.to_owned()),
            raw_start: self.state.stdout_bytes,
        };
        self.emit(Kind::ProcessSpawned(spawned), now, step);
        if let Some(ladder) = &mut self.ladder {
            // The run was stopped before the program ran.
            // Kill it at once: a polite stop would give it time to begin the work.
            ladder.reached = LadderStep::Kill;
            ladder.next_at = now.up.plus(PATIENCE);
            step.actions.push(RunAction::KillTree);
            return;
        }
        let reason = self.reason_of(SessionState::Running);
        self.change_state(SessionState::Running, reason, now, step);
        self.decoder.open(&self.moment, &mut self.drafts);
        self.emit_decoded(now, step);
        self.take_client_output(now, step);
    }

    fn not_spawned(&mut self, failure: Failure, now: Now, step: &mut RunStep) {
        if self.phase != RunPhase::Spawning {
            return;
        }
        // A stop that came first keeps its reason.
        self.ladder.get_or_insert(StopLadder::over(StopCause::Trouble(Box::new(failure))));
        self.judge(now, step);
    }

    /// Emits an event of the run itself.
    fn emit(&mut self, kind: Kind, now: Now, step: &mut RunStep) {
        let event = self.state.number_own(kind, now.wall);
        step.durable |= RunState::is_durable(&event.kind);
        step.events.push(event);
    }

    pub(crate) fn change_state(
        &mut self,
        state: SessionState,
        reason: Option<String>,
        now: Now,
        step: &mut RunStep,
    ) {
        self.life.announce(state, reason.clone());
        self.emit(Kind::SessionStateChanged(SessionStateChanged { state, reason }), now, step);
    }

    /// Returns whether the program only has to exit. The prompt opens a turn before the program is started.
    fn may_linger(&self) -> bool {
        self.decoder.open_turn().is_none() && !self.decoder.has_left_tasks()
    }
}
