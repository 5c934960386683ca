//! Whether sessions can be resumed, and whether two of them disturb each other.

use bowline_protocol::Code;
use bowline_protocol::kinds::Outcome;

use crate::case_failure::{CaseVerdict, short};
use crate::place::{CaseContext, CasePlace};

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
