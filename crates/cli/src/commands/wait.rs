//! `bowline wait`: waits for the end of a turn or of a session, prints the answer, and exits like `bowline run`.

use std::time::Duration;

use bowline::AttachedSession;
use bowline::exit;
use bowline::journal::{Home, Reader};
use bowline::remote::ConnectError;
use bowline_protocol::{Code, Event, Kind, Millis, PermissionMode, SessionId, Source};
use bowline_providers::views::{Digest, RunFacts};

use super::live::{find, unreachable};
use crate::args::live::WaitArgs;
use crate::args::request::TimeLimit;
use crate::error::{CommandError, Fault};
use crate::human::{DetailLevel, RunSummary};
use crate::output::sink::Sink;
use crate::ui::{Stdout, terminal};
use crate::{async_runtime, suggest, time};

/// Waits.
pub(crate) fn run(args: &WaitArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let format = suggest::output(&args.output)?;
    let runtime = async_runtime::start()?;
    let (home, id) = find(&args.session)?;
    let waited = runtime.block_on(async {
        let waiting = wait(&home, &id, args.end);
        match args.timeout {
            Some(TimeLimit::Of(limit)) => tokio::time::timeout(limit, waiting).await.unwrap_or_else(|_| {
                let message = format!("the session {id} is still busy after {} s", limit.as_secs());
                Err(CommandError::new(Fault::TooSlow, message))
            }),
            Some(TimeLimit::None) | None => waiting.await,
        }
    });
    runtime.shutdown_background();
    waited?;
    stdout.flush()?;
    let LastTurnEvents { session, turn } = last_turn(&home, &id)?;
    let options = terminal::options(DetailLevel::Quiet, PermissionMode::Ask, None);
    let mut sink = Sink::new(format, options, None);
    sink.events(&turn, time::now())?;
    let summary = RunSummary { now: time::now(), took: Millis(0), session: None, journal: None };
    let (digest, facts) = digest(&session, &turn);
    sink.finish(&summary, &digest.object(&facts))?;
    match facts.exit_code {
        0 => Ok(()),
        code => Err(CommandError::told(code)),
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
async fn wait(home: &Home, id: &SessionId, end: bool) -> Result<(), CommandError> {
    let session = match bowline::attach(home, id).await {
        Ok(session) => session,
        Err(ConnectError::NotRunning { .. }) => return Ok(()),
        // A run of one prompt has no socket. Its journal shows its end.
        Err(ConnectError::NoSocket { .. }) => return until_gone(home, id).await,
        Err(error) => return Err(unreachable(id, error)),
    };
    if end {
        until_over(&session).await
    } else {
        until_rest(&session).await
    }
    Ok(())
}

async fn until_gone(home: &Home, id: &SessionId) -> Result<(), CommandError> {
    let dir = home.session_dir(id).map_err(bowline::Error::from)?;
    let reader = Reader::open(&dir).map_err(bowline::Error::from)?;
    while reader.is_live().map_err(bowline::Error::from)? {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn until_over(session: &AttachedSession) {
    let mut head = session.head();
    while head.changed().await.is_ok() {}
}

async fn until_rest(session: &AttachedSession) {
    let mut head = session.head();
    loop {
        head.mark_unchanged();
        match session.snapshot().await {
            Ok(snapshot) if !snapshot.is_at_rest() => {}
            // At rest, or over.
            Ok(_) | Err(_) => return,
        }
        if head.changed().await.is_err() {
            return;
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
