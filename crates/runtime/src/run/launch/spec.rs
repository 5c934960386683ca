//! Everything about a run that is decided before it touches the disk: provider, request, program and commands. A spec is
//! complete when it is made and does not change.

use std::path::Path;

use bowline_protocol::kinds::Notice;
use bowline_protocol::{Capabilities, Request, SessionId};
use bowline_providers::conversation::protocol_client;
use bowline_providers::invocation::docker::{self, Container};
use bowline_providers::invocation::{Invocation, Refusal, Streaming};
use bowline_providers::manifest::Manifest;

use super::driver::{self, Driver, completed};
use super::{replan, resumed};
use crate::agents::installed::{self, KnownProgram, Succession};
use crate::run::error::Error;
use crate::run::host_tools;
use crate::run::task::{AttemptContext, JournalChoice, Task};
use crate::sessions::journal::{Home, SessionMeta, new_session_id};
use crate::system::{clock, host};

/// A run, as decided.
pub(super) struct RunSpec {
    pub(super) session: SessionId,
    pub(super) driver: Driver,
    /// The request with the provider's defaults.
    pub(super) request: Request,
    /// The installed program, as far as it is known.
    pub(super) known: KnownProgram,
    /// The command of each attempt: the usual form first, then the non-streaming one if there is one.
    pub(super) invocations: Vec<Invocation>,
    /// Whether the run chose the format and may choose another one.
    pub(super) free: bool,
    /// The notice that the program of a resumed session was replaced.
    pub(super) replaced: Option<Notice>,
    /// The program of a resumed session, if the current one has to be compared with it.
    pub(super) succession: Option<Succession>,
}

impl RunSpec {
    /// Decides everything about a run. Reads the program's help only if a promise depends on it.
    pub(super) async fn of(task: &mut Task, context: &AttemptContext) -> Result<Box<Self>, Error> {
        let driver = Driver::of(task, context)?;
        #[cfg(feature = "testing")]
        if task.script.is_none() && !task.cast.is_empty() {
            task.script = Some(task.cast.take(driver.name(), driver.name()));
        }
        // Before `completed`, which copies the request with the id in it.
        resumed::settle(task).await?;
        resumed::translate(task, driver.name())?;
        let mut request = completed(task, &driver, task.chosen_model(), task.profile.as_ref())?;
        if let Some(address) = &context.host_address {
            request.mcp_servers.insert(host_tools::SERVER.to_owned(), address.clone());
        }
        let mut known = known_program(task, driver.manifest());
        if let Some(manifest) = driver.manifest().filter(|_| !known.is_settled())
            && driver::must_be_kept(task, manifest)
            // Boxed: few runs need it, and every future on the way would have to store it.
            && let Some(told) = Box::pin(replan::settled(task, manifest)).await
        {
            // The program reads the repository's files as soon as it starts. A usage error would come too late, and an old
            // program may ignore a variable that it does not know.
            known = told;
        }
        let before = driver.manifest().and_then(|manifest| Some((manifest, continued(task, manifest)?)));
        let (replaced, succession) = match before {
            Some((manifest, before)) => {
                known.since(before, task.binary.as_deref(), manifest, task.variables()).await
            }
            None => (None, None),
        };
        // If the caller or the settings chose a format, there is no second one to fall back to.
        let chosen = driver::chosen_format(task, &driver, task.streaming).is_some();
        let free = task.streaming == Streaming::On && !chosen;
        let session = task.continues.clone();
        let session = session.unwrap_or_else(|| new_session_id(clock::wall(), host::random()));
        let invocations = invocations(task, &driver, &request, &known, free, &session)?;
        Ok(Box::new(Self { session, driver, request, known, invocations, free, replaced, succession }))
    }

    /// Returns the capabilities of the program in the form of the first attempt.
    pub(super) fn capabilities(&self) -> Option<Capabilities> {
        let format = &self.invocations[0].format;
        Some(match &self.driver {
            Driver::Manifest(manifest) => self.known.capabilities(manifest, format),
            Driver::External(external) => external.1.capabilities(),
        })
    }

    /// Returns whether a program that rejects its options may be started by a second plan. That plan starts the program on the
    /// host, so it must not replace one inside a container.
    pub(super) fn is_replannable(&self) -> bool {
        self.free && self.request.docker.is_none() && self.known.may_be_asked(self.driver.manifest())
    }
}

/// Builds the command of each attempt.
fn invocations(
    task: &Task,
    driver: &Driver,
    request: &Request,
    known: &KnownProgram,
    free: bool,
    session: &SessionId,
) -> Result<Vec<Invocation>, Error> {
    let mut invocations = vec![driver.invoke(task, request, known, task.streaming)?];
    if free && driver.manifest().is_some() {
        // There is no second attempt for a provider without a non-streaming format, or for a program whose only usable
        // format is that one.
        let second = driver.invoke(task, request, known, Streaming::Off).ok();
        invocations.extend(second.filter(|second| known.format().as_ref() != Some(&second.format)));
    }
    invocations.iter_mut().try_for_each(with_images)?;
    let environment = texts(task);
    // Before docker turns variables into arguments: every user of the machine can see arguments.
    invocations.iter_mut().for_each(|it| it.find_secrets(&environment, task.env_of_request()));
    if let Some(container) = &request.docker {
        let inside = invocations.into_iter().map(|it| into_container(it, container, session, task));
        invocations = inside.collect::<Result<_, _>>()?;
    }
    Ok(invocations)
}

/// Returns the variables of a task that are text. Agents get no others.
pub(super) fn texts(task: &Task) -> Vec<(String, String)> {
    task.variables().texts().collect()
}

/// Finds the program that a task would start. A program in a container is unknown.
pub(super) fn known_program(task: &Task, manifest: Option<&'static Manifest>) -> KnownProgram {
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
    let before = task.continues.as_ref().or(task.parent.as_ref());
    installed::before(&home, before, task.request.resume.as_ref(), manifest)
}

/// The largest image to send with the prompt. The agent can open a larger one itself.
const LARGEST_IMAGE: u64 = 32 << 20;

/// Reads the images that the protocol sends with the prompt.
pub(super) fn with_images(invocation: &mut Invocation) -> Result<(), Error> {
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
pub(super) fn into_container(
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
