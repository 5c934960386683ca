//! The one task that owns a run: it carries out what the engine decides, and tells it what happened.
//!
//! The order is what makes a journal trustworthy: bytes go to the raw file before anything looks at them; events
//! go to the journal before anybody sees them; only then is anything done.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bowline_engine::{Action, Ended, Input, Now, Run, SpawnFailure, Step};
use bowline_protocol::kinds::{Level, Notice, Outcome, SessionState, TouchedFile};
use bowline_protocol::{Event, Failure, Kind, Millis, RawFile, SessionId};
use bowline_providers::views::Digest;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::agent::{Agent, Happening, Launch};
use crate::git::Snapshot;
use crate::host::Cleanup;
use crate::hub::Outlet;
use crate::journal::{JournalError, Writer};
use crate::record::Record;
use crate::turn::Order;
use crate::warden::Watched;
use crate::{Error, clock, launch, trouble};

/// Somebody who is told of each event as it becomes public.
pub(crate) type Callback = Box<dyn FnMut(&Event) + Send>;

/// All that a run is driven with.
pub(crate) struct Drive {
    pub(crate) session: SessionId,
    pub(crate) run: Run,
    pub(crate) launch: Launch,
    pub(crate) journal: Option<Writer>,
    pub(crate) outlet: Option<Outlet>,
    pub(crate) callback: Option<Callback>,
    pub(crate) orders: mpsc::Receiver<Order>,
    /// The files as they were before, if anybody wants to know.
    pub(crate) before: Option<Snapshot>,
    /// Directories that go when the run is over and its events are read.
    pub(crate) cleanup: Arc<Cleanup>,
    /// Somebody looks after it as long as it is driven.
    pub(crate) _watched: Watched,
}

/// What the loop waits for besides the child.
#[derive(Default)]
struct Pending {
    spawn: Option<JoinHandle<Result<Agent, Failure>>>,
    files: Option<JoinHandle<Result<Vec<TouchedFile>, String>>>,
    agent: Option<Agent>,
    /// Whether the journal refused something: from then on only what says how it ended is written, and shown.
    closing: bool,
    /// How many events were never written since the last one that was.
    lost: u64,
    /// Whether the journal does not even take the end: it is only shown.
    given_up: bool,
    /// A sync that is going on. What is written is safe from the end of this process at once; a sync makes it safe from
    /// a loss of power, and nobody has to wait for that until the record is given out.
    sync: Option<JoinHandle<Result<(), JournalError>>>,
    /// Whether more was written that has to be made durable.
    sync_due: bool,
    /// Events that are only in memory and wait for a watcher who has no room. As long as there are any, the agent is not
    /// read, so that its pipe holds it back; but whoever stops it is heard.
    backlog: VecDeque<Vec<Event>>,
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

/// What woke the loop.
enum Woken {
    Order(Option<Order>),
    Spawned(Result<Agent, Box<Failure>>),
    Happening(Happening),
    Files(Result<Vec<TouchedFile>, String>),
    Timer,
    /// The watcher has room.
    Room,
}

impl Drive {
    /// Drives the run to its end.
    pub(crate) async fn drive_to_the_end(self) -> Result<Record, Error> {
        let span = tracing::info_span!("run", session = %self.session);
        let drive = async {
            let record = self.drive().await?;
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

    async fn drive(mut self) -> Result<Record, Error> {
        // Tokio's clock, so that a test which has paused it waits for nothing.
        let began = Instant::now();
        let mut step = Step::default();
        let mut digest = Digest::default();
        let mut pending = Pending::default();
        let mut orders_open = true;
        self.handle(Input::Begin, began, &mut step, &mut pending, &mut digest);
        let timer = tokio::time::sleep(Duration::from_secs(86_400));
        tokio::pin!(timer);
        let mut armed = None;
        while pending.ended.is_none() {
            let deadline = self.run.deadline();
            // Output moves the deadline all the time; a timer that is too early costs one look at the clock.
            if armed.is_none_or(|armed| deadline.is_none_or(|deadline| deadline < armed)) {
                let at = deadline.unwrap_or(Millis(u64::from(u32::MAX)));
                timer.as_mut().reset(began + Duration::from_millis(at.0));
                armed = Some(at);
            }
            let held = pending.holds_back();
            let woken = tokio::select! {
                biased;
                order = self.orders.recv(), if orders_open => Woken::Order(order),
                agent = finished(&mut pending.spawn), if pending.spawn.is_some() => {
                    pending.spawn = None;
                    Woken::Spawned(match agent {
                        Some(agent) => agent.map_err(Box::new),
                        None => Err(Box::new(trouble::lost())),
                    })
                }
                () = room(self.outlet.as_ref()), if !pending.backlog.is_empty() => Woken::Room,
                happening = next(&mut pending.agent), if pending.agent.is_some() && !held => Woken::Happening(happening),
                files = finished(&mut pending.files), if pending.files.is_some() => {
                    pending.files = None;
                    Woken::Files(files.unwrap_or_else(|| Err("it was not looked at".to_owned())))
                }
                // An agent that is held back is silent through no fault of its own.
                () = &mut timer, if !held => Woken::Timer,
            };
            match woken {
                Woken::Order(Some(order)) => {
                    let input = match order {
                        Order::Command(command) => Input::Command(command),
                        Order::GiveUp(failure) => Input::Trouble(*failure),
                    };
                    self.handle(input, began, &mut step, &mut pending, &mut digest);
                }
                Woken::Order(None) => orders_open = false,
                Woken::Spawned(Ok(agent)) => {
                    let (pid, containment) = (agent.pid(), agent.containment());
                    pending.agent = Some(agent);
                    let input = Input::Spawned { pid, containment };
                    self.handle(input, began, &mut step, &mut pending, &mut digest);
                }
                Woken::Spawned(Err(failure)) => {
                    let input = Input::SpawnFailed(SpawnFailure { failure: *failure });
                    self.handle(input, began, &mut step, &mut pending, &mut digest);
                }
                Woken::Happening(happening) => {
                    self.happened(&happening, began, &mut step, &mut pending, &mut digest);
                }
                Woken::Files(Ok(files)) => {
                    self.handle(Input::Files(files), began, &mut step, &mut pending, &mut digest);
                }
                Woken::Files(Err(why)) => {
                    let text = format!("which files changed is not known: {why}");
                    let notice = Notice { level: Level::Warn, text, code: None };
                    self.handle(Input::Remark(notice), began, &mut step, &mut pending, &mut digest);
                    self.handle(Input::Files(Vec::new()), began, &mut step, &mut pending, &mut digest);
                }
                Woken::Room => self.give_on(&mut pending),
                Woken::Timer => {
                    armed = None;
                    self.handle(Input::Timer, began, &mut step, &mut pending, &mut digest);
                }
            }
        }
        while !pending.backlog.is_empty() {
            room(self.outlet.as_ref()).await;
            self.give_on(&mut pending);
        }
        if let Some(Ok(Err(error))) = finished_now(pending.sync.take()).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the journal may not survive a loss of power"
            );
        }
        let ended = pending.ended.take().ok_or(Error::Lost)?;
        self.finish(&digest, ended, began.elapsed())
    }

    /// Takes what happened to the child: bytes go to the journal first.
    fn happened(
        &mut self,
        happening: &Happening,
        began: Instant,
        step: &mut Step,
        pending: &mut Pending,
        digest: &mut Digest,
    ) {
        let raw = match happening {
            Happening::Stdout { bytes, at } => Some((RawFile::Stdout, *at, bytes)),
            Happening::Stderr { bytes, at } => Some((RawFile::Stderr, *at, bytes)),
            Happening::StdinWritten { bytes, at } => Some((RawFile::Stdin, *at, bytes)),
            Happening::StdoutClosed
            | Happening::StderrClosed
            | Happening::Exited(_)
            | Happening::Swept(_)
            | Happening::Trouble(_) => None,
        };
        if let (Some((file, at, bytes)), Some(journal), false) = (raw, &mut self.journal, pending.closing)
            && let Err(error) = journal.raw(file, at, bytes)
        {
            pending.closing = true;
            let input = Input::Trouble(trouble::of_journal(&error));
            self.handle(input, began, step, pending, digest);
        }
        let input = match happening {
            Happening::Stdout { bytes, .. } => Input::Stdout(bytes),
            Happening::Stderr { bytes, .. } => Input::Stderr(bytes),
            Happening::StdinWritten { .. } => return,
            Happening::StdoutClosed => Input::StdoutClosed,
            Happening::StderrClosed => Input::StderrClosed,
            Happening::Exited(exit) => Input::Exited(*exit),
            Happening::Swept(survivors) => Input::Swept(survivors.clone()),
            Happening::Trouble(failure) => Input::Trouble(failure.clone()),
        };
        self.handle(input, began, step, pending, digest);
    }

    /// Tells the run what happened, makes its events public and does what it wants.
    fn handle(
        &mut self,
        input: Input<'_>,
        began: Instant,
        step: &mut Step,
        pending: &mut Pending,
        digest: &mut Digest,
    ) {
        step.clear();
        let up = Millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        self.run.handle(input, Now { wall: clock::wall(), up }, step);
        if let Err(error) = self.publish(step, pending, digest) {
            // From here on only what says how it ended is written.
            pending.closing = true;
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
            self.run.handle(input, Now { wall: clock::wall(), up }, &mut after);
            if self.publish(&mut after, pending, digest).is_err() {
                tracing::error!("the journal takes no events any more");
            }
            self.carry_out(actions, pending);
            self.carry_out(after.actions, pending);
            return;
        }
        let actions = std::mem::take(&mut step.actions);
        self.carry_out(actions, pending);
    }

    /// Writes events to the journal, then shows them.
    fn publish(
        &mut self,
        step: &mut Step,
        pending: &mut Pending,
        digest: &mut Digest,
    ) -> Result<(), JournalError> {
        if step.events.is_empty() {
            return Ok(());
        }
        let mut events = std::mem::take(&mut step.events);
        match &mut self.journal {
            Some(journal) if pending.closing => events = write_the_end(journal, events, pending),
            Some(journal) => {
                if let Err(error) = journal.events(&events) {
                    // What is not on file is not public: otherwise a watcher knows numbers that the journal gives
                    // to other events. A gap says how many there were.
                    pending.lost += events.len() as u64;
                    return Err(error);
                }
            }
            None => {}
        }
        for event in &events {
            digest.event(event);
            if let Some(callback) = &mut self.callback {
                callback(event);
            }
        }
        pending.sync_due |= step.durable && !pending.closing;
        match &self.outlet {
            Some(outlet) => {
                // An end that could not be written is true all the same: who watches still sees it.
                let on_file = outlet.has_journal() && !pending.given_up;
                if on_file && pending.backlog.is_empty() {
                    outlet.put(events);
                } else {
                    pending.backlog.push_back(events);
                    self.give_on(pending);
                }
            }
            None => {
                // The room is used again.
                events.clear();
                step.events = events;
            }
        }
        // Events that are on file are shown, whatever becomes of the sync.
        if pending.sync_due { self.sync(pending) } else { Ok(()) }
    }

    /// Gives on what is only in memory, as far as there is room.
    fn give_on(&self, pending: &mut Pending) {
        let Some(outlet) = &self.outlet else { return pending.backlog.clear() };
        while let Some(events) = pending.backlog.pop_front() {
            if let Some(events) = outlet.offer(events) {
                return pending.backlog.push_front(events);
            }
        }
    }

    /// Makes what was written durable, on a thread that may wait for the disk, one at a time.
    fn sync(&mut self, pending: &mut Pending) -> Result<(), JournalError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if pending.sync.as_ref().is_some_and(|sync| !sync.is_finished()) {
            return Ok(());
        }
        if let Some(mut sync) = pending.sync.take() {
            // It is done, so nobody has to be woken.
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(Ok(Err(error))) = Pin::new(&mut sync).poll(&mut context) {
                return Err(error);
            }
        }
        pending.sync_due = false;
        let sync = journal.pending_sync()?;
        pending.sync = Some(tokio::task::spawn_blocking(move || sync.run()));
        Ok(())
    }

    fn carry_out(&mut self, actions: Vec<Action>, pending: &mut Pending) {
        for action in actions {
            pending.ending |= Self::ends(&action);
            match action {
                Action::Spawn(attempt) => {
                    (pending.agent, pending.ending) = (None, false);
                    pending.spawn = Some(self.launch.spawn(attempt));
                }
                Action::Write(bytes) => self.with_agent(pending, |agent| agent.write(bytes)),
                Action::CloseStdin => self.with_agent(pending, Agent::close_stdin),
                Action::Signal(signal, scope) => {
                    self.with_agent(pending, |agent| agent.signal(signal, scope))
                }
                Action::KillTree => self.with_agent(pending, Agent::kill_tree),
                Action::Sweep => self.with_agent(pending, Agent::sweep),
                Action::LookAtFiles => {
                    let before = self.before.clone();
                    pending.files = Some(tokio::spawn(async move {
                        match before {
                            Some(before) => before.changes().await,
                            None => Ok(Vec::new()),
                        }
                    }));
                }
                Action::Done(ended) => pending.ended = Some(*ended),
            }
        }
    }

    /// Says whether an action ends the agent, or begins to.
    fn ends(action: &Action) -> bool {
        match action {
            Action::CloseStdin | Action::Signal(..) | Action::KillTree | Action::Sweep => true,
            Action::Spawn(_) | Action::Write(_) | Action::LookAtFiles | Action::Done(_) => false,
        }
    }

    fn with_agent(&self, pending: &Pending, act: impl FnOnce(&Agent)) {
        if let Some(agent) = &pending.agent {
            act(agent);
        }
    }

    fn finish(mut self, digest: &Digest, ended: Ended, took: Duration) -> Result<Record, Error> {
        let mut dir = None;
        if let Some(mut journal) = self.journal.take() {
            dir = Some(journal.dir().to_owned());
            let completed = ended.outcome == Outcome::Completed;
            let native = digest.native_session().cloned();
            let set = journal.set_meta(|meta| {
                meta.state = if completed { SessionState::Completed } else { SessionState::Failed };
                meta.native_session = native.or(meta.native_session.take());
            });
            let closed = set.and_then(|()| journal.close());
            if let Err(error) = closed {
                tracing::warn!(error = &error as &dyn std::error::Error, "the journal was not closed well");
            }
        }
        let mut record = Record::new(self.session.clone(), dir, digest, ended, took);
        if let Some(dir) = record.journal.take_if(|dir| self.cleanup.covers(dir)) {
            // It goes with the run, so what is only there has to be taken along.
            record.text = record.text.take().or_else(|| last_words(&dir));
        }
        Ok(record)
    }
}

/// Reads an answer that was too long to be held, from a journal that is about to go.
fn last_words(dir: &Path) -> Option<String> {
    match launch::text_from_journal(dir) {
        Ok(text) => Some(text),
        Err(_) => {
            // Without the error: what is damaged is quoted in it, and that is what somebody said.
            tracing::warn!("an answer that was too long for memory could not be read back from the journal");
            None
        }
    }
}

/// Waits for room, if anybody watches.
async fn room(outlet: Option<&Outlet>) {
    if let Some(outlet) = outlet {
        outlet.room().await;
    }
}

/// Writes what says how a run ended behind what is on file, and returns it as it can be shown.
fn write_the_end(journal: &mut Writer, mut events: Vec<Event>, pending: &mut Pending) -> Vec<Event> {
    let all = events.len();
    // An agent may go on for as long as it takes to end it; the room that is kept is not for what it says.
    events.retain(|event| is_of_the_end(&event.kind));
    pending.lost += (all - events.len()) as u64;
    if events.is_empty() {
        return events;
    }
    let first = journal.last_seq() + 1 + pending.lost;
    for (event, seq) in events.iter_mut().zip(first..) {
        event.seq = seq;
    }
    if !pending.given_up {
        match journal.closing(events.clone()) {
            Ok(written) => {
                pending.lost = 0;
                return written;
            }
            Err(error) => {
                pending.given_up = true;
                tracing::error!(error = &error as &dyn std::error::Error, "the end is not in the journal");
            }
        }
    }
    pending.lost += events.len() as u64;
    events
}

/// Says whether events of this kind tell how a run ended.
fn is_of_the_end(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::TurnStarted(_)
            | Kind::TurnEnded(_)
            | Kind::SessionStateChanged(_)
            | Kind::SessionEnded(_)
            | Kind::ProcessSpawned(_)
            | Kind::ProcessReaped(_)
            | Kind::ProcessLeaked(_)
            | Kind::FallbackTaken(_)
            | Kind::FilesTouched(_)
            | Kind::Notice(_)
    )
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
