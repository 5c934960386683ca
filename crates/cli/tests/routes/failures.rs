//! What follows a failure: the same program again, another one, or none.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;

use crate::place::{Place, Programs};
use crate::trial;

pub(crate) fn trials(programs: &Arc<Programs>, trials: &mut Vec<Trial>) {
    for (place, agent) in programs.agents.iter().enumerate() {
        let provider = agent.provider.clone();
        let name = format!("after a 429 {provider} is asked again, and nobody else");
        trials.push(trial(name, programs, move |programs, case| throttled(programs, case, place)));
    }
    trials.push(trial("out of quota falls back to the next program", programs, out_of_quota));
    trials.push(trial("a refused key asks nobody else", programs, refused_key));
}

/// The provider at a place of the list and the one after it.
fn pair(programs: &Programs, place: usize) -> [&str; 2] {
    let at = |place: usize| &*programs.agents[place % programs.agents.len()].provider;
    [at(place), at(place + 1)]
}

fn throttled(programs: &Programs, case: &str, place: usize) {
    let [first, second] = pair(programs, place);
    let place = Place::new(programs, case, &[(first, "default"), (second, "default")]);
    let seen = place.ask("[[throttled]] Is somebody there?", &[]);
    let attempts = seen.exits(0).attempts();
    assert_eq!(seen.chosen(), [first, first], "{}", seen.stderr);
    assert_eq!((&attempts[0].parent, &attempts[1].session), (&None, &attempts[0].session), "it goes on");
    let retrying = attempts[1].opening();
    assert_eq!(retrying["type"], "retrying");
    assert_eq!(retrying["attempt"], 1);
    assert_eq!(retrying["category"], "rate_limit");
    assert!(retrying["delay_ms"].as_u64() >= Some(1000), "the API named a second: {retrying}");
    assert_eq!(attempts[1].text(), "The queue is short again.");
    // The program tries once more by itself, then we do.
    let asked = [(first.to_owned(), Some(429)), (first.to_owned(), Some(429)), (first.to_owned(), Some(200))];
    assert_eq!(place.asked(), asked);
    let requests = place.requests();
    let waited = requests[2].at.duration_since(requests[1].at).unsigned_abs();
    assert!(waited >= Duration::from_secs(1), "the API named a second, and was asked after {waited:?}");
}

fn out_of_quota(programs: &Programs, case: &str) {
    let [first, second] = pair(programs, 0);
    let place = Place::new(programs, case, &[(first, "quota"), (second, "text")]);
    let seen = place.ask("What does the knot do?", &[]);
    let attempts = seen.exits(0).attempts();
    assert_eq!(seen.chosen(), [first, second], "{}", seen.stderr);
    assert_eq!(attempts[1].parent.as_ref(), Some(&attempts[0].session));
    let taken = attempts[1].opening();
    assert_eq!(taken["type"], "fallback_taken");
    assert_eq!([&taken["from"], &taken["to"], &taken["rule"]], [first, second, "next"]);
    assert_eq!(taken["failure"]["category"], "quota");
    assert_eq!(attempts[1].text(), "The knot holds, and it always unties.");
    assert_eq!(attempts[1].one("turn_ended")["outcome"], "completed");
    let asked = place.asked();
    let (last, before) = asked.split_last().expect("somebody was asked");
    assert_eq!(last, &(second.to_owned(), Some(200)), "{asked:?}");
    assert!(!before.is_empty() && before.iter().all(|it| *it == (first.to_owned(), Some(429))), "{asked:?}");
}

fn refused_key(programs: &Programs, case: &str) {
    let [first, second] = pair(programs, 0);
    let place = Place::new(programs, case, &[(first, "unauthorized"), (second, "text")]);
    let seen = place.ask("What does the knot do?", &[]);
    let attempts = seen.exits(4).attempts();
    assert_eq!(seen.chosen(), [first], "{}", seen.stderr);
    let failure = &attempts[0].one("turn_ended")["failure"];
    assert_eq!([&failure["category"], &failure["code"]], ["authentication", "invalid_credentials"]);
    let asked = place.asked();
    assert!(!asked.is_empty() && asked.iter().all(|it| *it == (first.to_owned(), Some(401))), "{asked:?}");
}
