//! The one task that owns a run: it carries out what the engine decides, and tells it what happened.
//!
//! The order is what makes a journal trustworthy: bytes go to the raw file before anything looks at them; events
//! go to the journal before anybody sees them; only then is anything done.

mod end;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bowline_engine::budget::Amounts;
use bowline_engine::{Action, Ended, Input, Now, Run, SpawnFailure, Step};
use bowline_protocol::kinds::{Level, Notice, TouchedFile};
use bowline_protocol::{Event, Excerpt, Failure, Millis, RawFile, SessionId};
use bowline_providers::views::Digest;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::agent::{Agent, Happening, Launch, Starting};
use crate::budget::{Account, Share};
use crate::callback::Callback;
use crate::git::{Snapshot, Tree};
use crate::host::Cleanup;
use crate::hub::Outlet;
use crate::installed::Succession;
use crate::journal::{JournalError, Writer};
use crate::record::Record;
use crate::turn::Order;
use crate::warden::Watched;
use crate::{Error, aside, clock, trouble};

/// How old a run is before anything is made safe from a loss of power. Most runs that are shorter than that are made safe
/// once, at their end: each time costs several waits for the disk, and a thread.
const SYNC_PATIENCE: Millis = Millis(1000);

/// How long the records of `io.index` may wait for others.
const INDEX_PATIENCE: Millis = Millis(1000);

/// How long a run may be busy before others have their turn.
const AT_A_STRETCH: Duration = Duration::from_millis(5);

/// How much may wait for a program that does not read what it has asked for. A prompt alone may have many megabytes.
const UNREAD: usize = 64 << 20;

/// All that a run is driven with.
pub(crate) struct Drive {
    pub(crate) session: SessionId,
    pub(crate) run: Run,
    pub(crate) launch: Launch,
    pub(crate) journal: Option<Writer>,
    pub(crate) outlet: Option<Outlet>,
    pub(crate) callback: Option<Callback>,
    /// How much of the output of a tool an event carries, if the caller says so.
    pub(crate) excerpt_limit: Option<usize>,
    pub(crate) orders: mpsc::Receiver<Order>,
    /// The working tree whose files are looked at before and after, if anybody wants to know.
    pub(crate) tree: Option<Tree>,
    /// Directories that go when the run is over and its events are read.
    pub(crate) cleanup: Arc<Cleanup>,
    /// The files that the agent had to find. They go as soon as it is gone, whoever still reads events.
    pub(crate) side_files: Cleanup,
    /// What is written down at the end about what it used.
    pub(crate) account: Option<Account>,
    /// Its part of a budget that others use too.
    pub(crate) share: Option<Share>,
    /// The program that the session had before, until this one has said its version.
    pub(crate) succession: Option<Succession>,
    /// Somebody looks after it as long as it is driven.
    pub(crate) _watched: Watched,
}

/// A run that is being driven.
struct Driving {
    drive: Box<Drive>,
    /// By tokio's clock, so that a test which has paused it waits for nothing.
    began: Instant,
    /// What the engine answers in; empty between two inputs, and kept for its room.
    step: Step,
    digest: Digest,
    pending: Pending,
}

/// How late a timer is at most while this process runs, however busy the machine is.
const LATE: Millis = Millis(500);

/// How long output that waits may take to be read.
const CATCH_UP: Duration = Duration::from_millis(100);

/// What the loop waits for besides the child, and what it has yet to do.
#[derive(Default)]
struct Pending {
    /// The look at the files before the start. Dropping it ends git.
    preparation: Option<Preparation>,
    /// The files as they were before.
    before: Option<Snapshot>,
    spawn: Option<Starting>,
    files: Option<JoinHandle<Result<Vec<TouchedFile>, String>>>,
    agent: Option<Agent>,
    /// Whether the journal refused something: from then on only what says how it ended is written, and shown.
    closing: bool,
    /// How many events were never written since the last one that was.
    lost: u64,
    /// Whether the journal does not even take the end: it is only shown.
    given_up: bool,
    /// Why the journal lacks something that no event can tell of.
    trouble: Option<JournalError>,
    /// A sync that is going on. What is written is safe from the end of this process at once; a sync makes it safe from
    /// a loss of power, and nobody has to wait for that until the record is given out.
    sync: Option<JoinHandle<Result<(), JournalError>>>,
    /// Whether more was written that has to be made durable.
    sync_due: bool,
    /// When the records of `io.index` that wait for others have to be on file.
    index_due: Option<Millis>,
    /// Events that are only in memory and wait for a watcher who has no room. As long as there are any, the agent is not
    /// read, so that its pipe holds it back; but whoever stops it is heard.
    backlog: VecDeque<Vec<Event>>,
    /// How much was given to the agent that it has not read.
    unread: usize,
    /// Whether the agent is being ended: then what it does is looked at, whoever is slow.
    ending: bool,
    ended: Option<Ended>,
}

impl Pending {
    /// Says whether the agent has to wait for the watcher.
    fn holds_back(&self) -> bool {
        !self.backlog.is_empty() && !self.ending
    }
}

/// A look at the files before the start.
type Preparation = Pin<Box<dyn Future<Output = Result<Option<Snapshot>, String>> + Send>>;

/// What woke the loop.
enum Woken {
    Order(Option<Order>),
    /// Somebody who shares the budget has used more.
    Others(Amounts),
    Prepared(Result<Option<Snapshot>, String>),
    Spawned(Result<Agent, Box<Failure>>),
    Happening(Happening),
    Files(Result<Vec<TouchedFile>, String>),
    Timer,
    /// The watcher has room.
    Room,
}

impl Drive {
    /// Drives the run to its end.
    pub(crate) async fn drive_to_the_end(self: Box<Self>) -> Result<Record, Error> {
        let span = tracing::info_span!("run", session = %self.session);
        let drive = async {
            let record = Box::new(Driving::of(self)).drive().await?;
            // Ids and counts: what was said is nobody's business here.
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

impl Driving {
    fn of(drive: Box<Drive>) -> Self {
        Self {
            drive,
            began: Instant::now(),
            step: Step::default(),
            digest: Digest::default(),
            pending: Pending::default(),
        }
    }

    async fn drive(mut self: Box<Self>) -> Result<Record, Error> {
        let mut orders_open = true;
        self.handle(Input::Begin);
        let timer = tokio::time::sleep(Duration::from_secs(86_400));
        tokio::pin!(timer);
        let (mut armed, mut busy) = (None, Duration::ZERO);
        let mut caught_up = false;
        while self.pending.ended.is_none() {
            let deadlines = self.drive.run.deadline().into_iter().chain(self.pending.index_due);
            let deadlines = deadlines.chain(self.drive.account.as_ref().and_then(Account::deadline));
            let deadlines = deadlines.chain(self.sync_deadline());
            let at = deadlines.min().unwrap_or(Millis(u64::from(u32::MAX)));
            // Output moves the deadline all the time; a timer that is too early costs one look at the clock.
            if armed.is_none_or(|armed| at < armed) {
                timer.as_mut().reset(self.began + Duration::from_millis(at.0));
                armed = Some(at);
            }
            let held = self.pending.holds_back();
            let woken = tokio::select! {
                biased;
                order = self.drive.orders.recv(), if orders_open => Woken::Order(order),
                others = others(&mut self.drive.share), if self.drive.share.is_some() => Woken::Others(others),
                looked = waited(&mut self.pending.preparation), if self.pending.preparation.is_some() => {
                    self.pending.preparation = None;
                    Woken::Prepared(looked)
                }
                agent = waited(&mut self.pending.spawn), if self.pending.spawn.is_some() => {
                    self.pending.spawn = None;
                    Woken::Spawned(agent.map_err(Box::new))
                }
                () = room(self.drive.outlet.as_ref()), if !self.pending.backlog.is_empty() => Woken::Room,
                happening = next(&mut self.pending.agent), if self.pending.agent.is_some() && !held => Woken::Happening(happening),
                files = finished(&mut self.pending.files), if self.pending.files.is_some() => {
                    self.pending.files = None;
                    Woken::Files(files.unwrap_or_else(|| Err("it was not looked at".to_owned())))
                }
                // An agent that is held back is silent through no fault of its own.
                () = &mut timer, if !held => Woken::Timer,
            };
            match woken {
                Woken::Order(Some(order)) => {
                    let input = match order {
                        Order::Command(command) => Input::Command(command),
                        Order::Overdue(limit) => Input::Overdue(limit),
                    };
                    self.handle(input);
                }
                Woken::Order(None) => orders_open = false,
                Woken::Others(amounts) => self.handle(Input::Others(amounts)),
                Woken::Prepared(looked) => {
                    let looked = looked.map(|before| self.pending.before = before);
                    self.handle(Input::Prepared(looked));
                }
                Woken::Spawned(Ok(agent)) => {
                    let (pid, containment) = (agent.pid(), agent.containment());
                    self.pending.agent = Some(agent);
                    self.handle(Input::Spawned { pid, containment });
                }
                Woken::Spawned(Err(failure)) => {
                    self.handle(Input::SpawnFailed(SpawnFailure { failure: *failure }));
                }
                Woken::Happening(happening) => {
                    let began = Instant::now();
                    self.happened(&happening);
                    // Output that never pauses would keep the timer from being looked at, and whoever shares the thread
                    // (signals, other runs) from running. It comes first all the same: it may have moved the deadline.
                    if self.drive.run.deadline().is_some_and(|at| at <= up(self.began)) {
                        self.handle(Input::Timer);
                    }
                    busy += began.elapsed();
                    if busy > AT_A_STRETCH {
                        busy = Duration::ZERO;
                        tokio::task::yield_now().await;
                    }
                }
                Woken::Files(Ok(files)) => self.handle(Input::Files(files)),
                Woken::Files(Err(why)) => {
                    let text = format!("which files changed is not known: {why}");
                    let notice = Notice { level: Level::Warn, text, code: None };
                    self.handle(Input::Remark(notice));
                    self.handle(Input::Files(Vec::new()));
                }
                Woken::Room => self.give_on(),
                // This process was stopped for a while. The agent was not, and what it said meanwhile is heard first.
                Woken::Timer if !caught_up && is_late(self.began, armed) => {
                    caught_up = true;
                    timer.as_mut().reset(Instant::now() + CATCH_UP);
                }
                Woken::Timer => {
                    (armed, caught_up) = (None, false);
                    self.handle(Input::Timer);
                }
            }
        }
        if let Some(files) = self.pending.files.take() {
            // Nobody waits for it any more; git is ended with it.
            files.abort();
        }
        while !self.pending.backlog.is_empty() {
            room(self.drive.outlet.as_ref()).await;
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
        // The journal is closed, and waits for the disk.
        Ok(aside::run(move || self.finish(ended)).await)
    }

    /// Returns when a sync is due that waits until the run is old enough.
    fn sync_deadline(&self) -> Option<Millis> {
        let waits = self.pending.sync_due && self.drive.journal.is_some();
        (waits && up(self.began) < SYNC_PATIENCE).then_some(SYNC_PATIENCE)
    }

    /// Takes what happened to the child: bytes go to the journal first.
    fn happened(&mut self, happening: &Happening) {
        let raw = match happening {
            Happening::Stdout { bytes, at } if self.on_terminal() => Some((RawFile::Pty, *at, bytes)),
            Happening::Stdout { bytes, at } => Some((RawFile::Stdout, *at, bytes)),
            Happening::Stderr { bytes, at } => Some((RawFile::Stderr, *at, bytes)),
            Happening::StdinWritten { bytes, at } => Some((RawFile::Stdin, *at, bytes)),
            Happening::StdoutClosed
            | Happening::StderrClosed
            | Happening::Exited(_)
            | Happening::Swept(_)
            | Happening::Trouble(_) => None,
        };
        if let (Some((file, at, bytes)), Some(journal), false) =
            (raw, &mut self.drive.journal, self.pending.closing)
        {
            let due = up(self.began).plus(INDEX_PATIENCE);
            self.pending.index_due.get_or_insert(due);
            if let Err(error) = journal.raw(file, at, bytes) {
                self.pending.closing = true;
                let input = Input::Trouble(trouble::of_journal(&error));
                self.handle(input);
            }
        }
        let input = match happening {
            Happening::Stdout { bytes, .. } => Input::Stdout(bytes),
            Happening::Stderr { bytes, .. } => Input::Stderr(bytes),
            Happening::StdinWritten { bytes, .. } => {
                self.pending.unread = self.pending.unread.saturating_sub(bytes.len());
                return;
            }
            Happening::StdoutClosed => Input::StdoutClosed,
            Happening::StderrClosed => Input::StderrClosed,
            Happening::Exited(exit) => Input::Exited(*exit),
            Happening::Swept(swept) => Input::Swept(swept.clone()),
            Happening::Trouble(failure) => Input::Trouble(failure.clone()),
        };
        self.handle(input);
    }

    /// Says whether what the agent prints comes over a terminal.
    fn on_terminal(&self) -> bool {
        self.drive.launch.is_terminal()
    }

    /// Tells the run what happened, makes its events public and does what it wants.
    fn handle(&mut self, input: Input<'_>) {
        let mut step = std::mem::take(&mut self.step);
        step.clear();
        let up = up(self.began);
        let now = Now { wall: clock::wall(), up };
        match self.drive.excerpt_limit {
            Some(limit) => Excerpt::scoped(limit, || self.drive.run.handle(input, now, &mut step)),
            None => self.drive.run.handle(input, now, &mut step),
        }
        if let Some(used) = self.drive.account.as_mut().and_then(|account| account.look(&self.drive.run, up))
        {
            self.drive.run.handle(Input::Before(used), Now { wall: clock::wall(), up }, &mut step);
        }
        if let Some(share) = &self.drive.share {
            share.tell(self.drive.run.spent().amounts());
        }
        let read_enough = self.pending.unread <= UNREAD;
        let done = self.publish(&mut step).and_then(|()| {
            self.carry_out(std::mem::take(&mut step.actions));
            self.write_index(up)?;
            self.sync()
        });
        if let Err(error) = done {
            // From here on only what says how it ended is written.
            self.pending.closing = true;
            let failure = trouble::of_journal(&error);
            let mut actions = std::mem::take(&mut step.actions);
            // Nobody is started of whom nothing could be kept.
            let wanted = actions.len();
            actions.retain(|action| !matches!(action, Action::Spawn(_)));
            let input = if actions.len() < wanted {
                Input::SpawnFailed(SpawnFailure { failure })
            } else {
                Input::Trouble(failure)
            };
            let mut after = Step::default();
            self.drive.run.handle(input, Now { wall: clock::wall(), up }, &mut after);
            if self.publish(&mut after).is_err() {
                tracing::error!("the journal takes no events any more");
            }
            self.carry_out(actions);
            self.carry_out(after.actions);
        }
        // The room is used again.
        self.step = step;
        // Once: what it is told then is not what it has asked for.
        if read_enough && self.pending.unread > UNREAD {
            self.handle(Input::Trouble(trouble::unread(UNREAD)));
        }
        if let Some(version) = self.digest.version()
            && let Some(notice) = self.drive.succession.take().and_then(|before| before.heard(version))
        {
            self.handle(Input::Remark(notice));
        }
    }

    /// Writes events to the journal, then shows them.
    fn publish(&mut self, step: &mut Step) -> Result<(), JournalError> {
        if step.events.is_empty() {
            return Ok(());
        }
        let mut events = std::mem::take(&mut step.events);
        if self.on_terminal() {
            // Decoders know one stream of output, whatever it comes over.
            for raw in events.iter_mut().filter_map(|event| event.raw.as_mut()) {
                if raw.file == RawFile::Stdout {
                    raw.file = RawFile::Pty;
                }
            }
        }
        match &mut self.drive.journal {
            Some(journal) if self.pending.closing => events = end::write(journal, events, &mut self.pending),
            Some(journal) => {
                if let Err(error) = journal.events(&events) {
                    // What is not on file is not public: otherwise a watcher knows numbers that the journal gives
                    // to other events. A gap says how many there were.
                    self.pending.lost += events.len() as u64;
                    return Err(error);
                }
            }
            None => {}
        }
        for event in &events {
            self.digest.event(event);
            if let Some(callback) = &mut self.drive.callback {
                callback(event);
            }
        }
        self.pending.sync_due |= step.durable && !self.pending.closing;
        match &self.drive.outlet {
            Some(outlet) => {
                // An end that could not be written is true all the same: who watches still sees it.
                let on_file = outlet.has_journal() && !self.pending.given_up;
                if on_file && self.pending.backlog.is_empty() {
                    outlet.put(events);
                } else {
                    self.pending.backlog.push_back(events);
                    self.give_on();
                }
            }
            None => {
                // The room is used again.
                events.clear();
                step.events = events;
            }
        }
        Ok(())
    }

    /// Gives on what is only in memory, as far as there is room.
    fn give_on(&mut self) {
        let Some(outlet) = &self.drive.outlet else { return self.pending.backlog.clear() };
        while let Some(events) = self.pending.backlog.pop_front() {
            if let Some(events) = outlet.offer(events) {
                return self.pending.backlog.push_front(events);
            }
        }
    }

    /// Puts on file when bytes came, if that is due.
    fn write_index(&mut self, up: Millis) -> Result<(), JournalError> {
        match (&mut self.drive.journal, self.pending.index_due.take_if(|due| *due <= up)) {
            (Some(journal), Some(_)) if !self.pending.closing => journal.write_index(),
            _ => Ok(()),
        }
    }

    /// Makes durable what has to be, on a thread that may wait for the disk, one at a time. Not while an agent is being
    /// started: that thread would take the processor from it, and what is due is done when it has started.
    fn sync(&mut self) -> Result<(), JournalError> {
        let Some(journal) = &mut self.drive.journal else { return Ok(()) };
        if !self.pending.sync_due || self.pending.spawn.is_some() || up(self.began) < SYNC_PATIENCE {
            return Ok(());
        }
        if self.pending.sync.as_ref().is_some_and(|sync| !sync.is_finished()) {
            return Ok(());
        }
        if let Some(mut sync) = self.pending.sync.take() {
            // It is done, so nobody has to be woken.
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(Ok(Err(error))) = Pin::new(&mut sync).poll(&mut context) {
                return Err(error);
            }
        }
        self.pending.sync_due = false;
        let sync = journal.pending_sync()?;
        self.pending.sync = Some(tokio::task::spawn_blocking(move || sync.run()));
        Ok(())
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.pending.ending |= Self::ends(&action);
            match action {
                Action::Prepare => {
                    let tree = self.drive.tree.take();
                    self.pending.preparation = tree.map(|tree| Box::pin(tree.snapshot()) as Preparation);
                }
                Action::Spawn(attempt) => {
                    // The engine may not have waited for it.
                    self.pending.preparation = None;
                    (self.pending.agent, self.pending.ending, self.pending.unread) = (None, false, 0);
                    self.pending.spawn = Some(self.drive.launch.spawn(attempt));
                }
                Action::Write(bytes) => {
                    self.pending.unread += bytes.len();
                    self.with_agent(|agent| agent.write(bytes));
                }
                Action::CloseStdin => self.with_agent(Agent::close_stdin),
                Action::Signal(signal, scope) => self.with_agent(|agent| agent.signal(signal, scope)),
                Action::KillTree => self.with_agent(Agent::kill_tree),
                Action::Sweep(grace) => {
                    self.with_agent(|agent| agent.sweep(Duration::from_millis(grace.0)));
                }
                Action::LookAtFiles => {
                    let before = self.pending.before.clone();
                    self.pending.files = Some(tokio::spawn(async move {
                        match before {
                            Some(before) => before.changes().await,
                            None => Ok(Vec::new()),
                        }
                    }));
                }
                Action::Done(ended) => self.pending.ended = Some(*ended),
            }
        }
    }

    /// Says whether an action ends the agent, or begins to.
    fn ends(action: &Action) -> bool {
        match action {
            Action::CloseStdin | Action::Signal(..) | Action::KillTree | Action::Sweep(_) => true,
            Action::Prepare | Action::Spawn(_) | Action::Write(_) | Action::LookAtFiles | Action::Done(_) => {
                false
            }
        }
    }

    fn with_agent(&self, act: impl FnOnce(&Agent)) {
        if let Some(agent) = &self.pending.agent {
            act(agent);
        }
    }
}

/// Says whether a timer woke us so late that we cannot have been running.
fn is_late(began: Instant, armed: Option<Millis>) -> bool {
    armed.is_some_and(|at| up(began) > at.plus(LATE))
}

/// Returns how long ago a run began.
fn up(began: Instant) -> Millis {
    Millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// Waits for room, if anybody watches.
async fn room(outlet: Option<&Outlet>) {
    if let Some(outlet) = outlet {
        outlet.room().await;
    }
}

/// Waits until somebody who shares the budget has used more.
async fn others(share: &mut Option<Share>) -> Amounts {
    match share {
        Some(share) => share.others().await,
        None => std::future::pending().await,
    }
}

/// Waits for something that may not be there: a look at the files, the start of an agent.
async fn waited<T>(what: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match what {
        Some(what) => what.await,
        None => std::future::pending().await,
    }
}

/// Waits for a task that may not be there.
async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Option<T> {
    match task {
        Some(task) => task.await.ok(),
        None => std::future::pending().await,
    }
}

/// Waits for a task, if there is one.
async fn finished_now<T>(task: Option<JoinHandle<T>>) -> Option<Result<T, tokio::task::JoinError>> {
    match task {
        Some(task) => Some(task.await),
        None => None,
    }
}

async fn next(agent: &mut Option<Agent>) -> Happening {
    match agent {
        Some(agent) => agent.next().await,
        None => std::future::pending().await,
    }
}
