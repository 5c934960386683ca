//! The sessions that the agent stores, so that it can resume one: a small file for each.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clock;
use crate::options::{Options, variable};

/// A session, new or old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// How many turns it had before this one.
    pub(crate) turns: u64,
    /// It resumes an earlier one.
    pub(crate) resumed: bool,
}

/// Finds or creates the session that the options name. An error is the user's: there is no such session.
pub(crate) fn choose(options: &Options, cwd: &Path) -> Result<Session, String> {
    let store = place();
    let found = if let Some(id) = options.value("resume") {
        let found =
            store.as_deref().filter(|_| plain(id)).and_then(|store| read(&store.join(format!("{id}.json"))));
        Some(found.ok_or_else(|| format!("No conversation found with session ID: {id}"))?)
    } else if options.has("continue") {
        let found = store.as_deref().and_then(|store| latest(store, cwd));
        Some(found.ok_or_else(|| "No conversation found to continue".to_owned())?)
    } else {
        None
    };
    let own = options.value("session-id");
    if own.is_some_and(|id| !plain(id)) {
        return Err("Invalid session ID: it has letters, digits, `-` and `_`".to_owned());
    }
    let fresh = || own.map_or_else(clock::uuid, str::to_owned);
    Ok(match found {
        None => Session { id: fresh(), turns: 0, resumed: false },
        Some(old) if options.has("fork") => Session { id: fresh(), turns: old.turns, resumed: true },
        Some(old) => Session { id: old.id, turns: old.turns, resumed: true },
    })
}

/// Stores a turn of a session.
pub(crate) fn remember(session: &Session, cwd: &Path) -> Result<(), String> {
    let Some(store) = place() else { return Ok(()) };
    let text =
        json!({"id": session.id, "cwd": cwd, "turns": session.turns + 1, "at": clock::millis()}).to_string();
    let path = store.join(format!("{}.json", session.id));
    std::fs::create_dir_all(&store)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| format!("could not store the session in `{}`: {error}", path.display()))
}

/// Returns the directory of the sessions; none without a home, and then nothing is stored.
fn place() -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("PRACTICE_HOME").or_else(|| {
        let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
        Some(state.join("bowline/practice"))
    })
}

fn plain(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 100
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// A session in the store.
struct Old {
    id: String,
    turns: u64,
    cwd: String,
    at: u64,
}

fn read(path: &Path) -> Option<Old> {
    let value: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    Some(Old {
        id: value["id"].as_str()?.to_owned(),
        turns: value["turns"].as_u64()?,
        cwd: value["cwd"].as_str()?.to_owned(),
        at: value["at"].as_u64()?,
    })
}

fn latest(store: &Path, cwd: &Path) -> Option<Old> {
    let entries = std::fs::read_dir(store).ok()?;
    let all = entries.filter_map(|entry| read(&entry.ok()?.path()));
    all.filter(|old| Path::new(&old.cwd) == cwd).max_by_key(|old| old.at)
}
