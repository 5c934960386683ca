//! `bowline sessions` and `bowline stop`: list and stop the sessions of all processes.

use bowline::journal::JournalError;
use bowline::kinds::{EndReason, SessionState};
use bowline::registry::{DamagedSession, Killed, ListedSession, Registry, SessionFilter, StopResult};
use bowline_protocol::{SessionId, Timestamp};
use bowline_providers::ansi::harmless;
use serde::Serialize;

use crate::args::sessions::{RemoveArgs, SessionsAction, SessionsArgs, StopArgs};
use crate::async_runtime;
use crate::commands::live::outside_of_agents;
use crate::commands::session_ids;
use crate::error::{CommandError, Fault};
use crate::ui::tables::{Layout, TextTable, Tone};
use crate::ui::{Stdout, Ui};
use crate::{human, time};

/// How often `--watch` shows the list.
const WATCHED_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// A session in the list.
#[derive(Debug, Serialize)]
struct SessionRow {
    session: SessionId,
    provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    since: Timestamp,
    running: bool,
    /// The current state, or the outcome.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    /// The reason why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl From<DamagedSession> for SessionRow {
    fn from(damaged: DamagedSession) -> Self {
        let is_newer = damaged.is_newer();
        let DamagedSession { session, changed_at, problem, running, .. } = damaged;
        Self {
            state: if is_newer { "newer_version" } else { "damaged" },
            session,
            provider: String::new(),
            key: None,
            label: None,
            since: changed_at,
            running,
            cwd: None,
            problem: Some(problem.to_string()),
        }
    }
}

impl From<ListedSession> for SessionRow {
    fn from(ListedSession { meta, running, end, .. }: ListedSession) -> Self {
        Self {
            state: if running { doing(meta.state) } else { ended(meta.state, end) },
            session: meta.id,
            provider: meta.entry.unwrap_or(meta.provider),
            key: meta.key,
            label: meta.label,
            since: meta.registered_at,
            running,
            cwd: meta.cwd,
            problem: None,
        }
    }
}

/// Lists sessions.
pub(crate) fn run(args: &SessionsArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    if let Some(SessionsAction::Remove(args)) = &args.action {
        return remove(args, stdout);
    }
    if args.watch {
        return watch(args, stdout);
    }
    list(args, stdout)
}

/// Shows the list again and again. Ctrl-C ends the command.
fn watch(args: &SessionsArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    /// The cursor goes home, and everything below it is erased.
    const ANEW: &[u8] = b"\x1b[H\x1b[J";
    if matches!(stdout.layout(), Layout::Pipe) {
        return Err(CommandError::new(Fault::Usage, "`--watch` needs a terminal")
            .hint("`bowline sessions --json` prints the list once, for programs"));
    }
    loop {
        // At once: an empty list is a line on standard error, which the erasing must not follow.
        stdout.print_ready(ANEW)?;
        stdout.flush()?;
        list(args, stdout)?;
        stdout.flush()?;
        std::thread::sleep(WATCHED_EVERY);
    }
}

/// Prints the list once.
fn list(args: &SessionsArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let which = if args.all { SessionFilter::All } else { SessionFilter::Running };
    let most = if args.limit == 0 { usize::MAX } else { args.limit };
    let registry = Registry::from_env()?;
    // One more than shown, to know whether the list is cut.
    let mut listed = registry.newest(which, args.key.as_deref(), most.saturating_add(1))?;
    let is_cut = listed.len() > most;
    if is_cut {
        listed.truncate(most);
        Ui::new().status(&format!("only the newest {most} are listed; `--limit 0` lists all"));
    }
    let mut rows: Vec<SessionRow> = listed.into_iter().map(SessionRow::from).collect();
    if args.key.is_none() {
        // Skip damaged sessions that are older than the list.
        let oldest = rows.last().filter(|_| is_cut).map(|row| row.session.clone());
        let damaged = match which {
            SessionFilter::All => registry.damaged(oldest.as_ref())?,
            SessionFilter::Running => registry.of_newer_runners()?,
        };
        rows.extend(damaged.into_iter().map(SessionRow::from));
        // An id begins with its date and time, so this order is newest first.
        rows.sort_by(|one, other| other.session.as_str().cmp(one.session.as_str()));
    }
    if args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(|error| {
            CommandError::new(Fault::Internal, "could not write the list").caused_by(error)
        })?;
        return stdout.print(&format!("{text}\n"));
    }
    if !rows.is_empty() {
        let (now, zone) = (time::now(), jiff::tz::TimeZone::system());
        stdout.print_laid_out(&shown(&rows, now, &zone, stdout.layout()))?;
        for row in &rows {
            let Some(problem) = &row.problem else { continue };
            let remedy = match row.state {
                "damaged" => format!("remove it: `bowline sessions remove {}`", row.session),
                _ => "use the newer version of bowline that wrote it".to_owned(),
            };
            Ui::new().status(&harmless(&format!("{}: {problem}; {remedy}", row.session)));
        }
        return Ok(());
    }
    Ui::new().status(match which {
        SessionFilter::All => "no sessions found",
        SessionFilter::Running => "no running sessions found; `--all` includes finished ones",
    });
    Ok(())
}

fn shown(rows: &[SessionRow], now: Timestamp, zone: &jiff::tz::TimeZone, layout: Layout) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let rows = rows.iter().map(|row| {
        let (state, began) = (row.state.replace('_', " "), human::when(row.since, now, zone));
        let (key, label, cwd) = (text(&row.key), text(&row.label), text(&row.cwd));
        [row.session.to_string(), row.provider.clone(), state, began, key, label, cwd]
    });
    let head = ["SESSION", "PROVIDER", "STATE", "STARTED", "KEY", "NAME", "DIRECTORY"];
    TextTable::new(head, rows).whole(&[0]).tone(2, tone).render(layout)
}

/// Returns the colour of a state.
fn tone(state: &str) -> Tone {
    match state {
        "running" | "starting" | "preparing" | "waiting for approval" => Tone::Good,
        "failed" | "policy violation" | "damaged" => Tone::Bad,
        "lost" | "timed out" | "stopped" => Tone::Warning,
        _ => Tone::Plain,
    }
}

/// Returns the name of the state of a running session.
fn doing(state: SessionState) -> &'static str {
    match state {
        SessionState::Created => "created",
        SessionState::Preparing => "preparing",
        SessionState::Starting => "starting",
        SessionState::Running => "running",
        SessionState::Idle => "idle",
        SessionState::WaitingForApproval => "waiting_for_approval",
        SessionState::WaitingForInput => "waiting_for_input",
        SessionState::PausedByHuman => "paused_by_human",
        // The runner is still writing the end.
        SessionState::Stopping | SessionState::Completed | SessionState::Failed => "stopping",
    }
}

/// Returns the name of the outcome of a session.
fn ended(last: SessionState, reason: Option<EndReason>) -> &'static str {
    match (reason, last) {
        (Some(EndReason::Stopped), _) => "stopped",
        (Some(EndReason::TimedOut), _) => "timed_out",
        (Some(EndReason::PolicyViolation), _) => "policy_violation",
        (Some(EndReason::Exited) | None, SessionState::Completed) => "completed",
        (Some(EndReason::Failed | EndReason::Exited), _) | (None, SessionState::Failed) => "failed",
        // Its runner was killed. Without a reason, no later run has cleaned it up yet.
        (Some(EndReason::Lost) | None, _) => "lost",
    }
}

/// Removes finished or damaged sessions.
fn remove(args: &RemoveArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    outside_of_agents("remove sessions")?;
    let registry = Registry::from_env()?;
    let runtime = async_runtime::start()?;
    for typed in &args.sessions {
        let id = &session_ids::exact(typed)?;
        let removed = runtime.block_on(registry.remove(&SessionId::from(id.as_str())));
        removed.map_err(|error| not_removed(id, error.into()))?;
        stdout.print(&format!("{id}: removed\n"))?;
    }
    Ok(())
}

/// Makes the error of a session that was not removed.
fn not_removed(id: &str, error: bowline::Error) -> CommandError {
    let bowline::Error::Journal(problem) = &error else { return error.into() };
    if matches!(problem, JournalError::NoSession { .. } | JournalError::BadId { .. }) {
        return CommandError::new(Fault::Usage, format!("there is no session `{}`", harmless(id)))
            .hint("`bowline sessions --all` lists all of them");
    }
    if matches!(problem, JournalError::Locked { .. }) {
        return CommandError::new(Fault::Usage, format!("the session `{id}` is running"))
            .hint(format!("stop it first: `bowline stop {id}`"));
    }
    error.into()
}

/// Stops sessions.
pub(crate) fn stop(args: &StopArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    const REASON: &str = "bowline stop";
    outside_of_agents("stop sessions")?;
    let registry = Registry::from_env()?;
    let whole: Result<Vec<String>, CommandError> =
        args.sessions.iter().map(|id| session_ids::whole(id)).collect();
    let args = &StopArgs { sessions: whole?, key: args.key.clone(), all: args.all };
    let killed = async_runtime::start()?.block_on(async {
        match &args.key {
            // Do not mark a key without running sessions: no runner would remove the mark.
            Some(key) if !registry.has_active(key)? => Ok(Vec::new()),
            Some(key) => registry.kill_all(key, REASON).await,
            None => {
                registry.kill(|id| args.all || args.sessions.iter().any(|it| it == id.as_str()), REASON).await
            }
        }
    })?;
    for Killed { session, label, how, .. } in &killed {
        let label = label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
        let how = match how {
            StopResult::Politely => "stopped",
            StopResult::Killed => "killed: it did not stop in time",
            StopResult::Survived => continue,
        };
        stdout.print(&harmless(&format!("{session}{label}: {how}\n")))?;
    }
    let survived = killed.iter().filter(|it| it.how == StopResult::Survived).map(|it| it.session.as_str());
    let survived: Vec<&str> = survived.collect();
    if !survived.is_empty() {
        let message = format!("could not stop: {}", survived.join(", "));
        return Err(CommandError::new(Fault::Unfit, message)
            .hint("the process that runs it hangs and has other sessions, or belongs to another user"));
    }
    let newer = registry.of_newer_runners()?;
    if args.all && !newer.is_empty() {
        let newer: Vec<&str> = newer.iter().map(|it| it.session.as_str()).collect();
        let message = format!("could not stop: {}", newer.join(", "));
        return Err(CommandError::new(Fault::Unfit, message).hint(NEWER_RUNS));
    }
    if args.all && killed.is_empty() {
        Ui::new().status("no session is running");
    }
    for left in newer {
        if args.sessions.iter().any(|id| id == left.session.as_str()) {
            let error = CommandError::new(Fault::Unfit, format!("could not stop `{}`", left.session));
            return Err(error.caused_by(left.problem).hint(NEWER_RUNS));
        }
    }
    match missing(args, &registry, &killed)? {
        Some(message) => Err(CommandError::new(Fault::Usage, message)
            .hint("`bowline sessions` lists running sessions, `bowline sessions --all` all of them")),
        None => Ok(()),
    }
}

/// The remedy of a session that this version cannot stop.
const NEWER_RUNS: &str = "a newer version of bowline runs it: stop it with that version";

/// Returns the error about a requested session that is not running.
fn missing(args: &StopArgs, registry: &Registry, killed: &[Killed]) -> Result<Option<String>, CommandError> {
    if let Some(key) = args.key.as_ref().filter(|_| killed.is_empty()) {
        return Ok(Some(format!("no session with the key `{key}` is running")));
    }
    let left = args.sessions.iter().find(|id| !killed.iter().any(|it| it.session.as_str() == *id));
    let Some(id) = left else { return Ok(None) };
    Ok(Some(match registry.contains(&SessionId::from(id.as_str())) {
        true => format!("the session `{id}` is already finished"),
        false => format!("there is no session `{id}`"),
    }))
}
