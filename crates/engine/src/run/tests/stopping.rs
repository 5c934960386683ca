//! Which reason counts if a run has several reasons to end, and how it reports them.

use bowline_protocol::kinds::{EndReason, Outcome};
use bowline_protocol::{Category, Code, Failure};

use super::super::*;
use super::world::{INIT, RESULT, World, text};

/// The reasons of all changes to `stopping`, and the reason of the end.
fn reasons(world: &World) -> (Vec<String>, Option<EndReason>) {
    let stopping = world.events.iter().filter_map(|event| {
        let Kind::SessionStateChanged(changed) = &event.kind else { return None };
        (changed.state == SessionState::Stopping).then(|| changed.reason.clone().unwrap_or_default())
    });
    let ended = world.events.iter().find_map(|event| {
        let Kind::SessionEnded(ended) = &event.kind else { return None };
        Some(ended.reason)
    });
    (stopping.collect(), ended)
}

fn trouble() -> RunInput<'static> {
    RunInput::Trouble(Failure::new(Category::Configuration, Code::DiskFull, "no space left"))
}

/// The time until SIGKILL is that of the running form.
#[test]
fn each_form_has_its_own_grace() {
    let mut world = World::with(|plan| {
        World::two_attempts(plan);
        plan.attempts[1].limits.grace = Millis(300);
    });
    world.start();
    world.says(INIT).exits(0).swept();
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.command(RunCommand::Cancel);
    world.wait(299);
    assert!(!world.log().contains("!kill"), "{}", world.log());
    world.wait(1);
    assert!(world.log().ends_with("!kill"), "{}", world.log());
}

#[test]
fn a_stopped_run_reports_why() {
    type Case = (fn() -> RunInput<'static>, &'static str, EndReason, Outcome);
    let cases: [Case; 3] = [
        (
            || RunInput::Command(RunCommand::Cancel),
            "a stop was ordered",
            EndReason::Stopped,
            Outcome::Cancelled,
        ),
        (trouble, "no space left", EndReason::Failed, Outcome::Failed),
        (
            || RunInput::Overdue(Millis(1_500)),
            "the turn took longer than 1.5 s",
            EndReason::TimedOut,
            Outcome::Failed,
        ),
    ];
    for (input, words, reason, outcome) in cases {
        let mut world = World::new();
        world.start();
        world.says(INIT).give(input()).killed(15).swept();
        assert_eq!(reasons(&world), (vec![words.to_owned()], Some(reason)), "{}", world.log());
        assert_eq!(world.ended().outcome, outcome, "{words}");
        // The same while it waits for its start.
        let mut world = World::with(|plan| plan.delay = Millis(1_000));
        world.give(RunInput::Begin).give(input());
        assert_eq!(reasons(&world), (vec![words.to_owned()], Some(reason)), "{}", world.log());
        // Before the run began there is no state to leave.
        let mut world = World::new();
        world.give(input());
        assert_eq!(reasons(&world), (Vec::new(), Some(reason)), "{}", world.log());
    }
}

#[test]
fn the_first_reason_to_stop_stays() {
    let mut world = World::new();
    world.start();
    world.says(INIT).command(RunCommand::Cancel).give(RunInput::Overdue(Millis(1_000))).give(trouble());
    assert!(!world.log().contains("watchdog_total"), "a run that ends is not overdue: {}", world.log());
    world.killed(15).swept();
    assert_eq!(reasons(&world).1, Some(EndReason::Stopped));
    assert_eq!(world.ended().outcome, Outcome::Cancelled);
}

/// Ending a program that has answered is a reason that any other one replaces.
#[test]
fn any_reason_comes_before_that_a_program_does_not_exit() {
    let lingering = || {
        let mut world = World::new();
        world.start();
        world.says(INIT).says(&text("Hello")).says(RESULT).wait_for_action("!signal(Terminate, Tree)");
        world
    };
    let mut world = lingering();
    world.killed(15).swept();
    assert_eq!(reasons(&world), (Vec::new(), Some(EndReason::Exited)));
    let mut world = lingering();
    world.command(RunCommand::Cancel).killed(15).swept();
    assert_eq!(reasons(&world).1, Some(EndReason::Stopped));
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn a_run_that_has_ended_is_not_overdue() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(RESULT).exits(0).give(RunInput::Overdue(Millis(1_000))).swept();
    assert!(!world.log().contains("watchdog_total"), "{}", world.log());
    assert_eq!((world.ended().outcome, world.ended().timed_out), (Outcome::Completed, None));
}

#[test]
fn a_remark_on_silence_comes_once_and_not_after_the_answer() {
    // Before the program runs, only its start is watched.
    let mut world = World::with(|plan| plan.attempts[0].limits.spawn = None);
    world.give(RunInput::Begin).wait(300_000);
    assert!(!world.log().contains("notice:stall"), "{}", world.log());
    let mut world = World::with(|plan| plan.attempts[0].limits.shutdown = Millis(600_000));
    world.start();
    world.says(INIT).says(RESULT).wait(300_000);
    assert!(!world.log().contains("notice:stall"), "{}", world.log());
}

#[test]
fn a_span_is_written_in_whole_seconds_where_it_can_be() {
    let written = [0, 100, 999, 1_000, 1_500, 60_000].map(|span| watch::seconds(Millis(span)));
    assert_eq!(written, ["0 s", "0.1 s", "1.0 s", "1 s", "1.5 s", "60 s"]);
}

#[test]
fn a_step_is_empty_when_it_is_cleared() {
    let mut world = World::new();
    let mut step = RunStep::default();
    let now = Now { wall: bowline_protocol::Timestamp::EPOCH, up: Millis(0) };
    world.run.handle(RunInput::Begin, now, &mut step);
    assert!(!step.events.is_empty() && !step.actions.is_empty() && step.durable);
    step.clear();
    assert!(step.events.is_empty() && step.actions.is_empty() && !step.durable);
}

/// A third of the shortest limit, but not less than ten seconds and not more than two minutes.
#[test]
fn silence_is_remarked_upon_after_a_share_of_the_limit() {
    let none =
        RunLimits { first_event: None, idle: None, in_tool: None, total: None, ..RunLimits::default() };
    for (limits, after) in [
        (none, 120_000),
        (RunLimits { idle: Some(Millis(60_000)), ..none }, 20_000),
        (RunLimits { idle: Some(Millis(15_000)), ..none }, 10_000),
        (RunLimits { idle: Some(Millis(3_600_000)), ..none }, 120_000),
        (RunLimits { idle: Some(Millis(90_000)), total: Some(Millis(60_000)), ..none }, 20_000),
        (RunLimits { idle: Some(Millis(90_000)), first_event: Some(Millis(45_000)), ..none }, 30_000),
    ] {
        let mut world = World::with(|plan| plan.attempts[0].limits = limits);
        world.start();
        world.says(INIT).wait(after - 1);
        assert!(!world.log().contains("notice:stall"), "{limits:?}: {}", world.log());
        world.wait(1);
        assert!(world.log().ends_with("notice:stall"), "{limits:?}: {}", world.log());
    }
}

/// A late timer, after the machine slept, does not let a program stay longer than it should.
#[test]
fn a_program_whose_time_is_over_is_killed_without_another_request() {
    for (now, action) in [(1_699, "!signal(Terminate, Tree)"), (1_700, "!kill"), (9_000, "!kill")] {
        let mut world = World::new();
        world.start();
        world.says(INIT).command(RunCommand::Cancel);
        world.now = Millis(now);
        world.give(RunInput::Timer);
        assert!(world.log().ends_with(&format!("!signal(Interrupt, Leader) {action}")), "{}", world.log());
    }
}
