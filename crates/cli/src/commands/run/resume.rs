//! Finds the session to resume, if it is one of Bowline.

use std::path::{Path, PathBuf};

use bowline::journal::{Home, KeptPolicies, META_FILE, Reader, SessionMeta};
use bowline::{Kind, NativeSessionId, SessionId};
use bowline_config::Config;

use bowline_providers::manifest::Manifest;

use super::choose::{NamedProvider, RequestTarget};
use crate::args::request::RequestArgs;
use crate::commands::session_ids;
use crate::error::{CommandError, Fault, session_runs};
use crate::suggest;

/// A session of Bowline to resume.
#[derive(Debug)]
pub(crate) struct ResumedSession {
    provider: SessionProvider,
    /// The profile of its account, if it is not the default one.
    pub(crate) profile: Option<String>,
    /// Its container, and the directory there.
    pub(crate) container: Option<(String, Option<PathBuf>)>,
    /// The files of the policies that its caller named.
    pub(crate) policies: Vec<PathBuf>,
}

/// The provider of a session.
#[derive(Debug)]
enum SessionProvider {
    Provider(&'static Manifest),
    /// An entry of the router's file.
    Entry(String),
    /// An external CLI, by its model.
    Model(String),
}

impl SessionProvider {
    fn name(&self) -> &str {
        match self {
            Self::Provider(manifest) => &manifest.name,
            Self::Entry(name) | Self::Model(name) => name,
        }
    }
}

/// Reads the metadata of a session. Returns `None` if the id is not one of Bowline, but may be the agent's.
fn read_meta(id: &str) -> Result<Option<(PathBuf, SessionMeta)>, CommandError> {
    let dir = Home::from_env().and_then(|home| home.session_dir(&SessionId::from(id)));
    let Some(dir) = dir.ok().filter(|dir| dir.join(META_FILE).exists()) else {
        if is_bowline_id(id) {
            let error = CommandError::new(Fault::Usage, format!("there is no session {id}"));
            return Err(
                error.hint("it may have been deleted, or be in another data directory ($BOWLINE_HOME)")
            );
        }
        return Ok(None);
    };
    let meta = SessionMeta::read(&dir).map_err(|error| CommandError::from(bowline::Error::from(error)))?;
    Ok(Some((dir, meta)))
}

/// Returns the directory of a session, if it is not the current one: agents find their sessions by directory, and so do
/// settings. Returns `None` for a session in a container.
pub(crate) fn place(id: &str) -> Result<Option<PathBuf>, CommandError> {
    let meta = read_meta(id)?.map(|(_, meta)| meta).filter(|meta| meta.container.is_none());
    let Some(cwd) = meta.and_then(|meta| meta.cwd) else { return Ok(None) };
    let there = std::fs::canonicalize(&cwd).map_err(|error| {
        CommandError::new(Fault::Usage, format!("the directory of the session, {cwd}, does not exist"))
            .caused_by(error)
            .hint("choose another directory with `--cwd DIR`")
    })?;
    let here = std::env::current_dir().and_then(std::fs::canonicalize).ok();
    Ok((here.as_ref() != Some(&there)).then_some(there))
}

/// Returns the newest session of a directory, or of the current one. Sessions in containers have other directories.
pub(crate) fn latest_in(dir: Option<&Path>) -> Result<Option<String>, CommandError> {
    let here = match dir {
        Some(dir) => std::fs::canonicalize(dir),
        None => std::env::current_dir().and_then(std::fs::canonicalize),
    };
    let here = here.map_err(|error| {
        CommandError::new(Fault::Usage, "could not find the current directory").caused_by(error)
    })?;
    for id in session_ids::all() {
        // A session that cannot be read is not the one that the user means.
        let Ok(Some((_, meta))) = read_meta(&id) else { continue };
        let cwd = meta.cwd.filter(|_| meta.container.is_none());
        if cwd.and_then(|cwd| std::fs::canonicalize(cwd).ok()).as_ref() == Some(&here) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Finds a session by its Bowline id. Returns `None` if the id may be the agent's.
pub(crate) fn find(id: &str, config: &Config) -> Result<Option<ResumedSession>, CommandError> {
    let Some((dir, meta)) = read_meta(id)? else { return Ok(None) };
    let failed = |error| CommandError::from(bowline::Error::from(error));
    if Reader::open(&dir).and_then(|reader| reader.is_live()).map_err(failed)? {
        let runner = meta.runner.filter(|runner| runner.is_there());
        return Err(session_runs(id, runner.map(|runner| runner.pid)));
    }
    // A killed runner did not write the id to the metadata, but the events have it.
    let native = match meta.native_session {
        Some(native) => Some(native),
        None => native_id(&dir).map_err(failed)?,
    };
    // Use a project's file only for sessions of that project: it names programs, and another project may use the same names.
    let cwd = meta.cwd.as_deref().and_then(|cwd| std::fs::canonicalize(cwd).ok());
    let applies = |file: &Path| {
        let project = file.parent().and_then(Path::parent).and_then(|dir| std::fs::canonicalize(dir).ok());
        let inside = |project: PathBuf| cwd.as_ref().is_some_and(|cwd| cwd.starts_with(project));
        config.places.are_own(file) || project.is_some_and(inside)
    };
    let router = config.router.as_ref().filter(|router| applies(&router.path));
    let external = config.external.path().is_some_and(applies);
    let provider = match meta.entry {
        None => SessionProvider::Provider(suggest::provider(&meta.provider)?),
        Some(entry) if router.is_some_and(|router| router.entry(&entry).is_some()) => {
            SessionProvider::Entry(entry)
        }
        Some(entry) if external && config.external.get(&entry).map_err(|error| error.clone())?.is_some() => {
            SessionProvider::Model(entry)
        }
        Some(entry) => {
            let message = format!("the session {id} belongs to `{entry}`, which is no longer configured");
            let instead = native
                .map(|native| format!(", or resume with `--provider {} --resume {native}`", meta.provider));
            let hint = format!("restore the entry{}", instead.unwrap_or_default());
            return Err(CommandError::new(Fault::Usage, message).hint(hint));
        }
    };
    // An entry has its own account.
    let profile = meta.profile.filter(|_| matches!(provider, SessionProvider::Provider(_)));
    let container = meta.container.map(|container| (container, meta.cwd.map(PathBuf::from)));
    let policies = match meta.resume.unwrap_or_default().policies {
        KeptPolicies::Files(files) => files,
        // A policy without a file came from a program. The library refuses to go on without it.
        KeptPolicies::None | KeptPolicies::OfCaller => Vec::new(),
    };
    Ok(Some(ResumedSession { provider, profile, container, policies }))
}

/// Makes the error of an unknown session id. It cannot be an agent's own id, because the request names no provider.
pub(crate) fn unknown(id: &str) -> CommandError {
    let error = CommandError::new(Fault::Usage, format!("there is no session `{id}`"));
    let error = match id.to_lowercase().as_str() {
        "last" | "latest" | "previous" | "-1" => {
            error.hint("`--continue --provider NAME` resumes that agent's latest session in this directory")
        }
        _ => error,
    };
    error
        .hint("`bowline sessions --all` lists the sessions; the beginning or the end of an id is enough")
        .hint(format!("for an agent's own id, name the provider: `--provider NAME --resume {id}`"))
}

/// Returns whether the request or the settings select a provider.
pub(crate) fn selects_provider(args: &RequestArgs, config: &Config) -> bool {
    let named = args.provider.is_some() || args.executable.is_some() || args.profile.is_some();
    named || args.model.is_some() || args.hint.is_some() || config.own_router().is_some()
}

/// Makes the error of `--continue` without a provider.
pub(crate) fn continue_without_provider() -> CommandError {
    CommandError::new(Fault::Usage, "no session of Bowline in this directory to continue")
        .hint("for a session that an agent began itself, name the provider: `--continue --provider NAME`")
        .hint("`bowline sessions --all` lists the sessions, `--resume ID` resumes one of them")
}

/// Returns whether an id has the form of ours: `s-20261116-030130268-n7v1y63y`.
fn is_bowline_id(id: &str) -> bool {
    let parts: Vec<&str> = id.split('-').collect();
    let digits = |part: &str, long: usize| part.len() == long && part.bytes().all(|b| b.is_ascii_digit());
    matches!(parts[..], ["s", day, time, _] if digits(day, 8) && digits(time, 9))
}

/// Reads the agent's own id of a session from the events.
fn native_id(dir: &Path) -> Result<Option<NativeSessionId>, bowline::journal::JournalError> {
    let mut reader = Reader::open(dir)?;
    let mut native = None;
    while let Some(event) = reader.next_event()? {
        if let Kind::SessionStarted(started) = event.kind {
            native = started.native_session.or(native);
        }
    }
    Ok(native)
}

/// Returns the target that resumes a session: its own provider. The router finds an external CLI by its model.
pub(crate) fn target(
    id: &str,
    resumed: &ResumedSession,
    args: &mut RequestArgs,
) -> Result<RequestTarget, CommandError> {
    let name = resumed.provider.name();
    let same = match (&args.provider, &resumed.provider) {
        (None, _) => true,
        (Some(asked), SessionProvider::Provider(manifest)) => suggest::provider(asked)?.name == manifest.name,
        (Some(asked), SessionProvider::Entry(_) | SessionProvider::Model(_)) => asked == name,
    };
    if !same {
        let asked = args.provider.as_deref().unwrap_or_default();
        let message = format!("the session {id} belongs to `{name}`, not to `{asked}`");
        return Err(CommandError::new(Fault::Usage, message)
            .hint("leave out `--provider` to resume it, or `--resume` to start a new session"));
    }
    Ok(match &resumed.provider {
        SessionProvider::Provider(manifest) => RequestTarget::One(NamedProvider::Provider(manifest)),
        SessionProvider::Entry(name) => RequestTarget::One(NamedProvider::Listed(name.clone())),
        SessionProvider::Model(name) => {
            args.model = Some(name.clone());
            RequestTarget::Router
        }
    })
}
