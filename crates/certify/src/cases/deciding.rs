//! Whether a person decides what the agent does, in a live session under the mode `ask`.

use std::path::Path;
use std::time::Duration;

use bowline::kinds::Outcome;
use bowline::remote::OrderError;
use bowline::{
    Approval, ApprovalVerdict, Code, Json, Kind, LastTurn, OrderRefused, PermissionMode, Receipt,
    SessionOrder, WhenBusy,
};
use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{Decider, Decision};

use super::conversations::{STEER, reached_once};
use crate::case_failure::{CaseFailure, CaseVerdict, short};
use crate::live::WatchedSession;
use crate::place::{CaseContext, CasePlace};

/// After this time without a decision, a request is denied.
const DEADLINE: Duration = Duration::from_secs(1);

/// How long an agent may take to withdraw an approval, if a steer makes it do that.
const REACTION: Duration = Duration::from_millis(500);

/// The file that the agent wants to make, and the one that the person allows.
const ASKED: &str = "risky.txt";
const CHANGED: &str = "changed.txt";

const REASON: &str = "Not in this harbour.";

/// The act of a person on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PersonAct {
    Allow,
    AllowForSession,
    Deny,
    Wait,
    Interrupt,
    /// Allow it for another file.
    Change,
    /// Send a message first, and allow it when the agent has had the time to react.
    Steer,
}

pub(super) async fn approve(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join(ASKED);
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    let (prompt, seen) = first_asked(&mut session, &file, PersonAct::Allow).await?;
    done(&session, &file, seen.last.turn)?;
    session.hold(seen.last.outcome == Outcome::Completed, || {
        format!("the turn ended as {:?}", seen.last.outcome)
    })?;
    let made = session.decisions();
    let allowed = made.iter().all(|it| it.by == Decider::Human && it.decision == Decision::Allow);
    session.hold(allowed, || format!("the decisions are {made:?}"))?;
    // Allowed once: the agent has to ask again.
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    let again = decide(&mut session, &prompt, PersonAct::Deny).await?;
    session.hold(!again.asked.is_empty() && !file.exists(), || {
        "the same action was done again, although it was allowed once".to_owned()
    })?;
    session.stop(&place).await
}

pub(super) async fn changed(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let (file, other) = (place.project.join(ASKED), place.project.join(CHANGED));
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    let (_, seen) = first_asked(&mut session, &file, PersonAct::Change).await?;
    session.hold(!file.exists(), || "the action was done as the agent asked for it".to_owned())?;
    session.hold(other.exists(), || "the changed action was allowed and not done".to_owned())?;
    session.hold(seen.last.outcome == Outcome::Completed, || {
        format!("the turn ended as {:?}", seen.last.outcome)
    })?;
    let made = session.decisions();
    let told = made.iter().all(|it| it.decision == Decision::Allow && it.changed_input.is_some());
    session.hold(told, || format!("the decisions are {made:?}"))?;
    session.stop(&place).await
}

pub(super) async fn steered(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join(ASKED);
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    let (_, seen) = first_asked(&mut session, &file, PersonAct::Steer).await?;
    done(&session, &file, seen.last.turn)?;
    session.hold(seen.last.outcome == Outcome::Completed, || {
        format!("turn {} ended as {:?}", seen.last.turn, seen.last.outcome)
    })?;
    let made = session.decisions();
    let once = made.len() == seen.asked.len()
        && made.iter().all(|it| it.by == Decider::Human && it.decision == Decision::Allow);
    session.hold(once, || format!("{} requests, and the decisions are {made:?}", seen.asked.len()))?;
    reached_once(&place, &session)?;
    goes_on(session, &place).await
}

pub(super) async fn deny(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join(ASKED);
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    let (_, seen) = first_asked(&mut session, &file, PersonAct::Deny).await?;
    denied(&session, &file, Decider::Human, &seen.last)?;
    // The event has the text that the agent got, where its protocol carries one.
    let told = session.decisions().iter().any(|it| it.reason.as_deref() == Some(REASON));
    let read = place.requests().iter().any(|entry| entry.body.to_string().contains(REASON));
    session.hold(told == read || seen.last.outcome == Outcome::Cancelled, || {
        format!("reason reported as sent: {told}; in a request to the model: {read}")
    })?;
    goes_on(session, &place).await
}

pub(super) async fn overdue(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join(ASKED);
    let patient = place.session(PermissionMode::Ask).approval_deadline(DEADLINE);
    let mut session = place.open(patient).await?;
    let (_, seen) = first_asked(&mut session, &file, PersonAct::Wait).await?;
    denied(&session, &file, Decider::Timeout, &seen.last)?;
    goes_on(session, &place).await
}

pub(super) async fn interrupted(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join(ASKED);
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    let (_, seen) = first_asked(&mut session, &file, PersonAct::Interrupt).await?;
    session.hold(!file.exists(), || "the action was done without an approval".to_owned())?;
    session.hold(seen.last.outcome == Outcome::Cancelled, || {
        format!("the interrupted turn ended as {:?}", seen.last.outcome)
    })?;
    let made = session.decisions();
    let right = made.len() == seen.asked.len() && made.iter().all(|it| it.decision == Decision::Deny);
    session.hold(right, || format!("{} requests, and the decisions are {made:?}", seen.asked.len()))?;
    goes_on(session, &place).await
}

pub(super) async fn for_session(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let file = place.project.join(ASKED);
    let mut session = place.open(place.session(PermissionMode::Ask)).await?;
    let (prompt, first) = first_asked(&mut session, &file, PersonAct::AllowForSession).await?;
    done(&session, &file, first.last.turn)?;
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    let again = decide(&mut session, &prompt, PersonAct::Deny).await?;
    session.hold(again.asked.is_empty(), || {
        let asked: Vec<String> = again.asked.iter().map(|it| short(&it.summary)).collect();
        format!("it was asked again: {asked:?}")
    })?;
    done(&session, &file, again.last.turn)?;
    session.stop(&place).await
}

/// Succeeds if the action of a turn was done, or at least its command ran. A program may run a command that a person allowed in its
/// sandbox, where the command fails, and not try again without the sandbox: the recording `appserver-approve-session`.
fn done(session: &WatchedSession, file: &Path, turn: u32) -> CaseVerdict {
    let ran = session.events.iter().any(|event| {
        let Kind::ToolFinished(tool) = &event.kind else { return false };
        event.turn == Some(turn) && tool.exit_code.is_some()
    });
    session.hold(file.exists() || ran, || "the action was allowed and not done".to_owned())
}

/// Returns the prompts for an action that may need an approval. Some agents ask only before edits: a command that their sandbox
/// blocks fails without a question.
fn actions(file: &Path) -> [String; 2] {
    [
        format!("[[risky file={}]] Do it.", file.display()),
        format!("[[edit file={}]] Write the file.", file.display()),
    ]
}

/// A turn in which a person decided.
struct DecidedTurn {
    last: LastTurn,
    asked: Vec<ApprovalAsked>,
    /// Whether the agent did not offer the decision, so that the action was denied.
    refused: bool,
}

/// Sends the prompts until the agent asks for something that can be decided this way. Returns that prompt, and its turn.
async fn first_asked(
    session: &mut WatchedSession,
    file: &Path,
    act: PersonAct,
) -> Result<(String, DecidedTurn), CaseFailure> {
    for prompt in actions(file) {
        let seen = decide(session, &prompt, act).await?;
        if !seen.asked.is_empty() && !seen.refused {
            return Ok((prompt, seen));
        }
        session.hold(!file.exists(), || "the action was done without an approval".to_owned())?;
    }
    Err(session
        .trouble("the agent asked for nothing that can be decided this way; its manifest has to say so"))
}

/// Sends a prompt, and decides every request of its turn.
async fn decide(
    session: &mut WatchedSession,
    prompt: &str,
    act: PersonAct,
) -> Result<DecidedTurn, CaseFailure> {
    session.send(prompt).await?;
    let (mut asked, mut refused) = (Vec::new(), false);
    // Dropping an approval denies it.
    let mut left: Vec<Approval> = Vec::new();
    let what = "an approval or the end of the turn";
    let is = |kind: &Kind| matches!(kind, Kind::ApprovalAsked(_) | Kind::TurnEnded(_));
    loop {
        // A turn may have several requests: an agent that was denied may try another way.
        let event = session.until(what, is).await?;
        let Some(approval) = session.orders().approval(&event) else { break };
        asked.push(approval.asked().clone());
        let decided = match act {
            PersonAct::Allow => approval.allow().await,
            PersonAct::AllowForSession => approval.allow_for_session().await,
            PersonAct::Deny => approval.deny(REASON).await,
            PersonAct::Wait => {
                left.push(approval);
                Ok(())
            }
            PersonAct::Interrupt => {
                left.push(approval);
                session.orders().interrupt().await.map_err(OrderError::from)
            }
            PersonAct::Change => {
                let input =
                    approval.asked().input.as_ref().map(|input| input.as_str().replace(ASKED, CHANGED));
                let input = Json::parse(&input.unwrap_or_default());
                let input = input.map_err(|error| session.trouble(format_args!("the input: {error}")))?;
                approval.allow_with(input).await
            }
            PersonAct::Steer if asked.len() > 1 => approval.allow().await,
            PersonAct::Steer => {
                let control = session.orders().control();
                // Some agents fetch it only after the tool, so the decision must not wait for its receipt.
                let sent = tokio::spawn(async move { control.send_prompt(STEER, WhenBusy::Steer).await });
                tokio::time::sleep(REACTION).await;
                let open = session.orders().snapshot().await.map_or(0, |it| it.approvals.len());
                session.hold(open == 1, || format!("{open} approvals are open behind the steer"))?;
                let allowed = approval.allow().await;
                let sent = sent.await.map_err(CaseFailure::new)?;
                session.hold(matches!(sent, Ok(Receipt::Steered { .. })), || {
                    format!("the answer to the steer is {sent:?}")
                })?;
                allowed
            }
        };
        if matches!(decided, Err(OrderError::Refused(OrderRefused::NotOffered)))
            && act == PersonAct::AllowForSession
        {
            refused = true;
            let approval = asked.last().map(|it| it.id.clone());
            let order = SessionOrder::Decide { approval, verdict: ApprovalVerdict::Deny { message: None } };
            let denied = session.orders().control().order(order).await;
            session.hold(denied.is_ok(), || format!("the denial was refused: {denied:?}"))?;
        } else {
            session.hold(decided.is_ok(), || format!("the decision was refused: {decided:?}"))?;
        }
    }
    let last = session.rest().await?;
    drop(left);
    Ok(DecidedTurn { last, asked, refused })
}

/// Succeeds if a request was denied by this side, and the action was not done.
fn denied(session: &WatchedSession, file: &Path, by: Decider, last: &LastTurn) -> CaseVerdict {
    session.hold(!file.exists(), || "the action was done without an approval".to_owned())?;
    let made = session.decisions();
    let right = !made.is_empty() && made.iter().all(|it| it.by == by && it.decision == Decision::Deny);
    session.hold(right, || format!("the decisions are {made:?}"))?;
    // Some agents end the turn at a denial. Bowline reports that as a failure with a code of its own.
    let code = session.failure().map(|failure| &failure.code);
    let ended = match last.outcome {
        Outcome::Completed | Outcome::Cancelled => true,
        Outcome::Failed => code == Some(&Code::Policy),
        Outcome::Truncated => false,
    };
    session.hold(ended, || format!("the turn with the denied action ended as {:?}", last.outcome))
}

/// Succeeds if the session takes a further prompt.
async fn goes_on(mut session: WatchedSession, place: &CasePlace) -> CaseVerdict {
    session.ask("[[text]] And now?").await?;
    session.stop(place).await
}
