//! Options of a task about its session: what it continues, its names, its journal, its container and its subscribers.

use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{Event, NativeSessionId, Resume, SessionId};

use super::{JournalChoice, Task};
use crate::run::callback::SharedCallback;
use crate::sessions::journal::Home;

/// The upper bound of the tool output in an event.
const MOST_OF_OUTPUT: usize = 16 << 20;

impl Task {
    /// Resumes an earlier session of the agent. If the agent begins a new session instead, the turn fails.
    ///
    /// The id is the agent's own ([`Record::native_session`](crate::Record::native_session)), or that of a Bowline session in
    /// the same data home ([`Turn::session`](crate::Turn::session)). A Bowline session goes on under its id: the run appends to
    /// its journal, and events and turns are numbered behind those on file. The record and the events of the turn are those of
    /// this run. With the agent's own id the run is a session of its own, and so is one without a lasting journal.
    ///
    /// A Bowline session that cannot be resumed, or whose runner lives, is [`Error::NotResumable`](crate::Error::NotResumable),
    /// and nothing is started. [`Error::Journal`](crate::Error::Journal) reports a session that a newer version wrote.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let world = bowline::testing::world();
    /// # let says = |id: &str| bowline::testing::script(&format!(
    /// #     r#"{{"session": "{id}", "steps": [{{"say": "a"}}, {{"result": {{}}}}]}}"#));
    /// # world.provider("claude", says("n-1"));
    /// let first = world.task("Read the parser").provider("claude").run().await?;
    /// let second = world.task("Now fix it").provider("claude").resume(first.session.as_str()).run().await?;
    /// assert_eq!(second.session, first.session);
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub fn resume(mut self, id: impl Into<NativeSessionId>) -> Self {
        self.request.resume = Some(Resume::Id { native_session: id.into() });
        self
    }

    /// Forks an earlier session of the agent: the run begins with a copy of its conversation, in a session of its own. The earlier
    /// one is left as it is. If the agent goes on with that one instead, the turn fails.
    ///
    /// The id is the agent's own, or that of a Bowline session in the same data home, whose options count as for a resume.
    /// [`Error::Refused`](crate::Error::Refused) reports a provider or format that cannot fork, and nothing is started.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let world = bowline::testing::world();
    /// # let says = |id: &str| bowline::testing::script(&format!(
    /// #     r#"{{"session": "{id}", "steps": [{{"say": "a"}}, {{"result": {{}}}}]}}"#));
    /// # world.provider("claude", says("n-1"));
    /// let first = world.task("Read the parser").provider("claude").run().await?;
    /// # world.provider("claude", says("n-2"));
    /// let second = world.task("Try another way").provider("claude").fork(first.session.as_str()).run().await?;
    /// assert_ne!(second.session, first.session);
    /// assert_ne!(second.native_session, first.native_session);
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub fn fork(mut self, id: impl Into<NativeSessionId>) -> Self {
        self.request.resume = Some(Resume::Fork { native_session: id.into() });
        self
    }

    /// Sets the Bowline session that this one continues. If its program has been replaced since, a notice names both versions.
    pub fn parent(mut self, session: SessionId) -> Self {
        self.parent = Some(session);
        self
    }

    /// Resumes the agent's last session in the working directory.
    pub fn resume_latest(mut self) -> Self {
        self.request.resume = Some(Resume::Latest);
        self
    }

    /// Leaves no trace: neither in the agent's own history nor in the journal.
    pub fn ephemeral(mut self) -> Self {
        self.request.ephemeral = true;
        self.journal = JournalChoice::Temporary;
        self
    }

    /// Ignores the user's settings for the agent.
    pub fn isolate(mut self) -> Self {
        self.request.isolate = true;
        self
    }

    /// Runs the agent in a container.
    pub fn docker(mut self, container: impl Into<String>) -> Self {
        self.request.docker = Some(container.into());
        self
    }

    /// Sets the caller's key, which finds and ends sessions together.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.request.key = Some(key.into());
        self
    }

    /// Sets a label for people.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Declares that this process exists for this task alone and cancels it on SIGTERM, as `bowline run` does. Another process
    /// that ends the session may then signal this one; see [`crate::registry`].
    pub fn sole_process(mut self) -> Self {
        self.sole = true;
        self
    }

    /// Keeps the journal in this data home instead of the user's.
    pub fn home(mut self, home: Home) -> Self {
        self.journal = JournalChoice::At(home);
        self
    }

    /// Keeps no journal. The run then waits for its subscriber: a slow subscriber slows the agent down.
    pub fn without_journal(mut self) -> Self {
        self.journal = JournalChoice::None;
        self
    }

    /// Limits the size of the journal on disk, in bytes. A turn that would write more fails.
    pub fn disk_quota(mut self, bytes: u64) -> Self {
        self.quota = Some(bytes);
        self
    }

    /// Does not run git to list the changed files.
    pub fn without_files(mut self) -> Self {
        self.files = false;
        self
    }

    /// Sets how many bytes of a tool's output an event carries; 32 KiB without this. Longer output is cut, and
    /// [`Excerpt::is_cut`](crate::Excerpt::is_cut) returns true.
    ///
    /// The whole output is in the journal, and [`Reader::tool_output`](crate::journal::Reader::tool_output) returns it. Without
    /// a journal ([`Task::without_journal`]) the rest is lost. The limit is at most 16 MiB, because events stay in memory until
    /// they are read.
    ///
    /// ```
    /// let task = bowline::task("Run the tests").provider("codex").without_journal().excerpt_limit(4 << 20);
    /// ```
    pub fn excerpt_limit(mut self, bytes: usize) -> Self {
        self.excerpt_limit = Some(bytes.min(MOST_OF_OUTPUT));
        self
    }

    /// Sets a callback for every event, called when the event becomes public. It runs on the task that drives the run, so it
    /// should be quick.
    pub fn on_event(mut self, callback: impl FnMut(&Event) + Send + 'static) -> Self {
        self.callback = Some(SharedCallback::new(callback));
        self
    }

    /// Adds a notice to the beginning of the run's events.
    pub fn notice(mut self, code: impl Into<String>, text: impl Into<String>) -> Self {
        self.notices.push(Notice { level: Level::Info, text: text.into(), code: Some(code.into()) });
        self
    }
}
