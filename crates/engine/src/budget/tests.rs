//! Limits, reached and not, with what the finding rests on.

use bowline_protocol::kinds::Outcome;

use super::*;

fn guard(amounts: Amounts, before: Amounts) -> Guard {
    let limits = vec![Limit { extent: Extent::Request, amounts, before }];
    Guard::new(Budget { limits, ..Budget::default() })
}

fn spent(output: u64, source: UsageSource, cost_usd: Option<f64>) -> Option<Spent> {
    Some(Spent { usage: Usage { output, ..Usage::default() }, source, cost_usd })
}

fn over(text: &str) -> Option<Finding> {
    Some(Finding::Over(text.to_owned()))
}

const COST: Amounts = Amounts { cost: Some(0.5), tokens: None, time: None };
const TOKENS: Amounts = Amounts { cost: None, tokens: Some(1_000), time: None };
const NONE: Amounts = Amounts { cost: None, tokens: None, time: None };

#[test]
fn the_agents_own_word_comes_first() {
    let mut guard = guard(COST, NONE);
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.49)), Some("practice-1")), None);
    assert_eq!(
        guard.check(spent(10, UsageSource::Reported, Some(0.61)), None),
        over("the budget of $0.5000 for this request is used up: $0.6100 so far, as the agent reports")
    );
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.7)), None), None, "it is said once");
}

#[test]
fn else_the_price_list_is_asked_and_named() {
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
fn a_model_without_a_price_is_told_once() {
    let mut guard = guard(COST, NONE);
    let first = guard.check(spent(6_000, UsageSource::Reported, None), Some("mystery"));
    assert_eq!(
        first,
        Some(Finding::Blind(
            "the limit of money is not watched: what `mystery` costs is not known; `bowline prices` lists the models \
             that are"
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
fn what_others_use_of_a_day_counts_as_it_becomes_known() {
    let limits = vec![Limit { extent: Extent::Day, amounts: COST, before: NONE }];
    let mut guard = Guard::new(Budget { limits, ..Budget::default() });
    // Those who share the request are among all the others of the day, and not counted twice.
    guard.others(Amounts { cost: Some(0.5), ..NONE });
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.2)), None), None);
    guard.before(Extent::Project, Amounts { cost: Some(0.5), ..NONE });
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.2)), None), None);
    guard.before(Extent::Day, Amounts { cost: Some(0.31), ..NONE });
    assert_eq!(
        guard.check(spent(10, UsageSource::Reported, Some(0.2)), None),
        over(
            "the budget of $0.5000 for today is used up: $0.5100 so far with other runs, as the agent reports"
        )
    );
    let limits = vec![Limit { extent: Extent::Project, amounts: TOKENS, before: NONE }];
    let mut guard = Guard::new(Budget { limits, ..Budget::default() });
    guard.before(Extent::Project, Amounts { tokens: Some(2_000), ..NONE });
    assert_eq!(
        guard.check(None, None),
        over("the budget of 1000 tokens for this project is used up: 2000 so far, all of it by other runs")
    );
}

#[test]
fn what_was_counted_by_its_text_stays_so_when_the_turn_has_ended() {
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
