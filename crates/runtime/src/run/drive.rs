//! The one task that owns a run. It carries out the engine's actions and feeds the engine with inputs.
//!
//! The order makes the journal trustworthy: the task writes bytes to the raw file before it decodes them, writes events to
//! the journal before a subscriber sees them, and only then carries out the actions.

mod actions;
mod end;
mod host;
mod orders;
mod publish;
mod second;
mod terminals;
mod waits;
mod wake;

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::{Now, OrderId, RunAction, RunEnd, RunInput, RunStep, Session, SpawnFailure, SyncId};
use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{Event, Excerpt, Millis, OrderRefused, RawFile, Receipt, SessionId};
use bowline_providers::views::Digest;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};
use tracing::Instrument;

use host::HostDesk;
use waits::{finished_now, room};
use wake::{DecisionSync, FilesAfter, Planning, Preparation, Replanning, WakeReason};

use crate::agents::installed::Succession;
use crate::run::agent::{Agent, AgentEvent, Launch, Starting};
use crate::run::attention::AlertWatch;
use crate::run::callback::Callback;
use crate::run::error::Error;
use crate::run::failures;
use crate::run::git::{Snapshot, Tree};
use crate::run::host_tools::HostServer;
use crate::run::launch::{Planner, Replanner};
use crate::run::policy::PolicyDesk;
use crate::run::record::Record;
use crate::run::subscribe::EventSender;
use crate::sessions::aside;
use crate::sessions::budget::{Share, SpendTracker};
use crate::sessions::control::{Control, OrderInbox};
use crate::sessions::journal::{JournalError, Writer};
use crate::sessions::session_monitor::MonitorGuard;
use crate::system::clock;
use crate::system::host::Cleanup;

/// The age of a run at its first sync to disk. A shorter run usually syncs once, at its end: each sync costs several waits
/// for the disk, and a thread.
const SYNC_PATIENCE: Millis = Millis(1000);

/// The longest time that records of `io.index` stay in memory to be written together.
const INDEX_PATIENCE: Millis = Millis(1000);

/// How long a run may be busy before it yields to other tasks.
const AT_A_STRETCH: Duration = Duration::from_millis(5);

/// The limit on bytes written to a program that does not read its standard input. A prompt alone may have many megabytes.
const UNREAD: usize = 64 << 20;

/// Everything that driving a run needs.
pub(crate) struct Drive {
    pub(crate) session: SessionId,
    /// The number of its first event: above 1 if it continues a session.
    pub(crate) first_seq: u64,
    pub(crate) engine: Session,
    pub(crate) launch: Launch,
    pub(crate) journal: Option<Writer>,
    pub(crate) sender: Option<EventSender>,
    pub(crate) callback: Option<Callback>,
    /// Calls a person when the agent needs one, and the handle by which a failure of that is reported.
    pub(crate) alerts: Option<(AlertWatch, Control)>,
    /// The caller's limit on the tool output that an event carries.
    pub(crate) excerpt_limit: Option<usize>,
    pub(crate) orders: OrderInbox,
    /// The working tree to compare before and after the run, if the caller wants the changed files.
    pub(crate) tree: Option<Tree>,
    /// Directories to delete when the run is over and its events are read.
    pub(crate) cleanup: Arc<Cleanup>,
    /// Files that the agent reads. They are deleted as soon as the agent is gone, even if a subscriber still reads events.
    pub(crate) side_files: Cleanup,
    /// The spending to write to the ledger at the end.
    pub(crate) spend: Option<SpendTracker>,
    /// Its part of a budget that it shares with other tasks.
    pub(crate) share: Option<Share>,
    /// The earlier program of a resumed session, until the current one has reported its version.
    pub(crate) succession: Option<Succession>,
    /// Makes a second plan if the program rejects its options. Dropped as soon as the program prints something.
    pub(crate) replanner: Option<Box<Replanner>>,
    /// Makes the plans of further processes of a live session.
    pub(crate) planner: Option<Box<Planner>>,
    /// The policies, if any judge what the agent does.
    pub(crate) policy: Option<Arc<PolicyDesk>>,
    /// Serves the caller's own tools to the agent.
    pub(crate) host_server: Option<HostServer>,
    /// The number of the last public event, for watchers.
    pub(crate) head: watch::Sender<u64>,
    /// Keeps the run in the session monitor until it is dropped.
    pub(crate) _watched: MonitorGuard,
}

/// A run that is being driven.
struct ActiveRun {
    drive: Box<Drive>,
    /// By tokio's clock, so that a test with a paused clock does not wait.
    began: Instant,
    /// The engine's output buffer. Empty between two inputs; kept for its capacity.
    step: RunStep,
    digest: Digest,
    pending: Pending,
    /// When the timer fires.
    armed: Option<Millis>,
    /// Whether the waiting output was read before a late timer counts.
    caught_up: bool,
    /// Whether all handles that could send an order are dropped.
    orders_closed: bool,
    /// How long the run has handled output without yielding to other tasks.
    busy: Duration,
}

/// A timer later than this means that the process was stopped: even on a busy machine, a timer is not that late.
const LATE: Millis = Millis(500);

/// How long to read waiting output before a late timer counts.
const CATCH_UP: Duration = Duration::from_millis(100);

/// The loop's pending work, and the futures that it waits for besides the child.
#[derive(Default)]
struct Pending {
    /// The snapshot of the files before the start. Dropping it kills git.
    preparation: Option<Preparation>,
    /// The files as they were before.
    before: Option<Snapshot>,
    spawn: Option<Starting>,
    /// Reads the program's help. Dropping it kills that process.
    replan: Option<Replanning>,
    files: Option<JoinHandle<Result<FilesAfter, String>>>,
    agent: Option<Agent>,
    /// Whether a write to the journal failed. From then on the run writes and shows only the events of its end.
    closing: bool,
    /// The number of events lost since the last one that was written.
    lost: u64,
    /// Whether writing the end failed too. Then the run only shows it.
    given_up: bool,
    /// The journal error that no event can report.
    trouble: Option<JournalError>,
    /// A sync in progress. Written data survives the end of this process at once; a sync makes it survive a loss of power.
    /// Only the record waits for it.
    sync: Option<JoinHandle<Result<(), JournalError>>>,
    /// Whether there is data to sync.
    sync_due: bool,
    /// The sync that decisions on approvals wait for, and the one that has to follow it.
    decision_sync: Option<DecisionSync>,
    sync_wanted: Option<SyncId>,
    /// When the records of `io.index` in memory have to be written.
    index_due: Option<Millis>,
    /// Events that are only in memory and wait for a subscriber whose queue is full. As long as there are any, the run does
    /// not read from the agent, so that the full pipe stops it. The run still accepts orders to stop.
    backlog: VecDeque<Vec<Event>>,
    /// The number of bytes written to the agent that it has not read.
    unread: usize,
    /// Whether the run is ending the agent. Then it reads from the agent even if a subscriber is slow.
    ending: bool,
    ended: Option<RunEnd>,
    /// Makes the plan of the next process of a live session.
    planning: Option<Planning>,
    /// The work for requests of the agent.
    host: HostDesk,
    /// The orders that wait for their answers.
    answers: BTreeMap<OrderId, oneshot::Sender<Result<Receipt, OrderRefused>>>,
    last_order: u64,
}

impl Pending {
    /// Returns whether the agent has to wait for a subscriber.
    fn holds_back(&self) -> bool {
        !self.backlog.is_empty() && !self.ending
    }
}

impl Drive {
    /// Drives the run to its end.
    pub(crate) async fn drive_to_the_end(self: Box<Self>) -> Result<Record, Error> {
        let span = tracing::info_span!("run", session = %self.session);
        let drive = async {
            let record = Box::new(ActiveRun::of(self)).drive().await?;
            // Log ids and counts only: the conversation may be private.
            tracing::debug!(
                outcome = record.outcome_word(),
                tools = record.tools,
                unrecognized = record.unrecognized,
                survivors = record.survivors.len(),
                took_ms = u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX),
                "the run is over"
            );
            Ok(record)
        };
        drive.instrument(span).await
    }
}

impl ActiveRun {
    fn of(drive: Box<Drive>) -> Self {
        Self {
            drive,
            began: Instant::now(),
            step: RunStep::default(),
            digest: Digest::default(),
            pending: Pending::default(),
            armed: None,
            caught_up: false,
            orders_closed: false,
            busy: Duration::ZERO,
        }
    }

    async fn drive(mut self: Box<Self>) -> Result<Record, Error> {
        self.handle(RunInput::Begin);
        // Any time will do: the first round of the loop sets the timer.
        let timer = tokio::time::sleep(Duration::from_secs(86_400));
        tokio::pin!(timer);
        while self.pending.ended.is_none() {
            let at = self.next_deadline();
            // Output moves the deadline all the time; a timer that is too early costs one look at the clock.
            if self.armed.is_none_or(|armed| at < armed) {
                timer.as_mut().reset(self.began + Duration::from_millis(at.0));
                self.armed = Some(at);
            }
            let woken = self.wake(timer.as_mut()).await;
            self.woke(woken, timer.as_mut());
            // Output that never pauses would starve other tasks of this thread, such as signals and other runs.
            if self.busy > AT_A_STRETCH {
                self.busy = Duration::ZERO;
                tokio::task::yield_now().await;
            }
        }
        self.wind_up().await
    }

    /// Handles what the run waited for.
    fn woke(&mut self, woken: WakeReason, mut timer: Pin<&mut Sleep>) {
        match woken {
            WakeReason::Order(Some(order)) => self.take_order(order),
            // All handles are dropped. A closed channel is always ready, so the loop must not poll it again.
            WakeReason::Order(None) => self.orders_closed = true,
            WakeReason::Others(amounts) => self.handle(RunInput::Others(amounts)),
            WakeReason::Prepared(looked) => {
                let looked = looked.map(|before| self.pending.before = before);
                self.handle(RunInput::Prepared(looked));
            }
            WakeReason::Spawned(Ok(agent)) => {
                let (pid, containment) = (agent.pid(), agent.containment());
                self.pending.agent = Some(agent);
                self.handle(RunInput::Spawned { pid, containment });
            }
            WakeReason::Spawned(Err(failure)) => {
                self.handle(RunInput::SpawnFailed(SpawnFailure { failure: *failure }));
            }
            WakeReason::Agent(event) => {
                let began = Instant::now();
                self.happened(&event);
                // Output comes before a timer, because it may move the deadline. It must not starve the timer.
                if self.drive.engine.deadline().is_some_and(|at| at <= up(self.began)) {
                    self.handle(RunInput::Timer);
                }
                self.busy += began.elapsed();
            }
            WakeReason::Files(Ok((files, after))) => {
                // The next turn of the process is compared with what this one left.
                self.pending.before = after.or(self.pending.before.take());
                self.handle(RunInput::Files(files));
            }
            WakeReason::Files(Err(why)) => {
                let text = format!("could not list the changed files: {why}");
                let notice = Notice { level: Level::Warn, text, code: None };
                self.handle(RunInput::Remark(notice));
                // The engine waits for the list before it ends the run.
                self.handle(RunInput::Files(Vec::new()));
            }
            WakeReason::Replanned(second) => self.take_second_plan(second),
            WakeReason::Planned(planned) => self.take_next_life(planned),
            WakeReason::Synced(sync, Ok(())) => self.handle(RunInput::Synced(sync)),
            WakeReason::Synced(_, Err(error)) => self.journal_failed(&error),
            WakeReason::Host(work, result) => self.handle(RunInput::Host(work, result)),
            WakeReason::Room => self.give_on(),
            // This process was stopped for a while and the agent was not: read its output before the timer counts.
            WakeReason::Timer if !self.caught_up && is_late(self.began, self.armed) => {
                self.caught_up = true;
                timer.as_mut().reset(Instant::now() + CATCH_UP);
            }
            WakeReason::Timer => {
                (self.armed, self.caught_up) = (None, false);
                self.handle(RunInput::Timer);
            }
        }
    }

    /// Waits for the disk, the subscriber and the tools of the caller, and makes the record.
    async fn wind_up(mut self: Box<Self>) -> Result<Record, Error> {
        if let Some(files) = self.pending.files.take() {
            // The result is no longer needed. Aborting kills git.
            files.abort();
        }
        // These events are in no journal, so the run may not end before the subscriber has room for them.
        while !self.pending.backlog.is_empty() {
            room(self.drive.sender.as_ref()).await;
            self.give_on();
        }
        if let Some(Ok(Err(error))) = finished_now(self.pending.sync.take()).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the journal may not survive a loss of power"
            );
            self.pending.trouble.get_or_insert(error);
        }
        let ended = self.pending.ended.take().ok_or(Error::Lost)?;
        if let Some(server) = self.drive.host_server.take() {
            // Before the record: no function of the caller runs for a run that is over.
            server.close().await;
        }
        // Closing the journal waits for the disk.
        Ok(aside::run(move || self.finish(ended)).await)
    }

    /// Returns when the first sync is due, if it waits for the age of the run.
    fn sync_deadline(&self) -> Option<Millis> {
        let waits = self.pending.sync_due && self.drive.journal.is_some();
        (waits && up(self.began) < SYNC_PATIENCE).then_some(SYNC_PATIENCE)
    }

    /// Handles an event of the child. Bytes go to the journal first.
    fn happened(&mut self, event: &AgentEvent) {
        let raw = match event {
            AgentEvent::Stdout { bytes, at } if self.on_terminal() => Some((RawFile::Pty, *at, bytes)),
            AgentEvent::Stdout { bytes, at } => Some((RawFile::Stdout, *at, bytes)),
            AgentEvent::Stderr { bytes, at } => Some((RawFile::Stderr, *at, bytes)),
            AgentEvent::StdinWritten { bytes, at } => Some((RawFile::Stdin, *at, bytes)),
            AgentEvent::StdoutClosed
            | AgentEvent::StderrClosed
            | AgentEvent::Exited(_)
            | AgentEvent::Swept(_)
            | AgentEvent::Trouble(_) => None,
        };
        if let (Some((file, at, bytes)), Some(journal), false) =
            (raw, &mut self.drive.journal, self.pending.closing)
        {
            let due = up(self.began).plus(INDEX_PATIENCE);
            self.pending.index_due.get_or_insert(due);
            if let Err(error) = journal.raw(file, at, bytes) {
                self.journal_failed(&error);
            }
        }
        let input = match event {
            AgentEvent::Stdout { bytes, .. } => {
                // A program that prints has not rejected its options.
                self.drive.replanner = None;
                RunInput::Stdout(bytes)
            }
            AgentEvent::Stderr { bytes, .. } => RunInput::Stderr(bytes),
            AgentEvent::StdinWritten { bytes, .. } => {
                self.pending.unread = self.pending.unread.saturating_sub(bytes.len());
                return;
            }
            AgentEvent::StdoutClosed => RunInput::StdoutClosed,
            AgentEvent::StderrClosed => RunInput::StderrClosed,
            AgentEvent::Exited(exit) => {
                self.pending.host.end_terminals();
                RunInput::Exited(*exit)
            }
            AgentEvent::Swept(swept) => RunInput::Swept(swept.clone()),
            AgentEvent::Trouble(failure) => RunInput::Trouble(failure.clone()),
        };
        self.handle(input);
    }

    /// Ends the run, because its journal cannot be written.
    fn journal_failed(&mut self, error: &JournalError) {
        // Before `handle`, which then writes only the events of the end.
        self.pending.closing = true;
        self.handle(RunInput::Trouble(failures::of_journal(error)));
    }

    /// Returns whether the agent's output comes from a terminal.
    fn on_terminal(&self) -> bool {
        self.drive.launch.is_terminal()
    }

    /// Feeds an input to the engine, writes and publishes its events, and carries out its actions. The sync that durable events need
    /// starts only then: a disk may take longer than an agent waits. Only decisions on approvals are sent after their sync.
    fn handle(&mut self, input: RunInput<'_>) {
        let mut step = std::mem::take(&mut self.step);
        step.clear();
        let up = up(self.began);
        let now = Now { wall: clock::wall(), up };
        match self.drive.excerpt_limit {
            Some(limit) => Excerpt::scoped(limit, || self.drive.engine.handle(input, now, &mut step)),
            None => self.drive.engine.handle(input, now, &mut step),
        }
        // Into the same step, so that both inputs cost one write to the journal.
        if let Some(used) = self.drive.spend.as_mut().and_then(|spend| spend.look(&self.drive.engine, up)) {
            self.drive.engine.handle(RunInput::Before(used), Now { wall: clock::wall(), up }, &mut step);
        }
        if let Some(share) = &self.drive.share {
            share.tell(self.drive.engine.spent().amounts());
        }
        let read_enough = self.pending.unread <= UNREAD;
        // The order is fixed: an action may only follow when the events that explain it are on file.
        let done = self.publish(&mut step).and_then(|()| {
            self.carry_out(std::mem::take(&mut step.actions));
            self.write_index(up)?;
            self.sync_decisions()?;
            self.sync()
        });
        if let Err(error) = done {
            // From here on the run writes only the events of its end.
            self.pending.closing = true;
            let failure = failures::of_journal(&error);
            let mut actions = std::mem::take(&mut step.actions);
            // Do not spawn an agent whose output cannot be journaled.
            let wanted = actions.len();
            actions.retain(|action| !matches!(action, RunAction::Spawn(_)));
            let input = if actions.len() < wanted {
                RunInput::SpawnFailed(SpawnFailure { failure })
            } else {
                RunInput::Trouble(failure)
            };
            let mut after = RunStep::default();
            self.drive.engine.handle(input, Now { wall: clock::wall(), up }, &mut after);
            if self.publish(&mut after).is_err() {
                tracing::error!("the journal takes no events any more");
            }
            self.carry_out(actions);
            self.carry_out(after.actions);
        }
        // Keep the capacity for the next input.
        self.step = step;
        // Only once: bytes written after this are not replies to the program's requests.
        if read_enough && self.pending.unread > UNREAD {
            self.handle(RunInput::Trouble(failures::unread(UNREAD)));
        }
        if let Some(version) = self.digest.version()
            && let Some(notice) = self.drive.succession.take().and_then(|before| before.heard(version))
        {
            self.handle(RunInput::Remark(notice));
        }
    }
}

/// Returns whether a timer is so late that this process was stopped meanwhile.
fn is_late(began: Instant, armed: Option<Millis>) -> bool {
    armed.is_some_and(|at| up(began) > at.plus(LATE))
}

/// Returns how long ago a run began.
fn up(began: Instant) -> Millis {
    Millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}
