//! Edge cases of the rules: which claim to a model counts, what is too slow, what a listed order keeps.

use super::*;

fn for_model() -> RouteRequest {
    RouteRequest { model: Some("deep-1".into()), ..ask() }
}

/// The first candidate has the model by a stronger claim than the second.
fn owned_and_listed() -> Vec<(Candidate, CandidateFacts)> {
    let mut all = vec![candidate("ann", 50), candidate("bob", 90)];
    all[0].0.patterns = vec!["deep-*".into()];
    all[1].0.listed = vec!["deep-1".into()];
    all
}

#[test]
fn only_the_strongest_claim_to_a_model_counts() {
    let mut all = owned_and_listed();
    insta::assert_snapshot!(explain(&for_model(), &all), @r"
    1 ann with deep-1: priority 50
    - bob with deep-1: `deep-1` is a model of another provider
    ");
    all[1].0.hints = [("fast".to_owned(), "deep-1".to_owned())].into();
    insta::assert_snapshot!(explain(&for_model(), &all), @r"
    - ann with deep-1: `deep-1` is configured for another provider
    1 bob with deep-1: priority 90
    ");
    all[1].0.hints = [("fast".to_owned(), "deep-2".to_owned())].into();
    assert_eq!(decide(&for_model(), &all).order, [0], "a hint for another model is no claim to this one");
}

#[test]
fn a_claim_counts_only_of_a_candidate_that_is_there() {
    type Change = fn(&mut (Candidate, CandidateFacts));
    let cases: [Change; 3] = [
        |it| it.0.enabled = false,
        |it| it.1.absent = Some("it is not installed".into()),
        |it| it.1.login = LoginState::Missing("not logged in".into()),
    ];
    for (case, change) in cases.into_iter().enumerate() {
        let mut all = owned_and_listed();
        change(&mut all[0]);
        assert_eq!(decide(&for_model(), &all).order, [1], "case {case}");
    }
    // An unseen login may exist: it counts after the seen ones.
    let mut all = owned_and_listed();
    all[0].1.login = LoginState::Unseen;
    assert_eq!(decide(&for_model(), &all).order, [1, 0]);
    all[1].1.login = LoginState::Unseen;
    assert_eq!(decide(&for_model(), &all).order, [0], "then the stronger claim counts again");
}

#[test]
fn claims_do_not_count_where_the_caller_named_the_candidates() {
    let listed = RouteRequest { listed: true, ..for_model() };
    assert_eq!(decide(&listed, &owned_and_listed()).order, [0, 1]);
    let mut all = owned_and_listed();
    all[1].0.named = true;
    let named = RouteRequest { named: true, ..for_model() };
    assert_eq!(decide(&named, &all).order, [1, 0]);
}

#[test]
fn a_model_is_ambiguous_among_those_that_are_logged_in() {
    let mut all = three();
    all.iter_mut().for_each(|it| it.0.patterns = vec!["deep-*".into()]);
    all[1].1.login = LoginState::Unseen;
    let names = |names: &[&str]| {
        let names = names.iter().map(|it| (*it).to_owned()).collect();
        Some(RouteProblem::Ambiguous { model: "deep-1".into(), names })
    };
    assert_eq!(decide(&for_model(), &all).problem, names(&["ann", "cid"]));
    all[2].1.login = LoginState::Unseen;
    assert_eq!(decide(&for_model(), &all).problem, None, "one of them is logged in");
    all[0].1.login = LoginState::Unseen;
    assert_eq!(decide(&for_model(), &all).problem, names(&["ann", "bob", "cid"]));
}

#[test]
fn a_first_output_is_too_slow_only_above_the_limit() {
    let mut all = three();
    let latencies = [1_000, 1_100, 900];
    all.iter_mut().zip(latencies).for_each(|(it, latency)| it.1.latency = Some(Millis(latency)));
    let strict = RouteRequest { max_latency: Some(Millis(1_000)), ..ask() };
    insta::assert_snapshot!(explain(&strict, &all), @r"
    1 ann: priority 50
    3 bob: last, because its first output takes 1.1 s and only 1 s is allowed; priority 90
    2 cid: priority 50
    ");
    assert_eq!(decide(&ask(), &all).order, [1, 0, 2], "without a limit nothing is too slow");
    all[1].1.latency = None;
    assert_eq!(decide(&strict, &all).order, [1, 0, 2], "what was never measured is not too slow");
}

#[test]
fn local_models_come_first_only_on_request() {
    let mut all = three();
    all[2].0.local = true;
    assert_eq!(decide(&ask(), &all).order, [1, 0, 2]);
    let local = RouteRequest { prefer_local: true, ..ask() };
    insta::assert_snapshot!(explain(&local, &all), @r"
    3 ann: priority 50
    2 bob: priority 90
    1 cid: runs on this machine; priority 50
    ");
}

/// A list is the caller's own order: nothing else moves a candidate, and no reason names another rule.
#[test]
fn a_listed_order_is_kept_whatever_is_known() {
    let mut all = three();
    all[0].1.latency = Some(Millis(5_000));
    all[1].1.login = LoginState::Unseen;
    all[2].0.local = true;
    let listed = RouteRequest { listed: true, prefer_local: true, max_latency: Some(Millis(1_000)), ..ask() };
    insta::assert_snapshot!(explain(&listed, &all), @r"
    1 ann: in the order of the request
    2 bob: in the order of the request
    3 cid: in the order of the request
    ");
}

#[test]
fn a_candidate_is_remembered_by_provider_unless_its_program_is_its_own() {
    let (mut candidate, _) = candidate("ann", 50);
    candidate.name = "ann-at-work".into();
    assert_eq!(candidate.key(None), "ann");
    assert_eq!(candidate.key(Some("m")), "ann#m");
    candidate.profile = Some("work".into());
    assert_eq!(candidate.key(Some("m")), "ann@work#m");
    candidate.own = true;
    assert_eq!(candidate.key(Some("m")), "ann/ann-at-work@work#m");
}

#[test]
fn a_memory_of_another_form_is_not_known() {
    assert!(RouteMemory::default().is_known());
    for (form, known) in [(0, false), (1, true), (2, false)] {
        let memory: RouteMemory = serde_json::from_str(&format!("{{\"v\":{form}}}")).unwrap();
        assert_eq!(memory.is_known(), known, "{form}");
    }
}

#[test]
fn a_strategy_has_one_word_in_files_and_options() {
    let words = RouteStrategy::ALL.map(RouteStrategy::as_str);
    assert_eq!(words, ["priority", "round-robin", "least-latency", "least-cost"]);
    for strategy in RouteStrategy::ALL {
        assert_eq!(serde_json::to_value(strategy).expect("a word"), strategy.as_str());
    }
}

#[test]
fn one_request_tries_a_provider_again_until_its_sender_is_gone_or_stops_it() {
    let failure = Failure::new(Category::Server, Code::ServerError, "500");
    let later = now().after(crate::breaker::OPEN_FOR);
    let tried = || {
        let mut memory = RouteMemory::default();
        (0..crate::breaker::FAILURES).for_each(|_| memory.failed("ann", &failure, now()));
        assert_eq!(memory.state("ann", later), BreakerState::HalfOpen);
        memory.sent("ann", "me", later);
        assert_eq!(memory.state("ann", later), BreakerState::Probing);
        memory
    };
    let mut memory = tried();
    memory.forget_gone(|by| by == "me");
    assert_eq!(memory.state("ann", later), BreakerState::Probing, "its sender is there");
    memory.forget_gone(|by| by != "me");
    assert_eq!(memory.state("ann", later), BreakerState::HalfOpen);
    let mut memory = tried();
    memory.abandoned("ann", later);
    assert_eq!(memory.state("ann", later), BreakerState::HalfOpen);
}
