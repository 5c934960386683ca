//! Whether a session outlives the processes around it: its runner, and the clients that watch it.

use std::time::Duration;

use bowline::kinds::UserOrigin;
use bowline::{Event, Kind, Outcome, PermissionMode, Receipt};
use rustix::process::Signal;

use super::conversations::SECRET;
use crate::case_failure::{CaseFailure, CaseVerdict, hold, short};
use crate::place::{CaseContext, CasePlace};
use crate::runner::WatcherProcess;

/// A word of the prompt whose turn is killed, and one of the prompt that waits behind it.
const KILLED: &str = "bollard";
const WAITING: &str = "capstan";

pub(super) async fn killed(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let session = place.start_runner(None).await?;
    session.send(&format!("[[text]] {SECRET}")).await?;
    let first = session.rest().await?;
    session.hold(first.outcome == Outcome::Completed, || {
        format!("the first turn ended as {:?}", first.outcome)
    })?;
    let before = place.requests().len();
    session.send(&format!("[[slow]] Count, {KILLED}.")).await?;
    session.wait_for("a request to the model", || place.requests().len() > before).await?;
    let queued = session.send(&format!("[[text]] Mention the {WAITING}.")).await?;
    session.hold(matches!(queued, Receipt::Queued { .. }), || {
        format!("the answer to the second prompt is {queued:?}")
    })?;
    let id = session.id().clone();
    session.kill().await?;
    let asked = place.requests().len();

    let session = place.start_runner(Some(&id)).await?;
    session.hold(*session.id() == id, || format!("the session was {id} and is {}", session.id()))?;
    let snapshot = session.snapshot().await?;
    let offered: Vec<&str> = snapshot.offered.iter().map(|prompt| prompt.text.as_str()).collect();
    session.hold(offered.len() == 1 && offered[0].contains(WAITING), || {
        format!("the prompts that were not sent are {offered:?}")
    })?;
    session.hold(snapshot.is_at_rest() && place.requests().len() == asked, || {
        "the resumed session works without a prompt".to_owned()
    })?;
    session.send("[[text]] What is the password?").await?;
    let last = session.rest().await?;
    session.hold(last.outcome == Outcome::Completed, || {
        format!("the resumed turn ended as {:?}", last.outcome)
    })?;
    let events = session.stop().await?;
    sent_once(&place, &events)
}

/// Succeeds if the agent had the first prompt in its last request, the killed one at most once in each, and never the one that waits.
fn sent_once(place: &CasePlace, events: &[Event]) -> CaseVerdict {
    let requests = place.requests();
    let users = requests.last().and_then(|entry| entry.facts.as_ref());
    let users = users.map(|facts| facts.users.clone()).unwrap_or_default();
    hold(users.iter().any(|text| text.contains(SECRET)), || {
        format!("the earlier conversation is not in the request: {}", short(&users.join(" / ")))
    })?;
    let times = |word: &str| {
        let times = |entry: &bowline_simulator::LedgerEntry| {
            let facts = entry.facts.as_ref();
            facts.map_or(0, |facts| facts.users.iter().filter(|text| text.contains(word)).count())
        };
        requests.iter().map(times).collect::<Vec<usize>>()
    };
    let (killed, waiting) = (times(KILLED), times(WAITING));
    hold(killed.iter().max() == Some(&1), || {
        format!("the prompt of the killed turn is in the requests {killed:?} times")
    })?;
    hold(waiting.iter().all(|times| *times == 0), || {
        format!("the prompt that was not sent is in the requests {waiting:?} times")
    })?;
    // A program that resumes by `session/load` replays the prompts that it has on file, which begin no turns.
    let begins = |event: &&Event| {
        let Kind::UserMessage(message) = &event.kind else { return false };
        message.origin != UserOrigin::Replayed && message.text.contains(KILLED)
    };
    let began = events.iter().filter(begins).count();
    hold(began == 1, || format!("the prompt of the killed turn began {began} turns"))?;
    // A number twice or a gap would mean that the repaired journal lost or doubled an event.
    let numbers = events.iter().zip(1_u64..).all(|(event, number)| event.seq == number);
    hold(numbers, || "the events of the session are not numbered without a gap".to_owned())
}

pub(super) async fn watched(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    session.orders().serve()?;
    let watcher = |name| WatcherProcess::start(&context, session.id(), name);
    let (whole, stopped, dead) = tokio::try_join!(watcher("whole"), watcher("stopped"), watcher("dead"))?;
    session.wait("the watchers", || [&whole, &stopped, &dead].iter().all(|it| !it.seen().is_empty())).await?;
    session.send("[[slow]] Count.").await?;
    session.wait("a request to the model", || !place.requests().is_empty()).await?;
    stopped.signal(Signal::STOP)?;
    dead.signal(Signal::KILL)?;
    let last = session.rest().await?;
    session.hold(last.outcome == Outcome::Completed, || format!("the turn ended as {:?}", last.outcome))?;
    session.ask("[[text]] And now?").await?;
    let events = session.stop_with_events(&place).await?;
    sees_all(&whole, &events, &context).await?;
    hold(stopped.is_alive() && stopped.seen().len() < events.len(), || {
        "the stopped watcher was not stopped while the session worked".to_owned()
    })?;
    // It reads what it missed from the journal: the session has ended long ago.
    stopped.signal(Signal::CONT)?;
    sees_all(&stopped, &events, &context).await?;
    let seen = dead.seen();
    hold(events.starts_with(&seen), || "the killed watcher saw other events before its death".to_owned())
}

/// Succeeds if a watcher ends by itself, and has seen every event once.
async fn sees_all(watcher: &WatcherProcess, events: &[Event], context: &CaseContext) -> CaseVerdict {
    let time = crate::clock::Stopwatch::start();
    while watcher.is_alive() {
        if time.elapsed() > context.patience {
            return Err(CaseFailure::new("a watcher does not end with the session"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen = watcher.seen();
    hold(seen == events, || format!("a watcher saw {} of {} events", seen.len(), events.len()))
}
