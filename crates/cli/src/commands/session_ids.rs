//! Session ids as people type them: whole, or an unambiguous beginning or end.

use bowline::journal::Home;

use crate::error::{CommandError, Fault};

/// The minimum length of a part of an id.
const LEAST: usize = 4;

/// The maximum number of sessions that an error lists.
const NAMED: usize = 5;

/// Returns the ids of all sessions, newest first. A data directory that cannot be read counts as empty; the command that needs
/// it reports the error.
pub(crate) fn all() -> Vec<String> {
    let dirs = Home::from_env().ok().and_then(|home| std::fs::read_dir(home.sessions_dir()).ok());
    let names = dirs.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut ids: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids
}

/// Completes a part of an id if it is unambiguous. Returns anything else unchanged: it may be an agent's own id.
pub(crate) fn whole(typed: &str) -> Result<String, CommandError> {
    among(typed, &all())
}

fn among(typed: &str, ids: &[String]) -> Result<String, CommandError> {
    if typed.len() < LEAST || ids.iter().any(|id| id == typed) {
        return Ok(typed.to_owned());
    }
    let has = |id: &&String| id.starts_with(typed) || id.ends_with(typed);
    let meant: Vec<&String> = ids.iter().filter(has).collect();
    match meant[..] {
        [] => Ok(typed.to_owned()),
        [only] => Ok(only.clone()),
        ref several => {
            let message = format!("{} sessions have an id that begins or ends with `{typed}`", several.len());
            let error = CommandError::new(Fault::Usage, message);
            let error = several.iter().take(NAMED).fold(error, |error, id| error.hint(id.as_str()));
            Err(error.hint("`bowline sessions --all` lists all of them"))
        }
    }
}

/// Makes the error of a session that another process uses.
pub(crate) fn running(id: &str, pid: Option<u32>) -> CommandError {
    match pid {
        Some(pid) => {
            CommandError::new(Fault::Usage, format!("the session {id} is still running, in process {pid}"))
                .hint(format!("wait until it ends, or stop it: `bowline stop {id}`"))
        }
        None => {
            let message = format!("another process is cleaning up the session {id} after a crash");
            CommandError::new(Fault::Usage, message).hint("try again in a few seconds")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_enough_where_only_one_session_has_it() {
        let ids = [
            "s-20261116-030130268-n7v1y63y",
            "s-20261116-020000000-zzjde463",
            "s-20261015-020000000-aaaaaaaa",
        ];
        let ids: Vec<String> = ids.map(str::to_owned).to_vec();
        let find = |typed: &str| among(typed, &ids).map_err(|_| "several");
        assert_eq!(find("zzjde463").as_deref(), Ok(ids[1].as_str()));
        assert_eq!(find("s-20261015").as_deref(), Ok(ids[2].as_str()));
        assert_eq!(find(&ids[0]).as_deref(), Ok(ids[0].as_str()));
        assert_eq!(find("s-20261116"), Err("several"));
        // Too short, of no session, or from the middle: it may be an agent's own id.
        for other in ["63y", "", "018f-native", "030130268"] {
            assert_eq!(find(other).as_deref(), Ok(other));
        }
    }
}
