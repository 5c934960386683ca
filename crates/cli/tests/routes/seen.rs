//! What a run of the command let one see.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    dir: PathBuf,
}

/// One attempt: a session with its events, or the part of one that a retry added.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) session: String,
    /// The session before it, by its own file.
    pub(crate) parent: Option<String>,
    /// The kinds of its events, in order.
    kinds: Vec<Value>,
}

impl Seen {
    pub(crate) fn new(code: Option<i32>, stdout: String, stderr: String, dir: &Path) -> Self {
        Self { code, stdout, stderr, dir: dir.to_owned() }
    }

    /// Panics unless it ended with this code.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stderr, self.stdout);
        self
    }

    /// Returns the attempts, in order, of the events that were printed.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for line in self.stdout.lines() {
            let mut event: Value = serde_json::from_str(line).expect("a line is an event");
            let session = event["session"].as_str().expect("an event has a session").to_owned();
            let begins = event["source"] == "bowline" && event["kind"]["type"] == "session_started";
            if begins || attempts.last().is_none_or(|last| last.session != session) {
                let parent = self.parent(&session);
                attempts.push(Attempt { session, parent, kinds: Vec::new() });
            }
            attempts.last_mut().expect("there is one").kinds.push(event["kind"].take());
        }
        attempts
    }

    /// Returns the providers that the router chose, attempt by attempt.
    pub(crate) fn chosen(&self) -> Vec<String> {
        let provider = |it: &Attempt| it.route()["provider"].as_str().expect("a name").to_owned();
        self.attempts().iter().map(provider).collect()
    }

    fn parent(&self, session: &str) -> Option<String> {
        let file = self.dir.join("home/.local/share/bowline/sessions").join(session).join("session.json");
        let text = std::fs::read_to_string(file).expect("a session has a file");
        let session: Value = serde_json::from_str(&text).expect("it is JSON");
        session["parent"].as_str().map(str::to_owned)
    }
}

impl Attempt {
    /// Returns the events of a kind.
    pub(crate) fn all(&self, kind: &str) -> Vec<&Value> {
        self.kinds.iter().filter(|it| it["type"] == kind).collect()
    }

    /// Returns the only event of a kind.
    #[track_caller]
    pub(crate) fn one(&self, kind: &str) -> &Value {
        let all = self.all(kind);
        assert_eq!(all.len(), 1, "{kind}: {:#?}", self.kinds);
        all[0]
    }

    /// Returns why this one was chosen.
    #[track_caller]
    pub(crate) fn route(&self) -> &Value {
        self.one("route_chosen")
    }

    /// Returns what the router says right after its choice: what came before this attempt.
    #[track_caller]
    pub(crate) fn opening(&self) -> &Value {
        let place =
            self.kinds.iter().position(|it| it["type"] == "route_chosen").expect("there was a choice");
        &self.kinds[place + 1]
    }

    /// Returns what was said.
    pub(crate) fn text(&self) -> String {
        self.all("text_delta").iter().filter_map(|it| it["text"].as_str()).collect()
    }
}
