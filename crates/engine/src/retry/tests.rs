//! What follows a failure, case by case. The whole table, with the words that people read, is proven where they are shown: in
//! the command line's tests of `route --explain`.

use super::*;
use crate::breaker;
use crate::route::Memory;

fn now() -> Timestamp {
    "2026-11-15T08:00:00Z".parse().unwrap()
}

fn verdict(rules: Rules, failure: &Failure, change: impl FnOnce(&mut Attempt<'_>)) -> Verdict {
    let mut attempt =
        Attempt { failure, retries: 0, waits: 0, footprint: Footprint::NoWork, next: Some("second") };
    change(&mut attempt);
    decide(&rules, &attempt, now(), Wait::Drawn(700))
}

fn failure(category: Category) -> Failure {
    Failure::new(category, Code::Unknown, "it failed")
}

#[test]
fn waits_double_up_to_the_cap_and_are_drawn_from_all_of_it() {
    let backoff = |retries, dice| Rules::default().backoff(retries, dice);
    for (retries, bound) in [(0, 1_000), (1, 2_000), (4, 16_000), (5, 30_000), (40, 30_000)] {
        assert_eq!(backoff(retries, 0), Millis(0));
        assert_eq!(backoff(retries, bound), Millis(bound));
        assert_eq!(backoff(retries, bound + 1), Millis(0), "never more than {bound}");
    }
    let own = Rules { first_wait: Millis(10), longest_wait: Millis(25), ..Rules::default() };
    for (retries, bound) in [(0, 10), (1, 20), (2, 25), (40, 25)] {
        assert_eq!(
            (own.backoff(retries, bound), own.backoff(retries, bound + 1)),
            (Millis(bound), Millis(0))
        );
    }
}

#[test]
fn the_time_that_an_agent_names_is_honoured() {
    let rules = Rules::default();
    let named = Failure { retry_after_ms: Some(Millis(5_000)), ..failure(Category::RateLimit) };
    assert_eq!(verdict(rules, &named, |_| {}).next, Next::Retry { after: Millis(5_000) });
    let resets = Failure { resets_at: Some(now().after(Millis(12_000))), ..failure(Category::RateLimit) };
    assert_eq!(verdict(rules, &resets, |_| {}).next, Next::Retry { after: Millis(12_000) });
    let later = Failure { resets_at: Some(now().after(Millis(14_400_000))), ..failure(Category::RateLimit) };
    let told = verdict(rules, &later, |_| {});
    assert_eq!(told.next, Next::Stop);
    assert_eq!(
        told.reason,
        "rate limit: not retried, because 4 h is longer than 30 s to wait; no fallback under `next`; \
         the limit resets in 4 h and is not waited for"
    );
    let patient = Rules { wait_for_limit: true, ..rules };
    assert_eq!(verdict(patient, &later, |_| {}).next, Next::Wait { until: now().after(Millis(14_400_000)) });
    assert_eq!(verdict(patient, &later, |it| it.waits = 5).next, Next::Stop, "not for ever");
}

#[test]
fn a_quota_falls_back_before_it_is_waited_for() {
    let quota = Failure { resets_at: Some(now().after(Millis(60_000))), ..failure(Category::Quota) };
    let patient = Rules { wait_for_limit: true, ..Rules::default() };
    assert_eq!(verdict(patient, &quota, |_| {}).next, Next::FallBack);
    assert_eq!(
        verdict(patient, &quota, |it| it.next = None).next,
        Next::Wait { until: now().after(Millis(60_000)) }
    );
    assert_eq!(verdict(Rules::default(), &quota, |it| it.next = None).next, Next::Stop);
}

#[test]
fn any_falls_back_after_everything_but_what_is_ours() {
    let any = Rules { fallback: Fallback::Any, retries: 0, ..Rules::default() };
    for category in Category::ALL {
        assert_eq!(verdict(any, &failure(category), |_| {}).next, Next::FallBack, "{category}");
        for footprint in Footprint::ALL {
            let expect = if footprint.may_have_worked() { Next::Stop } else { Next::FallBack };
            let verdict = verdict(any, &failure(category), |it| it.footprint = footprint);
            assert_eq!(verdict.next, expect, "{category} {footprint:?}");
        }
    }
    for code in [Code::Budget, Code::Policy, Code::DiskFull, Code::Cancelled] {
        let ours = Failure { code, ..failure(Category::Server) };
        assert_eq!(verdict(any, &ours, |_| {}).next, Next::Stop, "{}", ours.code);
    }
}

#[test]
fn tools_are_repeated_only_on_request() {
    let rules = Rules { repeat_tools: true, ..Rules::default() };
    for footprint in Footprint::ALL {
        let retried = verdict(rules, &failure(Category::Server), |it| it.footprint = footprint);
        assert_eq!(retried.next, Next::Retry { after: Millis(700) });
        let stopped = verdict(Rules::default(), &failure(Category::Server), |it| it.footprint = footprint);
        if footprint.may_have_worked() {
            let expect = Verdict { next: Next::Stop, reason: format!("server: {}", footprint.reason()) };
            assert_eq!(stopped, expect);
        } else {
            assert_eq!(stopped.next, Next::Retry { after: Millis(700) }, "{footprint:?}");
        }
    }
}

/// Plays failures ahead and writes each step: who, what is said, how long is waited.
fn ahead(rules: &Rules, failure: &Failure, memory: &Memory, names: &[&str]) -> Vec<String> {
    let turn = |name: &&str| Turn { name: (*name).to_owned(), model: None, key: (*name).to_owned() };
    let turns: Vec<Turn> = names.iter().map(turn).collect();
    let seen = outlook(rules, &turns, memory, failure, Footprint::NoWork, Start { at: now(), waits: 0 });
    assert!(!seen.goes_on);
    seen.steps.iter().map(|it| format!("{}: {}", turns[it.turn].name, it.verdict.reason)).collect()
}

#[test]
fn what_is_played_ahead_tells_bounds_instead_of_drawing() {
    let limited = Failure { retry_after_ms: Some(Millis(1_500)), ..failure(Category::RateLimit) };
    assert_eq!(
        ahead(&Rules::default(), &limited, &Memory::default(), &["ann", "bob"]),
        [
            "ann: rate limit: retry 1 of 2 in 1.5 s",
            "ann: rate limit: retry 2 of 2 in 1.5 s to 2 s",
            "ann: rate limit: retried 2 times already; no fallback under `next`; \
             the limit resets in 1.5 s and is not waited for",
        ]
    );
    let turns = [Turn { name: "ann".into(), model: None, key: "ann".into() }];
    let start = Start { at: now(), waits: 0 };
    let seen = outlook(&Rules::default(), &turns, &Memory::default(), &limited, Footprint::NoWork, start);
    let waits: Vec<_> = seen.steps.iter().map(|it| (it.wait, it.next)).collect();
    let (named, drawn) = ((Millis(1_500), Millis(1_500)), (Millis(1_500), Millis(2_000)));
    assert_eq!(waits, [(named, Some(0)), (drawn, Some(0)), ((Millis(0), Millis(0)), None)]);
    let endless = Rules { retries: u32::MAX, ..Rules::default() };
    let limited = failure(Category::RateLimit);
    let seen = outlook(&endless, &turns, &Memory::default(), &limited, Footprint::NoWork, start);
    assert!(seen.goes_on, "and nobody waits for the end of it");
}

#[test]
fn the_breaker_keeps_requests_away_and_not_the_retries_of_one_that_is_on_its_way() {
    let wait = Millis(1_000);
    let rules = Rules { retries: 6, first_wait: wait, longest_wait: wait, ..Rules::default() };
    let server = failure(Category::Server);
    let mut memory = Memory::default();
    // One more opens the first one's breaker; the second one is left alone already.
    (1..breaker::FAILURES).for_each(|_| memory.failed("ann", &server, now()));
    (0..breaker::FAILURES).for_each(|_| memory.failed("bob", &server, now()));
    let steps = ahead(&rules, &server, &memory, &["ann", "bob", "cid"]);
    assert_eq!(steps[5], "ann: server: retry 6 of 6 in up to 1 s");
    assert_eq!(steps[6], "ann: server: retried 6 times already; falls back to cid");
    assert_eq!(steps[13], "cid: server: retried 6 times already; nobody left to fall back to");
    assert_eq!(steps.len(), 14, "{steps:?}");
}

#[test]
fn a_limit_is_waited_for_again_and_again_but_not_for_ever() {
    let patient = Rules { wait_for_limit: true, ..Rules::default() };
    let later = Failure { retry_after_ms: Some(Millis(14_400_000)), ..failure(Category::Quota) };
    let steps = ahead(&patient, &later, &Memory::default(), &["ann", "bob"]);
    assert_eq!(steps[0], "ann: quota: not retried; falls back to bob");
    assert_eq!(steps[1], "bob: quota: not retried; nobody left to fall back to; waits 4 h for the limit");
    assert_eq!(steps.len(), 7, "{steps:?}");
    assert!(steps[6].ends_with("the limit was waited for 5 times already"), "{steps:?}");
}
