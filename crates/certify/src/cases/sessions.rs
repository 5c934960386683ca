//! Whether sessions can be resumed, and whether two of them disturb each other.

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Code, Request};
use bowline_providers::invocation::{self, Invocation, StdinPlan, Transport, Wish};
use bowline_providers::manifest::run::StopMethod;

use crate::case_failure::{CaseFailure, CaseVerdict, short};
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

/// Passes as soon as the manifest has a channel to the agent that stays open. The rest of the test has to be written then.
pub(super) async fn send_input(context: CaseContext) -> CaseVerdict {
    let manifest = context.subject.manifest;
    for format in manifest.formats.keys() {
        let request = Request { prompt: "Count.".to_owned(), ..Request::default() };
        let wish = Wish { format: Some(format.clone()), ..Wish::default() };
        match invocation::build(manifest, &request, &wish) {
            Ok(made) if stays_open(&made) => return Ok(()),
            Ok(_) => {}
            Err(refusal) => return Err(CaseFailure::new(format_args!("as {format}: {refusal}"))),
        }
    }
    Err(CaseFailure::new("in every format its standard input is closed as soon as the prompt is written"))
}

/// Returns whether Bowline can write to the agent while it works.
fn stays_open(made: &Invocation) -> bool {
    let by_protocol = match made.stdin {
        StdinPlan::Null | StdinPlan::Prompt(_) => false,
        StdinPlan::Protocol(_) => true,
    };
    // A program that is stopped through its standard input has one until then.
    let until_the_end = match made.stop.polite {
        StopMethod::Sigint | StopMethod::Sigterm => false,
        StopMethod::StdinClose | StopMethod::Protocol => true,
    };
    let terminal = match made.transport {
        Transport::Pipe => false,
        Transport::Pty => true,
    };
    by_protocol || until_the_end || terminal
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

#[cfg(test)]
mod tests {
    use bowline_providers::catalogue;

    use super::*;

    /// Each way in which a manifest can gain such a channel turns the pending case red.
    #[test]
    fn a_way_to_the_agent_is_noticed() {
        let manifest = catalogue::built_in().find(|it| it.capabilities.steers).expect("some can be steered");
        let request = Request { prompt: "Count.".to_owned(), ..Request::default() };
        let made = |change: fn(&mut Invocation)| {
            let mut made = invocation::build(manifest, &request, &Wish::default()).expect("it can be asked");
            change(&mut made);
            stays_open(&made)
        };
        assert!(!made(|_| {}), "runs are one-way so far");
        assert!(made(|it| it.stdin = StdinPlan::Protocol(String::new())));
        assert!(made(|it| it.stop.polite = StopMethod::StdinClose));
        assert!(made(|it| it.stop.polite = StopMethod::Protocol));
        assert!(made(|it| it.transport = Transport::Pty));
    }
}
