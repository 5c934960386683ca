//! Limits, reached and not, with the source of each finding.

use bowline_protocol::kinds::Outcome;

use super::*;

fn guard(amounts: Amounts, before: Amounts) -> BudgetGuard {
    let limits = vec![BudgetLimit { extent: BudgetScope::Request, amounts, before }];
    BudgetGuard::new(Budget { limits, ..Budget::default() })
}

fn spent(output: u64, source: UsageSource, cost_usd: Option<f64>) -> Option<TurnSpending> {
    Some(TurnSpending { usage: Usage { output, ..Usage::default() }, source, cost_usd })
}

fn over(text: &str) -> Option<BudgetFinding> {
    Some(BudgetFinding::Over(text.to_owned()))
}

const COST: Amounts = Amounts { cost: Some(0.5), tokens: None, time: None };
const TOKENS: Amounts = Amounts { cost: None, tokens: Some(1_000), time: None };
const NONE: Amounts = Amounts { cost: None, tokens: None, time: None };

#[test]
fn the_agents_own_report_comes_first() {
    let mut guard = guard(COST, NONE);
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.49)), Some("practice-1")), None);
    assert_eq!(
        guard.check(spent(10, UsageSource::Reported, Some(0.61)), None),
        over("the budget of $0.5000 for this request is used up: $0.6100 so far, as the agent reports")
    );
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.7)), None), None, "it is said once");
}

#[test]
fn otherwise_the_price_list_is_used_and_named() {
    assert_eq!(
        guard(COST, NONE).check(spent(24_000, UsageSource::Reported, None), Some("practice-1")),
        over(
            "the budget of $0.5000 for this request is used up: $0.6000 so far, by the price list (2026-11-15), \
             tokens as the agent reports"
        )
    );
    assert_eq!(
        guard(COST, NONE).check(spent(24_000, UsageSource::Estimated, None), Some("practice-1")),
        over(
            "the budget of $0.5000 for this request is used up: $0.6000 so far, by the price list (2026-11-15), \
             tokens counted by its text"
        )
    );
}

#[test]
fn an_unknown_price_is_reported_once() {
    let mut guard = guard(COST, NONE);
    let first = guard.check(spent(6_000, UsageSource::Reported, None), Some("mystery"));
    assert_eq!(
        first,
        Some(BudgetFinding::Unchecked(
            "the cost limit cannot be checked: the price of `mystery` is unknown; `bowline prices` lists the \
             known ones"
                .into()
        ))
    );
    assert_eq!(guard.check(spent(7_000, UsageSource::Reported, None), Some("mystery")), None);
}

#[test]
fn tokens_count_over_turns_and_before_the_run() {
    let mut one = guard(TOKENS, Amounts { tokens: Some(300), ..NONE });
    one.turn_ended(&ended(Usage { output: 400, ..Usage::default() }));
    assert_eq!(one.check(spent(299, UsageSource::Reported, None), None), None);
    assert_eq!(
        one.check(spent(300, UsageSource::Estimated, None), None),
        over("the budget of 1000 tokens for this request is used up: 1000 so far, counted by its text")
    );
}

#[test]
fn nothing_is_found_before_anything_is_used() {
    let full = Amounts { cost: Some(0.5), tokens: Some(1_000), ..NONE };
    assert_eq!(guard(full, NONE).check(None, None), None);
}

#[test]
fn usage_of_other_runs_counts_against_the_day_once_known() {
    let limits = vec![BudgetLimit { extent: BudgetScope::Day, amounts: COST, before: NONE }];
    let mut guard = BudgetGuard::new(Budget { limits, ..Budget::default() });
    // The agents that share the request are part of the day's usage, and not counted twice.
    guard.others(Amounts { cost: Some(0.5), ..NONE });
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.2)), None), None);
    guard.before(BudgetScope::Project, Amounts { cost: Some(0.5), ..NONE });
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.2)), None), None);
    guard.before(BudgetScope::Day, Amounts { cost: Some(0.31), ..NONE });
    assert_eq!(
        guard.check(spent(10, UsageSource::Reported, Some(0.2)), None),
        over(
            "the budget of $0.5000 for today is used up: $0.5100 so far with other runs, as the agent reports"
        )
    );
    let limits = vec![BudgetLimit { extent: BudgetScope::Project, amounts: TOKENS, before: NONE }];
    let mut guard = BudgetGuard::new(Budget { limits, ..Budget::default() });
    guard.before(BudgetScope::Project, Amounts { tokens: Some(2_000), ..NONE });
    assert_eq!(
        guard.check(None, None),
        over("the budget of 1000 tokens for this project is used up: 2000 so far, all of it by other runs")
    );
}

#[test]
fn an_estimate_stays_an_estimate_when_the_turn_has_ended() {
    let mut guard = guard(TOKENS, NONE);
    let usage = Usage { output: 1_000, ..Usage::default() };
    let report = UsageReported {
        usage,
        basis: bowline_protocol::Basis::PerTurn,
        source: UsageSource::Estimated,
        cost_usd: None,
        model: None,
        message: None,
    };
    guard.reported(&report);
    guard.turn_ended(&ended(usage));
    assert_eq!(
        guard.check(None, None),
        over("the budget of 1000 tokens for this request is used up: 1000 so far, counted by its text")
    );
}

fn ended(usage: Usage) -> TurnEnded {
    TurnEnded {
        outcome: Outcome::Completed,
        stop: None,
        failure: None,
        usage: Some(usage),
        cost_usd: None,
        num_turns: None,
        running_tools: Vec::new(),
        running_tasks: Vec::new(),
    }
}

#[test]
fn time_counts_from_the_beginning_of_the_work() {
    let time = Amounts { time: Some(Millis(60_000)), ..NONE };
    let mut guard = guard(time, Amounts { time: Some(Millis(20_000)), ..NONE });
    assert_eq!(guard.deadline(), None);
    guard.begins(Millis(5_000));
    assert_eq!(guard.deadline(), Some(Millis(45_000)));
    assert_eq!(guard.time_is_over(), "the budget of 1 min for this request is used up");
    assert_eq!(guard.deadline(), None, "once");
}

#[test]
fn money_is_written_in_one_way() {
    let written = [0.0, 0.00004, 0.00005, 0.0012, 0.05, 0.4, 0.9999, 0.99999, 1.0, 1.5, 20.0].map(dollars);
    let expected = [
        "$0.00",
        "less than $0.0001",
        "$0.0001",
        "$0.0012",
        "$0.0500",
        "$0.4000",
        "$0.9999",
        "$1.00",
        "$1.00",
        "$1.50",
        "$20.00",
    ];
    assert_eq!(written, expected);
}

#[test]
fn a_limit_is_reached_at_its_last_cent_and_token() {
    for (cost, reached) in [(0.4999, false), (0.5, true), (0.5001, true)] {
        let found = guard(COST, NONE).check(spent(1, UsageSource::Reported, Some(cost)), None);
        assert_eq!(found.is_some(), reached, "{cost}");
    }
    for (tokens, reached) in [(999, false), (1_000, true), (1_001, true)] {
        let found = guard(TOKENS, NONE).check(spent(tokens, UsageSource::Reported, None), None);
        assert_eq!(found.is_some(), reached, "{tokens}");
    }
    // A limit of zero is reached by the first usage, and not before.
    let nothing = Amounts { cost: Some(0.0), tokens: Some(0), ..NONE };
    assert_eq!(guard(nothing, NONE).check(spent(0, UsageSource::Reported, Some(0.0)), None), None);
    assert!(guard(nothing, NONE).check(spent(0, UsageSource::Reported, Some(0.01)), None).is_some());
    assert!(guard(nothing, NONE).check(spent(1, UsageSource::Reported, None), None).is_some());
}

#[test]
fn amounts_add_up_except_for_time() {
    let some = Amounts { cost: Some(0.5), tokens: Some(7), time: Some(Millis(10)) };
    let more = Amounts { cost: Some(0.25), tokens: Some(3), time: Some(Millis(30)) };
    let both = Amounts { cost: Some(0.75), tokens: Some(10), time: Some(Millis(30)) };
    assert_eq!((some.plus(&more), more.plus(&some)), (both, both));
    assert_eq!((some.plus(&NONE), NONE.plus(&some), NONE.plus(&NONE)), (some, some, NONE));
    assert!(NONE.is_empty() && !some.is_empty());
    let sum = sum(Usage { input: 1, output: 2, ..Usage::default() }, Some(0.5), false, None, &[]);
    assert_eq!(sum.amounts(), Amounts { cost: Some(0.5), tokens: Some(3), time: None });
}

#[test]
fn usage_of_agents_that_share_a_request_counts_and_is_reported() {
    let mut guard = guard(COST, NONE);
    guard.others(Amounts { cost: Some(0.4), ..NONE });
    assert_eq!(guard.check(spent(1, UsageSource::Reported, Some(0.09)), None), None);
    assert_eq!(
        guard.check(spent(1, UsageSource::Reported, Some(0.1)), None),
        over(
            "the budget of $0.5000 for this request is used up: $0.5000 so far with the agents that share the request, \
             as the agent reports"
        )
    );
}

#[test]
fn the_shortest_time_counts_and_is_named() {
    let limit = |extent, millis, before| BudgetLimit {
        extent,
        amounts: Amounts { time: Some(Millis(millis)), ..NONE },
        before: Amounts { time: Some(Millis(before)), ..NONE },
    };
    let limits = vec![limit(BudgetScope::Day, 90_000, 0), limit(BudgetScope::Request, 60_000, 70_000)];
    let mut guard = BudgetGuard::new(Budget { limits, ..Budget::default() });
    guard.begins(Millis(5_000));
    guard.begins(Millis(9_000));
    assert_eq!(
        guard.deadline(),
        Some(Millis(5_000)),
        "what is over is over at once, from the first beginning on"
    );
    assert_eq!(guard.time_is_over(), "the budget of 1 min for this request is used up");
    let mut unlimited = BudgetGuard::new(Budget::default());
    unlimited.begins(Millis(1));
    assert_eq!(unlimited.deadline(), None);
    assert_eq!(unlimited.time_is_over(), "the budget of 0 s for this request is used up");
}

fn report(output: u64, source: UsageSource) -> UsageReported {
    UsageReported {
        usage: Usage { output, ..Usage::default() },
        basis: bowline_protocol::Basis::PerTurn,
        source,
        cost_usd: None,
        model: None,
        message: None,
    }
}

#[test]
fn reports_come_before_estimates_in_each_turn() {
    let usage = Usage { output: 10, ..Usage::default() };
    let counted = |reports: &[UsageReported], ends: bool| {
        let mut guard = guard(TOKENS, NONE);
        reports.iter().for_each(|it| guard.reported(it));
        if ends {
            guard.turn_ended(&ended(usage));
        }
        guard.sum(None, None).counted
    };
    let (told, nothing, text) = (
        report(10, UsageSource::Reported),
        report(0, UsageSource::Reported),
        report(10, UsageSource::Estimated),
    );
    for ends in [false, true] {
        assert_eq!(counted(&[], ends), REPORTED);
        assert_eq!(counted(std::slice::from_ref(&text), ends), ESTIMATED);
        assert_eq!(counted(&[text.clone(), told.clone()], ends), REPORTED);
        assert_eq!(counted(&[nothing.clone(), text.clone()], ends), ESTIMATED, "nothing is no word");
    }
    // The source of one turn says nothing about the next; an estimate stays an estimate.
    let mut guard = guard(TOKENS, NONE);
    guard.reported(&told);
    guard.turn_ended(&ended(usage));
    guard.reported(&text);
    assert_eq!(guard.sum(None, None).counted, ESTIMATED);
    guard.turn_ended(&ended(usage));
    guard.reported(&told);
    guard.turn_ended(&ended(usage));
    let sum = guard.sum(spent(5, UsageSource::Reported, Some(0.5)), None);
    assert_eq!((sum.counted, sum.usage.output, sum.cost), (ESTIMATED, 35, Some(0.5)));
    guard.turn_ended(&TurnEnded { cost_usd: Some(0.25), ..ended(usage) });
    guard.turn_ended(&TurnEnded { cost_usd: Some(0.25), ..ended(usage) });
    assert_eq!(guard.sum(spent(5, UsageSource::Reported, Some(0.5)), None).cost, Some(1.0));
    assert_eq!(guard.sum(None, None).cost, Some(0.5));
}

#[test]
fn an_unknown_price_is_reported_only_under_a_cost_limit_with_reported_tokens() {
    let blind = |amounts: Amounts, spent: Option<TurnSpending>| {
        matches!(guard(amounts, NONE).check(spent, Some("mystery")), Some(BudgetFinding::Unchecked(_)))
    };
    let tokens = Amounts { tokens: Some(1_000_000), ..NONE };
    assert!(blind(COST, spent(1, UsageSource::Reported, None)));
    assert!(!blind(COST, spent(0, UsageSource::Reported, None)), "nothing is used yet");
    assert!(!blind(COST, spent(1, UsageSource::Estimated, None)), "it may yet be reported");
    assert!(!blind(COST, spent(1, UsageSource::Reported, Some(0.1))), "it is told");
    assert!(!blind(tokens, spent(1, UsageSource::Reported, None)), "no cost limit");
}

#[test]
fn a_configured_price_is_used_and_an_unknown_model_has_none() {
    let usage = Usage { output: 1_000_000, ..Usage::default() };
    let unknown = sum(usage, None, false, None, &[]);
    assert_eq!(
        (unknown.cost, unknown.basis.as_str()),
        (None, "the agent did not report its model, so the price is unknown")
    );
    let named = Budget { model: Some("practice-1".to_owned()), ..Budget::default() };
    assert_eq!(
        BudgetGuard::new(named).sum(spent(1_000_000, UsageSource::Reported, None), None).cost,
        Some(25.0)
    );
}

#[test]
fn extents_have_names() {
    let names =
        [BudgetScope::Request, BudgetScope::Day, BudgetScope::Project].map(|extent| extent.to_string());
    assert_eq!(names, ["this request", "today", "this project"]);
}

#[test]
fn a_day_names_other_runs_only_for_what_they_used() {
    fn check(amounts: Amounts, before: Amounts, spent: Option<TurnSpending>, so_far: &str) {
        let limits = vec![BudgetLimit { extent: BudgetScope::Day, amounts, before }];
        let found = BudgetGuard::new(Budget { limits, ..Budget::default() }).check(spent, None);
        let Some(BudgetFinding::Over(text)) = found else { panic!("{so_far}: not reached") };
        assert!(text.ends_with(so_far), "{text}");
    }
    let (cost, tokens) = (Amounts { cost: Some(0.5), ..NONE }, Amounts { tokens: Some(1_000), ..NONE });
    let of_cost = |own| spent(0, UsageSource::Reported, Some(own));
    let of_tokens = |own| spent(own, UsageSource::Reported, None);
    check(COST, NONE, of_cost(0.5), "$0.5000 so far, as the agent reports");
    check(COST, cost, of_cost(0.01), "$0.5100 so far with other runs, as the agent reports");
    check(COST, cost, of_cost(0.0), "$0.5000 so far, all of it by other runs");
    check(TOKENS, NONE, of_tokens(1_000), "1000 so far, as the agent reports");
    check(TOKENS, tokens, of_tokens(1), "1001 so far with other runs, as the agent reports");
    check(TOKENS, tokens, of_tokens(0), "1000 so far, all of it by other runs");
}
