//! From a task to a run: looks up the provider, builds the command, opens the journal and starts the driver.

mod attempt;
mod driver;
mod plan;
mod replan;
mod resumed;
mod side_files;
mod spending;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_engine::Run;
use bowline_process as process;
use bowline_protocol::kinds::SessionState;
use bowline_protocol::{Kind, Request, SessionId};
use bowline_providers::conversation::protocol_client;
use bowline_providers::invocation::docker::{self, Container};
use bowline_providers::invocation::{Invocation, Preview, Refusal, Streaming};
use bowline_providers::manifest::Manifest;
use tokio::sync::{mpsc, oneshot};

use attempt::attempt;
use plan::PlanFacts;
pub(crate) use replan::{Replanner, SecondPlan};
use side_files::SideFiles;

use crate::agents::command::{command, located};
use crate::agents::detect;
use crate::agents::installed::{self, KnownProgram};
use crate::run::agent::Launch;
use crate::run::callback::SharedCallback;
use crate::run::drive::Drive;
use crate::run::error::Error;
use crate::run::git::Tree;
use crate::run::record::Record;
use crate::run::subscribe::{EventSender, EventStream, event_channel};
use crate::run::task::{AttemptContext, JournalChoice, Task};
use crate::run::turn::Turn;
use crate::sessions::aside;
use crate::sessions::budget;
use crate::sessions::control::{Control, RunOrder};
use crate::sessions::journal::{Home, Mask, Options, Runner, SessionMeta, Writer, new_session_id, temporary};
use crate::sessions::session_monitor::{self, MonitoredRun};
use crate::system::clock;
use crate::system::clock::BootMoment;
use crate::system::container::Inside;
use crate::system::host;
use crate::system::host::Cleanup;
pub(crate) use driver::{Driver, completed, wish};

/// The capacity of a run's queue of orders.
pub(crate) const ORDERS: usize = 16;

/// Starts a task and returns the turn.
pub(crate) async fn start(task: Task) -> Result<Turn, Error> {
    let (orders, inbox) = mpsc::channel(ORDERS);
    let control = Control::new(orders);
    let mut prepared =
        Box::pin(prepare(task, AttemptContext::default(), control.clone(), inbox, Watcher::Yes)).await?;
    let receiver = prepared.receiver.take().ok_or(Error::Lost)?;
    let session = prepared.drive.session.clone();
    let (told, done) = oneshot::channel();
    tokio::spawn(async move {
        // The caller may have dropped the receiver.
        let _ = told.send(prepared.drive_to_the_end().await);
    });
    Ok(Turn::new(session, EventStream::one(receiver), control, done))
}

/// Runs a task to its end, without a subscriber.
///
/// Dropping the future drops the run, which kills the child. The future does not store the task, which is consumed when the
/// run is prepared.
pub(crate) fn run(task: Task) -> impl Future<Output = Result<Record, Error>> + Send {
    let (orders, inbox) = mpsc::channel(ORDERS);
    let prepared =
        Box::pin(prepare(task, AttemptContext::default(), Control::new(orders), inbox, Watcher::No));
    async move { prepared.await?.drive_to_the_end().await }
}

/// Returns the command that would be started.
pub(crate) fn preview(task: &Task, context: &AttemptContext) -> Result<Preview, Error> {
    let driver = Driver::of(task, context)?;
    let request = completed(task, &driver, task.chosen_model(), task.profile.as_ref())?;
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
    /// Drives the run to its end.
    pub(crate) async fn drive_to_the_end(self) -> Result<Record, Error> {
        self.drive.drive_to_the_end().await
    }
}

pub(crate) async fn prepare(
    mut task: Task,
    mut context: AttemptContext,
    control: Control,
    orders: mpsc::Receiver<RunOrder>,
    watcher: Watcher,
) -> Result<Prepared, Error> {
    let driver = Driver::of(&task, &context)?;
    #[cfg(feature = "testing")]
    if task.script.is_none() && !task.cast.is_empty() {
        task.script = Some(task.cast.take(driver.name(), driver.name()));
    }
    resumed::translate(&mut task, driver.name())?;
    let request = completed(&task, &driver, task.chosen_model(), task.profile.as_ref())?;
    let mut known = known_program(&task, driver.manifest());
    if let Some(manifest) = driver.manifest().filter(|_| !known.is_settled())
        && driver::must_be_kept(&task, manifest)
        // Boxed: few runs need it, and every future on the way would have to store it.
        && let Some(told) = Box::pin(replan::settled(&task, manifest)).await
    {
        // The program reads the repository's files as soon as it starts. A usage error would come too late, and an old program
        // may ignore a variable that it does not know.
        known = told;
    }
    let before = driver.manifest().and_then(|manifest| Some((manifest, continued(&task, manifest)?)));
    let (replaced, succession) = match before {
        Some((manifest, before)) => {
            known.since(before, task.binary.as_deref(), manifest, task.variables()).await
        }
        None => (None, None),
    };
    let mut invocations = vec![driver.invoke(&task, &request, &known, task.streaming)?];
    // If the caller or the settings chose a format, there is no second one to fall back to.
    let chosen = driver::chosen_format(&task, &driver, task.streaming).is_some();
    let free = task.streaming == Streaming::On && !chosen;
    if free && driver.manifest().is_some() {
        // There is no second attempt for a provider without a non-streaming format, or for a program whose only usable
        // format is that one.
        let second = driver.invoke(&task, &request, &known, Streaming::Off).ok();
        invocations.extend(second.filter(|second| known.format().as_ref() != Some(&second.format)));
    }
    invocations.iter_mut().try_for_each(with_images)?;
    let environment = texts(&task);
    // Before docker turns variables into arguments: every user of the machine can see arguments.
    invocations.iter_mut().for_each(|it| it.find_secrets(&environment, task.env_of_request()));
    let session = new_session_id(clock::wall(), host::random());
    // An attempt of the router has the share of its request, with what earlier attempts used.
    let share = context.share.take().or_else(|| task.share.take());
    let spending = spending::plan(&task, &context, &driver);
    let (account, budget, unread) = budget::Account::open(spending, share.as_ref(), &session)?;
    if let Some(container) = &request.docker {
        invocations = invocations
            .into_iter()
            .map(|invocation| into_container(invocation, container, &session, &task))
            .collect::<Result<_, _>>()?;
    }
    let mut cleanup = Cleanup::default();
    let journal = match journal_home(&task, &session, &mut cleanup)? {
        Some(home) => {
            let meta = session_meta(&task, &context, &driver, &request, &session, &invocations, &known);
            let quota = task.quota.unwrap_or(Options::DEFAULT_QUOTA);
            let options = Options { quota, mask: mask(&task, &invocations) };
            Some(NewJournal { home, meta, options }.open().await?)
        }
        None => None,
    };
    let mut cleanup_files = Cleanup::default();
    let side_files = SideFiles::of(&session, journal.as_ref());
    side_files.write(&invocations, &mut cleanup_files)?;
    let mut notices = std::mem::take(&mut task.notices);
    notices.append(&mut invocations[0].notices);
    notices.extend(unread);
    notices.extend(replaced);
    let format = invocations[0].format.clone();
    let capabilities = driver.manifest().map(|manifest| known.capabilities(manifest, &format));
    let lesser = if free { known.degraded(&format) } else { None };
    let attempts = plan::attempts(&invocations, &task);
    let degraded = std::mem::take(&mut invocations[0].degraded).into_iter().chain(lesser);
    let mut opening = std::mem::take(&mut context.opening);
    opening.extend(degraded.map(Kind::CapabilityDegraded));
    let cwd = request.cwd.clone().map(PathBuf::from);
    let (launch, tree) =
        launch(&mut task, driver.manifest(), &session, &invocations, side_files.dir(), cwd.as_deref())
            .await?;
    // A second plan starts the program on the host, so it must not replace a plan inside a container.
    let replannable = free && request.docker.is_none() && known.may_be_asked(driver.manifest());
    let replanned_from = capabilities.clone().filter(|_| replannable);
    let (version, delay, files) = (known.version(), context.delay, tree.is_some());
    let facts =
        PlanFacts { version, capabilities, attempts, notices, opening, delay, budget, files, replannable };
    let plan = plan::plan(&session, &driver, &request, &invocations[0], &task, facts);
    let dir = journal.as_ref().map(|journal| journal.dir().to_owned());
    let cleanup = Arc::new(cleanup);
    // Only this process knows of a journal that is deleted with the run.
    let known = dir.clone().filter(|dir| !cleanup.covers(dir));
    let watched = session_monitor::watch(MonitoredRun {
        session: session.clone(),
        key: request.key.clone(),
        label: task.label.clone(),
        home: known.as_ref().and_then(|dir| dir.parent()?.parent()).map(Home::at),
        dir: known,
        prices: task.settings.prices.clone().into(),
        control,
        since: clock::since_boot(),
        // The wait before the start does not count.
        limit: plan.attempts[0].limits.total.map(|limit| limit.plus(plan.delay)),
    });
    let (sender, receiver): (Option<EventSender>, _) = match watcher {
        Watcher::Yes => {
            let (sender, receiver) = event_channel(dir, cleanup.clone());
            (Some(sender), Some(receiver))
        }
        Watcher::No => (None, None),
    };
    let mut drive = Box::new(Drive {
        session,
        run: Run::new(plan),
        launch,
        journal,
        sender,
        callback: task.callback.take().map(SharedCallback::into_callback),
        excerpt_limit: task.excerpt_limit,
        orders,
        tree,
        cleanup,
        side_files: cleanup_files,
        account: Some(account),
        share,
        succession,
        replanner: None,
        _watched: watched,
    });
    if let Some(capabilities) = replanned_from {
        let session = drive.session.clone();
        drive.replanner =
            Some(Box::new(Replanner { task, driver, request, session, side_files, capabilities }));
    }
    Ok(Prepared { drive, receiver })
}

/// Returns the variables of a task that are text. Agents get no others.
fn texts(task: &Task) -> Vec<(String, String)> {
    task.variables().texts().collect()
}

/// Finds the program that a task would start. A program in a container is unknown.
fn known_program(task: &Task, manifest: Option<&'static Manifest>) -> KnownProgram {
    match manifest.filter(|_| !task.is_scripted() && task.request.docker.is_none()) {
        Some(manifest) => KnownProgram::find(manifest, task.binary.as_deref(), task.variables()),
        None => KnownProgram::default(),
    }
}

/// Returns the session that a task continues.
fn continued(task: &Task, manifest: &Manifest) -> Option<SessionMeta> {
    if task.parent.is_none() && task.request.resume.is_none() {
        return None;
    }
    let home = match &task.journal {
        JournalChoice::At(home) => home.clone(),
        JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => {
            Home::of(task.variables()).ok()?
        }
    };
    installed::before(&home, task.parent.as_ref(), task.request.resume.as_ref(), manifest)
}

/// The largest image to send with the prompt. The agent can open a larger one itself.
const LARGEST_IMAGE: u64 = 32 << 20;

/// Reads the images that the protocol sends with the prompt.
fn with_images(invocation: &mut Invocation) -> Result<(), Error> {
    let Some(conversation) = &mut invocation.conversation else { return Ok(()) };
    let wanted: Vec<String> = conversation.wants(&invocation.dialect).map(str::to_owned).collect();
    for path in wanted {
        let place = Path::new(&conversation.cwd).join(&path);
        let failed = |source| Error::Attachment { path: place.display().to_string(), source };
        if std::fs::metadata(&place).map_err(failed)?.len() <= LARGEST_IMAGE {
            let bytes = std::fs::read(&place).map_err(failed)?;
            conversation.images.insert(path, bytes);
        }
    }
    Ok(())
}

/// Puts a command into a container. Only a requested working directory applies there, not the host's current one.
fn into_container(
    mut invocation: Invocation,
    container: &str,
    session: &SessionId,
    task: &Task,
) -> Result<Invocation, Refusal> {
    let request = &task.request;
    // Any variable of the caller may be a secret, and every user of the machine can see arguments.
    invocation.secrets_env.extend(request.env.keys().cloned());
    let unknown =
        protocol_client(&invocation.dialect).is_some_and(|client| !client.needs_cwd) && request.cwd.is_none();
    if let Some(conversation) = invocation.conversation.as_mut().filter(|_| unknown) {
        conversation.cwd.clear();
    }
    let (cwd, key) = (request.cwd.as_deref(), request.key.as_deref());
    let container = Container { name: container, cwd, session: session.as_str(), key };
    docker::wrap(invocation, &container, task.variables().texts().map(|(name, _)| name))
}

/// A journal that is about to be opened.
struct NewJournal {
    home: Home,
    meta: SessionMeta,
    options: Options,
}

impl NewJournal {
    /// Opens the journal. On another thread while this process has other runs, which would have to wait for the disk.
    async fn open(self) -> Result<Writer, Error> {
        let Self { home, meta, options } = self;
        Ok(aside::run(move || Writer::create(&home, meta, options)).await?)
    }
}

/// Returns the data home of a task's journal; none if the task has no journal.
fn journal_home(task: &Task, session: &SessionId, cleanup: &mut Cleanup) -> Result<Option<Home>, Error> {
    Ok(Some(match &task.journal {
        JournalChoice::None => return Ok(None),
        JournalChoice::At(home) => home.clone(),
        JournalChoice::Default => Home::of(task.variables())?,
        JournalChoice::Temporary => {
            let dir = temporary::place(session);
            cleanup.add(dir.clone());
            Home::at(dir)
        }
    }))
}

/// Describes the session of a task.
fn session_meta(
    task: &Task,
    context: &AttemptContext,
    driver: &Driver,
    request: &Request,
    session: &SessionId,
    invocations: &[Invocation],
    known: &KnownProgram,
) -> SessionMeta {
    let mut meta = SessionMeta::new(session.clone(), driver.name(), clock::wall());
    if let Some(manifest) = driver.manifest() {
        meta.adapter_version = Some(manifest.adapter_version.clone());
        meta.capabilities = Some(Box::new(known.capabilities(manifest, &invocations[0].format)));
    }
    meta.dialect = Some(invocations[0].dialect.clone());
    #[cfg(feature = "testing")]
    if let Some(script) = &task.script {
        meta.dialect = Some(script.dialect().to_owned());
    }
    meta.entry.clone_from(&context.entry);
    meta.provider_version = known.version();
    meta.program = known.program();
    meta.profile = task.profile.as_ref().map(|profile| profile.name.clone());
    meta.parent = context.parent.clone().or_else(|| task.parent.clone());
    meta.cwd.clone_from(&request.cwd);
    meta.key.clone_from(&request.key);
    meta.label.clone_from(&task.label);
    meta.container.clone_from(&request.docker);
    let limit = invocations[0].limits.total.filter(|_| !task.no_timeout);
    meta.limit_ms = limit.map(|limit| limit.plus(context.delay));
    meta.registered_up = BootMoment::now();
    meta.state = SessionState::Starting;
    meta.runner = meta.runner.map(|runner| Runner { sole: task.sole, ..runner });
    meta
}

/// Collects the secrets that must not reach the disk.
fn mask(task: &Task, invocations: &[Invocation]) -> Mask {
    let mut secrets: Vec<String> = Vec::new();
    for invocation in invocations {
        let host = task.variables().texts().filter(|(name, _)| invocation.keeps(name));
        let set = task.env_of_request().iter().chain(&invocation.env);
        let set = set.map(|(name, value)| (name.clone(), value.clone()));
        secrets
            .extend(host.chain(set).filter(|(name, _)| invocation.is_secret(name)).map(|(_, value)| value));
        secrets.extend(invocation.secret_values.iter().cloned());
    }
    Mask::new(secrets)
}

/// Prepares the commands, and finds the working tree whose files are compared.
async fn launch(
    task: &mut Task,
    manifest: Option<&'static Manifest>,
    session: &SessionId,
    invocations: &[Invocation],
    scratch: &Path,
    cwd: Option<&Path>,
) -> Result<(Launch, Option<Tree>), Error> {
    #[cfg(feature = "testing")]
    if let Some(script) = task.script.take() {
        return Ok((Launch::Script(script), None));
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
    let inside = task.request.docker.clone().map(|container| {
        let provider = &invocations[0].provider;
        Box::new(Inside::new(supervisor.clone(), provider, &container, session, task.variables()))
    });
    let home = match &task.journal {
        JournalChoice::At(home) => Some(home),
        JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => None,
    };
    let tree =
        cwd.filter(|_| task.files).and_then(|cwd| Tree::around(&supervisor, cwd, home, task.variables()));
    Ok((Launch::Processes { supervisor, commands, install, inside }, tree))
}
