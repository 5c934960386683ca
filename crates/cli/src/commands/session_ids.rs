//! Sessions as people name them: by id, by a part of it, by name or key, or `@last`.

use bowline::SessionId;
use bowline::journal::Home;
use bowline::resolve::{ResolveError, resolve_exactly_in, resolve_in};

use super::live::unresolved;
use crate::error::CommandError;

/// The least length of a part of an id that is an error if it means several sessions.
const LEAST: usize = 4;

/// Returns the ids of all sessions, newest first. A data directory that cannot be read counts as empty; the command that needs
/// it reports the error.
pub(crate) fn all() -> Vec<String> {
    let dirs = Home::from_env().ok().and_then(|home| std::fs::read_dir(home.sessions_dir()).ok());
    let names = dirs.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut ids: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids
}

/// Returns the id of the session that a name means: a part of the id, its label or key, or `@last`. Returns anything else unchanged: it
/// may be an agent's own id.
pub(crate) fn whole(typed: &str) -> Result<String, CommandError> {
    found(typed, resolve_in)
}

/// The same for an act that cannot be undone: a name of several sessions is an error, also if they ended.
pub(crate) fn exact(typed: &str) -> Result<String, CommandError> {
    found(typed, resolve_exactly_in)
}

fn found(
    typed: &str,
    resolve: impl FnOnce(&Home, &str) -> Result<SessionId, ResolveError>,
) -> Result<String, CommandError> {
    let Ok(home) = Home::from_env() else { return Ok(typed.to_owned()) };
    match resolve(&home, typed) {
        Ok(id) => Ok(id.as_str().to_owned()),
        // Too short to be meant as a part of one of our ids, and no whole name.
        Err(ResolveError::Ambiguous { newest, .. })
            if typed.len() < LEAST && !newest.iter().any(|session| session.has(typed)) =>
        {
            Ok(typed.to_owned())
        }
        Err(error @ ResolveError::Ambiguous { .. }) => Err(unresolved(error)),
        // The command that needs the session reports that it cannot be read.
        Err(_) => Ok(typed.to_owned()),
    }
}
