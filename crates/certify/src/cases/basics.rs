//! Whether it is there, speaks, works and counts.

use std::time::Duration;

use bowline::kinds::ToolStatus;
use bowline::{Event, Kind, PermissionMode, Usage};
use bowline_protocol::Decision;

use bowline_simulator::Entry;

use crate::place::{Place, Room, Seen};
use crate::trouble::{Trouble, Verdict, hold, short};

/// What the scenario `text` says.
const TEXT: &str = "The knot holds, and it always unties.";

pub(super) async fn detect(room: Room) -> Verdict {
    match &room.subject.version {
        Ok(_) => Ok(()),
        Err(why) => Err(Trouble::new(why)),
    }
}

pub(super) async fn flags(room: Room) -> Verdict {
    if let Err(why) = &room.subject.version {
        return Err(Trouble::new("it was not asked for its help, because it did not answer before").and(why));
    }
    hold(!room.subject.pages.is_empty(), || "no page of its help could be read".to_owned())?;
    let serious: Vec<String> =
        room.subject.findings.iter().filter(|it| it.is_serious()).map(ToString::to_string).collect();
    if serious.is_empty() { Ok(()) } else { Err(Trouble(serious)) }
}

pub(super) async fn text(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[text]] Say something about knots.")).await?;
    seen.completed()?;
    seen.hold(place.was_answered_by("text"), || "the model was never asked".to_owned())?;
    seen.hold(seen.text() == TEXT, || format!("served {TEXT:?}, got {}", short(seen.text())))?;
    let said: String = deltas(&seen);
    seen.hold(said.is_empty() || said == TEXT, || format!("the pieces join to {}", short(&said)))
}

pub(super) async fn streaming(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[slow]] Count.")).await?;
    seen.completed()?;
    let of_text: Vec<Duration> = seen
        .events
        .iter()
        .zip(&seen.times)
        .filter(|(event, _)| matches!(event.kind, Kind::TextDelta(_)))
        .map(|(_, at)| *at)
        .collect();
    let (Some(first), Some(last)) = (of_text.first(), of_text.last()) else {
        return Err(seen.trouble("there was no piece of text at all"));
    };
    // The scenario takes two seconds.
    let apart = last.saturating_sub(*first);
    seen.hold(of_text.len() >= 4 && apart >= Duration::from_secs(1), || {
        format!(
            "{} pieces of text within {} ms, of an answer that took 2000 ms",
            of_text.len(),
            apart.as_millis()
        )
    })?;
    let said = deltas(&seen);
    seen.hold(said.trim() == seen.text().trim(), || format!("the pieces join to {}", short(&said)))
}

pub(super) async fn thinking(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[thinking]] Which knot?")).await?;
    seen.completed()?;
    let thought: String = seen
        .events
        .iter()
        .filter_map(
            |event| if let Kind::ThinkingDelta(it) = &event.kind { Some(it.text.as_str()) } else { None },
        )
        .collect();
    seen.hold(thought.contains("about ropes"), || format!("thoughts: {}", short(&thought)))?;
    seen.hold(seen.text() == "Tie a bowline.", || format!("the answer is {}", short(seen.text())))
}

pub(super) async fn edit(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let file = place.project.join("knot.txt");
    let prompt = format!("[[edit file={}]] Write the file.", file.display());
    let seen = place.run(place.editing(&prompt)).await?;
    seen.completed()?;
    let content = std::fs::read_to_string(&file);
    seen.hold(content.as_deref().is_ok_and(|it| it.trim() == "the knot holds"), || {
        format!("{} is {content:?}", file.display())
    })?;
    let count = |is: fn(&Kind) -> bool| seen.events.iter().filter(|event| is(&event.kind)).count();
    let begun = count(|kind| matches!(kind, Kind::ToolStarted(_)));
    let done = count(|kind| matches!(kind, Kind::ToolFinished(it) if it.status == ToolStatus::Completed));
    seen.hold(begun == 1 && done == 1, || format!("tools begun: {begun}, completed: {done}; served: 1"))?;
    seen.hold(seen.text().ends_with("The file is written."), || {
        format!("the answer is {}", short(seen.text()))
    })
}

pub(super) async fn shell(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let seen = place.run(place.free("[[shell]] Run the command.")).await?;
    seen.completed()?;
    let told = seen.events.iter().any(|event| {
        let Kind::ToolFinished(it) = &event.kind else { return false };
        it.output.as_ref().is_some_and(|it| it.text.contains("the-knot-holds"))
    });
    seen.hold(told, || "no tool ended with what the command printed".to_owned())
}

pub(super) async fn files_touched(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let file = place.project.join("knot.txt");
    let prompt = format!("[[edit file={}]] Write the file.", file.display());
    let seen = place.run(place.editing(&prompt)).await?;
    let named: Vec<&str> = seen.record.files.iter().map(|it| it.path.as_str()).collect();
    seen.hold(named.iter().any(|path| path.ends_with("knot.txt")), || format!("files named: {named:?}"))
}

/// Asks for something risky. A program may refuse it, or not even offer a tool for it; that it would have been done is
/// then shown where everything is allowed.
pub(super) async fn policy_gate(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let file = place.project.join("risky.txt");
    let prompt = format!("[[risky file={}]] Do it.", file.display());
    let seen = place.run(place.task(&prompt)).await?;
    seen.hold(!place.requests().is_empty(), || "the model was never asked".to_owned())?;
    seen.hold(!file.exists(), || "it was done, though nobody had allowed it".to_owned())?;
    if !called(&place).is_empty() {
        return refusal_told(&room, &seen);
    }
    let free = room.place("two").await?;
    let file = free.project.join("risky.txt");
    let prompt = format!("[[risky file={}]] Do it.", file.display());
    let seen = free.run(free.free(&prompt)).await?;
    let tools = called(&free);
    seen.hold(!tools.is_empty() && file.exists(), || {
        format!(
            "nothing risky is offered to the model, and where everything is allowed it is not done either \
             (called: {tools:?}), so that nothing was refused; its manifest has to say so ([certify.not_claimed])"
        )
    })
}

/// A program that is run in a form of its own because it asks there has to have asked.
fn refusal_told(room: &Room, seen: &Seen) -> Verdict {
    let better = room.subject.manifest.better_format(PermissionMode::Ask);
    let asks = better.is_some_and(|(_, own)| own.gives == "approvals");
    let refused = |event: &Event| matches!(&event.kind, Kind::ApprovalDecided(it) if matches!(it.decision, Decision::Deny | Decision::DenyAlways));
    seen.hold(!asks || seen.events.iter().any(refused), || "no refusal was told".to_owned())
}

/// Returns the tools that the model called.
fn called(place: &Place) -> Vec<String> {
    place.requests().into_iter().flat_map(|entry| entry.called).collect()
}

pub(super) async fn usage(room: Room) -> Verdict {
    for (name, prompt) in [("one", "[[text]] Say something."), ("two", "[[edit]] Write the file.")] {
        let place = room.place(name).await?;
        let seen = place.run(place.editing(prompt)).await?;
        seen.completed()?;
        // What a program asks beside the conversation, such as a title, some count and some do not.
        let (served, with_sides) = (sum(&place.requests()), sum(&place.all_requests()));
        let Some(told) = &seen.record.usage else { return Err(seen.trouble("no usage was reported")) };
        let figures = |it: &Usage| (it.input, it.output, it.cache_read, it.cache_write);
        let right = [figures(&served), figures(&with_sides)];
        seen.hold(right.contains(&figures(told)), || {
            format!(
                "input, output, cache read, cache written: served {:?} in {} requests, reported {:?}",
                figures(&served),
                place.requests().len(),
                figures(told)
            )
        })?;
    }
    Ok(())
}

pub(super) async fn cost(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let seen = place.run(place.task("[[text]] Say something.")).await?;
    let cost = seen.record.cost_usd;
    seen.hold(cost.is_some_and(|usd| usd.is_finite() && usd > 0.0), || format!("the cost is {cost:?}"))
}

/// Adds up what was served.
fn sum(entries: &[Entry]) -> Usage {
    let mut all = Usage::default();
    for usage in entries.iter().filter_map(|entry| entry.usage) {
        all.input += usage.input;
        all.output += usage.output;
        all.cache_read += usage.cache_read;
        all.cache_write += usage.cache_write;
    }
    all
}

/// Joins the pieces of text as they came.
fn deltas(seen: &Seen) -> String {
    let text = |event: &bowline::Event| {
        let Kind::TextDelta(it) = &event.kind else { return None };
        Some(it.text.clone())
    };
    seen.events.iter().filter_map(text).collect()
}
