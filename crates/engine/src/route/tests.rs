//! Who is asked, case by case, with the words that `--explain` prints.

use bowline_protocol::{Category, Code, Failure};
use bowline_providers::prices;

use super::*;

fn now() -> Timestamp {
    "2026-11-15T08:00:00Z".parse().unwrap()
}

fn ask() -> Ask {
    Ask {
        hint: None,
        model: None,
        named: false,
        listed: false,
        strategy: Strategy::Priority,
        max_latency: None,
        prefer_local: false,
        last: None,
        now: now(),
    }
}

fn candidate(name: &str, priority: i64) -> (Candidate, Facts) {
    let candidate = Candidate {
        name: name.to_owned(),
        provider: name.to_owned(),
        enabled: true,
        priority,
        ..Candidate::default()
    };
    (candidate, Facts::default())
}

fn three() -> Vec<(Candidate, Facts)> {
    vec![candidate("ann", 50), candidate("bob", 90), candidate("cid", 50)]
}

fn explain(ask: &Ask, candidates: &[(Candidate, Facts)]) -> String {
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
fn whoever_cannot_be_asked_is_told_why() {
    let mut all: Vec<_> = (0..8).map(|number| candidate(&format!("n{number}"), 50)).collect();
    all[0].0.enabled = false;
    all[1].1.absent = Some("it is not installed".into());
    all[2].1.login = Login::Missing("nobody is logged in".into());
    all[3].1.cannot = Some("`--max-turns` cannot be honoured".into());
    all[4].1.breaker = State::Open { until: now().after(Millis(12_000)) };
    all[5].1.breaker = State::Cooling { until: now().after(Millis(14_400_000)) };
    all[6].1.limit =
        Some(Limit { window: "weekly".into(), resets_at: Some(now().after(Millis(86_400_000))) });
    all[7].1.breaker = State::HalfOpen;
    insta::assert_snapshot!(explain(&ask(), &all), @r"
    - n0: it is switched off in the configuration
    - n1: it is not installed
    - n2: nobody is logged in
    - n3: `--max-turns` cannot be honoured
    - n4: it failed 5 times within a minute, and is left alone for another 12 s
    - n5: its limit is used up, and resets in 4 h
    - n6: its weekly limit is used up, and resets in 24 h
    1 n7: priority 50
    ");
    all.pop();
    let text = explain(&ask(), &all);
    let told = "the limits of all who could be asked are used up; the first to reset is that of n5, at 2026-11-15T12:00:00Z\n";
    assert!(text.ends_with(told), "{text}");
    all.truncate(5);
    assert!(explain(&ask(), &all).ends_with("none of the providers can be asked\n"));
    assert_eq!(decide(&ask(), &[]).problem, Some(Problem::Empty));
}

#[test]
fn a_hint_names_a_model_and_prefers_who_has_one() {
    let mut all = three();
    all[0].0.hints = [("fast".to_owned(), "tiny".to_owned())].into();
    all[1].0.model = Some("usual".into());
    let ask = Ask { hint: Some(canonical("quick")), ..ask() };
    insta::assert_snapshot!(explain(&ask, &all), @r"
    1 ann with tiny: has a model for `fast`; priority 50
    2 bob with usual: has no model for `fast`; priority 90
    3 cid: has no model for `fast`; priority 50
    ");
}

#[test]
fn turns_go_round() {
    let order = |last: Option<&str>| {
        let ask = Ask { strategy: Strategy::RoundRobin, last: last.map(str::to_owned), ..ask() };
        decide(&ask, &three()).order
    };
    assert_eq!(order(None), [0, 1, 2]);
    assert_eq!(order(Some("ann")), [1, 2, 0]);
    assert_eq!(order(Some("cid")), [0, 1, 2]);
    assert_eq!(order(Some("somebody who is gone")), [0, 1, 2]);
    let mut all = three();
    all[1].0.enabled = false;
    let ask = Ask { strategy: Strategy::RoundRobin, last: Some("bob".into()), ..ask() };
    assert_eq!(decide(&ask, &all).order, [2, 0], "also when the last one cannot be asked any more");
}

#[test]
fn the_quickest_and_the_cheapest() {
    let mut all = three();
    all[0].1.latency = Some(Millis(1_200));
    all[1].1.latency = Some(Millis(400));
    let ask = Ask { strategy: Strategy::LeastLatency, ..ask() };
    insta::assert_snapshot!(explain(&ask, &all), @r"
    3 ann: its first word takes 1.2 s
    2 bob: its first word takes 0.4 s
    1 cid: how fast it is was never measured, so it is tried
    ");
    all[0].1.price = prices::of("claude-sonnet-4-5", &[]);
    all[2].1.price = prices::of("claude-haiku-4-5", &[]);
    let ask = Ask { strategy: Strategy::LeastCost, ..ask };
    insta::assert_snapshot!(explain(&ask, &all), @r"
    2 ann: $6.00 a million tokens, 2026-10-10
    3 bob: what it costs is not known
    1 cid: $2.00 a million tokens, 2026-10-10
    ");
}

#[test]
fn a_model_alone_finds_its_provider() {
    let mut all = three();
    all[0].0.patterns = vec!["deep-*".into()];
    all[1].0.listed = vec!["deep-1".into(), "other-1".into()];
    let for_model = |model: &str| Ask { model: Some(model.into()), ..ask() };
    insta::assert_snapshot!(explain(&for_model("other-1"), &all), @r"
    - ann with other-1: `other-1` is not known as a model of it
    1 bob with other-1: priority 90
    - cid with other-1: `other-1` is not known as a model of it
    ");
    assert!(explain(&for_model("none-1"), &all).ends_with("no provider is known for the model `none-1`\n"));
    all[2].0.patterns = vec!["deep-*".into()];
    assert_eq!(
        decide(&for_model("deep-2"), &all).problem,
        Some(Problem::Ambiguous { model: "deep-2".into(), names: vec!["ann".into(), "cid".into()] })
    );
    all[2].1.absent = Some("it is not installed".into());
    assert_eq!(decide(&for_model("deep-2"), &all).order, [0], "one of them is the only one that is there");
    all[2].1.absent = None;
    all[2].0.model = Some("deep-2".into());
    assert_eq!(
        decide(&for_model("deep-2"), &all).problem,
        None,
        "whoever wrote it down has said who is meant"
    );
    let named = Ask { named: true, ..for_model("none-1") };
    all[2].0.named = true;
    assert_eq!(decide(&named, &all).order, [2], "who names the provider need not be known to have it");
}

#[test]
fn what_is_remembered_survives_a_file_and_stays_small() {
    let mut memory = Memory::default();
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
    let kept: Memory = serde_json::from_str(&text).unwrap();
    assert_eq!(kept, memory);
    assert!(matches!(kept.state(&one, now()), State::Open { .. }), "who is left alone is remembered longest");
    assert_eq!(kept.state("nobody", now()), State::Closed);
    assert_eq!(kept.latency("cid"), Some(Millis(1_300)));
    assert_eq!(kept.last.as_deref(), Some("bob"));
}

#[test]
fn who_may_be_logged_in_comes_after_those_who_are() {
    let mut all = three();
    all[1].1.login = Login::Unseen;
    insta::assert_snapshot!(explain(&ask(), &all), @r"
    1 ann: priority 50
    3 bob: after the others, because no login is seen and only the program itself can tell; priority 90
    2 cid: priority 50
    ");
    all[0].0.patterns = vec!["deep-*".into()];
    all[1].0.patterns = vec!["deep-*".into()];
    let ask = Ask { model: Some("deep-1".into()), ..ask() };
    assert_eq!(decide(&ask, &all).order, [0, 1], "whoever is logged in is meant");
    all[0].1.login = Login::Unseen;
    assert!(matches!(decide(&ask, &all).problem, Some(Problem::Ambiguous { .. })));
}

#[test]
fn a_limit_is_the_reason_only_where_nothing_else_is_in_the_way() {
    let mut all = vec![candidate("ann", 50), candidate("bob", 50)];
    let until = |seconds: u64| now().after(Millis(seconds * 1000));
    all[0].1.breaker = State::Cooling { until: until(60) };
    all[0].1.absent = Some("it is not installed".into());
    assert_eq!(decide(&ask(), &all[..1]).problem, Some(Problem::Nobody));
    all[1].1.breaker = State::Cooling { until: until(60) };
    all[1].1.limit = Some(Limit { window: "weekly".into(), resets_at: Some(until(90)) });
    let limited = |resets_at| Some(Problem::Limited { place: 1, name: "bob".into(), resets_at });
    assert_eq!(decide(&ask(), &all).problem, limited(Some(until(90))), "all of them have to be reset");
    all[1].1.limit = Some(Limit { window: "weekly".into(), resets_at: None });
    assert_eq!(decide(&ask(), &all).problem, limited(None));
}
