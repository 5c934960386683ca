//! A budget while a run goes on, and a run that begins later.

use bowline_protocol::kinds::{Outcome, Retrying};
use bowline_protocol::{Category, Code, Exit};

use super::super::*;
use super::world::{INIT, RESULT, TOOL, World, text};
use crate::budget::{Amounts, Budget, BudgetLimit, BudgetScope};

fn limited(amounts: Amounts) -> World {
    let limit = BudgetLimit { extent: BudgetScope::Request, amounts, before: Amounts::default() };
    let mut world = World::with(|plan| plan.budget = Budget { limits: vec![limit], ..Budget::default() });
    world.start();
    world
}

/// The usage of one model call, reported when its message is complete.
fn call(output: u64) -> String {
    let event = |event: &str| format!(r#"{{"type":"stream_event","event":{event},"session_id":"s"}}"#);
    let start = format!(r#"{{"type":"message_start","message":{{"id":"m{output}","model":"practice-1"}}}}"#);
    let text = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"so far"}}"#;
    let delta = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"tool_use"}},"usage":{{"input_tokens":0,"output_tokens":{output}}}}}"#
    );
    [event(&start), event(text), event(&delta), event(r#"{"type":"message_stop"}"#)].join("\n")
}

#[test]
fn a_run_that_has_used_its_tokens_is_stopped_politely_and_keeps_its_output() {
    let mut world = limited(Amounts { tokens: Some(1_000), ..Amounts::default() });
    world.says(INIT).says(&call(400)).says(TOOL);
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.says(&call(700));
    assert!(
        world.log().ends_with("notice:budget state:stopping !signal(Interrupt, Leader)"),
        "{}",
        world.log()
    );
    world.give(RunInput::Exited(Exit::Signal(2))).wait(2_000).swept();
    world.wait(1_000);
    let ended = world.ended();
    let failure = ended.failure.expect("a failure");
    assert_eq!((ended.outcome, failure.code), (Outcome::Failed, Code::Budget));
    assert_eq!(
        failure.message,
        "the budget of 1000 tokens for this request is used up: 1100 so far, as the agent reports"
    );
    assert!(ended.tool_ran);
    assert!(world.log().contains("text_delta"));
}

#[test]
fn money_is_watched_by_the_price_list() {
    let mut world = limited(Amounts { cost: Some(0.0125), ..Amounts::default() });
    let init = INIT.replace(r#""model":"m""#, r#""model":"practice-1""#);
    world.says(&init).says(&call(400));
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.says(&call(200));
    assert!(world.log().ends_with("!signal(Interrupt, Leader)"), "{}", world.log());
}

#[test]
fn text_is_counted_where_nothing_is_reported() {
    let mut world = limited(Amounts { tokens: Some(50), ..Amounts::default() });
    world.says(INIT).says(&text(&"word ".repeat(20)));
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.says(&text(&"word ".repeat(60)));
    assert!(world.log().ends_with("!signal(Interrupt, Leader)"), "{}", world.log());
}

#[test]
fn an_answer_that_is_complete_stays_one() {
    let mut world = limited(Amounts { tokens: Some(20), ..Amounts::default() });
    let result = RESULT.replace(r#""output_tokens":1"#, r#""output_tokens":30"#);
    world.says(INIT).says(&result).exits(0).swept();
    let ended = world.ended();
    assert_eq!((ended.outcome, ended.failure), (Outcome::Completed, None));
    assert!(world.log().contains("turn_ended:completed notice:budget_exceeded"), "{}", world.log());
}

#[test]
fn a_large_piece_is_weighed_when_all_of_it_was_read() {
    let mut world = limited(Amounts { tokens: Some(1_000), ..Amounts::default() });
    // The budget is used up in the first part of the piece, and the answer is complete in the last.
    let filler = vec![text(&"word ".repeat(100)); 20].join("\n");
    let result = RESULT.replace(r#""output_tokens":1"#, r#""output_tokens":1100"#);
    let piece = [call(1_100), filler, result].join("\n");
    assert!(piece.len() > 2 * 4 * 1024, "{} bytes", piece.len());
    world.says(INIT).says(&piece).exits(0).swept();
    assert_eq!(world.ended().outcome, Outcome::Completed, "{}", world.log());
    assert!(world.log().contains("turn_ended:completed notice:budget_exceeded"), "{}", world.log());
}

#[test]
fn a_failure_that_used_it_up_is_one_of_the_budget() {
    let mut world = limited(Amounts { tokens: Some(20), ..Amounts::default() });
    let result = RESULT
        .replace(r#""output_tokens":1"#, r#""output_tokens":30"#)
        .replace(r#""is_error":false"#, r#""is_error":true,"api_error_status":500"#);
    world.says(INIT).says(&result).exits(1).swept();
    let (ended, log) = (world.ended(), world.log());
    let failure = ended.failure.expect("a failure");
    assert_eq!((ended.outcome, failure.code), (Outcome::Failed, Code::Budget), "{log}");
    assert!(failure.message.starts_with("the budget of 20 tokens for this request is used up"));
    assert!(log.contains("notice:budget turn_ended:failed") && !log.contains("budget_exceeded"), "{log}");
}

/// A run that has begun, on a day with this token limit over all runs.
fn limited_to_a_day(tokens: u64) -> World {
    let amounts = Amounts { tokens: Some(tokens), ..Amounts::default() };
    let limit = BudgetLimit { extent: BudgetScope::Day, amounts, before: Amounts::default() };
    let mut world = World::with(|plan| plan.budget = Budget { limits: vec![limit], ..Budget::default() });
    world.start();
    world
}

#[test]
fn usage_of_other_runs_ends_it() {
    let mut world = limited_to_a_day(1_000);
    world.says(INIT).says(&call(400));
    let used = |tokens| vec![(BudgetScope::Day, Amounts { tokens: Some(tokens), ..Amounts::default() })];
    world.give(RunInput::Before(used(500)));
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.give(RunInput::Before(used(600)));
    assert!(world.log().ends_with("!signal(Interrupt, Leader)"), "{}", world.log());
}

#[test]
fn time_of_work_ends_too() {
    let mut world = limited(Amounts { time: Some(Millis(60_000)), ..Amounts::default() });
    world.says(INIT).wait(59_000);
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.wait(1_500);
    assert!(
        world.log().contains("notice:budget state:stopping !signal(Interrupt, Leader)"),
        "{}",
        world.log()
    );
    world.killed(2).swept();
    assert_eq!(world.ended().failure.map(|failure| failure.code), Some(Code::Budget));
    assert_eq!(world.ended().timed_out, None);
}

fn later() -> World {
    let retrying = Retrying {
        attempt: Some(1),
        max_attempts: Some(2),
        delay_ms: Some(Millis(30_000)),
        category: Category::RateLimit,
        message: "429".to_owned(),
    };
    World::with(|plan| {
        plan.delay = Millis(30_000);
        plan.attempts[0].limits.total = Some(Millis(10_000));
        plan.opening = vec![Kind::Retrying(retrying)];
    })
}

#[test]
fn a_run_may_begin_later_and_its_time_counts_from_then() {
    let mut world = later();
    world.give(RunInput::Begin).wait(29_000);
    assert_eq!(world.log(), "session_started retrying");
    world.wait(1_000);
    assert!(world.log().ends_with("user_message !spawn(0)"), "{}", world.log());
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    world.says(INIT).says(&text("Hello")).wait(9_000).says(RESULT).exits(0).swept();
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn a_cancel_during_the_delay_ends_the_run_at_once() {
    let mut world = later();
    world.give(RunInput::Begin).wait(5_000).command(RunCommand::Cancel);
    assert_eq!(world.ended().outcome, Outcome::Cancelled);
    assert!(!world.log().contains("!spawn"), "{}", world.log());
}

#[test]
fn usage_of_agents_that_share_the_request_ends_it() {
    let used = |tokens| RunInput::Others(Amounts { tokens: Some(tokens), ..Amounts::default() });
    let mut world = limited(Amounts { tokens: Some(1_000), ..Amounts::default() });
    world.says(INIT).says(&call(400)).give(used(500));
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.give(used(600));
    assert!(world.log().ends_with("!signal(Interrupt, Leader)"), "{}", world.log());
}

#[test]
fn usage_of_other_runs_after_the_answer_is_not_reported() {
    let mut world = limited_to_a_day(1_000);
    world.says(INIT).says(RESULT);
    let log = world.log();
    world.give(RunInput::Before(vec![(
        BudgetScope::Day,
        Amounts { tokens: Some(2_000), ..Amounts::default() },
    )]));
    assert_eq!(world.log(), log);
    world.exits(0).swept();
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn the_wait_before_a_run_is_part_of_the_time_of_its_budget() {
    let mut world = World::with(|plan| {
        let amounts = Amounts { time: Some(Millis(10_000)), ..Amounts::default() };
        let limit = BudgetLimit { extent: BudgetScope::Request, amounts, before: Amounts::default() };
        plan.budget = Budget { limits: vec![limit], ..Budget::default() };
        plan.delay = Millis(30_000);
    });
    world.give(RunInput::Begin).wait(9_999);
    assert_eq!(world.log(), "session_started");
    world.wait(1);
    assert_eq!(world.ended().failure.map(|failure| failure.code), Some(Code::Budget));
    assert!(!world.log().contains("!spawn"), "{}", world.log());
}

#[test]
fn the_usage_of_a_run_names_its_source() {
    for (result, counted) in [
        (RESULT.to_owned(), "as the agent reports"),
        (RESULT.replace(r#","usage":{"input_tokens":1,"output_tokens":1}"#, ""), "counted by its text"),
    ] {
        let mut world = World::new();
        world.start();
        world.says(INIT).says(&text("Hello")).says(&result).exits(0).swept();
        assert_eq!(world.run.spent().counted, counted, "{result}");
    }
}

/// A stopped program may report zero usage; the amount counted until then stays.
#[test]
fn a_turn_that_its_budget_ends_has_used_at_least_what_was_counted() {
    // the reported tokens and cost; the usage of the turn.
    for (output, cost, expect) in [
        (0, "0", (1_100, None)),
        (1, "0", (1_100, None)),
        (1_099, "0.5", (1_100, Some(0.5))),
        (1_100, "0", (1_100, Some(0.0))),
        (2_000, "0.5", (2_000, Some(0.5))),
    ] {
        let mut world = limited(Amounts { tokens: Some(1_000), ..Amounts::default() });
        world.says(INIT).says(&call(1_100));
        let usage =
            format!(r#""total_cost_usd":{cost},"usage":{{"input_tokens":0,"output_tokens":{output}}}"#);
        let result = RESULT.replace(r#""usage":{"input_tokens":1,"output_tokens":1}"#, &usage);
        world.says(&result).exits(0).swept();
        let ended = world.events.iter().find_map(|event| {
            let Kind::TurnEnded(ended) = &event.kind else { return None };
            Some((ended.usage.expect("usage").total(), ended.cost_usd))
        });
        assert_eq!(ended, Some(expect), "{output} {cost}");
        assert_eq!(world.ended().failure.map(|failure| failure.code), Some(Code::Budget));
    }
}
