//! Whether the agent can call a function of the program that embeds Bowline.

use std::sync::{Arc, Mutex, PoisonError};

use bowline::{Error, Event, HostTool, Json, Kind, PermissionMode};
use bowline_protocol::RequestField;
use bowline_protocol::kinds::{Outcome, ToolStatus};
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::{Flag, RunFlag};

use crate::case_failure::{CaseFailure, CaseVerdict};
use crate::live::WatchedSession;
use crate::place::{CaseContext, CasePlace};

const PROMPT: &str = "[[host-tool rope=halyard]] Measure the halyard.";

/// The same for a program that offers tools of MCP servers only after a search for them.
const SEARCH_PROMPT: &str = "[[host-tool-search rope=halyard]] Measure the halyard.";

/// The tools for such a search.
const SEARCHES: [&str; 2] = ["ToolSearch", "tool_search"];

/// The result of the tool, which has to reach the model.
const LENGTH: &str = "seven fathoms and a span";

/// The inputs with which the tool was called.
type Calls = Arc<Mutex<Vec<Json>>>;

/// How a program takes the tools in one format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// It does not.
    No,
    /// It asks before it calls them.
    Asks,
    /// It was told to allow them.
    Allowed,
}

fn taken(manifest: &Manifest, format: &str) -> Taken {
    let manifest = manifest.in_format(format);
    match manifest.run.flags.get(&RunFlag::McpConfig).filter(|how| how.is_done()) {
        Some(Flag { host: Some(_), .. }) => Taken::Allowed,
        Some(_) => Taken::Asks,
        None => Taken::No,
    }
}

/// The format of a run under the mode `ask`, and that of a live session if it is another one.
fn formats(manifest: &Manifest) -> (&str, Option<&str>) {
    let better = manifest.better_format(PermissionMode::Ask).map(|(name, _)| name);
    let usual = better.unwrap_or(manifest.usual_format());
    (usual, manifest.live_format().filter(|live| *live != usual))
}

/// Returns whether the program takes the tools in a format that a task or a session can use.
pub(super) fn is_claimed(manifest: &Manifest) -> bool {
    let (run, live) = formats(manifest);
    [Some(run), live].into_iter().flatten().any(|format| taken(manifest, format) != Taken::No)
}

pub(super) async fn called(context: CaseContext) -> CaseVerdict {
    let (run, live) = formats(context.subject.manifest);
    let taken = |format| taken(context.subject.manifest, format);
    let place = context.place("one").await?;
    match taken(run) {
        Taken::No => refused(&place).await?,
        how @ (Taken::Asks | Taken::Allowed) => in_a_run(&place, how).await?,
    }
    match live.map(taken) {
        Some(how @ (Taken::Asks | Taken::Allowed)) => in_a_session(&context.place("two").await?, how).await,
        Some(Taken::No) | None => Ok(()),
    }
}

fn measure(calls: &Calls) -> HostTool {
    let schema = r#"{"type":"object","properties":{"rope":{"type":"string"}},"required":["rope"]}"#;
    let schema = Json::parse(schema).expect("it is valid JSON");
    let calls = calls.clone();
    HostTool::new("measure", "Returns the length of a rope", schema, move |input| {
        calls.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        async { Ok(LENGTH.to_owned()) }
    })
}

/// A program that cannot take the tools in a run is not started.
async fn refused(place: &CasePlace) -> CaseVerdict {
    match place.task(PROMPT).tool(measure(&Calls::default())).start().await {
        Err(Error::Refused(refusal)) if refusal.field == RequestField::Tools => Ok(()),
        Err(error) => Err(CaseFailure::new(format_args!("the refusal of the tool is {error}"))),
        Ok(_) => Err(CaseFailure::new("the program was started without the tool")),
    }
}

async fn in_a_run(place: &CasePlace, how: Taken) -> CaseVerdict {
    let calls = Calls::default();
    // Without a person, the mode `ask` denies what the program asks for.
    let task = |prompt| if how == Taken::Allowed { place.task(prompt) } else { place.free(prompt) };
    let mut seen = place.run(task(PROMPT).tool(measure(&calls))).await?;
    seen.completed()?;
    if is_searched(place, &calls) {
        seen = place.run(task(SEARCH_PROMPT).tool(measure(&calls))).await?;
        seen.completed()?;
    }
    judged(place, &calls, &seen.events).map_err(|why| seen.trouble(why))
}

async fn in_a_session(place: &CasePlace, how: Taken) -> CaseVerdict {
    let calls = Calls::default();
    let session = place.session(PermissionMode::Ask).with(|task| task.tool(measure(&calls)));
    let mut session = place.open(session).await?;
    let mut asked = allowing(&mut session, PROMPT).await?;
    if is_searched(place, &calls) {
        asked += allowing(&mut session, SEARCH_PROMPT).await?;
    }
    session.hold(asked == 0 || how == Taken::Asks, || {
        format!("the program was told to allow the tool, and asked {asked} times")
    })?;
    judged(place, &calls, &session.events).map_err(|why| session.trouble(why))?;
    session.stop(place).await
}

/// Sends a prompt, and allows what the agent asks for until its turn has completed. Returns the number of its requests.
async fn allowing(session: &mut WatchedSession, prompt: &str) -> Result<u32, CaseFailure> {
    session.send(prompt).await?;
    let mut asked = 0;
    loop {
        let is = |kind: &Kind| matches!(kind, Kind::ApprovalAsked(_) | Kind::TurnEnded(_));
        let event = session.until("an approval or the end of the turn", is).await?;
        let Some(approval) = session.orders().approval(&event) else { break };
        asked += 1;
        let allowed = approval.allow().await;
        session.hold(allowed.is_ok(), || format!("the approval was refused: {allowed:?}"))?;
    }
    let last = session.rest().await?;
    session.hold(last.outcome == Outcome::Completed, || format!("the turn ended as {:?}", last.outcome))?;
    Ok(asked)
}

/// Returns whether the tool was not called, by a program whose model has to search for it first.
fn is_searched(place: &CasePlace, calls: &Calls) -> bool {
    calls.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
        && offered(place).iter().any(|tool| SEARCHES.contains(&tool.as_str()))
}

/// Returns the tools that the program offered to the model.
fn offered(place: &CasePlace) -> Vec<String> {
    let facts = place.requests().into_iter().filter_map(|entry| entry.facts);
    facts.flat_map(|facts| facts.tools).collect()
}

/// Returns what is wrong, if the function was not called once with the model's input, or the model did not get its result.
fn judged(place: &CasePlace, calls: &Calls, events: &[Event]) -> Result<(), String> {
    let calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
    let inputs: Vec<&str> = calls.iter().map(Json::as_str).collect();
    if inputs != [r#"{"rope":"halyard"}"#] {
        let offered = offered(place);
        return Err(format!("the function was called with {inputs:?}; the model was offered {offered:?}"));
    }
    if !place.requests().iter().any(|entry| entry.body.to_string().contains(LENGTH)) {
        return Err("the result of the function is in no request".to_owned());
    }
    // By the result where it is reported: some programs call the tool through one of their own, with its name.
    let (mut begun, mut done) = (Vec::new(), 0);
    for event in events {
        if let Kind::ToolStarted(tool) = &event.kind {
            begun.push(tool);
        } else if let Kind::ToolFinished(tool) = &event.kind
            && tool.status == ToolStatus::Completed
        {
            let has_result = tool.output.as_ref().is_some_and(|output| output.text.contains(LENGTH));
            let mut calls = begun.iter().filter(|it| it.id == tool.id);
            done += usize::from(calls.any(|it| has_result || it.name.contains("measure")));
        }
    }
    if done == 1 {
        return Ok(());
    }
    let begun: Vec<&str> = begun.iter().map(|tool| tool.name.as_str()).collect();
    Err(format!("the events have {done} completed calls of the tool; begun: {begun:?}"))
}
