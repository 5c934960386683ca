//! The sessions that the agent stores, so that it can resume one: a small file for each.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clock;
use crate::options::{Options, variable};

/// How many prompts of a session are stored with their answers, and how many bytes of each text.
const EXCHANGES: usize = 50;
const TEXT: usize = 4096;

/// A session, new or old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// How many turns it had before this one.
    pub(crate) turns: u64,
    /// It resumes an earlier one.
    pub(crate) resumed: bool,
    /// Its last prompts, in a format that can show them again.
    pub(crate) history: VecDeque<PastPrompt>,
}

/// A prompt of an earlier turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PastPrompt {
    pub(crate) prompt: String,
    /// The end of the answer; empty if there was none.
    pub(crate) answer: String,
}

impl Session {
    /// Creates a session.
    pub(crate) fn fresh() -> Self {
        Self { id: clock::uuid(), ..Self::default() }
    }

    /// Returns the session with this id, if it is stored.
    pub(crate) fn stored(id: &str) -> Option<Self> {
        let old = place().filter(|_| plain(id)).and_then(|store| read(&store.join(format!("{id}.json"))))?;
        Some(Self { id: old.id, turns: old.turns, resumed: true, history: old.history })
    }

    /// Adds a prompt to the history.
    pub(crate) fn prompted(&mut self, prompt: &str) {
        if self.history.len() == EXCHANGES {
            self.history.pop_front();
        }
        self.history.push_back(PastPrompt { prompt: cut(prompt), answer: String::new() });
    }

    /// Adds the answer to the last prompt of the history.
    pub(crate) fn answered(&mut self, answer: &str) {
        if let Some(last) = self.history.back_mut() {
            last.answer = cut(answer);
        }
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT)].to_owned()
}

/// Finds or creates the session that the options name. An error is the user's: there is no such session.
pub(crate) fn choose(options: &Options, cwd: &Path) -> Result<Session, String> {
    let found = if let Some(id) = options.value("resume") {
        let found = Session::stored(id);
        Some(found.ok_or_else(|| format!("No conversation found with session ID: {id}"))?)
    } else if options.has("continue") {
        let found = place().and_then(|store| latest(&store, cwd)).and_then(|old| Session::stored(&old.id));
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
        None => Session { id: fresh(), ..Session::default() },
        Some(old) if options.has("fork") => Session { id: fresh(), ..old },
        Some(old) => old,
    })
}

/// Stores a session that has no turn yet: a host that got its id may resume it, also if the process is killed in its first turn.
pub(crate) fn announce(session: &Session, cwd: &Path) -> Result<(), String> {
    store(session, session.turns, cwd)
}

/// Stores a turn of a session.
pub(crate) fn remember(session: &Session, cwd: &Path) -> Result<(), String> {
    store(session, session.turns + 1, cwd)
}

fn store(session: &Session, turns: u64, cwd: &Path) -> Result<(), String> {
    let Some(store) = place() else { return Ok(()) };
    let history: Vec<Value> =
        session.history.iter().map(|it| json!({"prompt": it.prompt, "answer": it.answer})).collect();
    let text = json!({"id": session.id, "cwd": cwd, "turns": turns, "at": clock::millis(),
        "history": history})
    .to_string();
    let path = store.join(format!("{}.json", session.id));
    // Another process may read the session at this moment: it must see all of it.
    let new = store.join(format!("{}.new", session.id));
    std::fs::create_dir_all(&store)
        .and_then(|()| std::fs::write(&new, text))
        .and_then(|()| std::fs::rename(&new, &path))
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
    history: VecDeque<PastPrompt>,
}

fn read(path: &Path) -> Option<Old> {
    let value: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    Some(Old {
        id: value["id"].as_str()?.to_owned(),
        turns: value["turns"].as_u64()?,
        cwd: value["cwd"].as_str()?.to_owned(),
        at: value["at"].as_u64()?,
        history: value["history"].as_array().into_iter().flatten().map(past).collect(),
    })
}

fn past(value: &Value) -> PastPrompt {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    PastPrompt { prompt: text("prompt"), answer: text("answer") }
}

fn latest(store: &Path, cwd: &Path) -> Option<Old> {
    let entries = std::fs::read_dir(store).ok()?;
    let all = entries.filter_map(|entry| read(&entry.ok()?.path()));
    all.filter(|old| Path::new(&old.cwd) == cwd).max_by_key(|old| old.at)
}
