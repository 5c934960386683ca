//! `bowline wait`: waits for the end of a turn or of a session, prints the answer, and exits like `bowline run`.

use std::cell::Cell;
use std::time::Duration;

use bowline::AttachedSession;
use bowline::exit;
use bowline::journal::{Home, Reader, SessionMeta};
use bowline::remote::ConnectError;
use bowline_protocol::kinds::{Outcome, SessionState, TurnEnded};
use bowline_protocol::{
    Category, Code, Event, Failure, Kind, Millis, PermissionMode, SessionId, SessionSnapshot, Source,
};
use bowline_providers::views::{Digest, RunFacts};

use super::live::{FoundSession, find, unreachable};
use crate::args::live::WaitArgs;
use crate::args::request::TimeLimit;
use crate::error::{CommandError, Fault};
use crate::human::{DetailLevel, RunSummary};
use crate::output::sink::{OutputFormat, Sink};
use crate::ui::{Stdout, Ui, terminal};
use crate::{async_runtime, suggest, time};

/// How long a runner may need to end after it closed its socket.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Waits.
pub(crate) fn run(args: &WaitArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let format = suggest::output(&args.output)?;
    let runtime = async_runtime::start()?;
    let found = find(&args.session)?;
    let FoundSession { home, id, name } = &found;
    let waited = runtime.block_on(async {
        let waits_for = Cell::new(None);
        let waiting = wait(&found, args, &waits_for);
        match args.timeout {
            Some(TimeLimit::Of(limit)) => tokio::time::timeout(limit, waiting).await.unwrap_or_else(|_| {
                let does = waits_for.get().unwrap_or("is still busy");
                let message = format!("the session {name} {does} after {} s", limit.as_secs());
                Err(CommandError::new(Fault::TooSlow, message))
            }),
            Some(TimeLimit::None) | None => waiting.await,
        }
    });
    let ended = waited.and_then(|()| runtime.block_on(ended_turn(&found)));
    runtime.shutdown_background();
    let (LastTurnEvents { session, mut turn }, lost) = ended?;
    stdout.flush()?;
    if turn.is_empty() && matches!(format, OutputFormat::Human) {
        Ui::new().status("the session has had no turn");
        return Ok(());
    }
    let mut options = terminal::options(DetailLevel::Quiet, PermissionMode::Ask, None);
    let dir = home.session_dir(id).map_err(bowline::Error::from)?;
    options.agent.name = Some(SessionMeta::read(&dir).map_err(bowline::Error::from)?.provider);
    let mut sink = Sink::new(format, options, None);
    sink.events(&turn, time::now())?;
    let is_lost = lost.is_some();
    if let Some(lost) = lost {
        // Programs that read events get those on file, and the reason on standard error.
        match format {
            OutputFormat::Human => sink.events(std::slice::from_ref(&lost), time::now())?,
            OutputFormat::View(_) => sink.warn(LOST)?,
        }
        turn.push(lost);
    }
    let summary = RunSummary { now: time::now(), took: Millis(0), session: None, journal: None };
    let (digest, facts) = digest(&session, &turn);
    sink.finish(&summary, &digest.object(&facts))?;
    hint_of_unsent(&found, is_lost)?;
    match facts.exit_code {
        0 => Ok(()),
        code => Err(CommandError::told(code)),
    }
}

/// Prints how to go on with a session whose runner was killed, and how many of its prompts were not sent.
fn hint_of_unsent(found: &FoundSession, is_lost: bool) -> Result<(), CommandError> {
    let dir = found.home.session_dir(&found.id).map_err(bowline::Error::from)?;
    if Reader::open(&dir).and_then(|reader| reader.is_live()).map_err(bowline::Error::from)? {
        return Ok(());
    }
    let snapshot = bowline::journal::snapshot(&dir).map_err(bowline::Error::from)?;
    if is_lost || !snapshot.offered.is_empty() {
        Ui::new().hint(&resume_hint(&found.name, &snapshot));
    }
    Ok(())
}

/// Returns the hint about a session that is not running.
pub(crate) fn resume_hint(name: &str, snapshot: &SessionSnapshot) -> String {
    let go_on = format!("`bowline start --resume {name}` goes on");
    match snapshot.offered.len() {
        0 => go_on,
        1 => format!("{go_on} and offers the prompt that was not sent"),
        unsent => format!("{go_on} and offers the {unsent} prompts that were not sent"),
    }
}

/// Digests a turn, for the object of `-o json`.
fn digest(session: &[Event], turn: &[Event]) -> (Digest, RunFacts<'static, ()>) {
    let mut digest = Digest::unlimited();
    session.iter().chain(turn).for_each(|event| digest.event(event));
    let took = match (turn.first(), turn.last()) {
        (Some(first), Some(last)) => last.at.since(first.at),
        _ => Millis(0),
    };
    let facts = RunFacts {
        usage: digest.usage(),
        usage_source: digest.usage_source(),
        cost_usd: digest.cost_usd(),
        cost: digest.cost_usd(),
        took,
        too_long: digest.too_long(),
        exit_code: code(turn),
        attempts: &[],
    };
    (digest, facts)
}

/// Waits until a session is at rest, or over. A session that is not running is both.
async fn wait(
    found: &FoundSession,
    args: &WaitArgs,
    waits_for: &Cell<Option<&'static str>>,
) -> Result<(), CommandError> {
    let FoundSession { home, id, name } = found;
    let session = match bowline::attach_in(home, id.as_str()).await {
        Ok(session) => session,
        Err(ConnectError::NotRunning { .. }) => return Ok(()),
        // A run of one prompt has no socket. Its journal shows its end.
        Err(ConnectError::NoSocket { .. }) => return until_gone(home, id).await,
        // The runner may have been killed before or during the handshake, which has many errors. Then the journal has the last turn.
        Err(error) => {
            let gone = tokio::time::timeout(ENDS_WITHIN, until_gone(home, id)).await;
            return gone.unwrap_or_else(|_| Err(unreachable(id, name, error)));
        }
    };
    if args.end {
        until_over(&session, PersonHint::new(name, waits_for)).await
    } else {
        until_rest(&session, PersonHint::new(name, waits_for)).await
    }
    Ok(())
}

/// The reason of a turn whose runner was killed.
const LOST: &str = "the process that ran the session was lost";

/// Reads the last turn. If it is open and its runner is gone, also the end that the next runner will write for it.
async fn ended_turn(found: &FoundSession) -> Result<(LastTurnEvents, Option<Event>), CommandError> {
    let FoundSession { home, id, name } = found;
    let events = last_turn(home, id)?;
    if !events.is_open() {
        return Ok((events, None));
    }
    // The kernel closes the socket of a killed process before it releases the lock, or after.
    if tokio::time::timeout(ENDS_WITHIN, until_gone(home, id)).await.is_err() {
        let message = "the connection to the runner was lost, and its turn runs on";
        return Err(
            CommandError::new(Fault::Internal, message).hint(format!("wait again: `bowline wait {name}`"))
        );
    }
    // The runner may have written the end after it closed its socket.
    let events = last_turn(home, id)?;
    let last = events.turn.last().filter(|_| events.is_open());
    let lost = last.map(|last| Event { source: Source::Bowline, raw: None, kind: lost(), ..last.clone() });
    Ok((events, lost))
}

/// Makes the end of a turn whose runner was killed.
fn lost() -> Kind {
    Kind::TurnEnded(TurnEnded {
        outcome: Outcome::Truncated,
        stop: None,
        failure: Some(Box::new(Failure::new(Category::Unknown, Code::Truncated, LOST))),
        usage: None,
        cost_usd: None,
        num_turns: None,
        running_tools: Vec::new(),
        running_tasks: Vec::new(),
    })
}

async fn until_gone(home: &Home, id: &SessionId) -> Result<(), CommandError> {
    let dir = home.session_dir(id).map_err(bowline::Error::from)?;
    let reader = Reader::open(&dir).map_err(bowline::Error::from)?;
    while reader.is_live().map_err(bowline::Error::from)? {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn until_over(session: &AttachedSession, mut hint: PersonHint<'_>) {
    let mut head = session.head();
    loop {
        head.mark_unchanged();
        if let Ok(snapshot) = session.snapshot().await {
            hint.note(&snapshot);
        }
        if head.changed().await.is_err() {
            return;
        }
    }
}

async fn until_rest(session: &AttachedSession, mut hint: PersonHint<'_>) {
    let mut head = session.head();
    loop {
        head.mark_unchanged();
        match session.snapshot().await {
            Ok(snapshot) if !snapshot.is_at_rest() => hint.note(&snapshot),
            // At rest, or over.
            Ok(_) | Err(_) => return,
        }
        if head.changed().await.is_err() {
            return;
        }
    }
}

/// Prints once for each request that a person is waited for: this command shows no requests, and would seem to hang.
#[derive(Debug)]
struct PersonHint<'a> {
    /// The word by which hints name the session.
    name: &'a str,
    shown: Option<String>,
    /// The state of the session when the time is over, if a person is waited for.
    waits_for: &'a Cell<Option<&'static str>>,
}

impl<'a> PersonHint<'a> {
    fn new(name: &'a str, waits_for: &'a Cell<Option<&'static str>>) -> Self {
        Self { name, shown: None, waits_for }
    }

    fn note(&mut self, snapshot: &SessionSnapshot) {
        let name = self.name;
        let (what, request) = match snapshot.state {
            SessionState::WaitingForApproval => {
                ("still waits for your decision", snapshot.approvals.first().map(|it| it.id.to_string()))
            }
            SessionState::WaitingForInput => {
                ("still waits for your answer", snapshot.questions.first().map(|it| it.id.to_string()))
            }
            SessionState::PausedByHuman => ("still waits for a person who leads it", Some(String::new())),
            SessionState::Created
            | SessionState::Preparing
            | SessionState::Starting
            | SessionState::Running
            | SessionState::Idle
            | SessionState::Stopping
            | SessionState::Completed
            | SessionState::Failed => return self.waits_for.set(None),
        };
        self.waits_for.set(Some(what));
        if request.is_some() && request != self.shown {
            let mut ui = Ui::new();
            ui.status(&format!("the session {}", what.trim_start_matches("still ")));
            ui.hint(&format!(
                "`bowline status {name}` shows what for; `bowline attach {name}` lets you reply"
            ));
            self.shown = request;
        }
    }
}

/// The events of the last turn, and those that name its session.
#[derive(Debug, Default)]
pub(crate) struct LastTurnEvents {
    /// The starts of the session before that turn, of the last runner.
    session: Vec<Event>,
    /// From the beginning of the turn to the end of the journal.
    pub(crate) turn: Vec<Event>,
}

impl LastTurnEvents {
    /// Returns whether a turn began and has no end.
    fn is_open(&self) -> bool {
        let is = |is: fn(&Kind) -> bool| self.turn.iter().any(|event| is(&event.kind));
        is(|kind| matches!(kind, Kind::TurnStarted(_))) && !is(|kind| matches!(kind, Kind::TurnEnded(_)))
    }
}

/// Reads the events of the last turn.
pub(crate) fn last_turn(home: &Home, id: &SessionId) -> Result<LastTurnEvents, CommandError> {
    let dir = home.session_dir(id).map_err(bowline::Error::from)?;
    let mut reader = Reader::open(&dir).map_err(bowline::Error::from)?;
    let LastTurnEvents { mut session, mut turn } = LastTurnEvents::default();
    while let Some(event) = reader.next_event().map_err(bowline::Error::from)? {
        if matches!(event.kind, Kind::TurnStarted(_)) {
            let started = turn.drain(..).filter(|it: &Event| matches!(it.kind, Kind::SessionStarted(_)));
            session.extend(started);
            let of_runner = session.iter().rposition(|it| it.source == Source::Bowline);
            session.drain(..of_runner.unwrap_or(0));
        }
        turn.push(event);
    }
    Ok(LastTurnEvents { session, turn })
}

/// Returns the exit code of a turn, as `bowline run` would have it.
fn code(turn: &[Event]) -> u8 {
    let ended = turn
        .iter()
        .rev()
        .find_map(|event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended) } else { None });
    let Some(ended) = ended else { return exit::COMPLETED };
    // A failure without a place in the output is our own verdict: the watchdog's.
    match ended.failure.as_deref() {
        Some(failure) if failure.code == Code::TimedOut && failure.raw.is_none() => exit::TIMED_OUT,
        failure => exit::of_turn(ended.outcome, failure),
    }
}
