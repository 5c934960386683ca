//! What it makes of a model's API that does not work. Each fault has a category that a router can act on, told within
//! half a minute: by the program, or by our deadline with the category of its last notice.

use bowline_protocol::Category;
use bowline_protocol::kinds::Outcome;

use crate::case::{Body, Case, Claim};
use crate::place::Room;
use crate::trouble::Verdict;

/// A fault, and what it may be called.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The scenario; none where nobody listens at the address.
    scenario: Option<&'static str>,
    /// The categories that are right.
    categories: &'static [Category],
    /// Whether a program may also overcome it.
    may_pass: bool,
}

const fn fault(name: &'static str, about: &'static str, of: &'static Fault) -> Case {
    Case { name, about, smoke: false, runs: 1, claim: |_| Claim::Yes, body: Body::Fault(of), pending: None }
}

macro_rules! faults {
    ($($name:literal, $about:literal, $scenario:expr, [$($category:ident),+] $($or:ident)?;)+) => {
        pub(crate) const CASES: &[Case] = &[$(
            fault($name, $about, &Fault {
                scenario: $scenario,
                categories: &[$(Category::$category),+],
                may_pass: faults!(@ $($or)?),
            }),
        )+];
    };
    (@) => { false };
    (@ passes) => { true };
}

faults! {
    "fault-400", "a bad request is a validation failure", Some("bad-request"), [Validation];
    "fault-401", "a refused key is an authentication failure", Some("unauthorized"), [Authentication];
    "fault-403", "a forbidden request is an authentication failure", Some("forbidden"), [Authentication];
    "fault-404", "a model that does not exist is not found", Some("not-found"), [NotFound];
    "fault-413", "a request that is too large is a validation failure", Some("too-large"), [Validation];
    "fault-429", "too many requests are a rate limit", Some("rate-limit"), [RateLimit];
    "fault-quota", "a used-up quota is a quota failure", Some("quota"), [Quota];
    "fault-billing", "no money left is a quota failure", Some("billing"), [Quota];
    "fault-500", "a server that fails is a server failure", Some("server-error"), [Server];
    "fault-503", "a server that is away is a server failure", Some("unavailable"), [Server];
    "fault-529", "an overloaded server is a server failure", Some("overloaded"), [Server, RateLimit];
    "fault-overflow", "a context that is too long is a validation failure", Some("context-overflow"), [Validation];
    "fault-close", "a connection that closes is a network failure", Some("close"), [Network];
    "fault-refused", "nobody at the address is a network failure", None, [Network];
    "fault-hang", "an API that says nothing is a timeout", Some("hang"), [Timeout];
    "fault-hang-headers", "an API that stops after its headers is a timeout", Some("hang-after-headers"), [Timeout];
    "fault-cut", "an answer that breaks off is no success", Some("cut"), [Network, Server];
    "fault-garbage", "garbage in an answer is overcome, or is a failure", Some("garbage"), [Network, Server, Validation, Unknown] passes;
}

/// Tries a fault.
pub(crate) async fn attempt(room: Room, fault: &'static Fault) -> Verdict {
    let (place, prompt) = match fault.scenario {
        Some(scenario) => (room.place("one").await?, format!("[[{scenario}]] Say something.")),
        None => (room.deserted("one").await?, "Say something.".to_owned()),
    };
    let seen = place.run(place.task(&prompt)).await?;
    if fault.scenario.is_some() {
        seen.hold(!place.requests().is_empty(), || "the model was never asked".to_owned())?;
    }
    let expected = room.subject.manifest.certify.categories.get(room.case);
    let right = expected.map_or(fault.categories, |it| &it.categories);
    if expected.is_some() {
        // A program that tries again without a word is let off; one that hangs is not.
        seen.hold(place.all_requests().len() > 1 || fault.scenario.is_none(), || {
            "it asked once and hung".to_owned()
        })?;
    }
    if fault.may_pass && seen.record.is_completed() {
        return Ok(());
    }
    seen.hold(seen.record.outcome == Outcome::Failed, || "it is not told as a failure".to_owned())?;
    let told = seen.record.failure.as_ref().map(|failure| failure.category);
    seen.hold(told.is_some_and(|told| right.contains(&told)), || {
        let right: Vec<&str> = right.iter().map(|it| it.as_str()).collect();
        format!("it should be {}", right.join(" or "))
    })
}
