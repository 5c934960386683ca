//! The budget of a live session: one sum over its turns and processes, and no further turn when it is used up.

use bowline_protocol::{Millis, OrderRefused, SessionOrder, WhenBusy};

use super::*;
use crate::budget::{Amounts, Budget, BudgetLimit, BudgetScope};
use crate::run::tests::decisions::SHELL;

/// A session with a limit whose first turn runs.
fn limited(amounts: Amounts) -> World {
    let limit = BudgetLimit { extent: BudgetScope::Request, amounts, before: Amounts::default() };
    let mut world = World::live(|plan, _| plan.budget = Budget { limits: vec![limit], ..Budget::default() });
    begin_process(&mut world);
    world
}

/// The end of a turn that has used this many tokens.
fn used(id: u64, tokens: u64) -> String {
    let usage = format!(r#"{{"inputTokens":{tokens},"outputTokens":0,"totalTokens":{tokens}}}"#);
    format!(r#"{{"id":{id},"result":{{"stopReason":"end_turn","usage":{usage}}}}}"#)
}

#[test]
fn tokens_are_counted_over_turns_and_processes() {
    let mut world = limited(Amounts { tokens: Some(1_000), ..Amounts::default() });
    world.says(&used(3, 400)).order(1, prompt("two", WhenBusy::Queue)).says(&used(4, 400));
    world.killed(9).swept().order(2, prompt("three", WhenBusy::Queue));
    next_process(&mut world, |plan| plan.prompt = Some("three".to_owned()));
    world.says(HELLO).says(SESSION).order(3, prompt("four", WhenBusy::Queue));
    assert!(world.log().ends_with("prompt_queued !answer(3, queued:0)"), "{}", world.log());
    let log = after(&mut world, |world| {
        world.says(&used(3, 400));
    });
    assert!(log.contains("turn_ended:completed state:idle notice:budget_exceeded"), "{log}");
    assert!(
        log.ends_with("notice:budget_exceeded prompt_removed:returned") && !log.contains("turn_started"),
        "{log}"
    );
    // Neither a new prompt nor the offered one begins a turn.
    let id = world.run.snapshot().expect("live").offered[0].id.clone();
    let log = after(&mut world, |world| {
        world.order(4, prompt("five", WhenBusy::Now)).order(5, SessionOrder::SendOffered { prompt: id });
        world.order(6, SessionOrder::Compact);
    });
    let reason = "the budget of 1000 tokens for this request is used up: 1200 so far, as the agent reports";
    let refused = |order: u64| format!("!answer({order}, refused: {reason})");
    assert_eq!(log, [4, 5, 6].map(refused).join(" "));
    let snapshot = world.run.snapshot().expect("live");
    assert_eq!((snapshot.offered.len(), snapshot.queue.len()), (1, 0), "it is still offered");
}

#[test]
fn a_turn_that_uses_it_up_ends_and_no_other_one_begins() {
    let mut world = limited(Amounts { tokens: Some(50), ..Amounts::default() });
    world.order(1, prompt("two", WhenBusy::Queue)).says(&says(&"word ".repeat(100)));
    assert!(world.log().contains("notice:budget state:stopping"), "{}", world.log());
    world.killed(15).swept();
    assert!(world.log().contains("turn_ended:failed"), "{}", world.log());
    assert!(world.log().ends_with("state:idle"), "{}", world.log());
    world.order(2, prompt("three", WhenBusy::Queue));
    assert!(world.log().contains("!answer(2, refused: the budget of 50 tokens"), "{}", world.log());
    assert_eq!(world.run.snapshot().expect("live").offered.len(), 1);
}

/// Only working time counts: no time between the turns, without a process, and while a person is waited for.
#[test]
fn a_limit_of_time_counts_working_time_over_the_turns() {
    let mut world = limited(Amounts { time: Some(Millis(60_000)), ..Amounts::default() });
    world.wait(20_000).says(&done(3)).wait(3_600_000);
    world.order(1, prompt("two", WhenBusy::Queue)).wait(10_000).says(SHELL).wait(3_600_000);
    let verdict = bowline_protocol::ApprovalVerdict::Deny { message: None };
    world.order(2, SessionOrder::Decide { approval: None, verdict }).wait(10_000).says(&done(4));
    world.killed(9).swept().wait(3_600_000);
    assert!(!world.log().contains("notice:budget"), "{}", world.log());
    world.order(3, prompt("three", WhenBusy::Queue)).wait(3_000);
    next_process(&mut world, |plan| plan.prompt = Some("three".to_owned()));
    world.says(HELLO).says(SESSION).wait(19_999);
    assert!(!world.log().contains("notice:budget"), "{}", world.log());
    world.wait(1);
    assert!(world.log().contains("notice:budget state:stopping"), "{}", world.log());
    world.killed(15).swept().order(4, prompt("four", WhenBusy::Queue));
    assert!(world.log().contains("!answer(4, refused: the budget of"), "{}", world.log());
    let refused = OrderRefused::OutOfBudget { reason: "used up".to_owned() };
    assert_eq!(refused.to_string(), "used up");
}
