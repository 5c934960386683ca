//! Who keeps failing is left alone for half a minute; then one request tries, and decides.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;

use crate::place::{Place, Programs};
use crate::trial;

/// How many failures within a minute open it, and for how long: `docs/routing.md`.
const FAILURES: usize = 5;
const OPEN_FOR: Duration = Duration::from_secs(30);

/// One attempt and no other.
const ONCE: &[&str] = &["--retries", "0", "--fallback", "none"];

pub(crate) fn trials(programs: &Arc<Programs>, trials: &mut Vec<Trial>) {
    trials.push(trial("the breaker opens, and closes when the one that tries is answered", programs, heals));
    trials.push(trial(
        "the breaker opens, and opens again when the one that tries fails",
        programs,
        fails_again,
    ));
}

/// Makes a machine whose first program has failed so often that it is left alone, and waits until one request may try.
fn opened(programs: &Programs, case: &str) -> Place {
    let [first, second] = names(programs);
    let place = Place::new(programs, case, &[(first, "default"), (second, "default")]);
    for number in 1..=FAILURES {
        let seen = place.ask(&format!("[[server-error]] Number {number}."), ONCE);
        seen.exits(1);
        assert_eq!(seen.chosen(), [first], "failure {number} of {FAILURES}");
    }
    let failed = place.asked();
    assert!(failed.iter().all(|it| *it == (first.to_owned(), Some(500))), "{failed:?}");
    answered_by_the_second(programs, &place);
    assert_eq!(place.asked()[failed.len()..], [(second.to_owned(), Some(200))]);
    std::thread::sleep(OPEN_FOR);
    place
}

fn names(programs: &Programs) -> [&str; 2] {
    [&programs.agents[0].provider, &programs.agents[1].provider]
}

/// The first is not even asked, and the choice says why.
#[track_caller]
fn answered_by_the_second(programs: &Programs, place: &Place) {
    let [first, second] = names(programs);
    let seen = place.ask("[[text]] What does the knot do?", &[]);
    let attempts = seen.exits(0).attempts();
    assert_eq!(seen.chosen(), [second], "{}", seen.stderr);
    let rejected = &attempts[0].route()["rejected"][0];
    assert_eq!(rejected["provider"], first);
    let reason = rejected["reason"].as_str().expect("a sentence");
    assert!(reason.starts_with("it failed 5 times within a minute and is skipped"), "{reason}");
}

fn heals(programs: &Programs, case: &str) {
    let place = opened(programs, case);
    let [first, _] = names(programs);
    let before = place.asked().len();
    // The one that tries, and one after it.
    for _ in 0..2 {
        let seen = place.ask("[[text]] What does the knot do?", &[]);
        seen.exits(0);
        assert_eq!(seen.chosen(), [first], "{}", seen.stderr);
    }
    let answered = (first.to_owned(), Some(200));
    assert_eq!(place.asked()[before..], [answered.clone(), answered]);
}

fn fails_again(programs: &Programs, case: &str) {
    let place = opened(programs, case);
    let [first, second] = names(programs);
    let seen = place.ask("[[server-error]] Once more.", ONCE);
    seen.exits(1);
    assert_eq!(seen.chosen(), [first], "{}", seen.stderr);
    let before = place.asked().len();
    // One failure is enough now.
    answered_by_the_second(programs, &place);
    assert_eq!(place.asked()[before..], [(second.to_owned(), Some(200))]);
}
