//! Runs as tables: inputs, and the resulting events and actions. No process, no sleeping.

mod budget;
pub(crate) mod decisions;
mod edges;
mod host;
mod judging;
mod ladder;
mod numbering;
mod once;
mod preparing;
pub(crate) mod random;
mod replan;
mod stopping;
pub(crate) mod world;

use bowline_protocol::kinds::{Outcome, TouchedFile};
use bowline_protocol::{Category, Code, Exit, Failure};
use bowline_providers::manifest::run::StopMethod;

use super::*;
use world::{INIT, RESULT, World, text};

#[test]
fn an_answer_is_judged_when_the_tree_is_gone() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(&text("Hello")).says(RESULT).exits(0).swept();
    assert_eq!(
        world.log(),
        "session_started state:starting turn_started user_message !spawn(0) process_spawned state:running \
         session_started text_delta message_finished usage_reported turn_ended:completed process_reaped !sweep \
         state:completed session_ended !done"
    );
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn a_second_turn_after_the_first_result_is_waited_for() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(&text("one")).says(RESULT).wait(500).says(INIT).says(&text("two"));
    world.wait(5_000);
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.says(RESULT).exits(0).swept();
    assert_eq!(world.ended().outcome, Outcome::Completed);
    assert_eq!(world.log().matches("turn_ended:completed").count(), 2);
}

#[test]
fn a_protocol_begins_answers_stops_and_hangs_up() {
    let talking = |polite: StopMethod| {
        let mut world = World::with(|plan| {
            World::by_protocol(plan);
            plan.polite = polite;
        });
        world.start();
        assert!(world.log().ends_with("state:running !write"), "we have the first word: {}", world.log());
        world.says(r#"{"id":1,"result":{"protocolVersion":1}}"#);
        world.says(r#"{"id":2,"result":{"sessionId":"x"}}"#);
        world
    };
    let mut world = talking(StopMethod::Protocol);
    world.says(r#"{"id":3,"result":{"stopReason":"end_turn"}}"#);
    assert!(world.log().ends_with("turn_ended:completed !close-stdin"), "{}", world.log());
    world.exits(0).swept();
    assert_eq!(world.ended().outcome, Outcome::Completed);

    let mut world = talking(StopMethod::Protocol);
    world.command(RunCommand::Cancel);
    assert!(world.log().ends_with("state:stopping !write"), "it is asked in its own words: {}", world.log());
    world.says(r#"{"id":3,"result":{"stopReason":"cancelled"}}"#).exits(0).swept();
    assert_eq!(world.ended().outcome, Outcome::Cancelled);

    // The plan decides how the program is stopped, not what its dialect can do.
    let mut world = talking(StopMethod::StdinClose);
    world.command(RunCommand::Cancel);
    assert!(world.log().ends_with("state:stopping !close-stdin"), "{}", world.log());

    // Before the prompt is sent, no protocol message can stop a turn.
    let mut world = World::with(World::by_protocol);
    world.start();
    world.command(RunCommand::Cancel);
    assert!(world.log().ends_with("state:stopping !close-stdin"), "{}", world.log());
    world.wait_for_action("!signal(Terminate, Tree)");
    world.killed(15).swept();
    assert_eq!(world.ended().outcome, Outcome::Cancelled);
}

#[test]
fn a_reported_failure_is_not_hidden_by_a_cancel() {
    let mut world = World::new();
    world.start();
    world.command(RunCommand::Cancel);
    world.says(r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: Request rejected (429)","session_id":"s"}"#);
    world.exits(1).swept();
    let failure = world.ended().failure.expect("a failure");
    assert_eq!(failure.category, Category::RateLimit);
}

#[test]
fn each_watchdog_names_itself() {
    // limits, what happens before, the notice, the category.
    type Case = (fn(&mut RunLimits), &'static [&'static str], &'static str);
    let cases: [Case; 4] = [
        (|limits| limits.first_event = Some(Millis(3_000)), &[], "watchdog_first_event"),
        (|limits| limits.idle = Some(Millis(3_000)), &[INIT], "watchdog_idle"),
        (|limits| limits.in_tool = Some(Millis(3_000)), &[INIT, world::TOOL], "watchdog_in_tool"),
        (|limits| limits.total = Some(Millis(3_000)), &[INIT], "watchdog_total"),
    ];
    for (set, lines, code) in cases {
        let mut world = World::with(|plan| set(&mut plan.attempts[0].limits));
        world.start();
        for line in lines {
            world.says(line);
        }
        world.wait_for_action("!signal(Interrupt, Leader)");
        assert!(world.log().contains(&format!("notice:{code}")), "{code}: {}", world.log());
        world.killed(15).swept();
        let ended = world.ended();
        let failure = ended.failure.expect("a failure");
        assert_eq!((failure.category, failure.code), (Category::Timeout, Code::TimedOut), "{code}");
        assert!(failure.message.contains("3 s"), "{}", failure.message);
        let hint = failure.hint.expect("a hint");
        assert_eq!(
            hint.contains("`idle_timeout_ms`"),
            code.ends_with("idle") || code.ends_with("in_tool"),
            "{hint}"
        );
        assert_eq!(hint.contains("`timeout_ms`"), code.ends_with("total"), "{hint}");
        assert_eq!(ended.timed_out.map(Watchdog::code), Some(code));
    }
}

#[test]
fn a_start_that_takes_too_long_ends_too() {
    let mut world = World::new();
    world.give(RunInput::Begin);
    world.wait(60_000);
    assert_eq!(world.ended().timed_out, Some(Watchdog::Spawn));
}

#[test]
fn a_tool_may_be_silent_for_longer_than_the_agent() {
    let mut world = World::with(|plan| {
        plan.attempts[0].limits.idle = Some(Millis(3_000));
        plan.attempts[0].limits.in_tool = None;
    });
    world.start();
    world.says(INIT).says(world::TOOL).wait(600_000);
    assert!(!world.log().contains("!signal"), "{}", world.log());
}

#[test]
fn silence_is_remarked_upon_well_before_a_watchdog_acts() {
    let mut world = World::with(|plan| plan.attempts[0].limits.idle = Some(Millis(60_000)));
    world.start();
    world.says(INIT).wait(25_000);
    assert!(world.log().ends_with("notice:stall"), "{}", world.log());
    world.wait(20_000);
    assert_eq!(world.log().matches("notice:stall").count(), 1, "once in a silence");
    world.says(&text("a")).wait(25_000);
    assert_eq!(world.log().matches("notice:stall").count(), 2);
}

#[test]
fn a_late_first_output_is_reported_before_its_watchdog_acts() {
    let mut world = World::with(|plan| {
        plan.attempts[0].limits = RunLimits {
            first_event: Some(Millis(60_000)),
            idle: None,
            total: None,
            ..plan.attempts[0].limits
        };
    });
    world.start();
    world.wait(25_000);
    assert!(world.log().ends_with("notice:stall"), "{}", world.log());
}

#[test]
fn a_deadline_in_a_retry_has_the_category_of_the_retry() {
    let mut world = World::with(|plan| plan.attempts[0].limits.total = Some(Millis(10_000)));
    world.start();
    world.says(INIT).says(r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":593,"error_status":529,"error":"overloaded","session_id":"s"}"#);
    world.wait_for_action("!signal(Interrupt, Leader)");
    world.killed(15).swept();
    let failure = world.ended().failure.expect("a failure");
    assert_eq!(failure.code, Code::GaveUpWaiting);
    assert_ne!(failure.category, Category::Timeout);
}

#[test]
fn a_held_pipe_ends_after_a_short_drain() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(RESULT);
    world.give(RunInput::Exited(Exit::Code(0)));
    let exited = world.now;
    world.wait_for_action("!sweep");
    assert!(world.now.0 - exited.0 <= 250);
    world.give(RunInput::Swept(SweepResult::default()));
    world.says("late output of another process");
    world.wait(1_000);
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn a_writer_cannot_hold_up_the_end_for_ever() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(RESULT);
    world.give(RunInput::Exited(Exit::Code(0)));
    for _ in 0..20 {
        world.says("noise").wait(100);
    }
    assert!(world.log().contains("!sweep"), "{}", world.log());
}

#[test]
fn output_that_ends_while_the_program_lives_is_given_a_second() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(&text("half"));
    world.give(RunInput::StdoutClosed);
    world.wait_for_action("!signal(Terminate, Tree)");
    world.give(RunInput::StderrClosed);
    world.give(RunInput::Exited(Exit::Signal(15)));
    world.give(RunInput::Swept(SweepResult::default()));
    assert_eq!(world.ended().outcome, Outcome::Truncated);
}

fn daemon() -> Survivor {
    Survivor { pid: 9, command: "daemon".to_owned() }
}

#[test]
fn processes_that_outlived_the_program_are_named() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(RESULT).exits(0);
    world.give(RunInput::Swept(SweepResult { ended: vec![daemon()], ..SweepResult::default() }));
    assert!(world.log().contains("notice"), "{}", world.log());
    assert_eq!(world.ended().left_behind, [daemon()]);
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn descendants_that_end_with_a_stopped_program_are_not_reported() {
    let mut world = World::new();
    world.start();
    world.says(INIT);
    world.give(RunInput::Command(RunCommand::Cancel));
    world.give(RunInput::Exited(Exit::Signal(2))).give(RunInput::StdoutClosed).give(RunInput::StderrClosed);
    world.give(RunInput::Swept(SweepResult { ended: vec![daemon()], ..SweepResult::default() }));
    assert_eq!((&world.ended().left_behind, &world.ended().killed), (&Vec::new(), &Vec::new()));
}

#[test]
fn descendants_killed_with_a_stopped_program_are_named() {
    let mut world = World::new();
    world.start();
    world.says(INIT);
    world.give(RunInput::Command(RunCommand::Cancel));
    world.give(RunInput::Exited(Exit::Signal(2))).give(RunInput::StdoutClosed).give(RunInput::StderrClosed);
    let swept = SweepResult { ended: vec![daemon()], killed: vec![daemon()], ..SweepResult::default() };
    world.give(RunInput::Swept(swept));
    assert_eq!((world.ended().left_behind.len(), &world.ended().killed), (0, &vec![daemon()]));
}

#[test]
fn survivors_are_named() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(RESULT).exits(0);
    world.give(RunInput::Swept(SweepResult { survivors: vec![daemon()], ..SweepResult::default() }));
    assert!(world.log().contains("process_leaked"));
    assert_eq!(world.ended().survivors.len(), 1);
}

#[test]
fn a_program_that_is_not_there_fails_the_turn() {
    let mut world = World::new();
    world.give(RunInput::Begin);
    let failure = Failure::new(Category::NotFound, Code::NotInstalled, "no such program");
    world.give(RunInput::SpawnFailed(SpawnFailure { failure: failure.clone() }));
    assert_eq!(world.ended().failure, Some(failure));
    assert_eq!(world.log().matches("turn_ended:failed").count(), 1);
}

#[test]
fn files_are_reported_before_the_end() {
    let mut world = World::with(|plan| plan.files = true);
    world.start();
    world.says(INIT).says(RESULT).exits(0).swept();
    assert!(world.log().ends_with("!look"), "{}", world.log());
    let operation = bowline_protocol::kinds::FileOperation::Write;
    world.give(RunInput::Files(vec![TouchedFile { path: "a".to_owned(), operation }]));
    assert!(world.log().ends_with("files_touched state:completed session_ended !done"), "{}", world.log());
}

#[test]
fn a_stream_without_a_result_is_tried_once_without_streaming() {
    let mut world = World::with(World::two_attempts);
    world.start();
    world.says(INIT).exits(0).swept();
    assert!(world.log().contains("turn_ended:truncated fallback_taken:stream_fallback"), "{}", world.log());
    assert!(world.log().ends_with("!spawn(1)"), "{}", world.log());
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.says(RESULT);
    world.exits(0).swept();
    let ended = world.ended();
    assert_eq!(ended.outcome, Outcome::Completed);
    assert!(ended.stream_fallback);
    let second = world.events.iter().rfind(|event| event.raw.is_some()).expect("an event with a span");
    assert_eq!(second.turn, Some(2));
    assert!(second.raw.expect("a span").start >= INIT.len() as u64, "behind what the first process wrote");
    let spawned = world.events.iter().filter_map(|event| {
        let Kind::ProcessSpawned(process) = &event.kind else { return None };
        Some((process.dialect.as_deref(), process.raw_start))
    });
    let whole = INIT.len() as u64 + 1;
    assert_eq!(spawned.collect::<Vec<_>>(), [(Some("claude"), 0), (Some("claude"), whole)]);
}

#[test]
fn a_late_cancel_does_not_let_it_begin_again() {
    let mut world = World::with(World::two_attempts);
    world.start();
    world.says(INIT);
    world.give(RunInput::Exited(Exit::Code(1)));
    world.command(RunCommand::Cancel).wait(1_000).swept().wait(1_000);
    assert!(!world.log().contains("!spawn(1)"), "{}", world.log());
    assert_eq!(world.ended().outcome, Outcome::Failed);
}

#[test]
fn a_second_attempt_has_to_be_in_the_wanted_session_too() {
    let mut world = World::with(|plan| {
        World::two_attempts(plan);
        plan.resume = Some(ResumeTarget { id: "s".into(), fork: false });
    });
    world.start();
    world.says(INIT).exits(3).swept();
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.says(&RESULT.replace("\"s\"", "\"another\"")).exits(0).swept();
    assert_eq!(world.ended().failure.map(|failure| failure.code), Some(Code::SessionNotFound));
}

#[test]
fn a_stream_without_a_result_is_not_repeated_after_a_tool() {
    let mut world = World::with(World::two_attempts);
    world.start();
    world.says(INIT).says(world::TOOL).exits(0).swept();
    assert!(world.log().contains("notice:tool_ran"), "{}", world.log());
    assert_eq!(world.ended().rule, StreamRule::ToolRan);
}

#[test]
fn text_without_a_result_is_the_answer() {
    let mut world = World::with(World::two_attempts);
    world.start();
    world.says(INIT).says(&text("Hello")).exits(0).swept();
    assert!(world.log().contains("notice:accumulated_text"), "{}", world.log());
    assert_eq!((world.ended().rule, world.ended().outcome), (StreamRule::KeepText, Outcome::Truncated));
}

#[test]
fn a_resume_has_four_answers() {
    let wanted = |fork| move |plan: &mut RunPlan| plan.resume = Some(ResumeTarget { id: "s".into(), fork });
    let init = |id: &str| INIT.replace("\"s\"", &format!("\"{id}\""));
    // the agent's session, whether a fork is wanted, the answer, whether the run stops.
    for (id, fork, answer, stopped) in [
        ("s", false, "resumed", false),
        ("other", false, "rejected", true),
        ("other", true, "resumed", false),
        ("s", true, "rejected", true),
    ] {
        let mut world = World::with(wanted(fork));
        world.start();
        world.says(&init(id));
        assert!(world.log().contains(&format!("resume_answered:{answer}")), "{}", world.log());
        assert_eq!(world.log().contains("!signal"), stopped, "{}", world.log());
        world.says(RESULT).exits(0).swept();
        let code = world.ended().failure.map(|failure| failure.code);
        assert_eq!(code, stopped.then_some(Code::SessionNotFound), "never a silent fresh session");
    }
    let mut world = World::with(wanted(false));
    world.start();
    world.exits(0).swept();
    assert!(world.log().contains("resume_answered:unknown"), "{}", world.log());
    let mut world = World::with(|plan| {
        wanted(false)(plan);
        plan.attempts[0].limits.total = Some(Millis(1_000));
    });
    world.start();
    world.wait_for_action("!signal(Interrupt, Leader)");
    world.killed(15).swept();
    assert!(world.log().contains("resume_answered:timed_out"), "{}", world.log());
}

#[test]
fn trouble_of_our_own_ends_the_run_with_its_reason() {
    let mut world = World::new();
    world.start();
    world.says(INIT);
    let full = Failure::new(Category::Configuration, Code::DiskFull, "no space left");
    world.give(RunInput::Trouble(full));
    world.says(RESULT).exits(0).swept();
    assert_eq!(world.ended().failure.map(|failure| failure.code), Some(Code::DiskFull));
}

#[test]
fn trouble_of_our_own_is_not_tried_again() {
    let mut world = World::with(World::two_attempts);
    world.start();
    world.says(INIT);
    world.give(RunInput::Trouble(Failure::new(Category::Configuration, Code::Unknown, "input/output error")));
    world.killed(2).swept();
    assert_eq!(world.ended().rule, StreamRule::GiveUp, "{}", world.log());
    assert!(!world.log().contains("!spawn(1)"), "{}", world.log());
}

#[test]
fn a_deadline_that_the_machine_slept_through_is_a_deadline() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(&text("Half"));
    world.give(RunInput::Overdue(Millis(120_000)));
    world.exits(143).swept();
    let ended = world.ended();
    assert_eq!((ended.outcome, ended.timed_out), (Outcome::Failed, Some(Watchdog::Total)));
    let failure = ended.failure.clone().unwrap();
    assert_eq!((failure.category, failure.code), (Category::Timeout, Code::TimedOut));
    let log = world.log();
    assert!(log.contains("notice") && log.contains("session_ended"), "{log}");

    // A complete answer stays complete.
    let mut world = World::new();
    world.start();
    world.says(INIT).says(&text("Whole")).says(RESULT);
    world.give(RunInput::Overdue(Millis(120_000)));
    world.exits(143).swept();
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn a_kill_does_not_wait_for_git() {
    let mut world = World::with(|plan| plan.files = true);
    world.start();
    world.says(INIT).says(&text("Whole")).says(RESULT).exits(0).swept();
    world.command(RunCommand::Cancel);
    assert!(!world.run.is_over(), "who asks politely gets the files too");
    world.command(RunCommand::Kill);
    assert!(world.run.is_over(), "{}", world.log());
    assert_eq!(world.ended().outcome, Outcome::Completed, "the answer was complete");
    assert!(!world.log().contains("!kill"), "no process was left to be killed: {}", world.log());
}

#[test]
fn a_kill_does_not_wait_for_a_process_that_holds_a_pipe() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(&text("Whole")).says(RESULT);
    world.give(RunInput::Exited(Exit::Code(0)));
    assert!(!world.log().contains("!sweep"), "{}", world.log());
    world.command(RunCommand::Kill);
    assert!(world.log().ends_with("!sweep"), "{}", world.log());
}
