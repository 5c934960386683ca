//! From a task to a run: the provider is looked up, the command built, the journal opened, the driver set going.

mod command;
mod driver;
mod resumed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_engine::budget::Budget;
use bowline_engine::fallback::StreamFallback;
use bowline_engine::{self as engine, Attempt, Plan, Polite, Run, Scope, Signal, Wanted};
use bowline_process as process;
use bowline_protocol::kinds::{Notice, SessionState, Transport};
use bowline_protocol::{Kind, Request, Resume, SessionId};
use bowline_providers::conversation::voice;
use bowline_providers::dialects;
use bowline_providers::invocation::docker::{self, Container};
use bowline_providers::invocation::{self, Invocation, Preview, Refusal, Streaming};
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::{Polite as PoliteWay, StopScope};
use bowline_providers::views::Digest;
use tokio::sync::{mpsc, oneshot};

pub(crate) use command::health;
use command::{command, located};

use crate::agent::Launch;
use crate::callback::SharedCallback;
use crate::clock::BootMoment;
use crate::container::Inside;
use crate::detect;
use crate::drive::Drive;
use crate::git::Tree;
use crate::host::Cleanup;
use crate::hub::{Outlet, Stream, hub};
use crate::installed::{self, Known};
use crate::journal::{Home, Mask, Options, Reader, Runner, SessionMeta, Writer, new_session_id, temporary};
use crate::record::Record;
use crate::task::{JournalChoice, Task};
use crate::turn::{Control, Order, Turn};
use crate::warden::{self, Ward};
use crate::{Error, aside, budget, clock, host};
pub(crate) use driver::{Driver, completed, wish};

/// How many orders may wait for a run.
pub(crate) const ORDERS: usize = 16;

/// The directory of a session in which the agent finds what does not fit into its arguments.
pub(crate) const SIDE_FILES: &str = "files";

/// Starts a task and returns the turn.
pub(crate) async fn start(task: Task) -> Result<Turn, Error> {
    let (orders, inbox) = mpsc::channel(ORDERS);
    let control = Control::new(orders);
    let mut prepared = Box::pin(prepare(task, control.clone(), inbox, Watcher::Yes)).await?;
    let inlet = prepared.inlet.take().ok_or(Error::Lost)?;
    let session = prepared.drive.session.clone();
    let (told, done) = oneshot::channel();
    tokio::spawn(async move {
        // Whoever waited for it may have gone.
        let _ = told.send(prepared.drive_to_the_end().await);
    });
    Ok(Turn::new(session, Stream::one(inlet), control, done))
}

/// Runs a task to its end, without anybody who reads its events.
pub(crate) async fn run(task: Task) -> Result<Record, Error> {
    let (orders, inbox) = mpsc::channel(ORDERS);
    // Dropping the future drops the run; the child is ended then.
    let prepared = Box::pin(prepare(task, Control::new(orders), inbox, Watcher::No)).await?;
    prepared.drive_to_the_end().await
}

/// Returns what would be started.
pub(crate) fn preview(task: &Task) -> Result<Preview, Error> {
    let driver = Driver::of(task)?;
    let request = completed(task, &driver, task.chosen_model(), task.profile.as_ref())?;
    let known = Known::of(task, driver.manifest());
    let mut invocation = driver.invoke(task, &request, &known, task.streaming)?;
    invocation.find_secrets(&host::environment(), task.env_of_request());
    if let Some(container) = &request.docker {
        let session = new_session_id(clock::wall(), host::random());
        invocation = into_container(invocation, container, &session, &task.request)?;
    }
    Ok(invocation.preview())
}

/// Reads an answer that is too long to be held by everybody.
pub(crate) fn text_from_journal(dir: &Path) -> Result<String, Error> {
    Ok(digest_from_journal(dir)?.text().unwrap_or_default())
}

/// Reads a journal, and keeps all of its text.
pub(crate) fn digest_from_journal(dir: &Path) -> Result<Digest, Error> {
    let mut reader = Reader::open(dir)?;
    let mut digest = Digest::unlimited();
    while let Some(event) = reader.next_event()? {
        digest.event(&event);
    }
    Ok(digest)
}

/// Whether somebody will read the events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    Yes,
    No,
}

/// A run that is ready to go.
pub(crate) struct Prepared {
    /// Boxed: it is moved from hand to hand, and every future on its way would have room for it.
    pub(crate) drive: Box<Drive>,
    pub(crate) inlet: Option<crate::hub::Inlet>,
}

impl Prepared {
    /// Drives the run to its end.
    pub(crate) async fn drive_to_the_end(self) -> Result<Record, Error> {
        self.drive.drive_to_the_end().await
    }
}

pub(crate) async fn prepare(
    mut task: Task,
    control: Control,
    orders: mpsc::Receiver<Order>,
    watcher: Watcher,
) -> Result<Prepared, Error> {
    let driver = Driver::of(&task)?;
    #[cfg(feature = "testing")]
    if task.script.is_none() && !task.cast.is_empty() {
        task.script = Some(task.cast.take(driver.name(), driver.name()));
    }
    resumed::translate(&mut task, driver.name())?;
    let request = completed(&task, &driver, task.chosen_model(), task.profile.as_ref())?;
    let mut known = Known::of(&task, driver.manifest());
    let before = driver.manifest().and_then(|manifest| Some((manifest, installed::before(&task, manifest)?)));
    let (replaced, succession) = match before {
        Some((manifest, before)) => known.since(before, task.binary.as_deref(), manifest).await,
        None => (None, None),
    };
    let mut invocations = vec![driver.invoke(&task, &request, &known, task.streaming)?];
    // A format that was asked for is the only one.
    let settled = task.format.is_some();
    if task.streaming == Streaming::On && driver.manifest().is_some() && !settled {
        // A provider without a form that does not stream has no second chance, and needs none; nor has a program of
        // which that form is all that is left.
        let second = driver.invoke(&task, &request, &known, Streaming::Off).ok();
        invocations.extend(second.filter(|second| known.format().as_ref() != Some(&second.format)));
    }
    invocations.iter_mut().try_for_each(with_images)?;
    let environment = host::environment();
    // Before a container makes arguments of variables: arguments are visible to every user of the machine.
    invocations.iter_mut().for_each(|it| it.find_secrets(&environment, task.env_of_request()));
    let session = new_session_id(clock::wall(), host::random());
    let (account, budget, unread) = budget::Account::open(&task, driver.name(), driver.manifest(), &session)?;
    if let Some(container) = &request.docker {
        invocations = invocations
            .into_iter()
            .map(|invocation| into_container(invocation, container, &session, &task.request))
            .collect::<Result<_, _>>()?;
    }
    let mut cleanup = Cleanup::default();
    let journal = match new_journal(&task, &driver, &request, &session, &invocations, &known, &mut cleanup)? {
        Some(new) => Some(new.open().await?),
        None => None,
    };
    let mut side_files = Cleanup::default();
    let scratch = scratch(&session, journal.as_ref(), &invocations, &mut side_files)?;
    let mut notices = std::mem::take(&mut task.notices);
    notices.append(&mut invocations[0].notices);
    notices.extend(unread);
    notices.extend(replaced);
    let mut plan = plan(&session, &driver, &request, &invocations, notices, &task);
    plan.version = known.version();
    let format = invocations[0].format.clone();
    plan.capabilities = driver.manifest().map(|manifest| known.capabilities(manifest, &format));
    plan.opening = std::mem::take(&mut task.leg.opening);
    let degraded =
        std::mem::take(&mut invocations[0].degraded).into_iter().chain(known.degraded(&task, &format));
    plan.opening.extend(degraded.map(Kind::CapabilityDegraded));
    let told = driver.manifest().and_then(|manifest| manifest.told_model()).map(str::to_owned);
    plan.model = request.model.clone().filter(|model| !model.is_empty() && model != "default").or(told);
    plan.budget = budget;
    #[cfg(feature = "testing")]
    if let Some(script) = &task.script {
        plan.attempts.iter_mut().for_each(|attempt| script.speaks(attempt));
    }
    let cwd = request.cwd.clone().map(PathBuf::from);
    let (launch, tree) =
        launch(&mut task, driver.manifest(), &session, &invocations, &scratch, cwd.as_deref()).await?;
    plan.files = tree.is_some();
    let dir = journal.as_ref().map(|journal| journal.dir().to_owned());
    let cleanup = Arc::new(cleanup);
    // A journal that goes with the run is known to this process only.
    let known = dir.clone().filter(|dir| !cleanup.covers(dir));
    let watched = warden::watch(Ward {
        session: session.clone(),
        key: request.key.clone(),
        label: task.label.clone(),
        home: known.as_ref().and_then(|dir| dir.parent()?.parent()).map(Home::at),
        dir: known,
        control,
        since: clock::since_boot(),
        // The wait before it is none of its own time.
        limit: plan.limits.total.map(|limit| limit.plus(plan.delay)),
    });
    let (outlet, inlet): (Option<Outlet>, _) = match watcher {
        Watcher::Yes => {
            let (outlet, inlet) = hub(dir, cleanup.clone());
            (Some(outlet), Some(inlet))
        }
        Watcher::No => (None, None),
    };
    let drive = Box::new(Drive {
        session,
        run: Run::new(plan),
        launch,
        journal,
        outlet,
        callback: task.callback.take().map(SharedCallback::into_callback),
        excerpt_limit: task.excerpt_limit,
        orders,
        tree,
        cleanup,
        side_files,
        account: Some(account),
        share: task.leg.share.take(),
        succession,
        _watched: watched,
    });
    Ok(Prepared { drive, inlet })
}

/// The largest image that is sent along. What is larger the agent may look at itself.
const LARGEST_IMAGE: u64 = 32 << 20;

/// Reads the images that a protocol carries.
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

/// Puts a command into a container. The current directory of the host means nothing there: only one that was asked for.
fn into_container(
    mut invocation: Invocation,
    container: &str,
    session: &SessionId,
    request: &Request,
) -> Result<Invocation, Refusal> {
    // What the caller sets may be a secret whatever its name, and arguments are for everybody to see.
    invocation.secrets_env.extend(request.env.keys().cloned());
    let unknown = voice(&invocation.dialect).is_some_and(|voice| !voice.needs_cwd) && request.cwd.is_none();
    if let Some(conversation) = invocation.conversation.as_mut().filter(|_| unknown) {
        conversation.cwd.clear();
    }
    let (cwd, key) = (request.cwd.as_deref(), request.key.as_deref());
    let container = Container { name: container, cwd, session: session.as_str(), key };
    docker::wrap(invocation, &container, host::environment().into_iter().map(|(name, _)| name))
}

/// A journal that is about to be opened.
struct NewJournal {
    home: Home,
    meta: SessionMeta,
    options: Options,
}

impl NewJournal {
    /// Opens it. While other runs of this process go on, that is done by another thread: they would wait for the disk.
    async fn open(self) -> Result<Writer, Error> {
        let Self { home, meta, options } = self;
        Ok(aside::run(move || Writer::create(&home, meta, options)).await?)
    }
}

/// Describes the journal where the task wants it.
fn new_journal(
    task: &Task,
    driver: &Driver,
    request: &Request,
    session: &SessionId,
    invocations: &[Invocation],
    known: &Known,
    cleanup: &mut Cleanup,
) -> Result<Option<NewJournal>, Error> {
    let home = match &task.journal {
        JournalChoice::None => return Ok(None),
        JournalChoice::At(home) => home.clone(),
        JournalChoice::Default => Home::from_env()?,
        JournalChoice::Temporary => {
            let dir = temporary::place(session);
            cleanup.add(dir.clone());
            Home::at(dir)
        }
    };
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
    meta.entry.clone_from(&task.leg.entry);
    meta.provider_version = known.version();
    meta.program = known.program();
    meta.profile = task.profile.as_ref().map(|profile| profile.name.clone());
    meta.parent = task.leg.parent.clone().or_else(|| task.parent.clone());
    meta.cwd.clone_from(&request.cwd);
    meta.key.clone_from(&request.key);
    meta.label.clone_from(&task.label);
    meta.container.clone_from(&request.docker);
    let limit = invocations[0].limits.total.filter(|_| !task.no_timeout);
    meta.limit_ms = limit.map(|limit| limit.plus(task.leg.delay));
    meta.registered_up = BootMoment::now();
    meta.state = SessionState::Starting;
    meta.runner = meta.runner.map(|runner| Runner { sole: task.sole, ..runner });
    let quota = task.quota.unwrap_or(Options::DEFAULT_QUOTA);
    let options = Options { quota, mask: mask(task, invocations) };
    Ok(Some(NewJournal { home, meta, options }))
}

/// Collects what must not reach the disk.
fn mask(task: &Task, invocations: &[Invocation]) -> Mask {
    let mut secrets: Vec<String> = Vec::new();
    for invocation in invocations {
        let host = host::environment().into_iter().filter(|(name, _)| invocation.keeps(name));
        let set = task.env_of_request().iter().chain(&invocation.env);
        let set = set.map(|(name, value)| (name.clone(), value.clone()));
        secrets
            .extend(host.chain(set).filter(|(name, _)| invocation.is_secret(name)).map(|(_, value)| value));
        secrets.extend(invocation.secret_values.iter().cloned());
    }
    Mask::new(secrets)
}

/// Writes the files that the agent has to find, and returns where they lie.
fn scratch(
    session: &SessionId,
    journal: Option<&Writer>,
    invocations: &[Invocation],
    cleanup: &mut Cleanup,
) -> Result<PathBuf, Error> {
    let files = || invocations.iter().flat_map(|invocation| &invocation.files);
    let dir = match journal {
        Some(journal) => journal.dir().join(SIDE_FILES),
        None => std::env::temp_dir().join(format!("bowline-{session}-files")),
    };
    // The agent may run in another directory than we do.
    let dir = std::path::absolute(&dir).unwrap_or(dir);
    if files().next().is_none() {
        return Ok(dir);
    }
    if dir.to_str().is_none() {
        return Err(Error::NotText { path: dir });
    }
    // They may carry secrets that no journal keeps, so they go with the run.
    let made = match journal {
        Some(_) => {
            cleanup.add(dir.clone());
            host::private_dir(&dir)
        }
        // Nobody finds it by the session, should we be killed.
        None => cleanup.make(&dir),
    };
    made.map_err(|source| Error::SideFile { path: dir.display().to_string(), source })?;
    for file in files() {
        let path = dir.join(&file.name);
        host::private_file(&path, file.content.as_bytes())
            .map_err(|source| Error::SideFile { path: path.display().to_string(), source })?;
    }
    Ok(dir)
}

fn plan(
    session: &SessionId,
    driver: &Driver,
    request: &Request,
    invocations: &[Invocation],
    notices: Vec<Notice>,
    task: &Task,
) -> Plan {
    let first = &invocations[0];
    let attempt = |invocation: &Invocation| Attempt {
        dialect: dialects::by_name(&invocation.dialect).expect("a manifest names dialects that exist"),
        shape: invocation.shape,
        program: invocation.program.clone(),
        transport: match invocation.transport {
            invocation::Transport::Pipe => spoken(invocation).unwrap_or(Transport::Pipe),
            invocation::Transport::Pty => Transport::Pty,
        },
        conversation: invocation.conversation.clone(),
        degraded: invocation.degraded.clone(),
    };
    let fork = matches!(request.resume, Some(Resume::Fork { .. }));
    let resume = match &request.resume {
        Some(Resume::Id { native_session } | Resume::Fork { native_session }) => {
            Some(Wanted { id: native_session.clone(), fork })
        }
        Some(Resume::Latest) | None => None,
    };
    let scope = match first.stop.scope {
        StopScope::Leader => Scope::Leader,
        StopScope::Tree => Scope::Tree,
    };
    let polite = match first.stop.polite {
        PoliteWay::Sigint => Polite::Signal(Signal::Interrupt, scope),
        PoliteWay::Sigterm => Polite::Signal(Signal::Terminate, scope),
        PoliteWay::StdinClose => Polite::CloseStdin,
        PoliteWay::Protocol => Polite::Protocol,
    };
    let usual = engine::Limits::default();
    let limits = engine::Limits {
        spawn: first.limits.spawn,
        first_event: first.limits.first_event.filter(|_| !task.no_idle_timeout),
        idle: first.limits.idle.filter(|_| !task.no_idle_timeout),
        in_tool: first.limits.in_tool.filter(|_| !task.no_idle_timeout),
        total: first.limits.total.filter(|_| !task.no_timeout),
        shutdown: first.limits.shutdown.unwrap_or(usual.shutdown).min(usual.shutdown),
        grace: first.stop.grace.min(usual.grace),
    };
    Plan {
        session: session.clone(),
        provider: driver.name().to_owned(),
        version: None,
        cwd: request.cwd.clone(),
        capabilities: driver.manifest().map(|manifest| manifest.capabilities.clone()),
        prompt: request.prompt.clone(),
        attempts: invocations.iter().map(attempt).collect(),
        limits,
        polite,
        resume,
        stream_fallback: stream_fallback(task),
        notices,
        opening: Vec::new(),
        delay: task.leg.delay,
        budget: Budget::default(),
        model: None,
        files: false,
        zone: jiff::tz::TimeZone::system(),
    }
}

/// Returns when the prompt may be sent again without streaming: the caller's word, else the settings', else the usual.
fn stream_fallback(task: &Task) -> StreamFallback {
    let word = task.config.as_ref().and_then(|config| config.settings.text("run.stream-fallback"));
    let set = word.and_then(|word| StreamFallback::ALL.into_iter().find(|rule| rule.as_str() == word));
    task.stream_fallback.or(set).unwrap_or_default()
}

/// Returns what the protocol is called that carries the prompt, if one does.
fn spoken(invocation: &Invocation) -> Option<Transport> {
    invocation.conversation.as_ref()?;
    Some(voice(&invocation.dialect)?.transport)
}

/// Makes ready what will be started, and finds the working tree whose files are looked at.
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
    let mut commands: Vec<process::Command> =
        invocations.iter().map(|invocation| command(invocation, session, scratch)).collect();
    let mut install = None;
    if let Some(manifest) = manifest {
        commands.iter_mut().for_each(|command| command.stdout_room = manifest.run.stdout_room);
    }
    if let Some(manifest) = manifest.filter(|_| task.request.docker.is_none()) {
        located(&mut commands, manifest, task.binary.as_deref()).await;
        install = task.binary.is_none().then(|| detect::install_hint(manifest));
    }
    let inside = task.request.docker.clone().map(|container| {
        let provider = &invocations[0].provider;
        Box::new(Inside::new(supervisor.clone(), provider, &container, session))
    });
    let home = match &task.journal {
        JournalChoice::At(home) => Some(home),
        JournalChoice::Default | JournalChoice::Temporary | JournalChoice::None => None,
    };
    let tree = cwd.filter(|_| task.files).and_then(|cwd| Tree::around(&supervisor, cwd, home));
    Ok((Launch::Processes { supervisor, commands, install, inside }, tree))
}
