//! A fork of a session: a session of its own, whose agent begins with a copy of the conversation. The session that is forked is
//! left as it is.

use std::pin::Pin;
use std::time::Duration;

use bowline_protocol::{PermissionMode, PromptId, RequestField, SessionId};
use bowline_providers::invocation::Refusal;

use super::resumed::with_its_own;
use super::{AttachedSession, LiveSession, SessionTask};
use crate::run::error::Error;
use crate::run::launch::journal_home_of;
use crate::run::task::{JournalChoice, Task, task};

impl LiveSession {
    /// Builds a fork of the session: a session with an id and a journal of its own, whose agent begins with the conversation so far.
    /// It has the settings of this one, with the options of the moment, and neither its name nor its key.
    ///
    /// The agent makes its fork when it begins with the first prompt of the fork, of the conversation that it has stored until then:
    /// [`Self::turn_over`] waits for the end of the running turn. A prompt that is sent to this session in between becomes part of both.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let world = bowline::testing::world();
    /// # world.provider("claude", bowline::testing::script(r#"{"session": "n-1", "prompts": [[{"say": "Done."}, {"result": {}}]]}"#));
    /// # let session = bowline::session("claude").with(|task| world.prepare(task)).open().await?;
    /// session.send("Plan the parser").await?;
    /// session.turn_over().await?;
    /// let branch = session.fork().name("by-hand").open().await?;
    /// branch.send("Write it by hand").await?;
    /// branch.turn_over().await?;
    /// session.send("Write it with a generator").await?;
    /// # assert_ne!(branch.id(), session.id());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn fork(&self) -> SessionFork {
        let mut task = (*self.template).clone();
        let is_kept = matches!(task.journal, JournalChoice::Default | JournalChoice::At(_));
        // The source's own, or those that the journal has of the moment.
        (task.label, task.parent, task.request.key) = (None, None, None);
        (task.request.model, task.request.effort) = (None, None);
        (task.request.permission, task.mode_chosen) = (PermissionMode::default(), false);
        let idle = task.live.and_then(|live| live.idle);
        let mut fork = SessionFork::of(task, is_kept.then(|| self.id().clone()));
        fork.branch.idle = idle.map(|idle| Duration::from_millis(idle.0));
        fork
    }
}

impl AttachedSession {
    /// Builds a fork of the session, in this process; see [`LiveSession::fork`]. The runner's settings are not known here:
    /// [`SessionFork::with`] sets them.
    pub fn fork(&self) -> SessionFork {
        SessionFork::of(task("").home(self.home.clone()), Some(self.id().clone()))
    }
}

/// A fork of a session that is not open yet.
#[derive(Clone, Debug)]
#[must_use = "a fork does nothing until it is opened"]
pub struct SessionFork {
    branch: SessionTask,
    /// The session that is forked; none if it keeps no journal.
    source: Option<SessionId>,
    at: Option<PromptId>,
}

impl SessionFork {
    fn of(task: Task, source: Option<SessionId>) -> Self {
        Self { branch: SessionTask::of(task), source, at: None }
    }

    /// Forks behind this prompt instead of behind the last one.
    ///
    /// No provider can do it yet, and [`Self::open`] refuses it.
    pub fn at(self, prompt: impl Into<PromptId>) -> Self {
        Self { at: Some(prompt.into()), ..self }
    }

    /// Sets a name by which people find the fork.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { branch: self.branch.name(name), ..self }
    }

    /// Changes the options that it shares with a task of one prompt.
    pub fn with(self, change: impl FnOnce(Task) -> Task) -> Self {
        Self { branch: self.branch.with(change), ..self }
    }

    /// Opens the fork. Its agent forks the conversation when the first prompt is sent. If it goes on with the session that was to be
    /// forked instead, that turn fails with [`Code::SessionNotFound`](crate::Code::SessionNotFound).
    ///
    /// Needs a tokio runtime; see [`SessionTask::open`].
    ///
    /// # Errors
    ///
    /// As those of [`SessionTask::open`]. [`Error::Refused`] if the provider cannot fork in the format of live sessions, or not at a
    /// prompt; [`Error::NotResumable`] if the agent has named no session yet; [`Error::NoJournal`] if the session keeps no journal.
    /// Nothing was started then, and there is no new session.
    pub async fn open(self) -> Result<LiveSession, Error> {
        let Self { branch, source, at } = self;
        let source = source.ok_or(Error::NoJournal)?;
        let task = branch.task.captured();
        let home = journal_home_of(&task)?;
        let task = with_its_own(task, &home, &source)?;
        if let Some(prompt) = at {
            let provider = task.request.provider.as_deref().unwrap_or_default();
            let field = RequestField::Resume.value(format!("fork at {prompt}"));
            let reason = "it cannot fork a session at a prompt, only behind the last one";
            return Err(Refusal::unsupported(provider, field, reason).into());
        }
        SessionTask { task: task.fork(source.as_str()), ..branch }.open().await
    }
}

impl IntoFuture for SessionFork {
    type Output = Result<LiveSession, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}
