//! The journal of a run: where it lies, the content of `session.json` at the beginning, and which secrets it masks.

use bowline_protocol::kinds::SessionState;
use bowline_protocol::{Resume, SessionId};
use bowline_providers::invocation::Invocation;

use super::resumed;
use super::spec::RunSpec;
use crate::run::error::{Error, ResumeGap};
use crate::run::task::{AttemptContext, JournalChoice, Task};
use crate::sessions::aside;
use crate::sessions::journal::{
    Home, JournalEnd, JournalError, Mask, Options, Runner, SessionMeta, Writer, temporary,
};
use crate::system::clock::{self, BootMoment};
use crate::system::host::Cleanup;

/// The journal of a run.
pub(super) struct OpenJournal {
    pub(super) writer: Writer,
    /// Where the journal ended before, if the run continues a session.
    pub(super) end: Option<JournalEnd>,
}

/// Opens the journal of a run, if the task wants one: a new directory, or that of the session that the run continues. On another
/// thread while this process has other runs, which would have to wait for the disk.
pub(super) async fn open(
    task: &Task,
    context: &AttemptContext,
    spec: &RunSpec,
    cleanup: &mut Cleanup,
) -> Result<Option<OpenJournal>, Error> {
    let meta = session_meta(task, context, spec);
    let quota = task.quota.unwrap_or(Options::DEFAULT_QUOTA);
    let options = Options { quota, mask: mask(task, &spec.invocations) };
    if let Some(before) = &context.continues {
        // Without a journal, the attempt before this one had none.
        let Some(hold) = before.hold.clone() else { return Ok(None) };
        let now = clock::wall();
        let opened = aside::run(move || Writer::reopen(hold, options, now, |old| renew(old, meta))).await;
        let (writer, end) = opened?;
        return Ok(Some(OpenJournal { writer, end: Some(end) }));
    }
    let Some(home) = journal_home(task, &spec.session, cleanup)? else { return Ok(None) };
    if task.continues.is_none() {
        let writer = aside::run(move || Writer::create(&home, meta, options)).await?;
        return Ok(Some(OpenJournal { writer, end: None }));
    }
    home.check()?;
    let dir = home.session_dir(&spec.session)?;
    let opened = aside::run(move || Writer::open(&dir, options, clock::wall(), |old| renew(old, meta))).await;
    let (writer, end) = opened.map_err(|error| not_opened(&spec.session, error))?;
    Ok(Some(OpenJournal { writer, end: Some(end) }))
}

/// Makes the error of a session that cannot be continued.
fn not_opened(session: &SessionId, error: JournalError) -> Error {
    // Another runner was faster.
    if let JournalError::Locked { pid, .. } = error {
        let (session, gap) = (session.clone(), ResumeGap::Running { pid });
        return Error::NotResumable { session, gap, source: None };
    }
    error.into()
}

/// Describes a further stint of a session. What the agent's own session depends on stays: its id and the directory in which it
/// began. So does what the caller does not name anew.
fn renew(meta: &mut SessionMeta, new: SessionMeta) {
    let old = meta.clone();
    *meta = SessionMeta {
        format: old.format,
        id: old.id,
        entry: new.entry.or(old.entry),
        provider_version: new.provider_version.or(old.provider_version),
        program: new.program.or(old.program),
        // Of the first process; each `process_spawned` event names its own.
        dialect: old.dialect.or_else(|| new.dialect.clone()),
        cwd: old.cwd.or_else(|| new.cwd.clone()),
        native_session: old.native_session,
        forked_from: old.forked_from,
        key: new.key.or(old.key),
        label: new.label.or(old.label),
        profile: new.profile.or(old.profile),
        // `translate` has filled in what the caller left open.
        resume: new.resume.or(old.resume),
        parent: old.parent,
        abort: old.abort,
        ..new
    };
}

/// Returns the data home of a task's journal; none if the task has no journal.
fn journal_home(task: &Task, session: &SessionId, cleanup: &mut Cleanup) -> Result<Option<Home>, Error> {
    Ok(Some(match &task.journal {
        JournalChoice::None => return Ok(None),
        JournalChoice::At(home) => home.clone(),
        JournalChoice::Default => Home::of(task.variables())?,
        JournalChoice::Temporary => {
            let dir = temporary::place(session);
            // Before the directory exists, so that it is removed also if creating the journal fails halfway.
            cleanup.add(dir.clone());
            Home::at(dir)
        }
    }))
}

/// Describes the session of a task.
fn session_meta(task: &Task, context: &AttemptContext, spec: &RunSpec) -> SessionMeta {
    let RunSpec { session, driver, request, known, invocations, .. } = spec;
    let mut meta = SessionMeta::new(session.clone(), driver.name(), clock::wall());
    meta.adapter_version = driver.manifest().map(|manifest| manifest.adapter_version.clone());
    // A process that cleans up after a killed runner has no roster: the provider may be of a user's own manifest.
    meta.pretends = driver.manifest().is_some_and(|manifest| manifest.pretends);
    meta.capabilities = spec.capabilities().map(Box::new);
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
    meta.resume = Some(Box::new(resumed::options_of(task)));
    if let Some(Resume::Fork { native_session }) = &request.resume {
        meta.forked_from = Some(native_session.clone());
    }
    meta.key.clone_from(&request.key);
    meta.label.clone_from(&task.label);
    meta.container.clone_from(&request.docker);
    let limit = invocations[0].limits.total;
    let limit = limit.filter(|_| !task.no_timeout && task.is_limited_from_its_start());
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
