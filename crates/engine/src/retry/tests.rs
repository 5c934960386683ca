//! The decision after a failure, case by case. The tests of `route --explain` in the command line check the whole table, with
//! the sentences for people.

use super::*;
use crate::breaker;
use crate::route::RouteMemory;

fn now() -> Timestamp {
    "2026-11-15T08:00:00Z".parse().unwrap()
}

fn verdict(
    rules: RetryRules,
    failure: &Failure,
    change: impl FnOnce(&mut FailedAttempt<'_>),
) -> RetryVerdict {
    let mut attempt =
        FailedAttempt { failure, retries: 0, waits: 0, footprint: Footprint::NoWork, next: Some("second") };
    change(&mut attempt);
    decide(&rules, &attempt, now(), RetryWait::Drawn(700))
}

fn failure(category: Category) -> Failure {
    Failure::new(category, Code::Unknown, "it failed")
}

#[test]
fn waits_double_up_to_the_cap_and_are_drawn_from_all_of_it() {
    let backoff = |retries, dice| RetryRules::default().backoff(retries, dice);
    for (retries, bound) in [(0, 1_000), (1, 2_000), (4, 16_000), (5, 30_000), (40, 30_000)] {
        assert_eq!(backoff(retries, 0), Millis(0));
        assert_eq!(backoff(retries, bound), Millis(bound));
        assert_eq!(backoff(retries, bound + 1), Millis(0), "never more than {bound}");
    }
    let own = RetryRules { first_wait: Millis(10), longest_wait: Millis(25), ..RetryRules::default() };
    for (retries, bound) in [(0, 10), (1, 20), (2, 25), (40, 25)] {
        assert_eq!(
            (own.backoff(retries, bound), own.backoff(retries, bound + 1)),
            (Millis(bound), Millis(0))
        );
    }
}

#[test]
fn the_time_that_an_agent_names_is_honoured() {
    let rules = RetryRules::default();
    let named = Failure { retry_after_ms: Some(Millis(5_000)), ..failure(Category::RateLimit) };
    assert_eq!(verdict(rules, &named, |_| {}).next, NextStep::Retry { after: Millis(5_000) });
    let resets = Failure { resets_at: Some(now().after(Millis(12_000))), ..failure(Category::RateLimit) };
    assert_eq!(verdict(rules, &resets, |_| {}).next, NextStep::Retry { after: Millis(12_000) });
    let later = Failure { resets_at: Some(now().after(Millis(14_400_000))), ..failure(Category::RateLimit) };
    let told = verdict(rules, &later, |_| {});
    assert_eq!(told.next, NextStep::Stop);
    assert_eq!(
        told.reason,
        "rate limit: not retried, because 4 h is longer than the longest wait of 30 s; no fallback under `next`; \
         the limit resets in 4 h, and the run does not wait for it"
    );
    let patient = RetryRules { wait_for_limit: true, ..rules };
    assert_eq!(
        verdict(patient, &later, |_| {}).next,
        NextStep::Wait { until: now().after(Millis(14_400_000)) }
    );
    assert_eq!(verdict(patient, &later, |it| it.waits = 5).next, NextStep::Stop, "not for ever");
}

#[test]
fn a_quota_falls_back_before_it_is_waited_for() {
    let quota = Failure { resets_at: Some(now().after(Millis(60_000))), ..failure(Category::Quota) };
    let patient = RetryRules { wait_for_limit: true, ..RetryRules::default() };
    assert_eq!(verdict(patient, &quota, |_| {}).next, NextStep::FallBack);
    assert_eq!(
        verdict(patient, &quota, |it| it.next = None).next,
        NextStep::Wait { until: now().after(Millis(60_000)) }
    );
    assert_eq!(verdict(RetryRules::default(), &quota, |it| it.next = None).next, NextStep::Stop);
}

#[test]
fn any_falls_back_after_everything_but_what_is_ours() {
    let any = RetryRules { fallback: Fallback::Any, retries: 0, ..RetryRules::default() };
    for category in Category::ALL {
        assert_eq!(verdict(any, &failure(category), |_| {}).next, NextStep::FallBack, "{category}");
        for footprint in Footprint::ALL {
            let expect = if footprint.may_have_worked() { NextStep::Stop } else { NextStep::FallBack };
            let verdict = verdict(any, &failure(category), |it| it.footprint = footprint);
            assert_eq!(verdict.next, expect, "{category} {footprint:?}");
        }
    }
    for code in [Code::Budget, Code::Policy, Code::DiskFull, Code::Cancelled] {
        let ours = Failure { code, ..failure(Category::Server) };
        assert_eq!(verdict(any, &ours, |_| {}).next, NextStep::Stop, "{}", ours.code);
    }
}

#[test]
fn tools_are_repeated_only_on_request() {
    let rules = RetryRules { repeat_tools: true, ..RetryRules::default() };
    for footprint in Footprint::ALL {
        let retried = verdict(rules, &failure(Category::Server), |it| it.footprint = footprint);
        assert_eq!(retried.next, NextStep::Retry { after: Millis(700) });
        let stopped =
            verdict(RetryRules::default(), &failure(Category::Server), |it| it.footprint = footprint);
        if footprint.may_have_worked() {
            let expect =
                RetryVerdict { next: NextStep::Stop, reason: format!("server: {}", footprint.reason()) };
            assert_eq!(stopped, expect);
        } else {
            assert_eq!(stopped.next, NextStep::Retry { after: Millis(700) }, "{footprint:?}");
        }
    }
}

/// Simulates failures and writes each step: the agent, the reason, the wait.
fn ahead(rules: &RetryRules, failure: &Failure, memory: &RouteMemory, names: &[&str]) -> Vec<String> {
    let turn = |name: &&str| RouteStop { name: (*name).to_owned(), model: None, key: (*name).to_owned() };
    let turns: Vec<RouteStop> = names.iter().map(turn).collect();
    let seen =
        outlook(rules, &turns, memory, failure, Footprint::NoWork, OutlookStart { at: now(), waits: 0 });
    assert!(!seen.goes_on);
    seen.steps.iter().map(|it| format!("{}: {}", turns[it.turn].name, it.verdict.reason)).collect()
}

#[test]
fn a_simulated_wait_has_bounds() {
    let limited = Failure { retry_after_ms: Some(Millis(1_500)), ..failure(Category::RateLimit) };
    assert_eq!(
        ahead(&RetryRules::default(), &limited, &RouteMemory::default(), &["ann", "bob"]),
        [
            "ann: rate limit: retry 1 of 2 in 1.5 s",
            "ann: rate limit: retry 2 of 2 in 1.5 s to 2 s",
            "ann: rate limit: retried 2 times already; no fallback under `next`; \
             the limit resets in 1.5 s, and the run does not wait for it",
        ]
    );
    let turns = [RouteStop { name: "ann".into(), model: None, key: "ann".into() }];
    let start = OutlookStart { at: now(), waits: 0 };
    let seen =
        outlook(&RetryRules::default(), &turns, &RouteMemory::default(), &limited, Footprint::NoWork, start);
    let waits: Vec<_> = seen.steps.iter().map(|it| (it.wait, it.next)).collect();
    let (named, drawn) = ((Millis(1_500), Millis(1_500)), (Millis(1_500), Millis(2_000)));
    assert_eq!(waits, [(named, Some(0)), (drawn, Some(0)), ((Millis(0), Millis(0)), None)]);
    let endless = RetryRules { retries: u32::MAX, ..RetryRules::default() };
    let limited = failure(Category::RateLimit);
    let seen = outlook(&endless, &turns, &RouteMemory::default(), &limited, Footprint::NoWork, start);
    assert!(seen.goes_on, "and more would follow");
}

#[test]
fn the_breaker_stops_new_requests_and_not_retries() {
    let wait = Millis(1_000);
    let rules = RetryRules { retries: 6, first_wait: wait, longest_wait: wait, ..RetryRules::default() };
    let server = failure(Category::Server);
    let mut memory = RouteMemory::default();
    // One more opens the first agent's breaker; the second agent's is open already.
    (1..breaker::FAILURES).for_each(|_| memory.failed("ann", &server, now()));
    (0..breaker::FAILURES).for_each(|_| memory.failed("bob", &server, now()));
    let steps = ahead(&rules, &server, &memory, &["ann", "bob", "cid"]);
    assert_eq!(steps[5], "ann: server: retry 6 of 6 in up to 1 s");
    assert_eq!(steps[6], "ann: server: retried 6 times already; falls back to cid");
    assert_eq!(steps[13], "cid: server: retried 6 times already; no other agent to fall back to");
    assert_eq!(steps.len(), 14, "{steps:?}");
}

#[test]
fn waits_for_a_limit_are_bounded() {
    let patient = RetryRules { wait_for_limit: true, ..RetryRules::default() };
    let later = Failure { retry_after_ms: Some(Millis(14_400_000)), ..failure(Category::Quota) };
    let steps = ahead(&patient, &later, &RouteMemory::default(), &["ann", "bob"]);
    assert_eq!(steps[0], "ann: quota: not retried; falls back to bob");
    assert_eq!(steps[1], "bob: quota: not retried; no other agent to fall back to; waits 4 h for the limit");
    assert_eq!(steps.len(), 7, "{steps:?}");
    assert!(steps[6].ends_with("already waited 5 times for the limit"), "{steps:?}");
}

#[test]
fn a_named_time_is_a_retry_up_to_the_longest_wait_and_a_limit_after_it() {
    for (named, next) in [
        (29_999, NextStep::Retry { after: Millis(29_999) }),
        (30_000, NextStep::Retry { after: Millis(30_000) }),
        (30_001, NextStep::Stop),
    ] {
        let limited = Failure { retry_after_ms: Some(Millis(named)), ..failure(Category::RateLimit) };
        assert_eq!(verdict(RetryRules::default(), &limited, |_| {}).next, next, "{named}");
    }
}

#[test]
fn the_bounds_of_a_wait_are_written_where_they_differ() {
    for (least, most, text) in [
        (0, 0, "0 s"),
        (0, 1_000, "up to 1 s"),
        (1_000, 2_000, "1 s to 2 s"),
        (2_000, 2_000, "2 s"),
        (3_000, 2_000, "3 s"),
    ] {
        assert_eq!(between(Millis(least), Millis(most)), text);
    }
}

#[test]
fn the_next_turn_is_a_later_usable_one() {
    let turns =
        ["ann", "bob", "cid"].map(|name| RouteStop { name: name.into(), model: None, key: name.into() });
    let mut memory = RouteMemory::default();
    let next =
        |memory: &RouteMemory, turn, not: &str| next_turn(&turns, memory, turn, now(), |it| it.name != not);
    assert_eq!([0, 1, 2].map(|turn| next(&memory, turn, "")), [Some(1), Some(2), None]);
    assert_eq!(next(&memory, 0, "bob"), Some(2));
    (0..breaker::FAILURES).for_each(|_| memory.failed("bob", &failure(Category::Server), now()));
    assert_eq!(next(&memory, 0, ""), Some(2), "the breaker of bob is open");
    assert_eq!(next(&memory, 0, "cid"), None);
}

#[test]
fn a_request_without_candidates_has_no_outlook() {
    assert_eq!(
        ahead(&RetryRules::default(), &failure(Category::Server), &RouteMemory::default(), &[]),
        [""; 0]
    );
}
