//! From a task to a run: looks up the provider, builds the command, opens the journal and starts the driver.

mod attempt;
mod driver;
mod journal;
mod next_life;
mod plan;
mod replan;
mod resumed;
mod side_files;
mod spec;
mod spending;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_engine::{LivePlan, Numbering, RunPlan, Session};
use bowline_process as process;
use bowline_protocol::kinds::Notice;
use bowline_protocol::{Kind, RawFile, SessionId};
use bowline_providers::invocation::{Invocation, Preview};
use bowline_providers::manifest::run::HostOffer;
use tokio::sync::oneshot;

use attempt::attempt;
pub(crate) use next_life::{NextLife, Planner, template};
use plan::PlanFacts;
pub(crate) use replan::{Replanner, SecondPlan};
pub(crate) use resumed::home as journal_home_of;
use side_files::SideFiles;
use spec::{RunSpec, into_container, known_program, texts};

use crate::agents::command::{command, located};
use crate::agents::detect;
use crate::run::agent::Launch;
use crate::run::callback::SharedCallback;
use crate::run::drive::Drive;
use crate::run::error::{Error, ResumeGap};
use crate::run::git::Tree;
use crate::run::policy::PolicyDesk;
use crate::run::record::Record;
use crate::run::subscribe::{EventStream, event_channel};
use crate::run::task::{AttemptContext, JournalChoice, RetriedAttempt, Task};
use crate::run::turn::Turn;
use crate::run::watch::{WatchedRun, WatchedRuns};
use crate::sessions::budget::SpendTracker;
use crate::sessions::control::{self, Control, OrderInbox};
use crate::sessions::journal::{Home, JournalEnd, SessionHold, Writer, new_session_id};
use crate::sessions::session_monitor::{self, MonitorGuard, MonitorPace, MonitoredRun};
use crate::system::clock;
use crate::system::container::Inside;
use crate::system::host;
use crate::system::host::Cleanup;
pub(crate) use driver::{Driver, completed, named_manifest, wish};

/// Starts a task and returns the turn.
pub(crate) async fn start(task: Task) -> Result<Turn, Error> {
    let (control, inbox) = control::orders();
    let mut prepared =
        Box::pin(prepare(task, AttemptContext::default(), control.clone(), inbox, Watcher::Yes)).await?;
    let receiver = prepared.receiver.take().ok_or(Error::Lost)?;
    let session = prepared.drive.session.clone();
    let runs = WatchedRuns::one(prepared.watched());
    let (told, done) = oneshot::channel();
    tokio::spawn(async move {
        // The caller may have dropped the receiver.
        let _ = told.send(prepared.drive_to_the_end().await);
    });
    Ok(Turn::new(session, EventStream::one(receiver), runs, control, done))
}

/// Runs a task to its end, without a subscriber.
///
/// Dropping the future drops the run, which kills the child. The future does not store the task, which is consumed when the
/// run is prepared.
pub(crate) fn run(task: Task) -> impl Future<Output = Result<Record, Error>> + Send {
    let (control, inbox) = control::orders();
    let prepared = Box::pin(prepare(task, AttemptContext::default(), control, inbox, Watcher::No));
    async move { prepared.await?.drive_to_the_end().await }
}

/// Returns the command that would be started.
pub(crate) fn preview(task: &Task, context: &AttemptContext) -> Result<Preview, Error> {
    let driver = Driver::of(task, context)?;
    let task = &mut task.clone();
    task.check_tools()?;
    resumed::translate(task, driver.name())?;
    let mut request = completed(task, &driver, task.chosen_model(), task.profile.as_ref())?;
    task.describe_tools(&mut request);
    let known = known_program(task, driver.manifest());
    let mut invocation = driver.invoke(task, &request, &known, task.streaming)?;
    invocation.find_secrets(&texts(task), task.env_of_request());
    if let Some(container) = &request.docker {
        let session = new_session_id(clock::wall(), host::random());
        invocation = into_container(invocation, container, &session, task)?;
    }
    Ok(invocation.preview())
}

/// Whether the run has a subscriber.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    Yes,
    No,
}

/// A run that is ready to start.
pub(crate) struct Prepared {
    /// Boxed: it is moved often, and every future on the way would have to store it.
    pub(crate) drive: Box<Drive>,
    pub(crate) receiver: Option<crate::run::subscribe::EventReceiver>,
}

impl Prepared {
    /// Describes the run for watches.
    pub(crate) fn watched(&self) -> WatchedRun {
        let Drive { session, first_seq, journal, head, cleanup, .. } = &*self.drive;
        WatchedRun {
            session: session.clone(),
            dir: journal.as_ref().map(|journal| journal.dir().to_owned()),
            first_seq: *first_seq,
            head: head.subscribe(),
            cleanup: Some(cleanup.clone()),
        }
    }

    /// Drives the run to its end.
    pub(crate) async fn drive_to_the_end(self) -> Result<Record, Error> {
        self.drive.drive_to_the_end().await
    }
}

/// Prepares a run: decides everything about it, opens its journal, writes its files and makes its plan.
pub(crate) async fn prepare(
    mut task: Task,
    mut context: AttemptContext,
    control: Control,
    orders: OrderInbox,
    watcher: Watcher,
) -> Result<Prepared, Error> {
    task.continues = context.continues.as_ref().map(|it| it.session.clone()).or(task.continues.take());
    #[cfg(feature = "testing")]
    let cast = task.cast.clone();
    let host_server = task.serve_tools(&mut context).await?;
    // Boxed: every future on the way would have to store it.
    let spec = Box::pin(RunSpec::of(&mut task, &context)).await?;
    // An attempt of the router has the share of its request, with what earlier attempts used.
    let share = context.share.take().or_else(|| task.share.take());
    // Before the journal: a task that is over its budget leaves no session behind.
    let (mut spend, budget, unread) = spending::open(&task, &context, &spec, share.as_ref())?;
    let mut cleanup = Cleanup::default();
    // Declared before the journal, so that it is dropped after it.
    let mut unstarted = Unstarted::default();
    let opened = journal::open(&task, &context, &spec, &mut cleanup).await?;
    let (journal, end) = unstarted.opened(opened, &spec.session, &mut spend);
    check_history(&task, &spec, end.as_ref())?;
    let mut cleanup_files = Cleanup::default();
    // After the journal: in the session's directory, the cleanup after a killed runner finds these files.
    let side_files = SideFiles::of(&spec.session, journal.as_ref());
    side_files.write(&spec.invocations, &mut cleanup_files)?;
    let attempts = plan::attempts(&spec.invocations, &task);
    let (launch, tree) = launch(&mut task, &spec, side_files.dir()).await?;
    let policy = policy_desk(&task, journal.as_ref())?;
    let (notices, opening) = first_reports(&mut task, &mut context, &spec, unread);
    let before = context.continues.take();
    let numbering = numbering(end.as_ref(), before.as_ref(), &launch);
    let (delay, files) = (context.delay, tree.is_some());
    let plan =
        plan::plan(&spec, &task, PlanFacts { numbering, attempts, notices, opening, delay, budget, files });
    let planner = task.live.map(|_| Planner::of(&task, &context, &spec.session, &side_files));
    #[cfg(feature = "testing")]
    let planner = planner.map(|it| if task.first_prompt().is_none() { it.play_all(cast) } else { it });
    let live = task.live.map(|live| next_life::live_plan(live, &plan, end.as_ref()));
    let replanned_from = plan.capabilities.clone().filter(|_| plan.replannable);
    let dir = journal.as_ref().map(|journal| journal.dir().to_owned());
    // A temporary journal is deleted behind the last attempt, and not behind the one that created it.
    let cleanup = before.map_or_else(|| Arc::new(cleanup), |before| before.cleanup);
    let alerts = task.alerts.take().map(|alerts| (alerts, control.clone()));
    let watched = monitored(&task, &spec, &plan, dir.clone().filter(|dir| !cleanup.covers(dir)), control);
    let channel = (watcher == Watcher::Yes).then(|| event_channel(dir, cleanup.clone(), numbering.next_seq));
    let (sender, receiver) = channel.unzip();
    let RunSpec { session, driver, request, succession, .. } = *spec;
    let (callback, excerpt_limit) = (task.callback.take(), task.excerpt_limit);
    let replanner = replanned_from.map(|capabilities| {
        let session = session.clone();
        Box::new(Replanner { task, driver, request, session, side_files, capabilities })
    });
    let drive = Box::new(Drive {
        session,
        first_seq: numbering.next_seq,
        engine: engine(plan, live),
        launch,
        journal,
        sender,
        callback: callback.map(SharedCallback::into_callback),
        alerts,
        excerpt_limit,
        orders,
        tree,
        cleanup,
        side_files: cleanup_files,
        spend: Some(spend),
        share,
        succession,
        replanner,
        planner,
        policy,
        host_server,
        head: tokio::sync::watch::Sender::new(numbering.next_seq - 1),
        _watched: watched,
    });
    unstarted.hold = None;
    Ok(Prepared { drive, receiver })
}

/// Refuses a session of many turns whose agent never named its own one.
fn check_history(task: &Task, spec: &RunSpec, end: Option<&JournalEnd>) -> Result<(), Error> {
    if let Some(end) = end.filter(|end| task.needs_history && end.next_turn > 1)
        && end.native_session.is_none()
    {
        // Its agent would begin a fresh conversation under the same id.
        let (session, gap) = (spec.session.clone(), ResumeGap::NoNativeSession);
        return Err(Error::NotResumable { session, gap, source: None });
    }
    Ok(())
}

/// Collects what the judgements of a run need, if policies are in force.
fn policy_desk(task: &Task, journal: Option<&Writer>) -> Result<Option<Arc<PolicyDesk>>, Error> {
    let Some(source) = task.all_policies()? else { return Ok(None) };
    let home = task.variables().get("HOME").map(PathBuf::from);
    let data = journal.and_then(|journal| journal.dir().parent()?.parent().map(Path::to_owned));
    let own = data.into_iter().chain(std::env::current_exe().ok()).collect();
    Ok(Some(Arc::new(PolicyDesk { source, own, home })))
}

/// Makes the engine of a run.
fn engine(plan: RunPlan, live: Option<LivePlan>) -> Session {
    match live {
        Some(live) => Session::live(plan, live),
        None => Session::of_one_prompt(plan),
    }
}

/// Has the monitor watch a run. `known` is its directory, if other processes can find it there: only this process knows of a journal
/// that is deleted with the run.
fn monitored(
    task: &Task,
    spec: &RunSpec,
    plan: &RunPlan,
    known: Option<PathBuf>,
    control: Control,
) -> MonitorGuard {
    // The wait before the start does not count.
    let limit = plan.attempts[0].limits.total.filter(|_| task.is_limited_from_its_start());
    session_monitor::watch(MonitoredRun {
        session: spec.session.clone(),
        key: spec.request.key.clone(),
        label: task.label.clone(),
        home: known.as_ref().and_then(|dir| dir.parent()?.parent()).map(Home::at),
        dir: known,
        prices: task.settings.prices.clone().into(),
        variables: task.variables().clone(),
        control,
        since: clock::since_boot(),
        limit: limit.map(|limit| limit.plus(plan.delay)),
        pace: if task.sole && task.live.is_some() { MonitorPace::Round } else { MonitorPace::Tick },
    })
}

/// Returns what a run reports before its agent starts: notices, and the events that the journal begins with.
fn first_reports(
    task: &mut Task,
    context: &mut AttemptContext,
    spec: &RunSpec,
    unread: Vec<Notice>,
) -> (Vec<Notice>, Vec<Kind>) {
    let mut notices = std::mem::take(&mut task.notices);
    notices.extend_from_slice(&spec.invocations[0].notices);
    notices.extend(unread);
    let mut opening = std::mem::take(&mut context.opening);
    opening.extend(driver::lost(task, &spec.driver).map(Kind::CapabilityDegraded));
    (notices, opening)
}

/// Returns where the numbers of a run begin: behind those of the session or of the attempt that it continues.
fn numbering(end: Option<&JournalEnd>, before: Option<&RetriedAttempt>, launch: &Launch) -> Numbering {
    // The journal knows best. A run without one goes on behind the attempt before it.
    let Some(end) = end else { return before.map(|before| before.numbering).unwrap_or_default() };
    let output = if launch.is_terminal() { RawFile::Pty } else { RawFile::Stdout };
    Numbering {
        next_seq: end.next_seq,
        next_turn: end.next_turn,
        stdout: end.raw_len(output),
        stderr: end.raw_len(RawFile::Stderr),
    }
}

/// A session that was opened again, until its run is ready. If the preparation fails, the session is as before.
#[derive(Default)]
struct Unstarted {
    hold: Option<SessionHold>,
}

impl Unstarted {
    /// Takes apart an opened journal. Puts the session that it continues under its guard, and has the spending go on with it.
    fn opened(
        &mut self,
        opened: Option<journal::OpenJournal>,
        session: &SessionId,
        spend: &mut SpendTracker,
    ) -> (Option<Writer>, Option<JournalEnd>) {
        let (journal, end) = opened.map_or((None, None), |opened| (Some(opened.writer), opened.end));
        if let (Some(journal), Some(end)) = (&journal, &end) {
            spend.continues(session, end.next_seq);
            self.hold = Some(journal.hold());
        }
        (journal, end)
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        let Some(hold) = &self.hold else { return };
        // No event was written, so this restores the state in `session.json` and removes the mark.
        if let Err(error) = hold.repair(clock::wall()) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(dir = %hold.dir().display(), error, "a session that could not be resumed is not in order");
        }
    }
}

/// Prepares the commands, and finds the working tree whose files are compared.
async fn launch(task: &mut Task, spec: &RunSpec, scratch: &Path) -> Result<(Launch, Option<Tree>), Error> {
    let RunSpec { session, driver, invocations, .. } = spec;
    let manifest = driver.manifest();
    #[cfg(feature = "testing")]
    if let Some(script) = task.script.take() {
        return Ok((Launch::Script(script.with_tools(task.host_tools.clone())), None));
    }
    let supervisor = host::supervisor()?;
    let mut commands: Vec<process::Command> = invocations
        .iter()
        .map(|invocation| command(invocation, session, scratch, task.variables()))
        .collect();
    let mut install = None;
    if let Some(manifest) = manifest {
        commands.iter_mut().for_each(|command| command.stdout_room = manifest.run.stdout_room);
    }
    if let Some(manifest) = manifest.filter(|_| task.request.docker.is_none()) {
        located(&mut commands, manifest, task.binary.as_deref(), task.variables()).await;
        install = task.binary.is_none().then(|| detect::install_remedies(manifest));
    }
    let offers_terminals = |it: &Invocation| {
        it.conversation.as_ref().is_some_and(|talk| talk.host_terminals == HostOffer::Offered)
    };
    // Behind `located`, which may have changed the search path.
    let shell = invocations.iter().zip(&commands).find(|(it, _)| offers_terminals(it)).map(|(_, command)| {
        let env = command.env.clone();
        Box::new(process::Command { env, ..process::Command::new("", session.as_str()) })
    });
    let inside = task.request.docker.clone().map(|container| {
        let provider = &invocations[0].provider;
        Box::new(Inside::new(supervisor.clone(), provider, &container, session, task.variables()))
    });
    let home = match &task.journal {
        JournalChoice::At(home) => Some(home),
        JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => None,
    };
    let cwd = spec.request.cwd.as_deref().map(Path::new);
    let tree =
        cwd.filter(|_| task.files).and_then(|cwd| Tree::around(&supervisor, cwd, home, task.variables()));
    Ok((Launch::Processes { supervisor, commands, install, inside, shell }, tree))
}
