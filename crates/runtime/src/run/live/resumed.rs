//! A session that is resumed by its name, whatever its provider is.

use bowline_protocol::SessionId;

use crate::run::error::{Error, ResumeGap};
use crate::run::launch::journal_home_of;
use crate::run::live::SessionTask;
use crate::run::task::{Task, task};
use crate::sessions::journal::{Home, SessionMeta};
use crate::sessions::resolve::resolve_in;

/// Resumes a live session by its id or a unique part of it, its name or key, or `@last`. The provider, the working directory and the
/// options are those of the session.
///
/// The session goes on under its id: events and turns are numbered behind those on file. It is never a fresh one. If the agent itself
/// does not find its session when the first prompt is sent, that turn fails with
/// [`Code::SessionNotFound`](crate::Code::SessionNotFound).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let world = bowline::testing::world();
/// # world.provider("claude", bowline::testing::script(
/// #     r#"{"session": "n-1", "steps": [{"say": "Done."}, {"result": {}}]}"#));
/// # let first = bowline::session("claude").name("thread-42").with(|task| world.prepare(task)).open().await?;
/// # first.send("Fix the parser").await?;
/// # first.turn_over().await?;
/// # first.stop().await?;
/// let session = bowline::resume("thread-42");
/// # let session = session.with(|task| world.prepare(task));
/// let session = session.await?;
/// session.send("And now the tests").await?;
/// assert_eq!(session.turn_over().await?.turn, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Errors
///
/// Of [`SessionTask::open`]: [`Error::NoSuchSession`] if the name means no session or several, and [`Error::NotResumable`] if the
/// session runs, cannot be read, or had turns of which its agent has kept none.
pub fn resume(name: impl Into<String>) -> SessionTask {
    SessionTask { resumes: Some(name.into()), ..SessionTask::of(task("")) }
}

/// Finds the session that a name means, and has the task resume it with its own provider and in its own directory.
pub(super) fn named(task: Task, name: &str) -> Result<Task, Error> {
    let task = task.captured();
    let home = journal_home_of(&task)?;
    let session = resolve_in(&home, name)?;
    let mut task = with_its_own(task, &home, &session)?;
    task.needs_history = true;
    Ok(task.resume(session.as_str()))
}

/// Takes the provider and the working directory of a session, where the task names no others.
pub(super) fn with_its_own(mut task: Task, home: &Home, session: &SessionId) -> Result<Task, Error> {
    let unread = |error| {
        let (session, gap) = (session.clone(), ResumeGap::Unreadable);
        Error::NotResumable { session, gap, source: Some(Box::new(error)) }
    };
    let meta = SessionMeta::read(&home.session_dir(session)?).map_err(unread)?;
    if task.request.provider.is_none() {
        task.request.provider = Some(meta.provider);
    }
    if task.request.cwd.is_none() {
        // Agents keep their sessions by the directory.
        task.request.cwd = meta.cwd;
    }
    Ok(task)
}
