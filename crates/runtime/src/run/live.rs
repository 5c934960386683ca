//! Live sessions: a conversation that takes prompts, steers and decisions while it lives, and goes on under the same id later.
//!
//! [`session`] and [`resume`] build one, [`LiveSession`] is the handle. Events are read from the journal, by any number of readers with a cursor
//! each ([`EventWatch`]); orders go through the cloneable [`Control`].

mod children;
mod fork;
mod resumed;
mod serve;
mod successor;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_process::check_runtime;
use bowline_protocol::{
    Event, Millis, OrderRefused, PermissionMode, Receipt, SessionId, SessionOrder, SessionSnapshot, WhenBusy,
};
use bowline_providers::prices::Row;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::run::approval::Approval;
use crate::run::attention::AlertFinder;
use crate::run::error::Error;
use crate::run::launch::{self, Watcher};
use crate::run::record::Record;
use crate::run::task::{AttemptContext, LiveOptions, Task, task};
use crate::run::turn_record::TurnRecord;
use crate::run::watch::{EventWatch, WatchedRun, WatchedRuns};
use crate::sessions::control::{self, Control};
use crate::sessions::journal::Home;
use crate::system::surroundings::Surroundings;
pub use children::StartChild;
pub use fork::SessionFork;
pub use resumed::resume;
pub use serve::{AttachedSession, attach, attach_in};
pub use successor::{Successor, SuccessorSlot};

/// How long an idle agent lives, unless the caller says otherwise.
pub const IDLE: Duration = Duration::from_mins(10);

/// Builds a live session with a provider.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use bowline::WhenBusy;
///
/// # let world = bowline::testing::world();
/// # world.provider("claude", bowline::testing::script(r#"{"session": "n-1", "prompts": [
/// #     [{"say": "Reading."}, {"steered": true}, {"say": "Fixed, without the tests."}, {"result": {}}],
/// #     [{"say": "Half of"}, {"hang": true}],
/// #     [{"say": "Good morning."}, {"result": {}}]]}"#));
/// let session = bowline::session("claude").name("thread-42");
/// # let session = session.with(|task| world.prepare(task));
/// let session = session.open().await?;
/// # let mut watch = session.watch_from(1)?;
/// session.send("Fix the parser").await?; // Started, Steered, or Queued
/// # while !matches!(watch.next().await?.unwrap().kind, bowline::Kind::TextDelta(_)) {}
/// session.control().send_prompt("and skip the tests", WhenBusy::Steer).await?; // from any task
/// let last = session.turn_over().await?;
/// println!("turn {}: {:?}", last.turn, last.outcome);
/// # assert_eq!(last.outcome, bowline::Outcome::Completed);
///
/// session.send("Write the changelog").await?;
/// # while !matches!(watch.next().await?.unwrap().kind, bowline::Kind::TextDelta(delta) if delta.text == "Half of") {}
/// session.interrupt().await?;
/// let last = session.turn_over().await?;
/// let partial = session.turn_record(last.turn)?.expect("it is over").text; // keeps the partial text
/// # assert_eq!(partial.as_deref(), Some("Half of"));
/// session.stop().await?;
///
/// // The next day.
/// let session = bowline::resume("thread-42");
/// # let session = session.with(|task| world.prepare(task));
/// let session = session.await?; // an error instead of a fresh session
/// session.send("Good morning").await?;
/// # session.control().cancel();
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub fn session(provider: impl Into<String>) -> SessionTask {
    SessionTask::of(task("").provider(provider))
}

/// A live session that is not open yet.
#[derive(Clone, Debug)]
#[must_use = "a session does nothing until it is opened"]
pub struct SessionTask {
    task: Task,
    idle: Option<Duration>,
    /// The session to resume, as a person writes it.
    resumes: Option<String>,
}

impl SessionTask {
    /// Makes a session of a task. If the task has a prompt, the session begins with it.
    pub fn of(task: Task) -> Self {
        Self { task: task.ask_a_person(), idle: Some(IDLE), resumes: None }
    }

    /// Changes the options that it shares with a task of one prompt.
    pub fn with(self, change: impl FnOnce(Task) -> Task) -> Self {
        Self { task: change(self.task), ..self }
    }

    /// Works in this directory instead of the current one.
    pub fn cwd(self, dir: impl AsRef<std::path::Path>) -> Self {
        self.with(|task| task.cwd(dir))
    }

    /// Sets a name by which people find it.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.with(|task| task.label(name))
    }

    /// Sets the model.
    pub fn model(self, model: impl Into<String>) -> Self {
        self.with(|task| task.model(model))
    }

    /// Sets what the agent may do without an approval.
    pub fn permission(self, mode: PermissionMode) -> Self {
        self.with(|task| task.permission(mode))
    }

    /// Denies an approval that waits for longer than this. Without it, approvals wait for as long as the session lives.
    pub fn approval_deadline(self, deadline: Duration) -> Self {
        self.with(|task| task.approval_deadline(deadline))
    }

    /// Sets after how long an idle agent is ended; the next prompt resumes it. `None` keeps it. Default: [`IDLE`].
    pub fn idle(self, idle: Option<Duration>) -> Self {
        Self { idle, ..self }
    }

    /// Resumes a Bowline session by its id, or a native session by the agent's own.
    pub fn resume(self, id: impl Into<bowline_protocol::NativeSessionId>) -> Self {
        self.with(|task| task.resume(id))
    }

    /// Keeps the journal in this data home instead of the user's, and looks for a session to resume there.
    pub fn home(self, home: Home) -> Self {
        self.with(|task| task.home(home))
    }

    /// Opens the session. Without a prompt, no agent is started before the first one is sent.
    ///
    /// Needs a tokio runtime, which drives the session. Dropping the handle stops the agent; [`LiveSession::detach`] opts out.
    ///
    /// # Errors
    ///
    /// As those of [`Task::start`].
    pub async fn open(self) -> Result<LiveSession, Error> {
        let Self { mut task, idle, resumes } = self;
        check_runtime()?;
        task.check_names()?;
        if let Some(name) = resumes {
            task = resumed::named(task, &name)?;
        }
        let idle = idle.map(|idle| Millis(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX)));
        // Without a prompt, the first plan is made all the same, so that wrong options are errors here. The plan for the first prompt
        // replaces it.
        task.live = Some(LiveOptions { idle });
        let cwd = task.request.cwd.clone().map_or_else(std::env::current_dir, |cwd| Ok(cwd.into()));
        let cwd = cwd.unwrap_or_default();
        let (control, inbox) = control::orders();
        let prices = task.settings.prices.clone();
        let task = task.captured();
        let variables = task.variables().clone();
        let template = Box::new(launch::template(&task));
        let context = AttemptContext::of_named(&task)?;
        let prepared = launch::prepare(
            task.watched_by(AlertFinder::of_session()),
            context,
            control.clone(),
            inbox,
            Watcher::No,
        );
        let prepared = Box::pin(prepared).await?;
        let run = prepared.watched();
        let prices = prices.into();
        let (told, done) = oneshot::channel();
        tokio::spawn(async move {
            // The caller may have dropped the handle.
            let _ = told.send(prepared.drive_to_the_end().await);
        });
        let successor = SuccessorSlot::default();
        Ok(LiveSession {
            run,
            control,
            cwd,
            prices,
            variables,
            template,
            done,
            service: Mutex::default(),
            successor,
            detached: false,
        })
    }
}

impl IntoFuture for SessionTask {
    type Output = Result<LiveSession, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// A live session of this process. Dropping it stops the agent and ends the stint; the session can be resumed.
#[derive(Debug)]
pub struct LiveSession {
    run: WatchedRun,
    control: Control,
    /// The directory in which paths of prompts are meant.
    cwd: PathBuf,
    /// The user's own prices.
    prices: Arc<[Row]>,
    /// The variables that the task captured: the directory of control sockets is in them.
    variables: Arc<Surroundings>,
    /// Its task, for a fork.
    template: Box<Task>,
    done: oneshot::Receiver<Result<Record, Error>>,
    /// Serves the control socket, if it is served.
    service: Mutex<Option<JoinHandle<()>>>,
    successor: SuccessorSlot,
    detached: bool,
}

impl LiveSession {
    /// Returns the id of the session.
    pub fn id(&self) -> &SessionId {
        &self.run.session
    }

    /// Returns the handle for orders, which other tasks can use.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Returns the directory of the session's journal.
    pub fn dir(&self) -> Option<&std::path::Path> {
        self.run.dir.as_deref()
    }

    /// Returns the number of the last event, and wakes its holder when there are more.
    pub fn head(&self) -> watch::Receiver<u64> {
        self.run.head.clone()
    }

    /// Sends a prompt: it begins a turn, or waits for the end of the running one.
    pub async fn send(&self, text: impl Into<String>) -> Result<Receipt, OrderRefused> {
        self.control.send_prompt(text, WhenBusy::Queue).await
    }

    /// Sends a prompt into the running turn. Too late is [`OrderRefused::TurnOver`]: the text is in no queue, and [`Self::send`]
    /// begins a turn with it.
    pub async fn steer(&self, text: impl Into<String>) -> Result<Receipt, OrderRefused> {
        self.control.send_prompt(text, WhenBusy::Steer).await
    }

    /// Ends the running turn, and keeps its partial text. The session goes on.
    pub async fn interrupt(&self) -> Result<(), OrderRefused> {
        self.control.order(SessionOrder::Interrupt).await.map(drop)
    }

    /// Returns the approval that an event asks for, as a value that decides it.
    pub fn approval(&self, event: &Event) -> Option<Approval> {
        Approval::of(event, &self.control)
    }

    /// Returns the state, the queue, and what waits for a person.
    pub async fn snapshot(&self) -> Option<SessionSnapshot> {
        self.control.snapshot().await
    }

    /// Returns the events from a number on, also those of earlier stints. Any number of watchers can read, each at its own pace.
    ///
    /// # Errors
    ///
    /// [`Error::NoJournal`] if the session keeps no journal.
    pub fn watch_from(&self, seq: u64) -> Result<EventWatch, Error> {
        WatchedRuns::one(self.run.clone()).watch_from(seq)
    }

    /// Returns the record of a turn that has ended, also one of an earlier stint: its answer, usage, cost, files and refusals. None if
    /// no such turn has ended.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let world = bowline::testing::world();
    /// # world.provider("claude", bowline::testing::says("Done."));
    /// # let session = bowline::session("claude").with(|task| world.prepare(task)).open().await?;
    /// session.send("Fix the parser").await?;
    /// let last = session.turn_over().await?;
    /// let record = session.turn_record(last.turn)?.expect("it is over");
    /// println!("{:?}: {:?} USD, {} files", record.text, record.cost, record.files.len());
    /// # assert_eq!(record.text.as_deref(), Some("Done."));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoJournal`] if the session keeps no journal; its watches can use a [`TurnRecorder`](crate::TurnRecorder).
    pub fn turn_record(&self, turn: u32) -> Result<Option<TurnRecord>, Error> {
        TurnRecord::read(self.dir().ok_or(Error::NoJournal)?, turn, &self.prices)
    }

    /// Waits until no turn runs and no prompt waits, and returns the last turn.
    ///
    /// # Errors
    ///
    /// [`OrderRefused::TurnOver`] if no turn ever ran, [`OrderRefused::Stopping`] if the session is over.
    pub async fn turn_over(&self) -> Result<bowline_protocol::LastTurn, OrderRefused> {
        let mut head = self.head();
        loop {
            head.mark_unchanged();
            let snapshot = self.snapshot().await.ok_or(OrderRefused::Stopping)?;
            if snapshot.is_at_rest() {
                return snapshot.last_turn.ok_or(OrderRefused::TurnOver);
            }
            // Each change of the state is an event.
            if head.changed().await.is_err() {
                return Err(OrderRefused::Stopping);
            }
        }
    }

    /// Returns the place in which the runner that takes the session over is found when the stint is over.
    pub fn successor(&self) -> SuccessorSlot {
        self.successor.clone()
    }

    /// Waits for the end of the session, and returns the record of the stint.
    pub async fn over(mut self) -> Result<Record, Error> {
        self.detached = true;
        let record = (&mut self.done).await.unwrap_or(Err(Error::Lost));
        // Otherwise a runner that ends at once would leave its socket behind, and its clients without their last lines. Clients that
        // do not read delay this by at most a second.
        let service = self.service.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(service) = service
            && let Err(error) = service.await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "the control socket ended early");
        }
        record
    }

    /// Ends the agent and the stint, and waits until every process is gone.
    pub async fn stop(self) -> Result<Record, Error> {
        self.control.cancel();
        self.over().await
    }

    /// Lets the session go on without the handle, as long as the runtime does.
    pub fn detach(mut self) -> Control {
        self.detached = true;
        self.control.clone()
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        if !self.detached {
            self.control.kill();
        }
    }
}
