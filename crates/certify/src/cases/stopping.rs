//! Whether it can be ended, at any time, with nobody left and nothing lost.

use std::time::Duration;

use bowline::{Exit, Kind};
use bowline_protocol::Category;
use bowline_protocol::kinds::Outcome;

use super::asking;
use crate::place::{Room, Seen, StopWhen};
use crate::trouble::{Verdict, short};

/// The longest time from asking for the end to the end.
const PATIENCE: Duration = Duration::from_millis(2500);

pub(super) async fn in_the_answer(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let when = if asking(room.subject.manifest).streams_text {
        StopWhen::Deltas(3)
    } else {
        StopWhen::Asked(Duration::from_millis(700))
    };
    let seen = place.stop(place.task("[[slow]] Count."), when).await?;
    let said: String = seen
        .events
        .iter()
        .filter_map(|event| if let Kind::TextDelta(it) = &event.kind { Some(it.text.as_str()) } else { None })
        .collect();
    gone(&seen)?;
    seen.hold(!said.contains("forty"), || "it said everything, though it was stopped".to_owned())?;
    seen.hold(seen.text().trim().starts_with(said.trim()), || {
        format!("{} was said, {} was kept", short(&said), short(seen.text()))
    })
}

/// That it ends is our doing in the end; that it ends when it is asked to is its own.
pub(super) async fn when_asked(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let when = StopWhen::Asked(Duration::from_millis(300));
    let seen = place.stop(place.task("[[slow]] Count."), when).await?;
    was_asked(&seen)?;
    seen.hold(seen.record.exit != Some(Exit::Signal(9)), || "it had to be killed".to_owned())?;
    let killed: Vec<String> =
        seen.record.killed.iter().map(|it| format!("pid {}: {}", it.pid, short(&it.command))).collect();
    seen.hold(killed.is_empty(), || format!("it ended, but these had to be killed: {killed:?}"))?;
    gone(&seen)
}

pub(super) async fn in_a_tool(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let file = place.project.join("started");
    let prompt = format!("[[shell command=\"touch {}; sleep 300\"]] Run it.", file.display());
    let seen = place.stop(place.free(&prompt), StopWhen::File(file.clone())).await?;
    seen.hold(file.exists(), || "the tool never ran".to_owned())?;
    gone(&seen)
}

pub(super) async fn timeout(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[hang]] Wait.").timeout(Duration::from_secs(12))).await?;
    seen.hold(!place.requests().is_empty(), || "the model was never asked".to_owned())?;
    let category = seen.record.failure.as_ref().map(|failure| failure.category);
    seen.hold(seen.record.outcome == Outcome::Failed && category == Some(Category::Timeout), || {
        "a run that waits for ever is not a timeout".to_owned()
    })?;
    nobody_left(&seen)
}

/// Is content if the run was cancelled, quickly, and all its processes are gone.
fn gone(seen: &Seen) -> Verdict {
    was_asked(seen)?;
    seen.hold(seen.record.outcome == Outcome::Cancelled, || {
        "it was stopped, and is not cancelled".to_owned()
    })?;
    let took = seen.stopping.unwrap_or_default();
    seen.hold(took <= PATIENCE, || format!("it took {} ms to end", took.as_millis()))?;
    nobody_left(seen)
}

fn was_asked(seen: &Seen) -> Verdict {
    seen.hold(seen.stopping.is_some(), || {
        "it ended, or came to nothing, before there was anything to stop".to_owned()
    })
}

/// Looks for processes of the session by the marker in their environment, not by what our own report says.
fn nobody_left(seen: &Seen) -> Verdict {
    let mark = format!("{}={}", bowline_process::SESSION_VARIABLE, seen.record.session);
    let mut alive = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            alive.push(format!(
                "pid {}: {}",
                entry.file_name().to_string_lossy(),
                command.replace('\0', " ")
            ));
        }
    }
    seen.hold(alive.is_empty(), || format!("alive: {alive:?}"))
}
