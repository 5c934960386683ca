//! Limits, reached and not, with what the finding rests on.

use bowline_protocol::kinds::Outcome;

use super::*;

fn guard(amounts: Amounts, before: Amounts) -> Guard {
    let limits = vec![Limit { scope: "this request".into(), amounts, before }];
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
        over("the budget of $0.50 for this request is used up: $0.61 so far, as the agent reports")
    );
    assert_eq!(guard.check(spent(10, UsageSource::Reported, Some(0.7)), None), None, "it is said once");
}

#[test]
fn else_the_price_list_is_asked_and_named() {
    assert_eq!(
        guard(COST, NONE).check(spent(6_000, UsageSource::Reported, None), Some("practice-1")),
        over(
            "the budget of $0.50 for this request is used up: $0.60 so far, by the price list (2026-11-15), \
             tokens as the agent reports"
        )
    );
    assert_eq!(
        guard(COST, NONE).check(spent(6_000, UsageSource::Estimated, None), Some("practice-1")),
        over(
            "the budget of $0.50 for this request is used up: $0.60 so far, by the price list (2026-11-15), \
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
    let ended = TurnEnded {
        outcome: Outcome::Completed,
        stop: None,
        failure: None,
        usage: Some(Usage { output: 400, ..Usage::default() }),
        cost_usd: None,
        running_tools: Vec::new(),
        running_tasks: Vec::new(),
    };
    one.turn_ended(&ended);
    assert_eq!(one.check(spent(299, UsageSource::Reported, None), None), None);
    assert_eq!(
        one.check(spent(300, UsageSource::Estimated, None), None),
        over("the budget of 1000 tokens for this request is used up: 1000 so far, counted by its text")
    );
}

#[test]
fn nothing_is_found_before_anything_is_used() {
    let full = Amounts { cost: Some(0.5), tokens: Some(1_000), ..NONE };
    assert_eq!(guard(full, full).check(None, None), None, "whoever starts it asks whether anything is left");
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
fn money_has_as_many_digits_as_it_needs() {
    assert_eq!(dollars(0.0012), "$0.0012");
    assert_eq!(dollars(1.5), "$1.50");
    assert_eq!(dollars(0.0), "$0.00");
}
