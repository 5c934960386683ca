//! Whether sessions can be resumed, and whether two of them disturb each other.

use std::os::unix::fs::symlink;
use std::time::Duration;

use bowline::PermissionMode;
use bowline_protocol::Code;
use bowline_protocol::kinds::Outcome;
use tokio::task::JoinSet;

use super::conversations::{SECRET, remembers};
use crate::case_failure::{CaseFailure, CaseVerdict, short};
use crate::place::{CaseContext, CasePlace};

/// How many sessions run at once.
const SESSIONS: usize = 10;

/// After this time without a prompt, the process of an agent is ended.
const IDLE: Duration = Duration::from_secs(1);

pub(super) async fn resume(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let first = place.run(place.task("[[text]] The password is halyard.")).await?;
    first.completed()?;
    let Some(id) = first.record.native_session.clone() else {
        return Err(first.trouble("the program did not report its session id"));
    };
    let second = place.run(place.task("[[text]] What is the password?").resume(id.clone())).await?;
    second.completed()?;
    // Look in the requests: the model's answer proves nothing.
    let users =
        place.requests().pop().and_then(|entry| entry.facts).map(|facts| facts.users).unwrap_or_default();
    second.hold(users.iter().any(|text| text.contains("The password is halyard.")), || {
        format!("the earlier conversation is not in the request: {}", short(&users.join(" / ")))
    })?;
    let now = second.record.native_session.clone();
    second.hold(now.as_ref() == Some(&id), || format!("the session was {id} and is {now:?}"))
}

pub(super) async fn resume_unknown(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let made_up = context.subject.manifest.certify.unknown_session.as_deref();
    let made_up = made_up.unwrap_or("4dd5ab3e-7d2f-4c5c-9f40-00000000dead");
    let seen = place.run(place.task("[[text]] What is the password?").resume(made_up)).await?;
    let code = seen.record.failure.as_ref().map(|failure| &failure.code);
    seen.hold(seen.record.outcome == Outcome::Failed && code == Some(&Code::SessionNotFound), || {
        "the unknown session was not reported as a failure".to_owned()
    })
}

pub(super) async fn parallel_homes(context: CaseContext) -> CaseVerdict {
    let (one, two) = (context.place("one").await?, context.place("two").await?);
    both(&one, &two).await
}

pub(super) async fn parallel_shared(context: CaseContext) -> CaseVerdict {
    let one = context.place("one").await?;
    let two = context.neighbour(&one, "two").await?;
    both(&one, &two).await
}

pub(super) async fn ten_at_once(context: CaseContext) -> CaseVerdict {
    let mut opening = JoinSet::new();
    for number in 0..SESSIONS {
        let context = context.clone();
        opening.spawn(async move {
            let place = context.place(&number.to_string()).await?;
            let mut session = place.open(place.session(PermissionMode::Ask)).await?;
            let text = session.ask(&format!("[[recall]] Remember the word knot-{number}.")).await?;
            Ok::<_, CaseFailure>((number, place, session, text))
        });
    }
    let mut open = Vec::new();
    while let Some(opened) = opening.join_next().await {
        open.push(opened.map_err(CaseFailure::new)??);
    }
    let kept = context.subject.manifest.live_format().is_some();
    for (number, _, session, text) in &open {
        let own = format!("knot-{number}");
        session.hold(text.contains(&own) && text.matches("knot-").count() == 1, || {
            format!("prompt about {own}, answer {}", short(text))
        })?;
        // All have answered, and none was stopped yet: the ten processes live side by side.
        let alive = session.orders().snapshot().await.is_some_and(|it| it.has_process);
        session.hold(alive == kept, || format!("the process of session {number} lives: {alive}"))?;
    }
    for (_, place, session, _) in open {
        session.stop(&place).await?;
    }
    Ok(())
}

pub(super) async fn upgraded(context: CaseContext) -> CaseVerdict {
    let place = context.place("one").await?;
    let new = &context.subject.program;
    let old = context.subject.older.as_ref().unwrap_or(new);
    let (link, next) = (context.dir.join("agent"), context.dir.join("agent.new"));
    symlink(old, &link)?;
    let task = place.session(PermissionMode::Ask).idle(Some(IDLE));
    let mut session = place.open(task.with(|task| task.binary(&link))).await?;
    session.ask(&format!("[[text]] {SECRET}")).await?;
    // As a package manager does it: the path leads to the new program at once. The process of the old one still lives.
    symlink(new, &next)?;
    std::fs::rename(&next, &link)?;
    session.without_process().await?;
    session.ask("[[text]] What is the password?").await?;
    remembers(&place, &session)?;
    let pids = session.pids();
    session.hold(pids.len() == 2, || format!("the two prompts were answered by the processes {pids:?}"))?;
    session.stop(&place).await
}

/// Runs a task in both places at once; each has to get its own answer.
async fn both(one: &CasePlace, two: &CasePlace) -> CaseVerdict {
    let left = one.run(one.task("[[recall]] Remember the word halyard."));
    let right = two.run(two.task("[[recall]] Remember the word fairlead."));
    let (left, right) = tokio::join!(left, right);
    for (seen, own, other) in [(left?, "halyard", "fairlead"), (right?, "fairlead", "halyard")] {
        seen.completed()?;
        seen.hold(seen.text().contains(own) && !seen.text().contains(other), || {
            format!("prompt about {own}, answer {}", short(seen.text()))
        })?;
    }
    Ok(())
}
