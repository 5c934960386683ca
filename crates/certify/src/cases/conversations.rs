//! Whether a live session holds a conversation: further prompts, steers, interrupts, and a later day.

use std::time::Duration;

use bowline::kinds::Outcome;
use bowline::{Kind, NativeSessionId, OrderRefused, PermissionMode, Receipt};
use bowline_protocol::Capabilities;
use bowline_protocol::kinds::PromptRemoval;
use bowline_providers::manifest::Manifest;
use bowline_simulator::LedgerEntry;

use crate::case_failure::{CaseVerdict, short};
use crate::live::WatchedSession;
use crate::place::{CaseContext, CasePlace};
use crate::processes;

/// The longest time from an interrupt to the end of the turn: after it, Bowline ends the process.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(10);

/// How long a tool may live after its turn has ended.
const TOOL_PATIENCE: Duration = Duration::from_secs(3);

pub(super) const STEER: &str = "Mention the fairlead, too.";

pub(super) const SECRET: &str = "The password is halyard.";

/// Returns the capabilities of a live session.
pub(super) fn live(manifest: &Manifest) -> Capabilities {
    let format = manifest.live_format().unwrap_or(&manifest.default_format);
    manifest.capabilities_in(format, &manifest.capabilities)
}

pub(super) async fn two_turns(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    session.ask(&format!("[[text]] {SECRET}")).await?;
    let text = session.ask("[[text]] What is the password?").await?;
    session.hold(text.contains("it always unties"), || format!("the second answer is {}", short(&text)))?;
    remembers(&place, &session)?;
    let (kept, pids) = (context.subject.manifest.live_format().is_some(), session.pids());
    session.hold(pids.len() == if kept { 1 } else { 2 }, || {
        format!("two prompts were answered by the processes {pids:?}")
    })?;
    session.stop(&place).await
}

/// Succeeds if the last request has the secret of the first prompt. The model's answer proves nothing.
pub(super) fn remembers(place: &CasePlace, session: &WatchedSession) -> CaseVerdict {
    let users = users(place);
    session.hold(users.iter().any(|text| text.contains(SECRET)), || {
        format!("the earlier conversation is not in the request: {}", short(&users.join(" / ")))
    })
}

/// Returns what the user said in the last request.
fn users(place: &CasePlace) -> Vec<String> {
    place.requests().pop().and_then(|entry| entry.facts).map(|facts| facts.users).unwrap_or_default()
}

pub(super) async fn fork(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let mut source = place.open(place.session(PermissionMode::Ask)).await?;
    source.ask(&format!("[[text]] {SECRET}")).await?;
    // The process of the source lives on meanwhile, if it is one that takes many prompts.
    let mut branch = place.watched(source.orders().fork().open().await?)?;
    branch.ask("[[text]] What is the password of the branch?").await?;
    remembers(&place, &branch)?;
    let (ours, theirs) = (native(&source).await, native(&branch).await);
    branch.hold(ours.is_some() && theirs.is_some() && ours != theirs, || {
        format!("the session is {ours:?}, and its fork {theirs:?}")
    })?;
    source.ask("[[text]] What is the password?").await?;
    remembers(&place, &source)?;
    let users = users(&place);
    source.hold(!users.iter().any(|text| text.contains("of the branch")), || {
        format!("the prompt of the fork is in the session: {}", short(&users.join(" / ")))
    })?;
    branch.stop(&place).await?;
    source.stop(&place).await
}

async fn native(session: &WatchedSession) -> Option<NativeSessionId> {
    session.orders().snapshot().await?.native_session
}

pub(super) async fn resume(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    session.ask(&format!("[[text]] {SECRET}")).await?;
    let id = session.id().clone();

    let before = session.pids().len();
    // SIGKILL of the agent alone. Its keeper and the session live, and end what is left of its tree.
    session.kill_agent()?;
    session.without_process().await?;
    session.ask("[[text]] What is the password?").await?;
    remembers(&place, &session)?;
    let after = session.pids().len();
    session.hold(after == before + 1, || "no further process was started for the prompt".to_owned())?;
    session.stop(&place).await?;

    let mut session = place.open(place.session(PermissionMode::Ask).resume(id.as_str())).await?;
    session.hold(*session.id() == id, || format!("the session was {id} and is {}", session.id()))?;
    session.ask("[[text]] And what was it again?").await?;
    remembers(&place, &session)?;
    session.stop(&place).await
}

pub(super) async fn interrupt_text(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    session.send("[[slow]] Count.").await?;
    if live(context.subject.manifest).streams_text {
        for _ in 0..3 {
            session.until("text", |kind| matches!(kind, Kind::TextDelta(_))).await?;
        }
    } else {
        session.wait("a request to the model", || !place.requests().is_empty()).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    interrupt(&mut session).await?;
    let said = session.text_of(1);
    session.hold(!said.contains("forty"), || {
        "the whole answer arrived although it was interrupted".to_owned()
    })?;
    goes_on(session, &place).await
}

pub(super) async fn interrupt_tool(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join("started");
    // A number of seconds that no other process waits for.
    let sleep = format!("sleep 301.{}", std::process::id());
    let mut session = place.open(place.session(PermissionMode::Yolo)).await?;
    session.send(&format!("[[shell command=\"touch {}; {sleep}\"]] Run it.", file.display())).await?;
    session.wait("the tool", || file.exists()).await?;
    interrupt(&mut session).await?;
    let mut tool = processes::with_command(&sleep);
    for _ in 0..TOOL_PATIENCE.as_millis() / 50 {
        if tool.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        tool = processes::with_command(&sleep);
    }
    session.hold(tool.is_empty(), || format!("the interrupted tool is alive: {tool:?}"))?;
    goes_on(session, &place).await
}

/// Interrupts the running turn, which has to end as cancelled.
async fn interrupt(session: &mut WatchedSession) -> CaseVerdict {
    // The receipt comes when the agent has the interrupt, not when the turn is over.
    let interrupted = session.orders().interrupt().await;
    session.hold(interrupted.is_ok(), || format!("the interrupt was refused: {interrupted:?}"))?;
    let time = crate::clock::Stopwatch::start();
    let ended = session.until("the end of the turn", |kind| matches!(kind, Kind::TurnEnded(_))).await?;
    let outcome = if let Kind::TurnEnded(it) = &ended.kind { Some(it.outcome) } else { None };
    session.hold(outcome == Some(Outcome::Cancelled), || {
        format!("the interrupted turn ended as {outcome:?}, not as cancelled")
    })?;
    let took = time.elapsed();
    session.hold(took < INTERRUPT_PATIENCE, || format!("it took {} ms to end", took.as_millis()))
}

/// Succeeds if the session takes a further prompt: in the same process, if the agent can interrupt a turn.
async fn goes_on(mut session: WatchedSession, place: &CasePlace) -> CaseVerdict {
    let text = session.ask("[[text]] And now?").await?;
    session.hold(text.contains("it always unties"), || {
        format!("the answer after the interrupt is {}", short(&text))
    })?;
    let (kept, pids) = (live(place.context().subject.manifest).interrupts, session.pids());
    session.hold(pids.len() == if kept { 1 } else { 2 }, || {
        format!("the prompts before and after the interrupt were answered by the processes {pids:?}")
    })?;
    session.stop(place).await
}

pub(super) async fn queue(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    session.send("[[slow]] Count.").await?;
    session.wait("a request to the model", || !place.requests().is_empty()).await?;
    if !live(context.subject.manifest).steers {
        let steered = session.orders().steer("Stop at ten.").await;
        session.hold(matches!(steered, Err(OrderRefused::NotSteerable { .. })), || {
            format!("the manifest claims no steering, and the answer to a steer is {steered:?}")
        })?;
    }
    let queued = session.orders().send("[[text]] What is next?").await;
    session.hold(matches!(queued, Ok(Receipt::Queued { ahead: 0, .. })), || {
        format!("the answer to a prompt during a turn is {queued:?}")
    })?;
    let last = session.rest().await?;
    let (first, second) = (session.text_of(1), session.text_of(2));
    session.hold(last.turn == 2 && last.outcome == Outcome::Completed, || {
        format!("the last turn is {}, {:?}", last.turn, last.outcome)
    })?;
    session.hold(first.contains("forty") && second.contains("it always unties"), || {
        format!("the answers are {} and {}", short(&first), short(&second))
    })?;
    session.stop(&place).await
}

pub(super) async fn send_in_text(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    session.send("[[slow]] Count.").await?;
    for _ in 0..3 {
        session.until("text", |kind| matches!(kind, Kind::TextDelta(_))).await?;
    }
    let steered = session.orders().steer(STEER).await;
    // An agent that looks for messages only after its tools has none here: the text waits in the queue.
    session.hold(
        matches!(steered, Ok(Receipt::Steered { .. }) | Err(OrderRefused::NotAcknowledged { .. })),
        || format!("the answer to the steer is {steered:?}"),
    )?;
    let last = session.rest().await?;
    session.hold(last.outcome == Outcome::Completed, || {
        format!("turn {} ended as {:?}", last.turn, last.outcome)
    })?;
    reached_once(&place, &session)?;
    session.stop(&place).await
}

/// Succeeds if the steer is in a request to the model, and in none twice. It is looked for in the whole request: some programs hand it
/// to the model as a remark, and not as a message of the user.
pub(super) fn reached_once(place: &CasePlace, session: &WatchedSession) -> CaseVerdict {
    let times = |entry: LedgerEntry| entry.body.to_string().matches(STEER).count();
    let times: Vec<usize> = place.requests().into_iter().map(times).collect();
    session.hold(times.iter().max() == Some(&1), || {
        format!("one request has to have the steer, and none twice; they have it {times:?} times")
    })
}

pub(super) async fn send_input(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join("started");
    let mut session = place.open(place.session(PermissionMode::Yolo)).await?;
    session.send(&format!("[[shell command=\"touch {}; sleep 2\"]] Run it.", file.display())).await?;
    session.wait("the tool", || file.exists()).await?;
    let steered = session.orders().steer(STEER).await;
    let Ok(Receipt::Steered { prompt, .. }) = steered else {
        return Err(session.trouble(format_args!("the answer to the steer is {steered:?}")));
    };
    let last = session.rest().await?;
    session.hold(last.outcome == Outcome::Completed, || {
        format!("turn {} ended as {:?}", last.turn, last.outcome)
    })?;
    reached_once(&place, &session)?;
    let read = session.events.iter().filter(
        |it| matches!(&it.kind, Kind::PromptRemoved(it) if it.id == prompt && it.reason == PromptRemoval::Sent),
    );
    let read = read.count();
    session.hold(read == 1, || format!("the steer was reported as read {read} times"))?;

    // Too late: nothing runs that it could join. As a prompt the text begins a turn.
    let late = session.orders().steer("[[text]] What is next?").await;
    session.hold(matches!(late, Err(OrderRefused::TurnOver)), || {
        format!("the answer to a steer without a turn is {late:?}")
    })?;
    session.send("[[text]] What is next?").await?;
    let next = session.rest().await?;
    session.hold(next.outcome == Outcome::Completed && next.turn > last.turn, || {
        format!("turn {} ended as {:?}", next.turn, next.outcome)
    })?;
    session.stop(&place).await
}
