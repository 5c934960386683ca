//! The session that a run goes on with, if it is one of ours.

use std::path::{Path, PathBuf};

use bowline::config::Config;
use bowline::journal::{Home, META_FILE, Reader, SessionMeta};
use bowline::{Kind, NativeSessionId, SessionId};

use bowline_providers::manifest::Manifest;

use super::choose::{Asked, Whom};
use crate::args::request::RequestArgs;
use crate::error::{CommandError, Fault};
use crate::suggest;

/// A session of ours, which a run named at its end.
#[derive(Debug)]
pub(crate) struct Ours {
    whose: Whose,
    /// The account that it was held with, where that is to be said.
    pub(crate) profile: Option<String>,
    /// The container that it was held in, and where in it.
    pub(crate) container: Option<(String, Option<PathBuf>)>,
    /// The agent's own name for it.
    pub(crate) native: NativeSessionId,
}

/// Who held a session.
#[derive(Debug)]
enum Whose {
    Provider(&'static Manifest),
    /// An entry of the router's file.
    Entry(String),
    /// A program in the form of the specification for pi, by the model that stands for it.
    Model(String),
}

impl Whose {
    fn name(&self) -> &str {
        match self {
            Self::Provider(manifest) => &manifest.name,
            Self::Entry(name) | Self::Model(name) => name,
        }
    }
}

/// Reads what a session of ours says of itself; nothing when it is not ours, and so the agent's.
fn held(id: &str) -> Result<Option<(PathBuf, SessionMeta)>, CommandError> {
    let dir = Home::from_env().and_then(|home| home.session_dir(&SessionId::from(id)));
    let Some(dir) = dir.ok().filter(|dir| dir.join(META_FILE).exists()) else {
        if looks_like_ours(id) {
            let error = CommandError::new(Fault::Usage, format!("there is no session {id}"));
            return Err(error.hint("it may have been deleted, or be in another data home ($BOWLINE_HOME)"));
        }
        return Ok(None);
    };
    let meta = SessionMeta::read(&dir).map_err(|error| CommandError::from(bowline::Error::from(error)))?;
    Ok(Some((dir, meta)))
}

/// Returns the directory of a session of ours, if it is not the one in which we are: agents look for their sessions by
/// directory, and settings go by it. Nothing for one in a container.
pub(crate) fn place(id: &str) -> Result<Option<PathBuf>, CommandError> {
    let meta = held(id)?.map(|(_, meta)| meta).filter(|meta| meta.container.is_none());
    let Some(cwd) = meta.and_then(|meta| meta.cwd) else { return Ok(None) };
    let there = std::fs::canonicalize(&cwd).map_err(|error| {
        CommandError::new(Fault::Usage, format!("the directory of the session, {cwd}, is not there"))
            .caused_by(error)
            .hint("say where to go on with `--cwd DIR`")
    })?;
    let here = std::env::current_dir().and_then(std::fs::canonicalize).ok();
    Ok((here.as_ref() != Some(&there)).then_some(there))
}

/// Finds a session by our name for it; nothing when it is not ours, and so the agent's.
pub(crate) fn find(id: &str, config: &Config) -> Result<Option<Ours>, CommandError> {
    let Some((dir, meta)) = held(id)? else { return Ok(None) };
    let failed = |error| CommandError::from(bowline::Error::from(error));
    if Reader::open(&dir).and_then(|reader| reader.is_live()).map_err(failed)? {
        let error = CommandError::new(Fault::Usage, format!("the session {id} is still running"));
        return Err(error
            .hint("wait until it is over: two agents in one session would each undo what the other does"));
    }
    // A runner that was killed did not write it there; its events have it.
    let native = match meta.native_session {
        Some(native) => Some(native),
        None => told(&dir).map_err(failed)?,
    };
    let Some(native) = native else {
        return Err(CommandError::new(Fault::Usage, format!("the session {id} cannot be resumed"))
            .hint("its agent never told the name under which it keeps the session"));
    };
    // A project's file names programs. That of another project than the session's is not meant, whatever names it has.
    let cwd = meta.cwd.as_deref().and_then(|cwd| std::fs::canonicalize(cwd).ok());
    let meant = |file: &Path| {
        let project = file.parent().and_then(Path::parent).and_then(|dir| std::fs::canonicalize(dir).ok());
        let inside = |project: PathBuf| cwd.as_ref().is_some_and(|cwd| cwd.starts_with(project));
        config.places.are_own(file) || project.is_some_and(inside)
    };
    let router = config.router.as_ref().filter(|router| meant(&router.path));
    let external = config.external.path().is_some_and(meant);
    let whose = match meta.entry {
        None => Whose::Provider(suggest::provider(&meta.provider)?),
        Some(entry) if router.is_some_and(|router| router.entry(&entry).is_some()) => Whose::Entry(entry),
        Some(entry) if external && config.external.get(&entry).map_err(|error| error.clone())?.is_some() => {
            Whose::Model(entry)
        }
        Some(entry) => {
            let message = format!("the session {id} is one of `{entry}`, which no file has any more");
            return Err(CommandError::new(Fault::Usage, message).hint(format!(
                "put the entry back, or go on with `--provider {} --resume {native}`",
                meta.provider
            )));
        }
    };
    // An entry says itself which account it is.
    let profile = meta.profile.filter(|_| matches!(whose, Whose::Provider(_)));
    let container = meta.container.map(|container| (container, meta.cwd.map(PathBuf::from)));
    Ok(Some(Ours { whose, profile, container, native }))
}

/// Says that no session of ours has a name, and that it cannot be an agent's either: no agent is named.
pub(crate) fn unknown(id: &str) -> CommandError {
    let error = CommandError::new(Fault::Usage, format!("there is no session `{id}`"));
    let error = match id.to_lowercase().as_str() {
        "last" | "latest" | "previous" | "-1" => error
            .hint("`--continue --provider NAME` goes on with that agent's last session in this directory"),
        _ => error,
    };
    error
        .hint("`bowline sessions --all` lists the sessions; the beginning or the end of an id is enough")
        .hint(format!("if it is an agent's own id, name the agent: `--provider NAME --resume {id}`"))
}

/// Says whether the request names an agent, or the settings do.
pub(crate) fn is_anyone_named(args: &RequestArgs, config: &Config) -> bool {
    let named = args.provider.is_some() || args.executable.is_some() || args.profile.is_some();
    named || args.model.is_some() || args.hint.is_some() || config.own_router().is_some()
}

/// Says that `--continue` needs an agent: each has sessions of its own.
pub(crate) fn nobody_to_continue() -> CommandError {
    CommandError::new(Fault::Usage, "`--continue` needs a provider: each has sessions of its own")
        .hint("name it: `--continue --provider NAME`")
        .hint("`bowline sessions --all` lists the sessions, `--resume ID` goes on with one of them")
}

/// Says whether a name is made as ours are: `s-20261116-030130268-n7v1y63y`.
fn looks_like_ours(id: &str) -> bool {
    let parts: Vec<&str> = id.split('-').collect();
    let digits = |part: &str, long: usize| part.len() == long && part.bytes().all(|b| b.is_ascii_digit());
    matches!(parts[..], ["s", day, time, _] if digits(day, 8) && digits(time, 9))
}

/// Reads the agent's own name of a session from what it said.
fn told(dir: &Path) -> Result<Option<NativeSessionId>, bowline::journal::JournalError> {
    let mut reader = Reader::open(dir)?;
    let mut native = None;
    while let Some(event) = reader.next_event()? {
        if let Kind::SessionStarted(started) = event.kind {
            native = started.native_session.or(native);
        }
    }
    Ok(native)
}

/// Returns who goes on with a session of ours: whoever held it. A program that a model stands for is found by that model.
pub(crate) fn whom(id: &str, ours: &Ours, args: &mut RequestArgs) -> Result<Whom, CommandError> {
    let name = ours.whose.name();
    let same = match (&args.provider, &ours.whose) {
        (None, _) => true,
        (Some(asked), Whose::Provider(manifest)) => suggest::provider(asked)?.name == manifest.name,
        (Some(asked), Whose::Entry(_) | Whose::Model(_)) => asked == name,
    };
    if !same {
        let asked = args.provider.as_deref().unwrap_or_default();
        let message = format!("the session {id} is one of `{name}`, not of `{asked}`");
        return Err(CommandError::new(Fault::Usage, message)
            .hint("leave out `--provider` to go on with it, or `--resume` to begin anew"));
    }
    Ok(match &ours.whose {
        Whose::Provider(manifest) => Whom::One(Asked::Provider(manifest)),
        Whose::Entry(name) => Whom::One(Asked::Listed(name.clone())),
        Whose::Model(name) => {
            args.model = Some(name.clone());
            Whom::Router
        }
    })
}
