//! Whether the program is found, answers, uses tools and counts tokens.

use std::time::Duration;

use bowline::kinds::ToolStatus;
use bowline::{Event, Kind, PermissionMode, Usage};
use bowline_protocol::Decision;

use bowline_simulator::LedgerEntry;

use crate::case_failure::{CaseFailure, CaseVerdict, hold, short};
use crate::place::{CaseContext, CasePlace, WatchedRun};

/// The text of the scenario `text`.
const TEXT: &str = "The knot holds, and it always unties.";

pub(super) async fn detect(context: CaseContext) -> CaseVerdict {
    match &context.subject.version {
        Ok(_) => Ok(()),
        Err(why) => Err(CaseFailure::new(why)),
    }
}

pub(super) async fn flags(context: CaseContext) -> CaseVerdict {
    if let Err(why) = &context.subject.version {
        return Err(CaseFailure::new("its help was not read, because an earlier call failed").and(why));
    }
    hold(!context.subject.pages.is_empty(), || "no help page could be read".to_owned())?;
    let serious: Vec<String> =
        context.subject.findings.iter().filter(|it| it.is_serious()).map(ToString::to_string).collect();
    if serious.is_empty() { Ok(()) } else { Err(CaseFailure(serious)) }
}

pub(super) async fn text(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let seen = place.run(place.task("[[text]] Say something about knots.")).await?;
    seen.completed()?;
    seen.hold(place.was_answered_by("text"), || "the program sent no request to the model".to_owned())?;
    seen.hold(seen.text() == TEXT, || format!("served {TEXT:?}, got {}", short(seen.text())))?;
    let said: String = deltas(&seen);
    seen.hold(said.is_empty() || said == TEXT, || format!("the deltas join to {}", short(&said)))
}

pub(super) async fn streaming(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
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
        return Err(seen.trouble("no text delta arrived"));
    };
    // The scenario takes two seconds.
    let apart = last.saturating_sub(*first);
    seen.hold(of_text.len() >= 4 && apart >= Duration::from_secs(1), || {
        format!(
            "{} text deltas within {} ms, for an answer that took 2000 ms",
            of_text.len(),
            apart.as_millis()
        )
    })?;
    let said = deltas(&seen);
    seen.hold(said.trim() == seen.text().trim(), || format!("the deltas join to {}", short(&said)))
}

pub(super) async fn thinking(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let seen = place.run(place.task("[[thinking]] Which knot?")).await?;
    seen.completed()?;
    let thought: String = seen
        .events
        .iter()
        .filter_map(
            |event| if let Kind::ThinkingDelta(it) = &event.kind { Some(it.text.as_str()) } else { None },
        )
        .collect();
    seen.hold(thought.contains("about ropes"), || format!("thinking: {}", short(&thought)))?;
    seen.hold(seen.text() == "Tie a bowline.", || format!("the answer is {}", short(seen.text())))
}

pub(super) async fn edit(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
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
    seen.hold(begun == 1 && done == 1, || format!("tools started: {begun}, completed: {done}; served: 1"))?;
    seen.hold(seen.text().ends_with("The file is written."), || {
        format!("the answer is {}", short(seen.text()))
    })
}

pub(super) async fn shell(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let seen = place.run(place.free("[[shell]] Run the command.")).await?;
    seen.completed()?;
    let told = seen.events.iter().any(|event| {
        let Kind::ToolFinished(it) = &event.kind else { return false };
        it.output.as_ref().is_some_and(|it| it.text.contains("the-knot-holds"))
    });
    seen.hold(told, || "no tool result has the output of the command".to_owned())
}

pub(super) async fn files_touched(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join("knot.txt");
    let prompt = format!("[[edit file={}]] Write the file.", file.display());
    let seen = place.run(place.editing(&prompt)).await?;
    let named: Vec<&str> = seen.record.files.iter().map(|it| it.path.as_str()).collect();
    seen.hold(named.iter().any(|path| path.ends_with("knot.txt")), || format!("files reported: {named:?}"))
}

/// Prompts for a risky action. A program may refuse it, or not offer a tool for it. In the second case a run with all
/// permissions shows that the action would have been executed.
pub(super) async fn policy_gate(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join("risky.txt");
    let prompt = format!("[[risky file={}]] Do it.", file.display());
    let seen = place.run(place.task(&prompt)).await?;
    seen.hold(!place.requests().is_empty(), || "the program sent no request to the model".to_owned())?;
    seen.hold(!file.exists(), || "the action was executed without permission".to_owned())?;
    if !called(&place).is_empty() {
        return refusal_told(&context, &seen);
    }
    let free = context.place("two").await?;
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

/// A program that runs in another format because it requests permission there has to have requested it.
fn refusal_told(context: &CaseContext, seen: &WatchedRun) -> CaseVerdict {
    let better = context.subject.manifest.better_format(PermissionMode::Ask);
    let asks = better.is_some_and(|(_, own)| own.gives == "approvals");
    let refused = |event: &Event| matches!(&event.kind, Kind::ApprovalDecided(it) if matches!(it.decision, Decision::Deny | Decision::DenyAlways));
    seen.hold(!asks || seen.events.iter().any(refused), || "no denial was reported".to_owned())
}

/// Returns the tools that the model called.
fn called(place: &CasePlace) -> Vec<String> {
    place.requests().into_iter().flat_map(|entry| entry.called).collect()
}

pub(super) async fn usage(context: CaseContext) -> CaseVerdict {
    for (name, prompt) in [("one", "[[text]] Say something."), ("two", "[[edit]] Write the file.")] {
        let place = context.place(name).await?;
        let seen = place.run(place.editing(prompt)).await?;
        seen.completed()?;
        // Some programs count their side requests, such as the one for a title, and some do not.
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

pub(super) async fn cost(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let seen = place.run(place.task("[[text]] Say something.")).await?;
    let cost = seen.record.cost_usd;
    seen.hold(cost.is_some_and(|usd| usd.is_finite() && usd > 0.0), || format!("the cost is {cost:?}"))
}

/// RunTotals up the served usage.
fn sum(entries: &[LedgerEntry]) -> Usage {
    let mut all = Usage::default();
    for usage in entries.iter().filter_map(|entry| entry.usage) {
        all.input += usage.input;
        all.output += usage.output;
        all.cache_read += usage.cache_read;
        all.cache_write += usage.cache_write;
    }
    all
}

/// Joins the text deltas in their order.
fn deltas(seen: &WatchedRun) -> String {
    let text = |event: &bowline::Event| {
        let Kind::TextDelta(it) = &event.kind else { return None };
        Some(it.text.clone())
    };
    seen.events.iter().filter_map(text).collect()
}
