//! The session that a run goes on with, if it is one of ours.

use std::path::Path;

use bowline::journal::{Home, META_FILE, Reader, SessionMeta};
use bowline::{Kind, NativeSessionId, SessionId};

use bowline_providers::manifest::Manifest;

use crate::error::{CommandError, Fault};
use crate::suggest;

/// A session of ours, which a run named at its end.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) provider: &'static Manifest,
    /// The agent's own name for it.
    pub(crate) native: NativeSessionId,
}

/// Finds a session by our name for it; nothing when it is not ours, and so the agent's.
pub(crate) fn find(id: &str) -> Result<Option<Ours>, CommandError> {
    let dir = Home::from_env().and_then(|home| home.session_dir(&SessionId::from(id)));
    let Some(dir) = dir.ok().filter(|dir| dir.join(META_FILE).exists()) else { return Ok(None) };
    let failed = |error| CommandError::from(bowline::Error::from(error));
    let meta = SessionMeta::read(&dir).map_err(failed)?;
    if Reader::open(&dir).and_then(|reader| reader.is_live()).map_err(failed)? {
        let error = CommandError::new(Fault::Usage, format!("the session {id} is still running"));
        return Err(error
            .hint("wait until it is over: two agents in one session would each undo what the other does"));
    }
    let provider = suggest::provider(&meta.provider)?;
    // A runner that was killed did not write it there; its events have it.
    let native = match meta.native_session {
        Some(native) => Some(native),
        None => told(&dir).map_err(failed)?,
    };
    match native {
        Some(native) => Ok(Some(Ours { provider, native })),
        None => Err(CommandError::new(Fault::Usage, format!("the session {id} cannot be resumed"))
            .hint("its agent never told the name under which it keeps the session")),
    }
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

/// Returns the provider of a run that goes on with a session of ours, which is that of the session.
pub(crate) fn provider(
    id: &str,
    ours: &Ours,
    asked: Option<&str>,
) -> Result<&'static Manifest, CommandError> {
    let Some(asked) = asked.map(suggest::provider).transpose()? else { return Ok(ours.provider) };
    if asked.name == ours.provider.name {
        return Ok(ours.provider);
    }
    let message = format!("the session {id} is one of `{}`, not of `{}`", ours.provider.name, asked.name);
    Err(CommandError::new(Fault::Usage, message)
        .hint("leave out `--provider` to go on with it, or `--resume` to begin anew"))
}
