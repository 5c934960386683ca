//! Whether a run can be ended at any time, with no process left and no text lost.

use std::time::Duration;

use bowline::{Exit, Kind};
use bowline_protocol::Category;
use bowline_protocol::kinds::Outcome;

use super::asking;
use crate::case_failure::{CaseVerdict, short};
use crate::place::{CaseContext, StopCondition, WatchedRun};
use crate::processes;

/// The longest time from the cancellation to the end.
const PATIENCE: Duration = Duration::from_millis(2500);

pub(super) async fn in_the_answer(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let when = if asking(context.subject.manifest).streams_text {
        StopCondition::Deltas(3)
    } else {
        StopCondition::Asked(Duration::from_millis(700))
    };
    let seen = place.stop(place.task("[[slow]] Count."), when).await?;
    let said: String = seen
        .events
        .iter()
        .filter_map(|event| if let Kind::TextDelta(it) = &event.kind { Some(it.text.as_str()) } else { None })
        .collect();
    gone(&seen)?;
    seen.hold(!said.contains("forty"), || {
        "the whole answer arrived although the run was stopped".to_owned()
    })?;
    seen.hold(seen.text().trim().starts_with(said.trim()), || {
        format!("{} was printed, {} was kept", short(&said), short(seen.text()))
    })
}

/// Bowline ends every program in the end; this case tests whether the program exits on its own stop signal.
pub(super) async fn when_asked(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let when = StopCondition::Asked(Duration::from_millis(300));
    let seen = place.stop(place.task("[[slow]] Count."), when).await?;
    was_asked(&seen)?;
    seen.hold(seen.record.exit != Some(Exit::Signal(9)), || "the program had to be killed".to_owned())?;
    let killed: Vec<String> =
        seen.record.killed.iter().map(|it| format!("pid {}: {}", it.pid, short(&it.command))).collect();
    seen.hold(killed.is_empty(), || {
        format!("the program exited, but these processes had to be killed: {killed:?}")
    })?;
    gone(&seen)
}

pub(super) async fn in_a_tool(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join("started");
    let prompt = format!("[[shell command=\"touch {}; sleep 300\"]] Run it.", file.display());
    let seen = place.stop(place.free(&prompt), StopCondition::File(file.clone())).await?;
    seen.hold(file.exists(), || "the tool never ran".to_owned())?;
    gone(&seen)
}

pub(super) async fn timeout(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let within = |limit| place.task("[[hang]] Wait.").timeout(Duration::from_secs(limit));
    let mut seen = place.run(within(12)).await?;
    if place.requests().is_empty() {
        // A heavy program on a busy machine takes longer than that to start (13 s were measured).
        seen = place.run(within(40)).await?;
    }
    seen.hold(!place.requests().is_empty(), || "the program sent no request to the model".to_owned())?;
    let category = seen.record.failure.as_ref().map(|failure| failure.category);
    seen.hold(seen.record.outcome == Outcome::Failed && category == Some(Category::Timeout), || {
        "the hanging run did not end as a timeout".to_owned()
    })?;
    no_process_left(&seen)
}

/// Succeeds if the run was cancelled quickly and all its processes are gone.
fn gone(seen: &WatchedRun) -> CaseVerdict {
    was_asked(seen)?;
    seen.hold(seen.record.outcome == Outcome::Cancelled, || {
        "the run was stopped, but its outcome is not `cancelled`".to_owned()
    })?;
    let took = seen.stopping.unwrap_or_default();
    seen.hold(took <= PATIENCE, || format!("it took {} ms to end", took.as_millis()))?;
    no_process_left(seen)
}

fn was_asked(seen: &WatchedRun) -> CaseVerdict {
    seen.hold(seen.stopping.is_some(), || "the run ended before there was anything to stop".to_owned())
}

/// Looks for processes of the session by the marker in their environment, independently of our own report.
fn no_process_left(seen: &WatchedRun) -> CaseVerdict {
    let mark = format!("{}={}", bowline_process::SESSION_VARIABLE, seen.record.session);
    let alive = processes::with_variable(&mark);
    seen.hold(alive.is_empty(), || format!("alive: {alive:?}"))
}
