//! Whether sessions go on, and whether two of them get in each other's way.

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Code, Request};
use bowline_providers::invocation::{self, Invocation, StdinPlan, Transport, Wish};
use bowline_providers::manifest::run::Polite;

use crate::place::{Place, Room};
use crate::trouble::{Trouble, Verdict, short};

pub(super) async fn resume(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let first = place.run(place.task("[[text]] The password is halyard.")).await?;
    first.completed()?;
    let Some(id) = first.record.native_session.clone() else {
        return Err(first.trouble("it did not say how its session is called"));
    };
    let second = place.run(place.task("[[text]] What is the password?").resume(id.clone())).await?;
    second.completed()?;
    // Looked up in what was sent: what a model says proves nothing.
    let users =
        place.requests().pop().and_then(|entry| entry.facts).map(|facts| facts.users).unwrap_or_default();
    second.hold(users.iter().any(|text| text.contains("The password is halyard.")), || {
        format!("what was said before is not sent again: {}", short(&users.join(" / ")))
    })?;
    let now = second.record.native_session.clone();
    second.hold(now.as_ref() == Some(&id), || format!("the session was {id} and is {now:?}"))
}

pub(super) async fn resume_unknown(room: Room) -> Verdict {
    let place = room.place("one").await?;
    let made_up = room.subject.manifest.certify.unknown_session.as_deref();
    let made_up = made_up.unwrap_or("4dd5ab3e-7d2f-4c5c-9f40-00000000dead");
    let seen = place.run(place.task("[[text]] What is the password?").resume(made_up)).await?;
    let code = seen.record.failure.as_ref().map(|failure| &failure.code);
    seen.hold(seen.record.outcome == Outcome::Failed && code == Some(&Code::SessionNotFound), || {
        "it is not told that there is no such session".to_owned()
    })
}

/// Passes as soon as the manifest has a way to the agent that stays open; what is then tried has to be written.
pub(super) async fn send_input(room: Room) -> Verdict {
    let manifest = room.subject.manifest;
    for format in manifest.formats.keys() {
        let request = Request { prompt: "Count.".to_owned(), ..Request::default() };
        let wish = Wish { format: Some(format.clone()), ..Wish::default() };
        match invocation::build(manifest, &request, &wish) {
            Ok(made) if stays_open(&made) => return Ok(()),
            Ok(_) => {}
            Err(refusal) => return Err(Trouble::new(format_args!("as {format}: {refusal}"))),
        }
    }
    Err(Trouble::new("in every format its standard input is closed as soon as the prompt is written"))
}

/// Says whether something can be written to the agent while it works.
fn stays_open(made: &Invocation) -> bool {
    let by_protocol = match made.stdin {
        StdinPlan::Null | StdinPlan::Prompt(_) => false,
        StdinPlan::Protocol(_) => true,
    };
    // Who is ended over its standard input has one until then.
    let until_the_end = match made.stop.polite {
        Polite::Sigint | Polite::Sigterm => false,
        Polite::StdinClose | Polite::Protocol => true,
    };
    let terminal = match made.transport {
        Transport::Pipe => false,
        Transport::Pty => true,
    };
    by_protocol || until_the_end || terminal
}

pub(super) async fn parallel_homes(room: Room) -> Verdict {
    let (one, two) = (room.place("one").await?, room.place("two").await?);
    both(&one, &two).await
}

pub(super) async fn parallel_shared(room: Room) -> Verdict {
    let one = room.place("one").await?;
    let two = room.neighbour(&one, "two").await?;
    both(&one, &two).await
}

/// Runs something at both places at once; each has to get its own answer.
async fn both(one: &Place, two: &Place) -> Verdict {
    let left = one.run(one.task("[[recall]] Remember the word halyard."));
    let right = two.run(two.task("[[recall]] Remember the word fairlead."));
    let (left, right) = tokio::join!(left, right);
    for (seen, own, other) in [(left?, "halyard", "fairlead"), (right?, "fairlead", "halyard")] {
        seen.completed()?;
        seen.hold(seen.text().contains(own) && !seen.text().contains(other), || {
            format!("asked about {own}, answered {}", short(seen.text()))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bowline_providers::catalogue;

    use super::*;

    /// What turns the pending case red: each of the ways in which a manifest can gain a way in.
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
        assert!(made(|it| it.stop.polite = Polite::StdinClose));
        assert!(made(|it| it.stop.polite = Polite::Protocol));
        assert!(made(|it| it.transport = Transport::Pty));
    }
}
