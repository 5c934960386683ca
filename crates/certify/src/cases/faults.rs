//! How the program reports a model API that fails. Each fault has a category that a router can act on, reported within
//! half a minute: by the program, or by our deadline with the category of its last notice.

use bowline_protocol::Category;
use bowline_protocol::kinds::Outcome;
use bowline_simulator::LedgerEntry;

use crate::case::{CaseBody, CaseClaim, ContractCase};
use crate::case_failure::{CaseVerdict, hold, short};
use crate::place::CaseContext;

/// A fault, and its categories.
#[derive(Debug)]
pub(crate) struct FaultCase {
    /// The scenario; none if the connection is refused.
    pub(crate) scenario: Option<&'static str>,
    /// The categories that are right.
    categories: &'static [Category],
    /// Whether a program may also recover: the scenario then answers the second request.
    may_pass: bool,
}

const fn fault(name: &'static str, about: &'static str, of: &'static FaultCase) -> ContractCase {
    ContractCase {
        name,
        about,
        smoke: false,
        runs: 1,
        alone: false,
        claim: |_| CaseClaim::Yes,
        body: CaseBody::Fault(of),
        pending: None,
    }
}

macro_rules! faults {
    ($($name:literal, $about:literal, $scenario:expr, [$($category:ident),+] $($or:ident)?;)+) => {
        pub(crate) const CASES: &[ContractCase] = &[$(
            fault($name, $about, &FaultCase {
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
    "fault-400", "a bad request is a `validation` failure", Some("bad-request"), [Validation];
    "fault-401", "a rejected key is an `authentication` failure", Some("unauthorized"), [Authentication];
    "fault-403", "a forbidden request is an `authentication` failure", Some("forbidden"), [Authentication];
    "fault-404", "an unknown model is a `not_found` failure", Some("not-found"), [NotFound];
    "fault-413", "a request that is too large is a `validation` failure", Some("too-large"), [Validation];
    "fault-429", "too many requests are a `rate_limit` failure", Some("rate-limit"), [RateLimit];
    "fault-quota", "a used-up quota is a `quota` failure", Some("quota"), [Quota];
    "fault-billing", "an exhausted balance is a `quota` failure", Some("billing"), [Quota];
    "fault-500", "an internal server error is a `server` failure", Some("server-error"), [Server];
    "fault-503", "an unavailable server is a `server` failure", Some("unavailable"), [Server];
    "fault-529", "an overloaded server is a `server` or `rate_limit` failure", Some("overloaded"), [Server, RateLimit];
    "fault-overflow", "a context overflow is a `validation` failure", Some("context-overflow"), [Validation];
    "fault-close", "a closed connection is a `network` failure", Some("close"), [Network];
    "fault-refused", "a refused connection is a `network` failure", None, [Network];
    "fault-hang", "an API that never responds is a `timeout` failure", Some("hang"), [Timeout];
    "fault-hang-headers", "an API that stops after its headers is a `timeout` failure", Some("hang-after-headers"), [Timeout];
    "fault-cut", "an answer that breaks off is a failure", Some("cut"), [Network, Server];
    "fault-garbage", "garbage in an answer is a failure, or the program recovers and loses no text", Some("garbage-once"), [Network, Server, Validation, Unknown] passes;
}

/// Tests a fault.
pub(crate) async fn attempt(context: CaseContext, fault: &'static FaultCase) -> CaseVerdict {
    let (place, prompt) = match fault.scenario {
        Some(scenario) => (context.place("one").await?, format!("[[{scenario}]] Say something.")),
        None => (context.deserted("one").await?, "Say something.".to_owned()),
    };
    let seen = place.run(place.task(&prompt)).await?;
    if fault.scenario.is_some() {
        seen.hold(!place.requests().is_empty(), || "the program sent no request to the model".to_owned())?;
    }
    let expected = context.subject.manifest.certify.categories.get(context.case);
    let right = expected.map_or(fault.categories, |it| &it.categories);
    if expected.is_some() {
        // A program that retries silently is excused; one that hangs is not.
        seen.hold(place.all_requests().len() > 1 || fault.scenario.is_none(), || {
            "it sent one request and hung".to_owned()
        })?;
    }
    if fault.may_pass && seen.record.is_completed() {
        return overcome(seen.text(), &place.requests()).map_err(|it| seen.trouble(it.0.join("; ")));
    }
    seen.hold(seen.record.outcome == Outcome::Failed, || "the turn did not fail".to_owned())?;
    let told = seen.record.failure.as_ref().map(|failure| failure.category);
    seen.hold(told.is_some_and(|told| right.contains(&told)), || {
        let right: Vec<&str> = right.iter().map(|it| it.as_str()).collect();
        format!("the category should be {}", right.join(" or "))
    })
}

/// The scenario's answer to the second request.
const SECOND: &str = "This time it went well.";

/// The beginning of the answer that goes wrong. If the API repeats the whole text at its end, a
/// program can have all of it.
const FIRST: &str =
    "This answer begins as it should, goes on for a while, and would have come to a good end.";

/// Succeeds if no text is lost: the program sent a second request and reports only its answer, or it has the
/// first answer whole.
fn overcome(text: &str, requests: &[LedgerEntry]) -> CaseVerdict {
    let good = requests.iter().filter(|entry| entry.choice.as_ref().is_some_and(|it| it.fault.is_none()));
    let right = if good.count() > 0 { SECOND } else { FIRST };
    hold(text.trim() == right, || {
        format!("the turn completed after {} requests; served {right:?}, got {}", requests.len(), short(text))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bowline_simulator::{Api, ApiOperation, FaultKind, PickedBy, ScenarioChoice};

    use super::*;

    fn request(fault: Option<FaultKind>) -> LedgerEntry {
        LedgerEntry {
            seq: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            ended_at: None,
            method: "POST".to_owned(),
            path: "/v1/messages".to_owned(),
            route: None,
            headers: Vec::new(),
            operation: ApiOperation::Generate(Api::AnthropicMessages),
            facts: None,
            body: Arc::default(),
            choice: Some(ScenarioChoice {
                scenario: "garbage-once".to_owned(),
                picked_by: PickedBy::Marker,
                step: Some(1),
                side: None,
                fault,
                unknown: false,
            }),
            called: Vec::new(),
            status: Some(200),
            usage: None,
            outcome: bowline_simulator::RequestOutcome::Sent,
        }
    }

    #[test]
    fn a_turn_that_lost_something_did_not_overcome_it() {
        let (bad, good) = (request(Some(FaultKind::Garbage)), request(None));
        assert_eq!(overcome(SECOND, &[bad.clone(), good.clone()]), Ok(()));
        assert_eq!(overcome(FIRST, std::slice::from_ref(&bad)), Ok(()));
        for (text, requests) in [
            ("This answer begins as it should, and would", vec![bad.clone()]),
            ("", vec![bad.clone()]),
            (SECOND, vec![bad.clone()]),
            (&format!("This answer begins{SECOND}"), vec![bad.clone(), good.clone()]),
            (FIRST, vec![bad, good]),
        ] {
            assert!(overcome(text, &requests).is_err(), "{text}");
        }
    }
}
