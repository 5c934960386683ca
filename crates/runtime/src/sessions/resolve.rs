//! Finds the session that a user means: by its id, a part of the id, its key, its label, or `@last`.
//!
//! ```
//! # use bowline::resolve::{SessionName, resolve};
//! let name = |id: &str, label: &str| SessionName { id: id.into(), key: None, label: Some(label.to_owned()) };
//! let sessions = [name("s-20261115-083000123-000g40zz", "parser"), name("s-20261116-083000123-8f3k2m1p", "tests")];
//! assert_eq!(resolve("8f3k2m1p", &sessions)?.as_str(), "s-20261116-083000123-8f3k2m1p");
//! assert_eq!(resolve("parser", &sessions)?.as_str(), "s-20261115-083000123-000g40zz");
//! assert_eq!(resolve("@last", &sessions)?.as_str(), "s-20261116-083000123-8f3k2m1p");
//! # Ok::<(), bowline::resolve::ResolveError>(())
//! ```

use bowline_protocol::SessionId;

use crate::sessions::journal::{Home, JournalError, is_live};
use crate::sessions::name_cache;

/// The most candidates that an error lists.
pub const CANDIDATES: usize = 5;

/// The word for the newest session.
pub const LAST: &str = "@last";

/// The names of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName {
    /// Its id.
    pub id: SessionId,
    /// The caller's key.
    pub key: Option<String>,
    /// The caller's label.
    pub label: Option<String>,
}

/// Why a text names no session, or more than one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No session has this name.
    #[error("there is no session `{text}`")]
    NotFound {
        /// The text.
        text: String,
        /// The newest sessions.
        newest: Vec<SessionName>,
    },
    /// There is no session at all.
    #[error("there are no sessions")]
    NoSessions,
    /// Several sessions have it.
    #[error("`{text}` names {count} sessions")]
    Ambiguous {
        /// The text.
        text: String,
        /// The number of sessions.
        count: usize,
        /// The newest of them.
        newest: Vec<SessionName>,
    },
    /// The sessions could not be listed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Finds a session among these, which are in any order.
///
/// The first of these rules that fits at least one session decides, and it must fit exactly one:
///
/// 1. the id;
/// 2. the key or the label;
/// 3. the beginning or the end of the id;
/// 4. the beginning or the end of the key or the label.
pub fn resolve<'a>(text: &str, sessions: &'a [SessionName]) -> Result<&'a SessionId, ResolveError> {
    match fitting(text, sessions)?.as_slice() {
        [one] => Ok(&one.id),
        several => Err(ambiguous(text, several)),
    }
}

/// Returns the sessions that the first fitting rule finds: at least one.
fn fitting<'a>(text: &str, sessions: &'a [SessionName]) -> Result<Vec<&'a SessionName>, ResolveError> {
    if sessions.is_empty() {
        return Err(ResolveError::NoSessions);
    }
    if text == LAST {
        // Ids begin with the time.
        let newest = sessions.iter().max_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
        return Ok(newest.into_iter().collect());
    }
    let is_part = |whole: &str| !text.is_empty() && (whole.starts_with(text) || whole.ends_with(text));
    let rules: [&dyn Fn(&SessionName) -> bool; 4] = [
        &|session| session.id.as_str() == text,
        &|session| session.has(text),
        &|session| is_part(session.id.as_str()),
        &|session| session.names().any(is_part),
    ];
    for rule in rules {
        let fitting: Vec<&SessionName> = sessions.iter().filter(|session| rule(session)).collect();
        if !fitting.is_empty() {
            return Ok(fitting);
        }
    }
    Err(ResolveError::NotFound {
        text: text.to_owned(),
        newest: newest(&sessions.iter().collect::<Vec<_>>()),
    })
}

fn ambiguous(text: &str, several: &[&SessionName]) -> ResolveError {
    ResolveError::Ambiguous { text: text.to_owned(), count: several.len(), newest: newest(several) }
}

/// Finds a session of a data home.
///
/// A key or a label that several sessions have means the one of them that runs. If none runs, it means the newest.
pub fn resolve_in(home: &Home, text: &str) -> Result<SessionId, ResolveError> {
    // Two questions that need no names: programs use whole ids, and a person who typed nothing means the newest.
    if text == LAST {
        return name_cache::newest(home)?.ok_or(ResolveError::NoSessions);
    }
    let id = SessionId::from(text);
    if name_cache::has(home, &id) {
        return Ok(id);
    }
    let names = name_cache::names(home)?;
    let fitting = fitting(text, &names)?;
    let [first, _, ..] = fitting.as_slice() else { return resolve(text, &names).cloned() };
    if !first.has(text) {
        return Err(ambiguous(text, &fitting));
    }
    let running: Vec<&SessionName> = fitting.iter().copied().filter(|it| runs(home, &it.id)).collect();
    match running.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => newest(&fitting).into_iter().next().map(|it| it.id).ok_or(ResolveError::NoSessions),
        several => Err(ambiguous(text, several)),
    }
}

/// Finds a session of a data home that a text names without any doubt: several sessions of one name are an error, also if they ended.
pub fn resolve_exactly_in(home: &Home, text: &str) -> Result<SessionId, ResolveError> {
    resolve(text, &name_cache::names(home)?).cloned()
}

/// Returns the running session that has this text as its key or label.
pub fn running_with_name(home: &Home, text: &str) -> Result<Option<SessionId>, ResolveError> {
    let names = name_cache::names(home)?;
    let mut found = names.into_iter().filter(|it| it.has(text) && runs(home, &it.id));
    Ok(found.next().map(|it| it.id))
}

/// Returns whether a process has the session. One that cannot be looked at does not count.
fn runs(home: &Home, session: &SessionId) -> bool {
    home.session_dir(session).is_ok_and(|dir| is_live(&dir).unwrap_or(false))
}

impl SessionName {
    /// Returns whether the session has exactly this key or label.
    pub fn has(&self, name: &str) -> bool {
        !name.is_empty() && self.names().any(|own| own == name)
    }

    /// Returns the names that the caller gave.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.key.as_deref().into_iter().chain(self.label.as_deref())
    }
}

fn newest(sessions: &[&SessionName]) -> Vec<SessionName> {
    let mut sessions = sessions.to_vec();
    sessions.sort_by(|one, other| other.id.as_str().cmp(one.id.as_str()));
    sessions.into_iter().take(CANDIDATES).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::journal::SessionMeta;

    fn name(id: &str, key: Option<&str>, label: Option<&str>) -> SessionName {
        SessionName { id: id.into(), key: key.map(str::to_owned), label: label.map(str::to_owned) }
    }

    fn sessions() -> Vec<SessionName> {
        vec![
            name("s-20261115-1-aaaa", Some("chat-1"), None),
            name("s-20261117-3-cccc", Some("chat-2"), Some("parser")),
            name("s-20261116-2-bbbb", Some("chat-1"), Some("tests")),
            // A label that is also the end of another id.
            name("s-20261114-0-dddd", None, Some("aaaa")),
        ]
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let sessions = sessions();
        let check = |text: &str, expected: &str| {
            assert_eq!(resolve(text, &sessions).unwrap().as_str(), expected, "{text}");
        };
        check("s-20261115-1-aaaa", "s-20261115-1-aaaa");
        check("s-20261115", "s-20261115-1-aaaa");
        check("bbbb", "s-20261116-2-bbbb");
        check("-bbbb", "s-20261116-2-bbbb");
        check("aaaa", "s-20261114-0-dddd");
        check("chat-2", "s-20261117-3-cccc");
        check("pars", "s-20261117-3-cccc");
        check("ests", "s-20261116-2-bbbb");
        check("@last", "s-20261117-3-cccc");
    }

    #[test]
    fn an_ambiguous_text_lists_the_newest() {
        let sessions = sessions();
        let Err(ResolveError::Ambiguous { count, newest, .. }) = resolve("chat-1", &sessions) else {
            panic!("it is ambiguous");
        };
        let ids: Vec<&str> = newest.iter().map(|session| session.id.as_str()).collect();
        assert_eq!((count, ids), (2, vec!["s-20261116-2-bbbb", "s-20261115-1-aaaa"]));
        let many: Vec<SessionName> = (10..30).map(|at| name(&format!("s-{at}"), None, None)).collect();
        let Err(ResolveError::Ambiguous { count, newest, .. }) = resolve("s-", &many) else {
            panic!("it is ambiguous");
        };
        assert_eq!((count, newest.len(), newest[0].id.as_str()), (20, CANDIDATES, "s-29"));
    }

    #[test]
    fn a_text_that_names_no_session_is_an_error() {
        let sessions = sessions();
        for text in ["", "x", "@first", "parser2"] {
            let Err(ResolveError::NotFound { newest, .. }) = resolve(text, &sessions) else {
                panic!("`{text}` names no session");
            };
            assert_eq!(newest.len(), 4);
        }
        assert!(matches!(resolve("@last", &[]), Err(ResolveError::NoSessions)));
    }

    #[test]
    fn the_sessions_of_a_home_are_found() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path());
        assert!(matches!(resolve_in(&home, "@last"), Err(ResolveError::NoSessions)));
        for (id, label) in [("s-1-one", "first"), ("s-2-two", "second")] {
            let dir = home.session_dir(&id.into()).unwrap();
            std::fs::create_dir_all(&dir).unwrap();
            let mut meta = SessionMeta::new(id.into(), "an-agent", crate::system::clock::wall());
            meta.label = Some(label.to_owned());
            std::fs::write(dir.join("session.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
        }
        // The newest of several that ended, unless one of them runs.
        assert_eq!(running_with_name(&home, "first").unwrap(), None);
        let dir = home.session_dir(&"s-3-three".into()).unwrap();
        std::fs::create_dir_all(&dir).unwrap();
        let mut meta = SessionMeta::new("s-3-three".into(), "an-agent", crate::system::clock::wall());
        meta.label = Some("first".to_owned());
        std::fs::write(dir.join("session.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
        assert_eq!(resolve_in(&home, "first").unwrap().as_str(), "s-3-three");
        assert!(matches!(resolve_exactly_in(&home, "first"), Err(ResolveError::Ambiguous { count: 2, .. })));
        let events = home.session_dir(&"s-1-one".into()).unwrap().join("events.jsonl");
        let held = std::fs::File::create(events).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert_eq!(resolve_in(&home, "first").unwrap().as_str(), "s-1-one");
        assert_eq!(running_with_name(&home, "first").unwrap().unwrap().as_str(), "s-1-one");
        drop(held);
        std::fs::remove_dir_all(dir).unwrap();
        // A directory that is not a session does not hide the others.
        std::fs::create_dir(home.sessions_dir().join("s-3")).unwrap();
        assert_eq!(resolve_in(&home, "@last").unwrap().as_str(), "s-2-two");
        assert_eq!(resolve_in(&home, "first").unwrap().as_str(), "s-1-one");
    }
}
