//! The order of candidates, case by case, with the reasons of each.

mod edges;

use bowline_protocol::{Category, Code, Failure};
use bowline_providers::prices;

use super::*;

fn now() -> Timestamp {
    "2026-11-15T08:00:00Z".parse().unwrap()
}

fn ask() -> RouteRequest {
    RouteRequest {
        hint: None,
        model: None,
        named: false,
        listed: false,
        strategy: RouteStrategy::Priority,
        max_latency: None,
        prefer_local: false,
        last: None,
        now: now(),
    }
}

fn candidate(name: &str, priority: i64) -> (Candidate, CandidateFacts) {
    let candidate = Candidate {
        name: name.to_owned(),
        provider: name.to_owned(),
        enabled: true,
        priority,
        ..Candidate::default()
    };
    (candidate, CandidateFacts::default())
}

fn three() -> Vec<(Candidate, CandidateFacts)> {
    vec![candidate("ann", 50), candidate("bob", 90), candidate("cid", 50)]
}

fn explain(ask: &RouteRequest, candidates: &[(Candidate, CandidateFacts)]) -> String {
    let decision = decide(ask, candidates);
    assert_eq!(decision, decide(ask, candidates), "the same facts, the same answer");
    let mut text = String::new();
    for verdict in decision.verdicts {
        let turn = verdict.turn.map_or("-".to_owned(), |turn| turn.to_string());
        let model = verdict.model.map(|model| format!(" with {model}")).unwrap_or_default();
        text.push_str(&format!("{turn} {}{model}: {}\n", verdict.name, verdict.reason));
    }
    if let Some(problem) = decision.problem {
        text.push_str(&format!("{problem}\n"));
    }
    text
}

#[test]
fn priority_is_higher_first_and_ties_by_order() {
    insta::assert_snapshot!(explain(&ask(), &three()), @r"
    2 ann: priority 50
    1 bob: priority 90
    3 cid: priority 50
    ");
}

#[test]
fn each_skipped_candidate_has_a_reason() {
    let mut all: Vec<_> = (0..8).map(|number| candidate(&format!("n{number}"), 50)).collect();
    all[0].0.enabled = false;
    all[1].1.absent = Some("it is not installed".into());
    all[2].1.login = LoginState::Missing("not logged in".into());
    all[3].1.cannot = Some("`max_turns` cannot be honoured".into());
    all[4].1.breaker = BreakerState::Open { until: now().after(Millis(12_000)) };
    all[5].1.breaker = BreakerState::Cooling { until: now().after(Millis(14_400_000)) };
    all[6].1.limit =
        Some(UsedUpLimit { window: "weekly".into(), resets_at: Some(now().after(Millis(86_400_000))) });
    all[7].1.breaker = BreakerState::HalfOpen;
    insta::assert_snapshot!(explain(&ask(), &all), @r"
    - n0: disabled in the configuration
    - n1: it is not installed
    - n2: not logged in
    - n3: `max_turns` cannot be honoured
    - n4: it failed 5 times within a minute and is skipped for another 12 s
    - n5: its limit is used up and resets in 4 h
    - n6: its weekly limit is used up and resets in 24 h
    1 n7: priority 50
    ");
    all.pop();
    let text = explain(&ask(), &all);
    let told = "the limits of all usable providers are used up; the first to reset is that of n5, at 2026-11-15T12:00:00Z\n";
    assert!(text.ends_with(told), "{text}");
    all.truncate(5);
    assert!(explain(&ask(), &all).ends_with("none of the providers can be used\n"));
    assert_eq!(decide(&ask(), &[]).problem, Some(RouteProblem::Empty));
}

#[test]
fn a_hint_names_a_model_and_prefers_candidates_that_have_one() {
    let mut all = three();
    all[0].0.hints = [("fast".to_owned(), "tiny".to_owned())].into();
    all[1].0.model = Some("usual".into());
    let ask = RouteRequest { hint: Some(canonical("quick")), ..ask() };
    insta::assert_snapshot!(explain(&ask, &all), @r"
    1 ann with tiny: has a model for `fast`; priority 50
    2 bob with usual: has no model for `fast`; priority 90
    3 cid: has no model for `fast`; priority 50
    ");
}

#[test]
fn turns_go_round() {
    let order = |last: Option<&str>| {
        let ask =
            RouteRequest { strategy: RouteStrategy::RoundRobin, last: last.map(str::to_owned), ..ask() };
        decide(&ask, &three()).order
    };
    assert_eq!(order(None), [0, 1, 2]);
    assert_eq!(order(Some("ann")), [1, 2, 0]);
    assert_eq!(order(Some("cid")), [0, 1, 2]);
    assert_eq!(order(Some("a removed candidate")), [0, 1, 2]);
    let mut all = three();
    all[1].0.enabled = false;
    let ask = RouteRequest { strategy: RouteStrategy::RoundRobin, last: Some("bob".into()), ..ask() };
    assert_eq!(decide(&ask, &all).order, [2, 0], "also when the last one cannot be asked any more");
}

#[test]
fn the_quickest_and_the_cheapest() {
    let mut all = three();
    all[0].1.latency = Some(Millis(1_200));
    all[1].1.latency = Some(Millis(400));
    let ask = RouteRequest { strategy: RouteStrategy::LeastLatency, ..ask() };
    insta::assert_snapshot!(explain(&ask, &all), @r"
    3 ann: its first output takes 1.2 s
    2 bob: its first output takes 0.4 s
    1 cid: its speed was never measured, so it is tried first
    ");
    all[0].1.price = prices::of("claude-sonnet-4-5", &[]);
    all[2].1.price = prices::of("claude-haiku-4-5", &[]);
    let ask = RouteRequest { strategy: RouteStrategy::LeastCost, ..ask };
    insta::assert_snapshot!(explain(&ask, &all), @r"
    2 ann: $6.00 a million tokens, 2026-10-10
    3 bob: its price is unknown
    1 cid: $2.00 a million tokens, 2026-10-10
    ");
}

#[test]
fn a_model_alone_finds_its_provider() {
    let mut all = three();
    all[0].0.patterns = vec!["deep-*".into()];
    all[1].0.listed = vec!["deep-1".into(), "other-1".into()];
    let for_model = |model: &str| RouteRequest { model: Some(model.into()), ..ask() };
    insta::assert_snapshot!(explain(&for_model("other-1"), &all), @r"
    - ann with other-1: `other-1` is not one of its known models
    1 bob with other-1: priority 90
    - cid with other-1: `other-1` is not one of its known models
    ");
    assert!(explain(&for_model("none-1"), &all).ends_with("no provider is known for the model `none-1`\n"));
    all[2].0.patterns = vec!["deep-*".into()];
    assert_eq!(
        decide(&for_model("deep-2"), &all).problem,
        Some(RouteProblem::Ambiguous { model: "deep-2".into(), names: vec!["ann".into(), "cid".into()] })
    );
    all[2].1.absent = Some("it is not installed".into());
    assert_eq!(decide(&for_model("deep-2"), &all).order, [0], "one of them is the only one that is there");
    all[2].1.absent = None;
    all[2].0.model = Some("deep-2".into());
    assert_eq!(decide(&for_model("deep-2"), &all).problem, None, "the configuration is the stronger claim");
    let named = RouteRequest { named: true, ..for_model("none-1") };
    all[2].0.named = true;
    assert_eq!(decide(&named, &all).order, [2], "who names the provider need not be known to have it");
}

#[test]
fn the_memory_survives_a_file_and_stays_small() {
    let mut memory = RouteMemory::default();
    let failure = Failure::new(Category::Server, Code::ServerError, "500");
    let one = key("ann", Some("work"), Some("m"));
    assert_eq!(one, "ann@work#m");
    (0..5).for_each(|_| memory.failed(&one, &failure, now()));
    for number in 0..2_000 {
        memory.sent(&key("bob", None, Some(&format!("m{number}"))), "me", now().after(Millis(number)));
    }
    memory.takes_turn("bob");
    memory.answered("cid", Some(Millis(1_000)), now());
    memory.answered("cid", Some(Millis(2_000)), now());
    let text = serde_json::to_string(&memory).unwrap();
    assert!(text.len() < 64 * 1024, "{}", text.len());
    let kept: RouteMemory = serde_json::from_str(&text).unwrap();
    assert_eq!(kept, memory);
    assert!(
        matches!(kept.state(&one, now()), BreakerState::Open { .. }),
        "a skipped provider is remembered longest"
    );
    assert_eq!(kept.state("unknown", now()), BreakerState::Closed);
    assert_eq!(kept.latency("cid"), Some(Millis(1_300)));
    assert_eq!(kept.last.as_deref(), Some("bob"));
}

#[test]
fn an_unseen_login_comes_after_seen_ones() {
    let mut all = three();
    all[1].1.login = LoginState::Unseen;
    insta::assert_snapshot!(explain(&ask(), &all), @r"
    1 ann: priority 50
    3 bob: after the others, because no login was found (only the program itself can tell); priority 90
    2 cid: priority 50
    ");
    all[0].0.patterns = vec!["deep-*".into()];
    all[1].0.patterns = vec!["deep-*".into()];
    let ask = RouteRequest { model: Some("deep-1".into()), ..ask() };
    assert_eq!(decide(&ask, &all).order, [0, 1], "the logged-in one wins");
    all[0].1.login = LoginState::Unseen;
    assert!(matches!(decide(&ask, &all).problem, Some(RouteProblem::Ambiguous { .. })));
}

#[test]
fn a_limit_is_the_reason_only_where_nothing_else_is_in_the_way() {
    let mut all = vec![candidate("ann", 50), candidate("bob", 50)];
    let until = |seconds: u64| now().after(Millis(seconds * 1000));
    all[0].1.breaker = BreakerState::Cooling { until: until(60) };
    all[0].1.absent = Some("it is not installed".into());
    assert_eq!(decide(&ask(), &all[..1]).problem, Some(RouteProblem::NoneUsable));
    all[1].1.breaker = BreakerState::Cooling { until: until(60) };
    all[1].1.limit = Some(UsedUpLimit { window: "weekly".into(), resets_at: Some(until(90)) });
    let limited = |resets_at| Some(RouteProblem::Limited { place: 1, name: "bob".into(), resets_at });
    assert_eq!(decide(&ask(), &all).problem, limited(Some(until(90))), "all of them have to be reset");
    all[1].1.limit = Some(UsedUpLimit { window: "weekly".into(), resets_at: None });
    assert_eq!(decide(&ask(), &all).problem, limited(None));
}
